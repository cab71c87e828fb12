/* SPDX-License-Identifier: MIT */
#include "store_kinds.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/json_read.h"
#include "base/macro.h"
#include "routing/memory.h"
#include "routing/sqlite.h"

static int make_memory(struct clock *clock, const struct lessor_routing_listener *listener,
                       const char *directory, struct lessor_routing_store **ret_store)
{
        (void)directory;
        return memory_store_new(clock, listener, ret_store);
}

static int make_sqlite(struct clock *clock, const struct lessor_routing_listener *listener,
                       const char *directory, struct lessor_routing_store **ret_store)
{
        struct buf problem;
        int r;

        buf_init(&problem);
        r = sqlite_store_new(directory, clock, listener, NULL, ret_store, &problem);
        if (r < 0)
                fprintf(stderr, "sqlite: %.*s\n", (int)problem.n, problem.p == NULL ? "" : problem.p);
        buf_done(&problem);
        return r;
}

/* The columns of a stub, as the text has them: what it lacks is NULL, as another version would have left it.
 */
static int write_stub_row(sqlite3 *db, struct lessor_slice site_id, struct lessor_slice job_id,
                          const struct json *stub)
{
        static const char *const fields[] = {"kind",    "owner",     "site",      "audience",
                                             "purpose", "sizeClass", "streaming", "deadlineAt"};
        sqlite3_stmt *stmt;
        int code;

        code = sqlite3_prepare_v2(
                db,
                "UPDATE routing_job SET kind=?1, owner=?2, site=?3, audience=?4, purpose=?5,"
                " size_class=?6, streaming=?7, deadline_ms=?8 WHERE site_id=?9 AND id=?10",
                -1, &stmt, NULL);
        if (code != SQLITE_OK)
                return LESSOR_E_IO;
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
                const struct json *value = json_member_named(stub, fields[i]);
                int at = (int)i + 1;
                int64_t number;

                if (json_is(value, JSON_STRING))
                        (void)sqlite3_bind_text64(stmt, at, json_text(value).p, json_text(value).n,
                                                  SQLITE_TRANSIENT, SQLITE_UTF8);
                else if (json_int(value, &number))
                        (void)sqlite3_bind_int64(stmt, at, number);
                else if (json_is_bool(value))
                        (void)sqlite3_bind_int(stmt, at, json_is(value, JSON_TRUE));
        }
        (void)sqlite3_bind_text(stmt, 9, site_id.p, (int)site_id.n, SQLITE_TRANSIENT);
        (void)sqlite3_bind_text(stmt, 10, job_id.p, (int)job_id.n, SQLITE_TRANSIENT);
        code = sqlite3_step(stmt);
        (void)sqlite3_finalize(stmt);
        return code == SQLITE_DONE && sqlite3_changes(db) == 1 ? 0 : LESSOR_E_NOT_FOUND;
}

/* SQLite rows are read at start, so the store ends, finds the text, and starts again. */
static int write_raw_stub_sqlite(struct lessor_routing_store **store, struct clock *clock,
                                 const char *directory, struct lessor_slice site_id,
                                 struct lessor_slice job_id, struct lessor_slice raw)
{
        struct lessor_routing_listener listener = (*store)->listener;
        struct lessor_arena *arena = lessor_arena_new();
        struct json *stub = NULL;
        sqlite3 *db = NULL;
        struct buf path;
        int r;

        *store = lessor_routing_store_free(*store);
        buf_init(&path);
        (void)buf_printf(&path, "%s/%s", directory, SQLITE_STORE_FILE);
        r = buf_failed(&path);
        /* Whatever it is: what is no object has none of the fields, and the row gets none. */
        if (r == 0 && (arena == NULL || json_read(raw, arena, &stub) == LESSOR_E_NOMEM))
                r = LESSOR_E_NOMEM;
        if (r == 0)
                r = sqlite3_open(path.p, &db) == SQLITE_OK ? write_stub_row(db, site_id, job_id, stub)
                                                           : LESSOR_E_IO;
        (void)sqlite3_close(db);
        buf_done(&path);
        lessor_arena_free(arena);
        return r < 0 ? r : make_sqlite(clock, &listener, directory, store);
}

const struct store_kind store_kinds[] = {
        {.name = "memory", .make = make_memory},
        {.name = "sqlite", .durable = true, .make = make_sqlite, .write_raw_stub = write_raw_stub_sqlite},
};
const size_t n_store_kinds = ARRAY_SIZE(store_kinds);

const struct store_kind *store_kind_named(const char *name)
{
        for (size_t i = 0; i < n_store_kinds; i++)
                if (strcmp(store_kinds[i].name, name) == 0)
                        return &store_kinds[i];
        return NULL;
}
