/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"
#include "database/rows.h"
#include "lease_world.h"
#include "leasing/sqlite.h"
#include "leasing/sqlite_schema.h"
#include "lessor/error.h"
#include "machine.h"

/*
 * Whole lives of leases a second on the store alone, over what a program reaches that knows nothing but the
 * rows and commits them in groups as large as the store could make them.
 */

#define GROUP        64
#define DAY_MS       INT64_C(86400000)
#define EVENT_BYTES  1024
#define RESULT_BYTES 512

enum life_step { STEP_CREATE, STEP_CLAIM, STEP_EXTEND, STEP_COMPLETE, N_STEPS };

/* --- the store --- */

struct lives;

/* One of the callers, each with one call under way: a producer and an agent by turns. */
struct caller {
        struct lives *lives;
        struct caller *next;               /* ready to go on */
        struct lessor_arena *arena, *held; /* of one call; of one life */
        struct lessor_slice rack_id;
        struct lessor_lease lease;
        unsigned long n_lives;
        unsigned number;
        enum life_step step;
};

struct lives {
        struct lessor_lease_store *store;
        const struct lease_world *world;
        struct caller callers[GROUP];
        uint64_t end_ns; /* no new life afterwards */
        uint64_t n_done;
        int error;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct caller *ready;
};

static int create(struct caller *c, struct lessor_ticket *ticket)
{
        struct lessor_lease_submission from = lease_world_submission(c->lives->world);
        struct lessor_lease lease;
        char key[64];

        from.key.p = key;
        from.key.n = (size_t)snprintf(key, sizeof(key), "run-1-step-%u-%lu", c->number, c->n_lives);
        return lessor_lease_create(c->lives->store, &from, c->arena, &lease, NULL, ticket);
}

static int claim(struct caller *c, struct lessor_ticket *ticket)
{
        const struct lessor_slice tier = lease_world_submission(c->lives->world).tier;
        const struct lessor_lease_claim claim = {.rack_id = c->rack_id,
                                                 .boot_id = LEASE_WORLD_BOOT,
                                                 .tiers = &tier,
                                                 .n_tiers = 1,
                                                 .names_attempts = true};
        struct lessor_lease_grant grant;
        int e;

        lessor_arena_clear(c->held);
        e = lessor_lease_claim(c->lives->store, &claim, c->held, &grant, ticket);
        if (e == 0 && !grant.granted)
                e = LESSOR_E_NOT_FOUND;
        if (e == 0)
                c->lease = grant.lease;
        return e;
}

static int call(struct caller *c, struct lessor_ticket *ticket)
{
        const struct lessor_lease_holder holder = {c->lease.name, c->rack_id, c->lease.attempt};
        const struct lessor_lease_completion completion = {.holder = holder,
                                                           .verdict = {.success = true,
                                                                       .output_hash = LEASE_WORLD_HASH,
                                                                       .has_exit_code = true,
                                                                       .has_peak_bytes = true,
                                                                       .peak_bytes = 123456789},
                                                           .result = lease_world_result(c->lives->world)};
        enum lessor_completed how;
        int64_t deadline_ms;

        lessor_arena_clear(c->arena);
        switch (c->step) {
        case STEP_CREATE:
                return create(c, ticket);
        case STEP_CLAIM:
                return claim(c, ticket);
        case STEP_EXTEND:
                return lessor_lease_extend(c->lives->store, &holder, &deadline_ms, ticket);
        default:
                return lessor_lease_complete(c->lives->store, &completion, c->arena, &how, NULL, ticket);
        }
}

static void told(void *context, int result)
{
        struct caller *c = context;
        struct lives *l = c->lives;

        (void)pthread_mutex_lock(&l->lock);
        if (result < 0)
                l->error = result;
        if (l->ready == NULL)
                (void)pthread_cond_signal(&l->changed);
        c->next = l->ready;
        l->ready = c;
        (void)pthread_mutex_unlock(&l->lock);
}

/* Waits for a caller whose call is over. */
static struct caller *next_ready(struct lives *l)
{
        struct caller *c;

        (void)pthread_mutex_lock(&l->lock);
        while (l->ready == NULL)
                (void)pthread_cond_wait(&l->changed, &l->lock);
        c = l->ready;
        l->ready = c->next;
        (void)pthread_mutex_unlock(&l->lock);
        return c;
}

