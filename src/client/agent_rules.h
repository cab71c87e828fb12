/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_AGENT_RULES_H
#define CLIENT_AGENT_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "crypto/identity_key.h"
#include "lessor/device_agent.h"
#include "wire/relay_device.h"

/*
 * What a device decides, apart from everything that it does: plain data in, verdict out. No I/O, no clock, no
 * locks; memory only from the arena that is passed.
 */

#define FETCH_FIRST_MS   50 /* relay-protocol 6.3 */
#define FETCH_LONGEST_MS 1000
#define FETCH_GIVE_UP_MS 30000
#define FETCH_FAILURES   3     /* of one job, before it is refused */
#define HEARTBEAT_MS     10000 /* relay-protocol 6.5: at most about 11.5 s apart, travel included */
#define CLOCK_NOTICE_MS  30000 /* beyond this, grants begin to look as if from the future */

/* first, 2*first, 4*first, ... and never more than `longest`. `attempt` counts from 0. */
int64_t rules_backoff_ms(unsigned attempt, int64_t first_ms, int64_t longest_ms);

/* A site's key as this device knows it. Once known it stays known, so that its successors are recognised. */
struct known_site {
        struct lessor_slice key_id;
        struct lessor_public_identity identity;
        bool served;               /* the relay named it in the last heartbeat */
        int64_t retiring_until_ms; /* a predecessor is served until then; 0: it is none. Wall clock */
};

/* A site's jobs are taken: it is served, or its successor's retirement window is open. */
bool known_site_is_served(const struct known_site *site, int64_t now_ms);

/* NULL when there is none of that key id. */
const struct known_site *known_site_find(const struct known_site *sites, size_t n,
                                         struct lessor_slice key_id);

/* Something about sites that the owner should know. */
struct site_note {
        enum { SITE_PINNED, SITE_ROTATED, SITE_REFUSED, SITE_WITHDRAWN } type;
        struct lessor_slice key_id;
        struct lessor_slice from; /* ROTATED: the predecessor */
        const char *reason;       /* REFUSED; static */
};

struct site_changes {
        struct known_site *sites; /* all that are known now; texts are borrowed from what went in */
        size_t n_sites;
        struct site_note *notes;
        size_t n_notes;
        bool changed; /* something that must be remembered differs */
};

/*
 * What a heartbeat's (or pairing's) `sites` and `successions` do to the keys that a device knows
 * (relay-protocol 13): an identity that is inconsistent or not filed under its own key id is refused, and so
 * is a known id with different key bytes; an unknown id whose chain leads to a known one is pinned beside it,
 * which is served until min(retiringUntil, now + 7 days); a broken or too long chain refuses the site; any
 * other unknown id is pinned as a new site. A known site that is not named is no longer served, but for open
 * retirement windows.
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int rules_apply_sites(const struct known_site *known, size_t n_known, const struct pinned_site *named,
                      size_t n_named, const struct site_succession *successions, size_t n_successions,
                      int64_t now_ms, struct lessor_arena *arena, struct site_changes *ret_changes);

/* What a device judges a job by. Borrowed. */
struct agent_view {
        struct lessor_slice runner_id;
        struct lessor_slice owner;
        const struct identity_key *control_plane; /* NULL: none was pinned */
        const struct known_site *sites;
        size_t n_sites;
        const struct lessor_service *services;
        size_t n_services;
};

/*
 * Whether to run a claimed job, and with which service (relay-protocol 7). That the grant id was not used
 * before is the grant log's to say.
 *
 * ret_service  index of the service, on success
 * ret_reason   why not, for people, with LESSOR_E_REFUSED; static
 *
 * Returns 0; LESSOR_E_REFUSED; LESSOR_E_NOMEM.
 */
int rules_judge_job(const struct agent_view *view, const struct claimed_stub *job, int64_t now_ms,
                    size_t *ret_service, const char **ret_reason);

/* What to do after a fetch that failed with this code (see relay_verdict). */
enum fetch_step {
        FETCH_AGAIN,   /* wait rules_backoff_ms() and ask again */
        FETCH_DROP,    /* the lease is not ours any more, or the job is over */
        FETCH_GIVE_UP, /* long enough: count it, and refuse the job after FETCH_FAILURES */
};

/*
 * elapsed_ms     since the first attempt
 * lease_left_ms  until the lease ends, as far as we know
 */
enum fetch_step rules_after_fetch(int error, int64_t elapsed_ms, int64_t lease_left_ms);

/* What to do after sending a result failed with this code: again, or never mind. */
bool rules_result_again(int error);

/* The capabilities that services amount to, one for each kind of each. Returns 0 or LESSOR_E_NOMEM. */
int rules_capabilities(const struct lessor_service *services, size_t n_services, struct lessor_arena *arena,
                       struct lessor_device_capability **ret_capabilities, size_t *ret_n);

#endif
