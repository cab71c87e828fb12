/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_CONTRACT_PROBE_H
#define ROUTING_CONTRACT_PROBE_H

#include <pthread.h>

#include "lessor/routing_contract.h"

/* One case under way: its store, and short words for what cases do. */
struct lessor_contract_probe {
        const struct lessor_contract_options *options;
        struct lessor_routing_store *store;
        struct lessor_routing_listener listener;
        struct lessor_arena *arena;
        char *text;
        size_t cap;
        /* What the listener heard. A store may tell from a thread of its own, a little later. */
        pthread_mutex_t lock;
        pthread_cond_t heard;
        unsigned n_churns; /* reports, and the last one's count */
        unsigned churn_expiries;
        unsigned n_awaiting;
        unsigned n_finished;
};

/* Cases and their helpers return 0, or PROBE_FAILED with the reason in the text. */
#define PROBE_FAILED 1

int probe_fail(struct lessor_contract_probe *p, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

#define EXPECT(p, condition, ...)                            \
        do {                                                 \
                if (!(condition))                            \
                        return probe_fail((p), __VA_ARGS__); \
        } while (0)

/* Runs a helper that fails by itself. */
#define TRY(call)                            \
        do {                                 \
                if ((call) != 0)             \
                        return PROBE_FAILED; \
        } while (0)

/* The sites, and the job owner, that cases use unless they need others. */
#define SITE  "site-a"
#define OTHER "site-b"
#define ALICE "alice"
#define BOB   "bob"
#define R1    "runner-1"
#define R2    "runner-2"

#define LEASE_MS 60000

/* Enqueues a private llm.generate job without a near deadline. */
int put(struct lessor_contract_probe *p, const char *site, const char *id, const char *owner);

/* A stub like that, to be changed. */
struct lessor_stub stub_of(const char *id, const char *owner);
int put_stub(struct lessor_contract_probe *p, const char *site, const struct lessor_stub *stub);

/* Enqueues jobs of SITE and ALICE with these ids, separated by spaces. */
int put_all(struct lessor_contract_probe *p, const char *ids);

/* What a device asks for. */
struct ask {
        const char *runner;
        const char *owner;      /* the device's; NULL: ALICE */
        const char *routes[10]; /* site, owner, site, owner…; none: SITE and ALICE */
        unsigned kinds;         /* 0: llm.generate */
        unsigned max;           /* 0: 10 */
        int64_t lease_ms;       /* 0: LEASE_MS */
};
int claim(struct lessor_contract_probe *p, const struct ask *ask, struct lessor_job_list *ret_granted);

/* Claims and expects exactly these ids in this order, separated by spaces; `ret_granted` may be NULL. */
int claim_gets(struct lessor_contract_probe *p, const struct ask *ask, const char *ids,
               struct lessor_job_list *ret_granted);

/* Enqueues one job of SITE and ALICE, claims it for R1, and goes on to the state. */
int bring_to(struct lessor_contract_probe *p, const char *id, enum lessor_job_state state,
             struct lessor_lease_ref *ret_lease);

int get(struct lessor_contract_probe *p, const char *site, const char *id, struct lessor_job *ret_job);
bool exists(struct lessor_contract_probe *p, const char *site, const char *id);
int state_is(struct lessor_contract_probe *p, const char *site, const char *id, enum lessor_job_state state);

/* The operations, as codes. */
int seal(struct lessor_contract_probe *p, const char *site, const char *id, const char *payload);
int fetch(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease,
          struct lessor_slice *ret_payload);
int complete(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease,
             const char *result, bool *ret_duplicate);
int release(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease, bool refused,
            int64_t retry_after_ms, size_t *ret_n);
int renew(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease,
          int64_t lease_ms, bool *ret_renewed);

/* Expects a code of one of the above. */
int expect_code(struct lessor_contract_probe *p, const char *what, int got, int want);

/* Fails unless the list has these ids in this order, separated by spaces. */
int expect_ids(struct lessor_contract_probe *p, const char *what, const struct lessor_job *jobs, size_t n,
               const char *ids);

void advance(struct lessor_contract_probe *p, int64_t by_ms);
int sweep(struct lessor_contract_probe *p, struct lessor_swept *ret_swept);
int now(struct lessor_contract_probe *p, int64_t *ret_now_ms);

/* Waits until a counter of the probe has reached a number; fails when it takes too long. */
int hear(struct lessor_contract_probe *p, const char *what, const unsigned *counter, unsigned number);

static inline struct lessor_lease_ref lease_ref(const char *id, struct lessor_slice lease_id)
{
        return (struct lessor_lease_ref){lessor_slice_of(id), lease_id};
}

static inline struct lessor_slice text_of(const char *text)
{
        return lessor_slice_of(text);
}

struct case_list {
        const struct lessor_contract_case *cases;
        size_t n;
};
extern const struct case_list queue_cases, holder_cases, time_cases, store_cases;

#endif