/* Lets all callers live until the end, and then finish what they began. */
static int drive(struct lives *l)
{
        unsigned n_alive = 0;

        for (unsigned i = 0; i < GROUP; i++, n_alive++)
                told(&l->callers[i], 0);
        while (n_alive > 0) {
                struct caller *c = next_ready(l);
                struct lessor_ticket ticket;
                int e;

                do {
                        if (c->step == STEP_CREATE && (now_ns() >= l->end_ns || l->error < 0)) {
                                n_alive--;
                                break;
                        }
                        e = call(c, &ticket);
                        if (e < 0) {
                                l->error = e;
                                n_alive--;
                                break;
                        }
                        c->step = (c->step + 1) % N_STEPS;
                        if (c->step == STEP_CREATE) {
                                c->n_lives++;
                                l->n_done++;
                        }
                } while (lessor_lease_when_durable(l->store, ticket, told, c) == 1);
        }
        return l->error;
}

static int run_store(const struct bench *bench, const struct lease_world *world, const char *dir,
                     double *ret_rate)
{
        struct lessor_lease_options options = LESSOR_LEASE_OPTIONS;
        struct lives *l = calloc(1, sizeof(*l));
        struct buf problem;
        uint64_t begin_ns;
        int e;

        if (l == NULL)
                return LESSOR_E_NOMEM;
        options.visibility_ms = options.healthy_ms = options.retention_ms = DAY_MS;
        l->world = world;
        (void)pthread_mutex_init(&l->lock, NULL);
        (void)pthread_cond_init(&l->changed, NULL);
        buf_init(&problem);
        e = lease_sqlite_store_new(dir, &options, clock_steady(), NULL, NULL, &l->store, &problem);
        buf_done(&problem);
        for (unsigned i = 0; i < GROUP && e == 0; i++) {
                struct caller *c = &l->callers[i];

                *c = (struct caller){.lives = l, .number = i};
                c->arena = lessor_arena_new();
                c->held = lessor_arena_new();
                e = c->arena == NULL || c->held == NULL ? LESSOR_E_NOMEM
                                                        : lease_world_rack(world, l->store, i, &c->rack_id);
        }
        begin_ns = now_ns();
        l->end_ns = begin_ns + (uint64_t)(bench->seconds * 1e9);
        if (e == 0)
                e = drive(l);
        *ret_rate = (double)l->n_done * 1e9 / (double)(now_ns() - begin_ns);
        lessor_lease_store_free(l->store);
        for (unsigned i = 0; i < GROUP; i++) {
                lessor_arena_free(l->callers[i].arena);
                lessor_arena_free(l->callers[i].held);
        }
        free(l);
        return e;
}

/* --- the rows alone --- */

/* The statements of a life, in their order, and after how many of them there is an answer to wait for. */
static const struct {
        const char *sql;
        enum life_step step;
} rows[] = {
        {"REPLACE INTO leasing_lease VALUES"
         "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
         STEP_CREATE},
        {"REPLACE INTO leasing_event VALUES(?1, ?2)", STEP_CREATE},
        {"REPLACE INTO leasing_key VALUES(?1, ?2, ?3)", STEP_CREATE},
        {"REPLACE INTO leasing_state VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)", STEP_CLAIM},
        {"REPLACE INTO leasing_attempt VALUES"
         "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
         STEP_CLAIM},
        {"REPLACE INTO leasing_state VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)", STEP_EXTEND},
        {"REPLACE INTO leasing_state VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
         STEP_COMPLETE},
        {"REPLACE INTO leasing_attempt VALUES"
         "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
         STEP_COMPLETE},
        {"REPLACE INTO leasing_result VALUES(?1, ?2)", STEP_COMPLETE},
};
enum {
        ROW_LEASE,
        ROW_EVENT,
        ROW_KEY,
        ROW_CLAIMED,
        ROW_RUNNING,
        ROW_EXTENDED,
        ROW_COMPLETED,
        ROW_ENDED,
        ROW_RESULT,
        N_ROWS
};

