/* SPDX-License-Identifier: MIT */
#include "plane/housekeeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "plane/attempt_log.h"
#include "plane/collection.h"

/* From one look for uploads that nobody wants to the next, and their least age: by then a receipt is written
 * down or lost. */
#define SWEEP_STAGED_MS     600000
#define SWEEP_STAGED_AGE_MS 900000

/* The same for logs, which can be had as long as their lease is kept, and this much longer. */
#define SWEEP_LOGS_MS     3600000
#define SWEEP_LOGS_AGE_MS 86400000

/* Chores that wait, at most; beyond it they are dropped and left to the sweeps. */
#define CHORES_MAX 1048576

enum chore_kind {
        CHORE_SAY,     /* on the attempt's stderr why it ended */
        CHORE_DISCARD, /* an upload: its receipt is in `text` */
        CHORE_FORGET,  /* an attempt's logs */
        CHORE_CHECK,   /* a lease's transfers: its id is in `text` */
};

/* One thing to do. Texts lie behind it. */
struct chore {
        struct chore *next;
        enum chore_kind kind;
        struct lessor_slice repo;
        struct lessor_slice task_hash;
        struct lessor_slice inputs_hash;
        struct lessor_slice execution_id;
        struct lessor_slice text;
};

struct housekeeper {
        struct housekeeper_options options;
        struct housekeeper_parts parts;
        pthread_t thread;
        bool running;
        pthread_mutex_t lock;
        pthread_cond_t changed; /* on the monotonic clock */
        struct chore *first, **last;
        size_t n;
        size_t n_dropped;
        uint64_t n_heard, n_done;
        bool stopping;
        bool deaf;                                            /* the thread has ended */
        int64_t sweep_at_ms, sweep_logs_at_ms, collect_at_ms; /* monotonic; INT64_MAX: never */
};

/* --- Hearing --- */

static struct lessor_slice put_behind(char **at, struct lessor_slice text)
{
        char *from = *at;

        if (text.n > 0)
                memcpy(from, text.p, text.n);
        *at += text.n;
        return (struct lessor_slice){from, text.n};
}

static struct chore *chore_new(enum chore_kind kind, const struct lessor_lease_event *event,
                               struct lessor_slice text)
{
        size_t n = event->name.repo.n + event->task_hash.n + event->inputs_hash.n + event->execution_id.n +
                   text.n;
        struct chore *chore = malloc(sizeof(*chore) + n);
        char *at;

        if (chore == NULL)
                return NULL;
        at = (char *)(chore + 1);
        *chore = (struct chore){.kind = kind};
        chore->repo = put_behind(&at, event->name.repo);
        chore->task_hash = put_behind(&at, event->task_hash);
        chore->inputs_hash = put_behind(&at, event->inputs_hash);
        chore->execution_id = put_behind(&at, event->execution_id);
        chore->text = put_behind(&at, text);
        return chore;
}

static void add_chore(struct housekeeper *house, enum chore_kind kind, const struct lessor_lease_event *event,
                      struct lessor_slice text)
{
        struct chore *chore = chore_new(kind, event, text);

        pthread_mutex_lock(&house->lock);
        if (chore == NULL || house->n >= CHORES_MAX || house->deaf) {
                house->n_dropped++;
                free(chore);
        } else {
                *house->last = chore;
                house->last = &chore->next;
                house->n++;
                house->n_heard++;
                pthread_cond_broadcast(&house->changed);
        }
        pthread_mutex_unlock(&house->lock);
}

/* What may have ended a claim, and with it the capabilities. */
static bool may_revoke(enum lessor_lease_event_kind kind)
{
        return kind != LESSOR_EVENT_EXTENDED && kind != LESSOR_EVENT_RACK && kind != LESSOR_EVENT_POLICY;
}

static void hear(void *context, const struct lessor_lease_event *event)
{
        struct housekeeper *house = context;

        switch (event->kind) {
        case LESSOR_EVENT_ATTEMPT_ENDED:
                /* A grant that nobody got has written nothing, and is not worth a log. */
                if (event->execution_id.p != NULL && event->cause != LESSOR_CAUSE_UNDELIVERED)
                        add_chore(house, CHORE_SAY, event,
                                  event->reason.n > 0 ? event->reason
                                                      : lessor_slice_of(attempt_cause(event->cause)));
                break;
        case LESSOR_EVENT_DISCARDED:
                add_chore(house, CHORE_DISCARD, event, event->receipt);
                break;
        case LESSOR_EVENT_FORGOTTEN:
                if (event->execution_id.p != NULL)
                        add_chore(house, CHORE_FORGET, event, (struct lessor_slice){0});
                break;
        default:
                if (may_revoke(event->kind) && transfers_of(house->parts.transfers, &event->name))
                        add_chore(house, CHORE_CHECK, event, event->name.lease_id);
                break;
        }
}

