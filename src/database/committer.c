/* SPDX-License-Identifier: MIT */
#include "database/committer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/log.h"
#include "database/rows.h"
#include "database/sqlite_db.h"
#include "lessor/error.h"

#define RETRY_MAX_MS     5000
#define RETRY_MIN_GAP_MS 20 /* between attempts, however many ask */
#define SPACE_CHECK_MS   1000
#define CROWD            12 /* so many who waited for one commit */
#define CROWD_STEP       2  /* so many more in a quarter of the time in which a crowd gathers */

/* --- waiting --- */

struct waiter {
        struct waiter *next;
        void (*told)(void *context, int result);
        void *context;
        bool on_heap;
};

static void waiters_add(struct waiters *list, struct waiter *w)
{
        w->next = NULL;
        *list->end = w;
        list->end = &w->next;
        list->n++;
}

static void waiters_move(struct waiters *from, struct waiters *to)
{
        if (from->first == NULL)
                return;
        *to->end = from->first;
        to->end = from->end;
        to->n += from->n;
        from->first = NULL;
        from->end = &from->first;
        from->n = 0;
}

/* Tells all of a list, outside the lock. A waiter on its owner's stack is gone once it is told. */
static void waiters_tell(struct committer *c, struct waiters *list, int result)
{
        struct waiter *w, *next, *spare = NULL;

        for (w = list->first; w != NULL; w = next) {
                void (*told)(void *, int) = w->told;
                void *context = w->context;

                next = w->next;
                if (w->on_heap) {
                        w->next = spare;
                        spare = w;
                }
                told(context, result);
        }
        *list = (struct waiters){.end = &list->first};
        if (spare == NULL)
                return;
        (void)pthread_mutex_lock(&c->lock);
        for (w = spare; w != NULL; w = next) {
                next = w->next;
                w->next = c->spare_waiters;
                c->spare_waiters = w;
        }
        (void)pthread_mutex_unlock(&c->lock);
}

/* Lists a waiter with the batch that its ticket is of. False: the batch is on disk already. Lock held. */
static bool enlist(struct committer *c, struct lessor_ticket ticket, struct waiter *w)
{
        if (atomic_load(&c->durable) >= ticket.seq)
                return false;
        waiters_add(c->writing && !c->failing && ticket.seq < c->open_seq ? &c->flight_waiters
                                                                          : &c->open_waiters,
                    w);
        /* While the disk fails, the thread tells whoever comes that it does. */
        if (c->failing)
                committer_wake(c);
        return true;
}

struct sync_wait {
        pthread_mutex_t lock;
        pthread_cond_t over;
        bool is_over;
        int result;
};

static void sync_told(void *context, int result)
{
        struct sync_wait *wait = context;

        (void)pthread_mutex_lock(&wait->lock);
        wait->is_over = true;
        wait->result = result;
        (void)pthread_cond_signal(&wait->over);
        (void)pthread_mutex_unlock(&wait->lock);
}

/* Waits for a ticket. No lock held. Returns 0 or LESSOR_E_UNAVAILABLE. */
static int wait_for(struct committer *c, struct lessor_ticket ticket)
{
        struct sync_wait wait = {.lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};
        struct waiter w = {.told = sync_told, .context = &wait};
        bool listed;

        if (atomic_load(&c->durable) >= ticket.seq)
                return 0;
        (void)pthread_mutex_lock(&c->lock);
        listed = enlist(c, ticket, &w);
        (void)pthread_mutex_unlock(&c->lock);
        if (!listed)
                return 0;
        (void)pthread_mutex_lock(&wait.lock);
        while (!wait.is_over)
                (void)pthread_cond_wait(&wait.over, &wait.lock);
        (void)pthread_mutex_unlock(&wait.lock);
        (void)pthread_cond_destroy(&wait.over);
        (void)pthread_mutex_destroy(&wait.lock);
        return wait.result;
}

int committer_when_durable(struct committer *c, struct lessor_ticket ticket,
                           void (*told)(void *context, int result), void *context)
{
        struct waiter *w;
        bool listed;
        int r;

        if (atomic_load(&c->durable) >= ticket.seq)
                return 1;
        (void)pthread_mutex_lock(&c->lock);
        w = c->spare_waiters;
        if (w != NULL)
                c->spare_waiters = w->next;
        else
                w = malloc(sizeof(*w));
        if (w == NULL) {
                /* No memory to wait elsewhere: wait here, and tell from here if the disk fails as well. */
                (void)pthread_mutex_unlock(&c->lock);
                r = wait_for(c, ticket);
                if (r == 0)
                        return 1;
                told(context, r);
                return 0;
        }
        *w = (struct waiter){.told = told, .context = context, .on_heap = true};
        listed = enlist(c, ticket, w);
        if (!listed) {
                w->next = c->spare_waiters;
                c->spare_waiters = w;
        }
        (void)pthread_mutex_unlock(&c->lock);
        return listed ? 0 : 1;
}

