/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_ROUTING_SQLITE_FIXTURE_H
#define TESTS_UNIT_ROUTING_SQLITE_FIXTURE_H

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "routing/sqlite.h"
#include "store_text.h"

#define SITE     LESSOR_SLICE("site-1")
#define START_MS INT64_C(1760000000000)

/* A store in a directory of its own, with short words for what tests do with it. */
struct fixture {
        struct clock_manual clock;
        struct lessor_routing_store *store;
        struct lessor_arena *arena;
        struct sqlite_store_options options;
        struct lessor_routing_listener listener;
        struct buf problem; /* of the last fixture_try_open */
        char *dir;
};

/* Everything but the store. */
void fixture_init(struct fixture *f);
void fixture_done(struct fixture *f);

int fixture_try_open(struct fixture *f);
void fixture_open(struct fixture *f);
void fixture_close(struct fixture *f);

/* DIR/lessor.db; in the arena. */
const char *fixture_path(struct fixture *f);

/* Runs SQL on the closed store's file. */
void fixture_sql(struct fixture *f, const char *sql);
int64_t fixture_sql_int(struct fixture *f, const char *sql);

int fixture_enqueue(struct fixture *f, const char *id, int64_t deadline_ms);
/* A claim by a device of another owner in the team; returns how many were granted. */
size_t fixture_claim(struct fixture *f, const char *runner, unsigned max,
                     struct lessor_job_list *ret_granted);
struct lessor_job fixture_job(struct fixture *f, const char *id);
void fixture_seal(struct fixture *f, const struct lessor_job *job, struct lessor_slice bytes);
struct lessor_slice fixture_fetch(struct fixture *f, const struct lessor_job *job);
void fixture_complete(struct fixture *f, const struct lessor_job *job, struct lessor_slice bytes);
void fixture_seen(struct fixture *f, const char *runner, const char *capabilities);
struct lessor_routing_stats fixture_stats(struct fixture *f);

/* All that the store tells, in the arena. */
struct lessor_slice fixture_text(struct fixture *f);

#endif
