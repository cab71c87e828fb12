/* SPDX-License-Identifier: MIT */
/*
 * The thread that writes. It takes all that was decided while the last commit was under way as the next
 * batch, commits it, and then tells those who waited for it.
 *
 * When a batch cannot be written, everybody who waits is told that it could not, and the store refuses
 * everything until the same batch has been written after all: it is kept and tried again, after a pause that
 * doubles, or as soon as somebody asks for something. So nothing that was decided is ever forgotten or
 * reordered, and nothing that was not written is ever told.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "routing/sqlite_internal.h"
#include "routing/sqlite_schema.h"

#define RETRY_MAX_MS     5000
#define RETRY_MIN_GAP_MS 20 /* between attempts, however many ask */
#define SPACE_CHECK_MS   1000
#define CROWD            12   /* so many waited for one commit */
#define CROWD_GAP_US     2000 /* then the next one begins this long after it */

/* --- waiting --- */

static void waiters_add(struct waiters *list, struct waiter *w)
{
        w->next = NULL;
        *list->end = w;
        list->end = &w->next;
}

static void waiters_move(struct waiters *from, struct waiters *to)
{
        if (from->first == NULL)
                return;
        *to->end = from->first;
        to->end = from->end;
        from->first = NULL;
        from->end = &from->first;
}

/*
 * Tells all of a list, outside the lock, and returns how many. A waiter on its owner's stack is gone once it
 * is told.
 */
static size_t waiters_tell(struct sqlite_store *s, struct waiters *list, int result)
{
        struct waiter *w, *next, *spare = NULL;
        size_t n = 0;

        for (w = list->first; w != NULL; w = next, n++) {
                void (*told)(void *, int) = w->told;
                void *context = w->context;

                next = w->next;
                if (w->on_heap) {
                        w->next = spare;
                        spare = w;
                }
                told(context, result);
        }
        list->first = NULL;
        list->end = &list->first;
        if (spare == NULL)
                return n;
        (void)pthread_mutex_lock(&s->lock);
        for (w = spare; w != NULL; w = next) {
                next = w->next;
                w->next = s->spare_waiters;
                s->spare_waiters = w;
        }
        (void)pthread_mutex_unlock(&s->lock);
        return n;
}