/* --- operations --- */

void committer_wake(struct committer *c)
{
        if (c->failing)
                c->kicked = true;
        if (c->idle)
                (void)pthread_cond_signal(&c->work);
}

int committer_enter(struct committer *c)
{
        (void)pthread_mutex_lock(&c->lock);
        if (!c->failing)
                return 0;
        committer_wake(c);
        (void)pthread_mutex_unlock(&c->lock);
        return LESSOR_E_UNAVAILABLE;
}

struct lessor_ticket committer_part(struct committer *c)
{
        struct lessor_ticket t = {c->writing ? c->open_seq - 1 : 0};

        if (c->ops->has_changes(c->store)) {
                committer_wake(c);
                t.seq = c->open_seq;
        }
        (void)pthread_mutex_unlock(&c->lock);
        return t;
}

int committer_wait(struct committer *c, struct lessor_ticket own, struct lessor_ticket *ticket, int result)
{
        int r;

        if (ticket != NULL) {
                *ticket = own;
                return result;
        }
        r = wait_for(c, own);
        return r < 0 ? r : result;
}

int committer_leave(struct committer *c, struct lessor_ticket *ticket, int result)
{
        return committer_wait(c, committer_part(c), ticket, result);
}

bool committer_is_low(const struct committer *c)
{
        return atomic_load_explicit(&c->low_space, memory_order_relaxed);
}

/* --- the disk --- */

static uint64_t free_bytes(const struct committer *c)
{
        struct statvfs st;

        if (c->options.free_bytes != NULL)
                return c->options.free_bytes(c->options.free_context);
        if (statvfs(c->dir, &st) != 0)
                return UINT64_MAX; /* not knowing is no reason to refuse */
        return (uint64_t)st.f_bavail * st.f_frsize;
}

/* At every batch: it costs next to nothing beside one, and within a second a disk can fill. */
static void check_space(struct committer *c)
{
        bool low = free_bytes(c) < c->options.low_space_bytes;

        if (atomic_exchange(&c->low_space, low) == low)
                return;
        if (low)
                log_warning("database-low-space", LOG_CSTR("path", c->path),
                            LOG_INT("mark_bytes", (int64_t)c->options.low_space_bytes));
        else
                log_info("database-low-space-over", LOG_CSTR("path", c->path));
}

/*
 * See checkpointer.c. A log that could not start over, since somebody reads in it (a backup), is left alone
 * until it has grown as much again.
 */
static void fold_log(struct committer *c)
{
        if (c->wal_pages < c->wal_folded)
                c->wal_folded = 0;
        if (c->wal_pages - c->wal_folded < (int)c->options.checkpoint_pages)
                return;
        if (atomic_exchange(&c->checkpointer.copied, false)) {
                (void)sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
                c->wal_folded = c->wal_pages;
        } else {
                checkpointer_want(&c->checkpointer);
        }
}

/* Writes the batch in one transaction. Returns 0 or a negative code. */
static int write_batch(struct committer *c)
{
        int code = statement_run(c->begin);

        if (code == SQLITE_OK)
                code = c->ops->write(c->store);
        if (code == SQLITE_OK)
                code = statement_run(c->commit);
        if (code == SQLITE_OK)
                return 0;
        /* Once for each time of trouble: it is tried again and again. */
        if (!c->failing)
                log_error("database-write-failed", LOG_CSTR("path", c->path),
                          LOG_CSTR("why", sqlite3_errmsg(c->db)), LOG_INT("code", code));
        /* Some failures have rolled back by themselves. */
        if (sqlite3_get_autocommit(c->db) == 0)
                (void)statement_run(c->rollback);
        return sqlite_db_error(code);
}

/* --- the thread --- */

static void sleep_until(struct committer *c, int64_t monotonic_ms)
{
        c->idle = true;
        if (monotonic_ms == INT64_MAX) {
                (void)pthread_cond_wait(&c->work, &c->lock);
        } else {
                const struct timespec at = {.tv_sec = (time_t)(monotonic_ms / 1000),
                                            .tv_nsec = (long)(monotonic_ms % 1000) * 1000000};

                (void)pthread_cond_timedwait(&c->work, &c->lock, &at);
        }
        c->idle = false;
}