/* --- Doing --- */

static void do_chore(struct housekeeper *house, const struct chore *chore)
{
        static const char *const names[] = {[CHORE_SAY] = "say",
                                            [CHORE_DISCARD] = "discard",
                                            [CHORE_FORGET] = "forget",
                                            [CHORE_CHECK] = "check"};
        const struct log_key key = {chore->repo, chore->task_hash, chore->inputs_hash, chore->execution_id};
        int e = 0;

        switch (chore->kind) {
        case CHORE_SAY:
                e = attempt_say(house->parts.logs, house->parts.log_watch, &key, chore->text);
                break;
        case CHORE_DISCARD:
                e = lessor_object_discard(house->parts.objects, chore->repo, chore->text);
                break;
        case CHORE_FORGET:
                e = log_files_remove(house->parts.logs, &key);
                break;
        case CHORE_CHECK:
                transfers_check(house->parts.transfers, house->parts.store,
                                &(struct lessor_lease_name){chore->repo, chore->text});
                break;
        }
        if (e < 0)
                log_warning("rack-chore-failed", LOG_CSTR("chore", names[chore->kind]),
                            LOG_TEXT("repo", chore->repo), LOG_TEXT("attempt", chore->execution_id),
                            LOG_ERROR_CODE(e));
}

static int wants(void *context, struct lessor_slice repo, struct lessor_slice receipt)
{
        struct housekeeper *house = context;
        struct lessor_ticket ticket;
        bool wanted;
        int e = lessor_capability_wants(house->parts.store, receipt, &wanted, &ticket);

        (void)repo;
        return e < 0 ? e : wanted;
}

static void sweep_staged(struct housekeeper *house)
{
        size_t n = 0;
        int e = lessor_object_sweep_staged(house->parts.objects, SWEEP_STAGED_AGE_MS, wants, house, &n);

        if (e < 0)
                log_warning("uploads-not-swept", LOG_ERROR_CODE(e));
        else if (n > 0)
                log_info("uploads-swept", LOG_INT("uploads", (int64_t)n));
}

/* Whether there is a lease that the log may be of. One that was ended while it waited is not found, but its
 * log has its age by then. */
static int wants_log(void *context, const struct log_key *key)
{
        struct housekeeper *house = context;
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_ticket ticket;
        struct lessor_lease lease;
        int e;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        e = lessor_lease_find(house->parts.store, key->repo, key->task_hash, key->inputs_hash, 0, arena,
                              &lease, &ticket);
        lessor_arena_free(arena);
        return e == LESSOR_E_NOT_FOUND ? 0 : e < 0 ? e : 1;
}

static void sweep_logs(struct housekeeper *house)
{
        size_t n = 0;
        int e = log_files_sweep(house->parts.logs, house->options.retention_ms + SWEEP_LOGS_AGE_MS, wants_log,
                                house, &n);

        if (e < 0)
                log_warning("logs-not-swept", LOG_ERROR_CODE(e));
        else if (n > 0)
                log_info("logs-swept", LOG_INT("attempts", (int64_t)n));
}

static void collect(struct housekeeper *house)
{
        struct lessor_object_collected collected;
        int e = collection_run(house->parts.objects, house->parts.store, house->options.collect_grace_ms,
                               false, &collected);

        if (e < 0)
                log_warning("objects-not-collected", LOG_ERROR_CODE(e));
        else if (collected.n_removed > 0 || collected.n_missing > 0)
                log_info("objects-collected", LOG_INT("removed", (int64_t)collected.n_removed),
                         LOG_INT("bytes", collected.removed_bytes),
                         LOG_INT("missing", (int64_t)collected.n_missing));
}

/* --- The thread --- */

static int64_t after(int64_t interval_ms)
{
        return clock_monotonic_ms() + interval_ms;
}

/* Without the lock. What the clock says is due. */
static void do_regular(struct housekeeper *house)
{
        if (house->sweep_at_ms <= clock_monotonic_ms()) {
                sweep_staged(house);
                house->sweep_at_ms = after(SWEEP_STAGED_MS);
        }
        if (house->sweep_logs_at_ms <= clock_monotonic_ms()) {
                sweep_logs(house);
                house->sweep_logs_at_ms = after(SWEEP_LOGS_MS);
        }
        if (house->collect_at_ms <= clock_monotonic_ms()) {
                collect(house);
                house->collect_at_ms = after(house->options.collect_ms);
        }
}