struct bare {
        sqlite3 *db;
        sqlite3_stmt *statements[N_ROWS];
        const struct lease_world *world;
        int64_t seq;
};

static void bind_lease(struct binder *b, const struct bare *bare)
{
        const struct lessor_lease_submission from = lease_world_submission(bare->world);
        char id[256];
        int n = snprintf(id, sizeof(id), "%.*s#%.*s#0199c848-f843-7924-a336-%012lld", (int)from.task_hash.n,
                         from.task_hash.p, (int)from.inputs_hash.n, from.inputs_hash.p, (long long)bare->seq);

        bind_text(b, from.repo);
        /* Bound until the step below. */
        (void)sqlite3_bind_text(b->stmt, b->at++, id, n, SQLITE_TRANSIENT);
        bind_text(b, from.workspace);
        bind_text(b, from.task_name);
        bind_text(b, from.tier);
        for (int i = 0; i < 4; i++)
                bind_null(b);
        bind_text(b, from.owner);
        bind_word(b, "task");
        bind_int(b, 0);
        bind_int(b, LESSOR_EVENT_VERSION);
        bind_int(b, (int64_t)from.event.n);
        bind_int(b, wall_ms());
        bind_int(b, 0);
        bind_int(b, 0);
}

static void bind_state(struct binder *b, const struct bare *bare, const char *status, bool is_completed)
{
        bind_word(b, status);
        bind_int(b, 0);
        bind_int(b, 1);
        bind_int(b, 1);
        bind_int(b, wall_ms() + DAY_MS);
        bind_int(b, is_completed ? wall_ms() : 0);
        bind_word(b, "none");
        bind_int(b, is_completed);
        bind_int(b, 0);
        bind_int(b, 0);
        bind_int_if(b, is_completed, (int64_t)lease_world_result(bare->world).n);
}

static void bind_attempt(struct binder *b, const char *state, bool is_over)
{
        bind_int(b, 1);
        bind_text(b, LESSOR_SLICE("0199c848-f843-7924-a336-0d814ac881bf"));
        bind_text(b, LESSOR_SLICE("0199c848-dc67-7888-88ee-b529700b44d2"));
        bind_text(b, LEASE_WORLD_BOOT);
        bind_int(b, wall_ms());
        bind_int(b, is_over ? wall_ms() : 0);
        bind_word(b, state);
        bind_word(b, "none");
        bind_null(b);
        if (is_over)
                bind_text(b, LEASE_WORLD_HASH);
        else
                bind_null(b);
        bind_int_if(b, is_over, 0);
        bind_int_if(b, is_over, 123456789);
        bind_int(b, 1);
        bind_int(b, 1);
}

static int write_row(struct bare *bare, int row)
{
        struct binder b = BINDER(bare->statements[row]);
        char key[64];

        bind_int(&b, bare->seq);
        switch (row) {
        case ROW_LEASE:
                bind_lease(&b, bare);
                break;
        case ROW_EVENT:
                bind_text(&b, lease_world_submission(bare->world).event);
                break;
        case ROW_KEY:
                (void)snprintf(key, sizeof(key), "run-1-step-%lld", (long long)bare->seq);
                bind_word(&b, key);
                bind_int(&b, 0);
                break;
        case ROW_RUNNING:
                bind_attempt(&b, "running", false);
                break;
        case ROW_ENDED:
                bind_attempt(&b, "success", true);
                break;
        case ROW_RESULT:
                bind_text(&b, lease_world_result(bare->world));
                break;
        default:
                bind_state(&b, bare, row == ROW_COMPLETED ? "completed" : "claimed", row == ROW_COMPLETED);
        }
        return binder_run(&b);
}