/* Waits until a batch is worth making. False: the store ends and everything is written. Lock held. */
static bool wait_for_work(struct committer *c)
{
        for (;;) {
                int64_t now_ms = clock_monotonic_ms();
                int64_t until_ms;

                if (c->ops->has_changes(c->store) || c->open_waiters.first != NULL)
                        return true;
                until_ms = c->ops->late_ms(c->store); /* after has_changes, which may have put some off */
                if (until_ms != INT64_MAX && (c->stopping || until_ms <= now_ms))
                        return true;
                if (c->stopping)
                        return false;
                if (atomic_load(&c->low_space) && now_ms + SPACE_CHECK_MS < until_ms)
                        until_ms = now_ms + SPACE_CHECK_MS;
                sleep_until(c, until_ms);
                if (atomic_load(&c->low_space)) {
                        (void)pthread_mutex_unlock(&c->lock);
                        check_space(c);
                        (void)pthread_mutex_lock(&c->lock);
                }
        }
}

/* Everybody who waits is told no. Lock held, but not while they are told. */
static void tell_failure(struct committer *c)
{
        struct waiters waiters = {.end = &waiters.first};

        waiters_move(&c->flight_waiters, &waiters);
        waiters_move(&c->open_waiters, &waiters);
        if (waiters.first == NULL)
                return;
        (void)pthread_mutex_unlock(&c->lock);
        waiters_tell(c, &waiters, LESSOR_E_UNAVAILABLE);
        (void)pthread_mutex_lock(&c->lock);
}

/* A failed attempt: whoever waits, or comes now, is told no, until a pause is over or somebody asks. Lock
 * held. */
static void fail_and_pause(struct committer *c, int error, int64_t *pause_ms)
{
        int64_t failed_ms = clock_monotonic_ms();
        int64_t until_ms = failed_ms + *pause_ms;

        if (!c->failing)
                log_error("database-failing", LOG_CSTR("path", c->path), LOG_ERROR_CODE(error));
        c->failing = true;
        c->kicked = false;
        *pause_ms = *pause_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : *pause_ms * 2;
        for (;;) {
                tell_failure(c);
                if (c->kicked && failed_ms + RETRY_MIN_GAP_MS < until_ms)
                        until_ms = failed_ms + RETRY_MIN_GAP_MS;
                if (c->stopping || clock_monotonic_ms() >= until_ms)
                        return;
                if (c->open_waiters.first == NULL)
                        sleep_until(c, until_ms);
        }
}

static int collect(struct committer *c)
{
        int r = c->collected ? 0 : c->ops->collect(c->store);

        if (r == 0)
                c->collected = true;
        if (r == 0 && !c->writing) {
                c->open_seq++;
                c->writing = true;
                waiters_move(&c->open_waiters, &c->flight_waiters);
        }
        return r;
}

/* The batch is on disk. Lock held, but not while it is told. */
static void conclude(struct committer *c, uint64_t seq)
{
        struct waiters waiters = {.end = &waiters.first};

        atomic_store(&c->durable, seq);
        c->writing = false;
        if (c->failing)
                log_info("database-recovered", LOG_CSTR("path", c->path));
        c->failing = c->kicked = false;
        waiters_move(&c->flight_waiters, &waiters);
        (void)pthread_mutex_unlock(&c->lock);
        c->crowd = waiters.n;
        waiters_tell(c, &waiters, 0);
        c->told_us = clock_monotonic_us();
        c->ops->tell(c->store);
        fold_log(c);
        (void)pthread_mutex_lock(&c->lock);
        c->ops->clear(c->store);
        c->collected = false;
}

/* Collects and writes one batch until it is on disk. False: the store ends and it could not be. Lock held. */
static bool write_one(struct committer *c)
{
        int64_t pause_ms = c->options.retry_ms;
        uint64_t seq = c->open_seq;

        for (;;) {
                bool last_try = c->stopping;
                int r = collect(c);

                if (r == 0) {
                        (void)pthread_mutex_unlock(&c->lock);
                        check_space(c);
                        r = write_batch(c);
                        (void)pthread_mutex_lock(&c->lock);
                }
                if (r == 0)
                        break;
                fail_and_pause(c, r, &pause_ms);
                if (last_try)
                        return false;
        }
        conclude(c, seq);
        return true;
}

/* Lock held, but not meanwhile. */
static void nap(struct committer *c, int64_t us)
{
        const struct timespec gap = {.tv_nsec = (long)us * 1000};

        if (us <= 0)
                return;
        (void)pthread_mutex_unlock(&c->lock);
        (void)nanosleep(&gap, NULL);
        (void)pthread_mutex_lock(&c->lock);
}

