/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_LEASE_MODEL_H
#define TESTS_SIM_LEASE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/lease_store.h"

/*
 * The lease store of rack-protocol sections 2, 3, 8 and 9 as plainly as it can be written: arrays that are
 * walked from end to end, names that are small numbers. It shares nothing with the engine, so that what both
 * say is likely to be true.
 */
#define LEASE_MODEL_LEASES   1024
#define LEASE_MODEL_RACKS    64
#define LEASE_MODEL_ATTEMPTS 64
#define LEASE_MODEL_KEYS     8
#define LEASE_MODEL_TIERS    2

struct lease_model_attempt {
        int rack, boot;
        bool counts, must_name;
        enum lessor_attempt_state state;
        enum lessor_cause cause;
};

struct lease_model_lease {
        bool there;
        int repo, task, tier, owner, run; /* run -1: none */
        bool function;
        int version;
        int floor; /* the third number of 1.0.x; 0: none */
        unsigned limit, spent;
        int64_t created_ms, expires_ms, deadline_ms, ended_ms;
        enum lessor_lease_status status;
        enum lessor_cause cause;
        int current; /* of attempts; -1: none */
        struct lease_model_attempt attempts[LEASE_MODEL_ATTEMPTS];
        int n_attempts;
        int keys[LEASE_MODEL_KEYS]; /* of its owner */
        bool left[LEASE_MODEL_KEYS];
        int n_keys;
};

struct lease_model_rack {
        bool registered;
        int version;                  /* index into lease_model_versions */
        int last_boot, approved_boot; /* -1: none */
        bool healthy, draining;
        bool tiers[LEASE_MODEL_TIERS];
        int64_t seen_ms;
};

struct lease_model {
        struct lease_model_lease leases[LEASE_MODEL_LEASES];
        int n_leases;
        struct lease_model_rack racks[LEASE_MODEL_RACKS];
        int n_racks;
        bool policy;
        int turn; /* the owner of the last claim; -1: none yet */
};

/* What an agent may say it is; whether it is too old; the third number of its e3, 0: none. */
struct lease_model_version {
        const char *text;
        bool old;
        int bundled;
};
extern const struct lease_model_version lease_model_versions[];
#define LEASE_MODEL_VERSIONS 4

struct lease_model_submission {
        int repo, task, tier, owner, run, version, floor, key; /* key -1: none */
        bool function, share;
        unsigned limit;
        int64_t ttl_ms;
};

struct lease_model_claim {
        int rack, boot, repo; /* repo -1: any */
        bool tiers[LEASE_MODEL_TIERS];
        bool names;
};

/* What the clock has brought about by now. Comes before every call. */
void lease_model_settle(struct lease_model *m, int64_t now_ms);
void lease_model_sweep(struct lease_model *m, int64_t now_ms);

/* Each returns what a store is to return; leases are named by number, -1 being one that never was. */
int lease_model_create(struct lease_model *m, const struct lease_model_submission *from, int64_t now_ms,
                       int *ret_lease);
/* ret_lease: -1 when nothing is granted. ret_kept: there is claimable work, but not for this rack. */
int lease_model_claim(struct lease_model *m, const struct lease_model_claim *c, int64_t now_ms,
                      int *ret_lease, bool *ret_kept);
/* attempt: number; 0: not named */
bool lease_model_holds(const struct lease_model *m, int lease, int rack, int attempt);
int lease_model_extend(struct lease_model *m, int lease, int rack, int attempt, int64_t now_ms);
enum lessor_completed lease_model_complete(struct lease_model *m, int lease, int rack, int attempt,
                                           enum lessor_attempt_state state, int64_t now_ms);
/* key -1: for everybody */
int lease_model_end(struct lease_model *m, int lease, enum lessor_lease_ending ending, int key,
                    int64_t now_ms);
int lease_model_undeliver(struct lease_model *m, int lease, int attempt, int64_t now_ms);
int lease_model_replay(struct lease_model *m, int lease);
bool lease_model_must_stop(const struct lease_model *m, int lease, int rack);
int lease_model_deregister(struct lease_model *m, int rack, int64_t now_ms);
enum lessor_lease_view lease_model_view(const struct lease_model_lease *l, int64_t now_ms);

#endif
