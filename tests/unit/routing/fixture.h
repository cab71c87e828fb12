/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_ROUTING_FIXTURE_H
#define TESTS_UNIT_ROUTING_FIXTURE_H

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "routing/engine.h"

/* An engine with an arena to render into, and short words for what tests do with it. */
struct fixture {
        struct engine *engine;
        struct lessor_arena *arena;
        int64_t now_ms;
        uint64_t n_leases;
        uint64_t dice;
};

void fixture_init(struct fixture *f);
void fixture_done(struct fixture *f);

/* A number from 0 to n - 1, the same in every run. */
uint64_t fixture_roll(struct fixture *f, uint64_t n);

/* "runner-3"; in the arena. */
struct lessor_slice fixture_name(struct fixture *f, const char *what, uint64_t number);

struct lessor_stub fixture_stub(struct lessor_slice id, struct lessor_slice owner);

int fixture_enqueue(struct fixture *f, const char *site, struct lessor_slice id, const char *owner);

/* A claim by a device of the pair's owner, on one pair. */
int fixture_claim(struct fixture *f, struct lessor_slice runner, const char *site, const char *owner,
                  unsigned max, struct lessor_job_list *ret_granted);

int fixture_release(struct fixture *f, const struct lessor_job *job, bool refused, int64_t retry_after_ms);

/* Forgets what the engine has to tell, as a store does that has noted it. */
void fixture_drain(struct fixture *f);

/* Whether two listings say the same of every job. */
void fixture_same_jobs(const struct lessor_job_list *a, const struct lessor_job_list *b);

#endif