/* Lists a waiter with the batch that its ticket is of. False: the batch is on disk already. Lock held. */
static bool enlist(struct sqlite_store *s, struct lessor_ticket ticket, struct waiter *w)
{
        if (atomic_load(&s->durable) >= ticket.seq)
                return false;
        waiters_add(s->writing && !s->failing && ticket.seq < s->open_seq ? &s->flight_waiters
                                                                          : &s->open_waiters,
                    w);
        /* While the disk fails, the writer tells whoever comes that it does. */
        if (s->failing)
                writer_wake(s);
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

int writer_wait(struct sqlite_store *s, struct lessor_ticket ticket)
{
        struct sync_wait wait = {.lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};
        struct waiter w = {.told = sync_told, .context = &wait};
        bool listed;

        if (atomic_load(&s->durable) >= ticket.seq)
                return 0;
        (void)pthread_mutex_lock(&s->lock);
        listed = enlist(s, ticket, &w);
        (void)pthread_mutex_unlock(&s->lock);
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

int writer_when_durable(struct sqlite_store *s, struct lessor_ticket ticket,
                        void (*told)(void *context, int result), void *context)
{
        struct waiter *w;
        bool listed;
        int r;

        if (atomic_load(&s->durable) >= ticket.seq)
                return 1;
        (void)pthread_mutex_lock(&s->lock);
        w = s->spare_waiters;
        if (w != NULL)
                s->spare_waiters = w->next;
        else
                w = malloc(sizeof(*w));
        if (w == NULL) {
                /* No memory to wait elsewhere: wait here, and tell from here if the disk fails as well. */
                (void)pthread_mutex_unlock(&s->lock);
                r = writer_wait(s, ticket);
                if (r == 0)
                        return 1;
                told(context, r);
                return 0;
        }
        *w = (struct waiter){.told = told, .context = context, .on_heap = true};
        listed = enlist(s, ticket, w);
        if (!listed) {
                w->next = s->spare_waiters;
                s->spare_waiters = w;
        }
        (void)pthread_mutex_unlock(&s->lock);
        return listed ? 0 : 1;
}

void writer_wake(struct sqlite_store *s)
{
        if (s->failing)
                s->kicked = true;
        if (s->idle)
                (void)pthread_cond_signal(&s->work);
}

/* --- the disk --- */

static uint64_t free_bytes(const struct sqlite_store *s)
{
        struct statvfs st;

        if (s->options.free_bytes != NULL)
                return s->options.free_bytes(s->options.free_context);
        if (statvfs(s->dir, &st) != 0)
                return UINT64_MAX; /* not knowing is no reason to refuse */
        return (uint64_t)st.f_bavail * st.f_frsize;
}

/* At every batch: it costs next to nothing beside one, and within a second a disk can fill. */
void writer_check_space(struct sqlite_store *s)
{
        bool low = free_bytes(s) < s->options.low_space_bytes;
        if (atomic_exchange(&s->low_space, low) == low)
                return;
        if (low)
                log_warning("routing-low-space", LOG_CSTR("dir", s->dir),
                            LOG_INT("mark_bytes", (int64_t)s->options.low_space_bytes));
        else
                log_info("routing-low-space-over", LOG_CSTR("dir", s->dir));
}

/*
 * See sqlite_checkpoint.c. A log that could not start over, since somebody reads in it (a backup), is left
 * alone until it has grown as much again.
 */
static void fold_log(struct sqlite_store *s)
{
        if (s->wal_pages < s->wal_folded)
                s->wal_folded = 0;
        if (s->wal_pages - s->wal_folded < (int)s->options.checkpoint_pages)
                return;
        if (atomic_exchange(&s->checkpointer.copied, false)) {
                (void)sqlite3_wal_checkpoint_v2(s->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
                s->wal_folded = s->wal_pages;
        } else {
                checkpointer_want(&s->checkpointer);
        }
}

/* --- the thread --- */

static void sleep_until(struct sqlite_store *s, int64_t monotonic_ms)
{
        s->idle = true;
        if (monotonic_ms == INT64_MAX) {
                (void)pthread_cond_wait(&s->work, &s->lock);
        } else {
                const struct timespec at = {.tv_sec = (time_t)(monotonic_ms / 1000),
                                            .tv_nsec = (long)(monotonic_ms % 1000) * 1000000};

                (void)pthread_cond_timedwait(&s->work, &s->lock, &at);
        }
        s->idle = false;
}

/* Waits until a batch is worth making. False: the store ends and everything is written. Lock held. */
static bool wait_for_work(struct sqlite_store *s)
{
        for (;;) {
                int64_t now_ms = clock_monotonic_ms();
                int64_t until_ms = INT64_MAX;

                if (store_has_changes(s) || s->open_waiters.first != NULL)
                        return true;
                if (s->lazy_first != NULL && (s->stopping || s->lazy_due_ms <= now_ms))
                        return true;
                if (s->stopping)
                        return false;
                if (s->lazy_first != NULL)
                        until_ms = s->lazy_due_ms;
                if (atomic_load(&s->low_space) && now_ms + SPACE_CHECK_MS < until_ms)
                        until_ms = now_ms + SPACE_CHECK_MS;
                sleep_until(s, until_ms);
                if (atomic_load(&s->low_space)) {
                        (void)pthread_mutex_unlock(&s->lock);
                        writer_check_space(s);
                        (void)pthread_mutex_lock(&s->lock);
                }
        }
}

/* Everybody who waits is told no. Lock held, but not while they are told. */
static void tell_failure(struct sqlite_store *s)
{
        struct waiters waiters = {.end = &waiters.first};

        waiters_move(&s->flight_waiters, &waiters);
        waiters_move(&s->open_waiters, &waiters);
        if (waiters.first == NULL)
                return;
        (void)pthread_mutex_unlock(&s->lock);
        waiters_tell(s, &waiters, LESSOR_E_UNAVAILABLE);
        (void)pthread_mutex_lock(&s->lock);
}

/* A failed attempt: whoever waits, or comes now, is told no, until a pause is over or somebody asks. Lock
 * held. */
static void fail_and_pause(struct sqlite_store *s, int error, int64_t *pause_ms)
{
        int64_t failed_ms = clock_monotonic_ms();
        int64_t until_ms = failed_ms + *pause_ms;

        if (!s->failing)
                log_error("routing-store-failing", LOG_CSTR("path", s->path), LOG_ERROR_CODE(error));
        s->failing = true;
        s->kicked = false;
        *pause_ms = *pause_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : *pause_ms * 2;
        for (;;) {
                tell_failure(s);
                if (s->kicked && failed_ms + RETRY_MIN_GAP_MS < until_ms)
                        until_ms = failed_ms + RETRY_MIN_GAP_MS;
                if (s->stopping || clock_monotonic_ms() >= until_ms)
                        return;
                if (s->open_waiters.first == NULL)
                        sleep_until(s, until_ms);
        }
}

/* Tells what happened to those who listen. Writer thread, no lock. */
static void tell_events(const struct sqlite_store *s)
{
        const struct lessor_routing_listener *l = &s->base.listener;

        for (const struct batch_event *b = s->batch.events; b != NULL; b = b->next) {
                switch (b->event.what) {
                case ENGINE_EVENT_AWAITING:
                        if (l->awaiting != NULL)
                                l->awaiting(l->context, b->event.site_id);
                        break;
                case ENGINE_EVENT_FINISHED:
                        if (l->finished != NULL)
                                l->finished(l->context, b->event.site_id);
                        break;
                case ENGINE_EVENT_CHURN:
                        if (l->churn != NULL)
                                l->churn(l->context, &b->event.churn);
                        break;
                }
        }
}

/* Collects and writes one batch until it is on disk. False: the store ends and it could not be. Lock held. */
static bool write_one(struct sqlite_store *s)
{
        struct waiters waiters = {.end = &waiters.first};
        int64_t pause_ms = s->options.retry_ms;
        int r;

        s->batch.seq = s->open_seq;
        for (;;) {
                bool last_try = s->stopping;

                r = batch_collect(s, clock_monotonic_ms(), clock_now_ms(s->clock));
                if (r == 0 && !s->writing) {
                        s->open_seq++;
                        s->writing = true;
                        waiters_move(&s->open_waiters, &s->flight_waiters);
                }
                if (r == 0) {
                        (void)pthread_mutex_unlock(&s->lock);
                        writer_check_space(s);
                        r = batch_write(s);
                        (void)pthread_mutex_lock(&s->lock);
                }
                if (r == 0)
                        break;
                fail_and_pause(s, r, &pause_ms);
                if (last_try)
                        return false;
        }
        atomic_store(&s->durable, s->batch.seq);
        s->writing = false;
        if (s->failing)
                log_info("routing-store-recovered", LOG_CSTR("path", s->path));
        s->failing = s->kicked = false;
        waiters_move(&s->flight_waiters, &waiters);
        (void)pthread_mutex_unlock(&s->lock);
        s->crowd = waiters_tell(s, &waiters, 0);
        s->told_us = clock_monotonic_us();
        tell_events(s);
        fold_log(s);
        (void)pthread_mutex_lock(&s->lock);
        batch_clear(s);
        return true;
}

/*
 * Lets the next batch grow when a crowd waited for the last one: what a commit costs is much the same however
 * many share it, and under such a load the processor has other things to do meanwhile. Where few wait nobody
 * is held up. Lock held, but not meanwhile.
 */
static void let_crowd_gather(struct sqlite_store *s)
{
        int64_t left_us = s->told_us + CROWD_GAP_US - clock_monotonic_us();
        const struct timespec gap = {.tv_nsec = (long)left_us * 1000};

        if (s->crowd < CROWD || left_us <= 0 || s->stopping)
                return;
        (void)pthread_mutex_unlock(&s->lock);
        (void)nanosleep(&gap, NULL);
        (void)pthread_mutex_lock(&s->lock);
}

void *writer_run(void *store)
{
        struct sqlite_store *s = store;

        (void)pthread_mutex_lock(&s->lock);
        while (wait_for_work(s)) {
                let_crowd_gather(s);
                if (!write_one(s)) {
                        log_error("routing-store-ends-unwritten", LOG_CSTR("path", s->path));
                        break;
                }
        }
        (void)pthread_mutex_unlock(&s->lock);
        return NULL;
}