/* With the lock. Until there is a chore, or it is time for something. */
static void wait_for_work(struct housekeeper *house)
{
        int64_t at_ms = house->sweep_at_ms;
        struct timespec until;

        if (house->sweep_logs_at_ms < at_ms)
                at_ms = house->sweep_logs_at_ms;
        if (house->collect_at_ms < at_ms)
                at_ms = house->collect_at_ms;
        until = (struct timespec){.tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (at_ms % 1000) * 1000000};

        while (house->first == NULL && !house->stopping && clock_monotonic_ms() < at_ms)
                pthread_cond_timedwait(&house->changed, &house->lock, &until);
}

/* With the lock, which is given up meanwhile. Takes all that wait and does them. */
static void do_chores(struct housekeeper *house)
{
        struct chore *chore = house->first;
        uint64_t n = house->n;

        house->first = NULL;
        house->last = &house->first;
        house->n = 0;
        if (house->n_dropped > 0)
                log_warning("rack-chores-dropped", LOG_INT("chores", (int64_t)house->n_dropped));
        house->n_dropped = 0;
        pthread_mutex_unlock(&house->lock);
        while (chore != NULL) {
                struct chore *next = chore->next;

                do_chore(house, chore);
                free(chore);
                chore = next;
        }
        pthread_mutex_lock(&house->lock);
        house->n_done += n;
        pthread_cond_broadcast(&house->changed);
}

static void *run(void *context)
{
        struct housekeeper *house = context;

        pthread_mutex_lock(&house->lock);
        while (!house->stopping || house->first != NULL) {
                if (house->first != NULL) {
                        do_chores(house);
                        continue;
                }
                pthread_mutex_unlock(&house->lock);
                do_regular(house);
                pthread_mutex_lock(&house->lock);
                wait_for_work(house);
        }
        house->deaf = true;
        pthread_cond_broadcast(&house->changed);
        pthread_mutex_unlock(&house->lock);
        return NULL;
}

/* --- Life --- */

static void init_condition(pthread_cond_t *condition)
{
        pthread_condattr_t attributes;

        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(condition, &attributes);
        pthread_condattr_destroy(&attributes);
}

int housekeeper_new(const struct housekeeper_options *options, const struct housekeeper_parts *parts,
                    struct housekeeper **ret_house)
{
        struct housekeeper *house = calloc(1, sizeof(*house));
        int e;

        if (house == NULL)
                return LESSOR_E_NOMEM;
        house->options = *options;
        house->parts = *parts;
        house->last = &house->first;
        house->sweep_at_ms = house->sweep_logs_at_ms = clock_monotonic_ms();
        house->collect_at_ms = options->collect_ms > 0 ? after(options->collect_ms) : INT64_MAX;
        pthread_mutex_init(&house->lock, NULL);
        init_condition(&house->changed);
        /* The thread first: a listener cannot be taken back. */
        house->running = pthread_create(&house->thread, NULL, run, house) == 0;
        e = house->running ? rack_events_add(parts->events, hear, house) : LESSOR_E_NOMEM;
        if (e < 0) {
                housekeeper_free(house);
                return e;
        }
        *ret_house = house;
        return 0;
}

void housekeeper_settle(struct housekeeper *house)
{
        uint64_t heard;

        pthread_mutex_lock(&house->lock);
        heard = house->n_heard;
        while (house->n_done < heard && !house->deaf)
                pthread_cond_wait(&house->changed, &house->lock);
        pthread_mutex_unlock(&house->lock);
}

void housekeeper_stop(struct housekeeper *house)
{
        if (house == NULL || !house->running)
                return;
        pthread_mutex_lock(&house->lock);
        house->stopping = true;
        pthread_cond_broadcast(&house->changed);
        pthread_mutex_unlock(&house->lock);
        pthread_join(house->thread, NULL);
        house->running = false;
}

struct housekeeper *housekeeper_free(struct housekeeper *house)
{
        if (house == NULL)
                return NULL;
        housekeeper_stop(house);
        for (struct chore *chore = house->first, *next; chore != NULL; chore = next) {
                next = chore->next;
                free(chore);
        }
        pthread_cond_destroy(&house->changed);
        pthread_mutex_destroy(&house->lock);
        free(house);
        return NULL;
}
