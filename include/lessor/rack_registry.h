/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RACK_REGISTRY_H
#define LESSOR_RACK_REGISTRY_H

#include "lessor/lease_store.h"

/*
 * Machines and their credentials, as a lease store keeps them (rack-protocol sections 2, 3 and 12). For
 * ownership, durability, threads and common errors see lessor/lease_store.h.
 *
 * No token ever gets here: tokens are made, and hashed, by the plane, and travel as the hex SHA-256 of their
 * text. What heartbeats and polls note of when a rack was seen may reach the disk up to 30 s later; all else
 * is durable when the ticket's moment has come.
 */

/* --- Enrolment --- */

/* Takes an enrolment token that is good until now + ttl_ms. Returns 0; LESSOR_E_EXISTS; LESSOR_E_INVALID
 * (ttl_ms < 1). */
int lessor_rack_mint_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                               struct lessor_slice label, int64_t ttl_ms, int64_t *ret_expires_ms,
                               struct lessor_ticket *ticket);

/* Those that can still be used, the first to expire first. */
int lessor_rack_enrolments(struct lessor_lease_store *s, struct lessor_arena *arena,
                           struct lessor_enrolment_list *ret_enrolments, struct lessor_ticket *ticket);

/* Takes one back. Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_rack_revoke_enrolment(struct lessor_lease_store *s, struct lessor_slice token_hash,
                                 struct lessor_ticket *ticket);

/*
 * Consumes an enrolment token and registers a rack with its first token, in one step with one winner (R003).
 *
 * rack_token_hash  of a fresh rack token
 * ret_rack         with the id that the store minted, a UUIDv7
 *
 * Returns 0; LESSOR_E_NOT_FOUND (unknown, used, or expired: `now < expiry` does not hold).
 */
int lessor_rack_enroll(struct lessor_lease_store *s, struct lessor_slice enrolment_hash,
                       const struct lessor_host_info *host, struct lessor_slice rack_token_hash,
                       struct lessor_arena *arena, struct lessor_rack *ret_rack,
                       struct lessor_ticket *ticket);

/* --- Authentication --- */

struct lessor_rack_caller {
        struct lessor_rack rack; /* as it is at this moment */
        struct lessor_slice token_hash;
        int64_t issued_ms;
        enum lessor_token_status status; /* as it was before this use */
};

/*
 * Steps 2 to 6 of section 2. The first use of a pending token makes it current and sends the rack's others
 * into their grace; those already there keep their end (R029). Returns 0; LESSOR_E_NOT_FOUND: 401.
 */
int lessor_rack_authenticate(struct lessor_lease_store *s, struct lessor_slice token_hash,
                             struct lessor_arena *arena, struct lessor_rack_caller *ret_caller,
                             struct lessor_ticket *ticket);

/* --- The rack's own calls --- */

/*
 * The begin of a poll (section 6.2 step 2): the tiers are replaced, and the rack was seen. Comes before the
 * agent's age is looked at (R042). Returns 0; LESSOR_E_NOT_FOUND: 401.
 */
int lessor_rack_poll(struct lessor_lease_store *s, struct lessor_slice rack_id,
                     const struct lessor_slice *tiers, size_t n_tiers, struct lessor_ticket *ticket);

struct lessor_rack_beat {
        struct lessor_slice rack_id;
        struct lessor_slice boot_id;
        struct lessor_slice agent_version;
        bool healthy;
        const struct lessor_lease_name *running; /* the leases that it says it runs */
        size_t n_running;
        struct lessor_slice token_hash; /* from authentication, with the status then */
        enum lessor_token_status token_status;
        struct lessor_slice successor_hash; /* of a fresh rack token, in case one is offered */
};

struct lessor_rack_beaten {
        struct lessor_index_list stop; /* of `running`, in its order */
        bool offered;                  /* the successor is the rack's pending token now */
        bool pending_approval;
};

/*
 * A heartbeat (section 6.3), one step: notes health, version and boot, adopts the first boot, and mints a
 * successor if one is due (section 2), so that of simultaneous heartbeats one gets it. Returns 0;
 * LESSOR_E_NOT_FOUND: 401.
 */
int lessor_rack_heartbeat(struct lessor_lease_store *s, const struct lessor_rack_beat *beat,
                          struct lessor_arena *arena, struct lessor_rack_beaten *ret_beaten,
                          struct lessor_ticket *ticket);

/* --- The operator's --- */

/* One rack. Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_rack_get(struct lessor_lease_store *s, struct lessor_slice rack_id, struct lessor_arena *arena,
                    struct lessor_rack *ret_rack, struct lessor_ticket *ticket);

/* All of them, in the order of enrolment. */
int lessor_rack_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                     struct lessor_rack_list *ret_racks, struct lessor_ticket *ticket);

/* Approves the boot that the operator saw. Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_BOOT_CHANGED (R035). */
int lessor_rack_approve(struct lessor_lease_store *s, struct lessor_slice rack_id,
                        struct lessor_slice boot_id, struct lessor_ticket *ticket);

/* A draining rack keeps its leases and is granted no more. Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_rack_drain(struct lessor_lease_store *s, struct lessor_slice rack_id, bool draining,
                      struct lessor_ticket *ticket);

/*
 * Removes a rack, its tokens, and supersedes the leases that it holds, in one step. `ret_n_leases` may be
 * NULL. Returns 0 or LESSOR_E_NOT_FOUND.
 */
int lessor_rack_deregister(struct lessor_lease_store *s, struct lessor_slice rack_id, size_t *ret_n_leases,
                           struct lessor_ticket *ticket);

/* The security policy (section 3). It has never been set: false. */
int lessor_rack_policy(struct lessor_lease_store *s, bool *ret_require_start_approval,
                       struct lessor_ticket *ticket);
int lessor_rack_set_policy(struct lessor_lease_store *s, bool require_start_approval,
                           struct lessor_ticket *ticket);

/* --- Environments (section 12) --- */

/* Adds or replaces the row of (env_hash, e3_version); the store stamps published_ms. Layers and manifest are
 * there before. */
int lessor_environment_publish(struct lessor_lease_store *s, const struct lessor_environment *environment,
                               struct lessor_ticket *ticket);

/* Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_environment_resolve(struct lessor_lease_store *s, struct lessor_slice env_hash,
                               struct lessor_slice e3_version, struct lessor_arena *arena,
                               struct lessor_environment *ret_environment, struct lessor_ticket *ticket);

/* All of them, without their manifests, in the order of first publication. */
int lessor_environment_list(struct lessor_lease_store *s, struct lessor_arena *arena,
                            struct lessor_environment_list *ret_environments, struct lessor_ticket *ticket);

/* Returns 0 or LESSOR_E_NOT_FOUND. */
int lessor_environment_remove(struct lessor_lease_store *s, struct lessor_slice env_hash,
                              struct lessor_slice e3_version, struct lessor_ticket *ticket);

#endif
