/* SPDX-License-Identifier: MIT */
#ifndef LEASING_CONTRACT_PROBE_H
#define LEASING_CONTRACT_PROBE_H

#include <pthread.h>

#include "lessor/lease_contract.h"

#define N_EVENT_KINDS 14

/* One case under way: its store, and short words for what cases do. */
struct lessor_lease_contract_probe {
        const struct lessor_lease_contract_options *options;
        struct lessor_lease_options lease_options;
        struct lessor_lease_store *store;
        struct lessor_lease_listener listener;
        struct lessor_arena *arena;
        char *text;
        size_t cap;
        unsigned n_names;
        /* What the listener heard. A store may tell from a thread of its own, a little later. */
        pthread_mutex_t lock;
        pthread_cond_t heard;
        unsigned n_events[N_EVENT_KINDS];
        char receipt[80];      /* of the last DISCARDED */
        char execution_id[80]; /* of the last ATTEMPT_ENDED */
        enum lessor_cause cause;
};

/* Cases and their helpers return 0, or PROBE_FAILED with the reason in the text. */
#define PROBE_FAILED 1

typedef struct lessor_lease_contract_probe probe_t;

int lease_probe_fail(probe_t *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define EXPECT(p, condition, ...)                                  \
        do {                                                       \
                if (!(condition))                                  \
                        return lease_probe_fail((p), __VA_ARGS__); \
        } while (0)

/* That a call answers so. */
#define EXPECT_CODE(p, call, code)                                                                  \
        do {                                                                                        \
                int code_ = (call);                                                                 \
                if (code_ != (code))                                                                \
                        return lease_probe_fail((p), "%s said %s instead of %s", #call,             \
                                                lessor_error_name(code_), lessor_error_name(code)); \
        } while (0)

/* Runs a helper that fails by itself. */
#define TRY(call)                            \
        do {                                 \
                if ((call) != 0)             \
                        return PROBE_FAILED; \
        } while (0)

#define TIER       "c"
#define REPO       "repo"
#define VISIBILITY INT64_C(60000)
#define MINUTE     INT64_C(60000)
#define HOUR       (60 * MINUTE)

/* A lease to be. Unset fields have the usual: tier c, repo "repo", a task of its own, owner "". */
struct work {
        const char *repo, *tier, *task, *inputs, *owner, *run, *key, *floor, *size, *event;
        enum lessor_lease_mode mode;
        int64_t version; /* 0: 2 */
        int64_t ttl_ms;
        unsigned limit;
        bool share;
};
int submit_as(probe_t *p, const struct work *work, int code, struct lessor_lease *ret_lease,
              bool *ret_created);
int submit(probe_t *p, const struct work *work, struct lessor_lease *ret_lease);

/* An enrolled rack that has beaten once under boot "boot-1" and polls for `tiers`, separated by spaces; NULL:
 * TIER. */
struct machine {
        struct lessor_slice id;
        struct lessor_slice token; /* hash */
        struct lessor_slice tiers[8];
        size_t n_tiers;
        const char *boot;
        const char *version;
        bool names_attempts;
};
int enroll(probe_t *p, const char *tiers, struct machine *ret_machine); /* has not beaten yet */
int join(probe_t *p, const char *tiers, struct machine *ret_machine);
int beat(probe_t *p, const struct machine *m, struct lessor_rack_beaten *ret_beaten); /* may be NULL */
int poll_again(probe_t *p, const struct machine *m);

/* One check of a poll that has just begun. */
int probe_claim(probe_t *p, const struct machine *m, struct lessor_lease_grant *ret_grant);
int probe_claim_gets(probe_t *p, const struct machine *m, const struct lessor_lease *lease,
                     struct lessor_lease_grant *ret_grant); /* may be NULL */
int probe_claim_gets_nothing(probe_t *p, const struct machine *m, enum lessor_lease_bar bar);

/* A submitted task that a new machine holds. */
int held_task(probe_t *p, struct machine *ret_machine, struct lessor_lease_grant *ret_grant);

struct lessor_lease_holder holder_of(const struct machine *m, const struct lessor_lease *lease);
int probe_complete(probe_t *p, const struct machine *m, const struct lessor_lease *lease,
                   enum lessor_completed expected);
int look(probe_t *p, const struct lessor_lease *lease, struct lessor_lease *ret_lease);
int last_attempt(probe_t *p, const struct lessor_lease *lease, struct lessor_attempt *ret_attempt);
int end_lease(probe_t *p, const struct lessor_lease *lease, enum lessor_lease_ending ending,
              struct lessor_lease *ret_lease);
int stops(probe_t *p, const struct machine *m, const struct lessor_lease *lease, bool *ret_stop);
int probe_sweep(probe_t *p);
int probe_advance(probe_t *p, int64_t by_ms);
int reopen(probe_t *p);

/* A text with a number of its own behind it, in the arena. */
struct lessor_slice name_of(probe_t *p, const char *what);
/* 64 hex digits that belong to a number. */
struct lessor_slice hash_of(probe_t *p, unsigned number);

/* Waits until so many events of a kind were heard. */
int probe_hear(probe_t *p, enum lessor_lease_event_kind kind, unsigned n);

bool text_is(struct lessor_slice text, const char *expected);

extern const struct lessor_lease_contract_case lease_cases[], claim_cases[], rack_cases[], transfer_cases[];
extern const size_t n_lease_cases, n_claim_cases, n_rack_cases, n_transfer_cases;

#define NEEDS_ADVANCE LESSOR_LEASE_CONTRACT_NEEDS_ADVANCE
#define NEEDS_REOPEN  LESSOR_LEASE_CONTRACT_NEEDS_REOPEN

#endif