/*
 * Lets the next batch grow when a crowd waited for the last one: what a commit costs is much the same however
 * many share it, and under such a load the processor has other things to do meanwhile. It goes on while more
 * come, and ends as soon as nobody does, since then everybody may be waiting for us. Where few wait nobody is
 * held up. Lock held, but not meanwhile.
 */
static void let_crowd_gather(struct committer *c)
{
        int64_t gather_us = c->options.gather_us;
        size_t before = 0;

        if (c->crowd < CROWD || c->stopping)
                return;
        nap(c, c->told_us + gather_us - clock_monotonic_us());
        while (!c->stopping && c->open_waiters.n >= before + CROWD_STEP &&
               clock_monotonic_us() - c->told_us < gather_us * 3) {
                before = c->open_waiters.n;
                nap(c, gather_us / 4);
        }
}

static void *run(void *committer)
{
        struct committer *c = committer;

        (void)pthread_mutex_lock(&c->lock);
        while (wait_for_work(c)) {
                let_crowd_gather(c);
                if (!write_one(c)) {
                        log_error("database-ends-unwritten", LOG_CSTR("path", c->path));
                        break;
                }
        }
        (void)pthread_mutex_unlock(&c->lock);
        return NULL;
}

/* --- beginning and end --- */

void committer_init(struct committer *c, const struct committer_ops *ops, void *store)
{
        pthread_condattr_t monotonic;

        *c = (struct committer){.ops = ops, .store = store, .open_seq = 1};
        c->open_waiters.end = &c->open_waiters.first;
        c->flight_waiters.end = &c->flight_waiters.first;
        (void)pthread_mutex_init(&c->lock, NULL);
        (void)pthread_condattr_init(&monotonic);
        (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&c->work, &monotonic);
        (void)pthread_condattr_destroy(&monotonic);
}

static int wal_grew(void *committer, sqlite3 *db, const char *name, int pages)
{
        struct committer *c = committer;

        (void)db;
        (void)name;
        c->wal_pages = pages;
        return SQLITE_OK;
}

int committer_open(struct committer *c, const char *dir, const char *path,
                   const struct committer_options *options, struct buf *ret_problem)
{
        c->options = *options;
        c->dir = dir;
        c->path = path;
        return sqlite_db_open(path, SQLITE_DB_WRITE, options->vfs, &c->db, ret_problem);
}

static int prepare(struct committer *c, struct buf *ret_problem)
{
        static const char *const sql[] = {"BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"};
        sqlite3_stmt **const statements[] = {&c->begin, &c->commit, &c->rollback};

        for (int i = 0; i < 3; i++) {
                int code =
                        sqlite3_prepare_v3(c->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, statements[i], NULL);

                if (code != SQLITE_OK)
                        return sqlite_db_problem(c->db, code, c->path, ret_problem);
        }
        /* Dirty pages of a batch stay in memory up to here, then go to the log early. */
        (void)sqlite3_exec(c->db, "PRAGMA cache_size=-8192", NULL, NULL, NULL);
        (void)sqlite3_wal_hook(c->db, wal_grew, c);
        return 0;
}

int committer_start(struct committer *c, struct buf *ret_problem)
{
        int r = prepare(c, ret_problem);

        if (r == 0)
                r = checkpointer_start(&c->checkpointer, c->path, c->options.vfs, ret_problem);
        if (r < 0)
                return r;
        check_space(c);
        if (pthread_create(&c->thread, NULL, run, c) != 0)
                return LESSOR_E_NOMEM;
        c->is_running = true;
        return 0;
}

void committer_stop(struct committer *c)
{
        if (c->is_running) {
                (void)pthread_mutex_lock(&c->lock);
                c->stopping = true;
                (void)pthread_cond_signal(&c->work);
                (void)pthread_mutex_unlock(&c->lock);
                (void)pthread_join(c->thread, NULL);
                c->is_running = false;
        }
        checkpointer_stop(&c->checkpointer);
}

void committer_done(struct committer *c)
{
        struct waiter *w;

        (void)sqlite3_finalize(c->begin);
        (void)sqlite3_finalize(c->commit);
        (void)sqlite3_finalize(c->rollback);
        (void)sqlite3_close(c->db);
        while ((w = c->spare_waiters) != NULL) {
                c->spare_waiters = w->next;
                free(w);
        }
        (void)pthread_cond_destroy(&c->work);
        (void)pthread_mutex_destroy(&c->lock);
}
