/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_LEASING_SQLITE_FIXTURE_H
#define TESTS_UNIT_LEASING_SQLITE_FIXTURE_H

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lease_text.h"
#include "leasing/sqlite.h"
#include "lessor/lease_transfer.h"
#include "lessor/rack_registry.h"

#define START_MS INT64_C(1760000000000)
#define REPO     LESSOR_SLICE("repo")
#define TIER     LESSOR_SLICE("c")
#define BOOT     LESSOR_SLICE("boot-1")

/* A store in a directory of its own, with short words for what tests do with it. */
struct fixture {
        struct clock_manual clock;
        struct lessor_lease_store *store;
        struct lessor_arena *arena;
        struct lessor_lease_options lease_options;
        struct lease_sqlite_options options;
        struct lessor_lease_listener listener;
        struct buf problem; /* of the last fixture_try_open */
        char *dir;
};

/* Everything but the store. */
void fixture_init(struct fixture *f);
void fixture_done(struct fixture *f);

int fixture_try_open(struct fixture *f);
void fixture_open(struct fixture *f);
void fixture_close(struct fixture *f);

/* DIR/leases.db; in the arena. */
const char *fixture_path(struct fixture *f);

/* Runs SQL on the closed store's file. */
void fixture_sql(struct fixture *f, const char *sql);
int64_t fixture_sql_int(struct fixture *f, const char *sql);

/* A rack "NAME" with the token hash "token-NAME", which has beaten once. Its id, in the arena. */
struct lessor_slice fixture_rack(struct fixture *f, const char *name);
void fixture_beat(struct fixture *f, struct lessor_slice rack_id, const char *name);

/* A lease of its own task, with its name in the event. key NULL: none. */
struct lessor_lease fixture_create(struct fixture *f, const char *task, const char *key);
int fixture_try_create(struct fixture *f, const char *task, struct lessor_slice event,
                       struct lessor_lease *ret_lease);

/* Polls and claims. False: nothing was granted. */
bool fixture_claim(struct fixture *f, struct lessor_slice rack_id, struct lessor_lease *ret_lease);
void fixture_complete(struct fixture *f, const struct lessor_lease *lease, struct lessor_slice result);
/* With event and result. */
struct lessor_lease fixture_get(struct fixture *f, const struct lessor_lease *lease);
struct lessor_lease_stats fixture_stats(struct fixture *f);

/* All that the store tells, in the arena. */
struct lessor_slice fixture_text(struct fixture *f);

/* Leases in every state, with attempts, keys, targets and capabilities; racks, tokens, an environment. */
void fixture_history(struct fixture *f);

#endif