/* GROUP lives side by side: each step of all of them is one transaction. */
static int write_group(struct bare *bare)
{
        int64_t first = bare->seq;
        int code = SQLITE_OK;

        for (int step = 0; step < N_STEPS && code == SQLITE_OK; step++) {
                code = sqlite3_exec(bare->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
                for (int64_t i = 0; i < GROUP && code == SQLITE_OK; i++) {
                        bare->seq = first + i;
                        for (int row = 0; row < N_ROWS && code == SQLITE_OK; row++)
                                if ((int)rows[row].step == step)
                                        code = write_row(bare, row);
                }
                if (code == SQLITE_OK)
                        code = sqlite3_exec(bare->db, "COMMIT", NULL, NULL, NULL);
        }
        bare->seq = first + GROUP;
        return code;
}

static int open_bare(struct bare *bare, const char *path)
{
        struct buf problem;
        int code = SQLITE_OK, e;

        buf_init(&problem);
        e = sqlite_db_open(path, SQLITE_DB_WRITE, NULL, &bare->db, &problem);
        if (e == 0)
                e = sqlite_db_migrate(bare->db, path, &lease_sqlite_migration, &problem);
        buf_done(&problem);
        if (e < 0)
                return e;
        /* As SQLite does it by itself. */
        code = sqlite3_exec(bare->db, "PRAGMA wal_autocheckpoint=1000; PRAGMA cache_size=-8192", NULL, NULL,
                            NULL);
        for (int i = 0; i < N_ROWS && code == SQLITE_OK; i++)
                code = sqlite3_prepare_v3(bare->db, rows[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
                                          &bare->statements[i], NULL);
        return sqlite_db_error(code);
}

static int run_bare(const struct bench *bench, const struct lease_world *world, const char *path,
                    double *ret_rate)
{
        struct bare bare = {.world = world, .seq = 1};
        uint64_t begin_ns, end_ns;
        int code = SQLITE_OK, e = open_bare(&bare, path);

        begin_ns = now_ns();
        end_ns = begin_ns + (uint64_t)(bench->seconds * 1e9);
        while (e == 0 && code == SQLITE_OK && now_ns() < end_ns)
                code = write_group(&bare);
        *ret_rate = (double)(bare.seq - 1) * 1e9 / (double)(now_ns() - begin_ns);
        for (int i = 0; i < N_ROWS; i++)
                (void)sqlite3_finalize(bare.statements[i]);
        (void)sqlite3_close(bare.db);
        return e < 0 ? e : sqlite_db_error(code);
}

/* --- both --- */

static int one_round(struct bench *bench, const struct lease_world *world, struct series *store,
                     struct series *bare)
{
        char dir[] = "/tmp/lessor-bench-XXXXXX";
        _cleanup_(buf_done) struct buf path = {0};
        double rate;
        int e;

        if (mkdtemp(dir) == NULL)
                return LESSOR_E_IO;
        buf_printf(&path, "%s/%s", dir, LEASE_SQLITE_FILE);
        e = buf_failed(&path);
        if (e == 0)
                e = run_store(bench, world, dir, &rate);
        if (e == 0) {
                series_add(store, rate);
                (void)unlink(path.p);
                e = run_bare(bench, world, path.p, &rate);
        }
        if (e == 0)
                series_add(bare, rate);
        (void)unlink(path.p);
        (void)rmdir(dir);
        return e;
}

int bench_lease_lives(struct bench *bench)
{
        _cleanup_(lease_world_freep) struct lease_world *world = NULL;
        struct series store = {0}, bare = {0};
        struct report *r = &bench->report;
        int e;

        e = report_section(
                r, "lease-lives", "Whole lives of leases, in the store alone",
                "64 callers, each with one call under way, take turns as a producer and as an agent: "
                "create with a key, claim, extend, complete, with an event of 1 kB and a result of "
                "512 bytes, on the sqlite store, without HTTP. Beside it a program that knows nothing "
                "but the rows of 64 such lives at a time, and commits each step of theirs as one "
                "transaction: WAL, synchronous=FULL, prepared statements. Both on one core, by turns.");
        if (e == 0)
                e = lease_world_new(EVENT_BYTES, RESULT_BYTES, &world);
        for (unsigned i = 0; i < bench->rounds && e == 0; i++)
                e = one_round(bench, world, &store, &bare);
        if (e == 0)
                e = report_value(r, series_median(&store), "lives/s", "store");
        if (e == 0)
                e = report_value(r, series_median(&bare), "lives/s", "bare SQLite, the same rows");
        if (e == 0)
                e = report_target(r, series_median(&store) / series_median(&bare), "", REPORT_AT_LEAST, 0.5,
                                  "store / bare SQLite");
        return e < 0 ? bench_failed(e, "lease-lives") : 0;
}
