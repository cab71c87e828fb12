/* SPDX-License-Identifier: MIT */
#include "plane/event_feed.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/macro.h"
#include "base/uuid.h"
#include "plane/control_lease_json.h"

/* How many are looked at while the lock is held. */
#define LOOK_AT 512u

static const char *const type_names[N_EVENT_TYPES] = {
        [EVENT_SERVER_STARTED] = "server.started",
        [EVENT_LEASE_CLAIMABLE] = "lease.claimable",
        [EVENT_LEASE_CLAIMED] = "lease.claimed",
        [EVENT_LEASE_COMPLETED] = "lease.completed",
        [EVENT_LEASE_LOST] = "lease.lost",
        [EVENT_LEASE_CANCELLED] = "lease.cancelled",
        [EVENT_LEASE_SUPERSEDED] = "lease.superseded",
        [EVENT_LEASE_POISONED] = "lease.poisoned",
        [EVENT_LEASE_EXPIRED] = "lease.expired",
        [EVENT_ATTEMPT_ENDED] = "attempt.ended",
        [EVENT_RACK_CHANGED] = "rack.changed",
        [EVENT_RACK_REMOVED] = "rack.removed",
        [EVENT_POLICY_CHANGED] = "policy.changed",
};

/* The texts of an event, in the order in which an entry keeps them. */
enum {
        TEXT_REPO,
        TEXT_LEASE,
        TEXT_RUN,
        TEXT_RACK,
        TEXT_OWNER,
        TEXT_TIER,
        TEXT_ATTEMPT,
        TEXT_REASON,
        N_TEXTS
};
static const char *const text_names[N_TEXTS] = {"repo",  "lease", "run",     "rack",
                                                "owner", "tier",  "attempt", "reason"};

struct entry {
        enum event_type type;
        int64_t at_ms;
        unsigned claim_number;
        enum lessor_cause cause;
        struct lessor_slice texts[N_TEXTS]; /* in `memory` */
        char *memory;                       /* kept for the next that comes here */
        size_t memory_len;
};

struct event_feed {
        pthread_mutex_t lock;
        char boot[UUID_TEXT_LEN + 1]; /* told apart by this: each server's feed is another */
        uint64_t head;                /* number of the newest */
        struct buf scratch;
        size_t n_listeners;
        struct {
                void (*news)(void *context);
                void *context;
        } listeners[EVENT_FEED_LISTENERS];
        struct entry ring[LIMIT_EVENTS]; /* event n is at n % LIMIT_EVENTS */
};

const char *event_type_name(enum event_type type)
{
        return type_names[type];
}

int event_type_number(struct lessor_slice name)
{
        for (int i = 0; i < N_EVENT_TYPES; i++)
                if (lessor_slice_equal(name, lessor_slice_of(type_names[i])))
                        return i;
        return -1;
}

/* -1: nobody is told. */
static int type_of(const struct lessor_lease_event *event)
{
        switch (event->kind) {
        case LESSOR_EVENT_CLAIMABLE:
                return EVENT_LEASE_CLAIMABLE;
        case LESSOR_EVENT_CLAIMED:
                return EVENT_LEASE_CLAIMED;
        case LESSOR_EVENT_COMPLETED:
                return EVENT_LEASE_COMPLETED;
        case LESSOR_EVENT_LOST:
                return EVENT_LEASE_LOST;
        case LESSOR_EVENT_CANCELLED:
                return EVENT_LEASE_CANCELLED;
        case LESSOR_EVENT_SUPERSEDED:
                return EVENT_LEASE_SUPERSEDED;
        case LESSOR_EVENT_POISONED:
                return EVENT_LEASE_POISONED;
        case LESSOR_EVENT_EXPIRED:
                return EVENT_LEASE_EXPIRED;
        case LESSOR_EVENT_ATTEMPT_ENDED:
                return EVENT_ATTEMPT_ENDED;
        case LESSOR_EVENT_RACK:
                return event->gone ? EVENT_RACK_REMOVED : EVENT_RACK_CHANGED;
        case LESSOR_EVENT_POLICY:
                return EVENT_POLICY_CHANGED;
        case LESSOR_EVENT_EXTENDED:
        case LESSOR_EVENT_FORGOTTEN:
        case LESSOR_EVENT_DISCARDED:
                break;
        }
        return -1;
}

/* Makes room in an entry. Without memory the event keeps its type and its time, and loses its texts. */
static bool entry_reserve(struct entry *e, size_t n)
{
        char *memory;

        if (n <= e->memory_len)
                return true;
        memory = realloc(e->memory, n);
        if (memory == NULL)
                return false;
        e->memory = memory;
        e->memory_len = n;
        return true;
}

static void entry_put(struct entry *e, const struct lessor_slice from[N_TEXTS])
{
        size_t n = 0;

        memset(e->texts, 0, sizeof(e->texts));
        for (size_t i = 0; i < N_TEXTS; i++)
                n += from[i].n;
        if (!entry_reserve(e, n + 1))
                return;
        n = 0;
        for (size_t i = 0; i < N_TEXTS; i++) {
                if (from[i].p == NULL)
                        continue;
                memcpy(e->memory + n, from[i].p, from[i].n);
                e->texts[i] = (struct lessor_slice){e->memory + n, from[i].n};
                n += from[i].n;
        }
}

static void add(struct event_feed *feed, int type, const struct lessor_lease_event *event)
{
        const struct lessor_slice texts[N_TEXTS] = {event->name.repo,    event->name.lease_id, event->run,
                                                    event->rack_id,      event->owner,         event->tier,
                                                    event->execution_id, event->reason};
        struct entry *e;

        pthread_mutex_lock(&feed->lock);
        e = &feed->ring[++feed->head % LIMIT_EVENTS];
        e->type = (enum event_type)type;
        e->at_ms = clock_now_ms(clock_wall());
        e->claim_number = event->claim_number;
        e->cause = event->cause;
        entry_put(e, texts);
        pthread_mutex_unlock(&feed->lock);
        for (size_t i = 0; i < feed->n_listeners; i++)
                feed->listeners[i].news(feed->listeners[i].context);
}

void event_feed_happened(void *context, const struct lessor_lease_event *event)
{
        int type = type_of(event);

        if (type >= 0)
                add(context, type, event);
}

struct event_feed *event_feed_new(void)
{
        struct event_feed *feed = calloc(1, sizeof(*feed));

        if (feed == NULL)
                return NULL;
        pthread_mutex_init(&feed->lock, NULL);
        uuid_v7(clock_now_ms(clock_wall()), feed->boot);
        add(feed, EVENT_SERVER_STARTED, &(struct lessor_lease_event){0});
        return feed;
}

struct event_feed *event_feed_free(struct event_feed *feed)
{
        if (feed == NULL)
                return NULL;
        for (size_t i = 0; i < LIMIT_EVENTS; i++)
                free(feed->ring[i].memory);
        buf_done(&feed->scratch);
        pthread_mutex_destroy(&feed->lock);
        free(feed);
        return NULL;
}

void event_feed_listen(struct event_feed *feed, void (*news)(void *context), void *context)
{
        if (feed->n_listeners == EVENT_FEED_LISTENERS)
                return;
        feed->listeners[feed->n_listeners].news = news;
        feed->listeners[feed->n_listeners].context = context;
        feed->n_listeners++;
}

/* --- Places --- */

/* The first part of the feed's id is enough: it is the time at which it began. */
#define BOOT_LEN 13

void event_feed_id(const struct event_feed *feed, uint64_t seq, char ret_id[EVENT_ID_LEN + 1])
{
        snprintf(ret_id, EVENT_ID_LEN + 1, "%.*s-%" PRIu64, BOOT_LEN, feed->boot, seq);
}

bool event_feed_find(const struct event_feed *feed, struct lessor_slice id, uint64_t *ret_seq)
{
        uint64_t seq = 0;

        if (lessor_slice_equal(id, LESSOR_SLICE("oldest"))) {
                *ret_seq = 0;
                return true;
        }
        if (id.n < BOOT_LEN + 2 || id.n > EVENT_ID_LEN - 2 || memcmp(id.p, feed->boot, BOOT_LEN) != 0 ||
            id.p[BOOT_LEN] != '-')
                return false;
        for (size_t i = BOOT_LEN + 1; i < id.n; i++) {
                if (id.p[i] < '0' || id.p[i] > '9' || seq > UINT64_MAX / 10 - 1)
                        return false;
                seq = seq * 10 + (uint64_t)(id.p[i] - '0');
        }
        *ret_seq = seq;
        return true;
}

uint64_t event_feed_head(struct event_feed *feed)
{
        uint64_t head;

        pthread_mutex_lock(&feed->lock);
        head = feed->head;
        pthread_mutex_unlock(&feed->lock);
        return head;
}

/* --- Reading; lock held --- */

static bool matches(struct lessor_slice wanted, struct lessor_slice text)
{
        return wanted.p == NULL || (text.p != NULL && lessor_slice_equal(wanted, text));
}

static bool is_wanted(const struct entry *e, const struct event_filter *filter)
{
        if (filter->types != 0 && (filter->types & (UINT32_C(1) << e->type)) == 0)
                return false;
        if (e->type == EVENT_SERVER_STARTED) /* everybody has missed something */
                return true;
        return matches(filter->repo, e->texts[TEXT_REPO]) && matches(filter->lease, e->texts[TEXT_LEASE]) &&
               matches(filter->run, e->texts[TEXT_RUN]) && matches(filter->rack, e->texts[TEXT_RACK]);
}

static void tell(struct event_feed *feed, uint64_t seq, event_take *take, void *context)
{
        const struct entry *e = &feed->ring[seq % LIMIT_EVENTS];
        char id[EVENT_ID_LEN + 1];
        struct json_writer w;

        event_feed_id(feed, seq, id);
        buf_clear(&feed->scratch);
        json_writer_init(&w, &feed->scratch);
        json_open_object(&w);
        json_member_cstr(&w, "id", id);
        json_member_int(&w, "at", e->at_ms);
        json_member_cstr(&w, "type", type_names[e->type]);
        for (size_t i = 0; i < N_TEXTS; i++)
                json_member_text(&w, text_names[i], e->texts[i]);
        if (e->claim_number > 0)
                json_member_int(&w, "claimNumber", e->claim_number);
        if (e->cause != LESSOR_CAUSE_NONE)
                json_member_cstr(&w, "cause", message_word(&lease_cause_words, (int)e->cause));
        json_close_object(&w);
        if (buf_failed(&feed->scratch) == 0)
                take(context, lessor_slice_of(id), type_names[e->type], buf_view(&feed->scratch));
}

static void tell_gap(uint64_t missed, event_take *take, void *context)
{
        char json[48];

        snprintf(json, sizeof(json), "{\"missed\":%" PRIu64 "}", missed);
        take(context, (struct lessor_slice){0}, "gap", lessor_slice_of(json));
}

bool event_feed_read(struct event_feed *feed, const struct event_filter *filter, uint64_t *at, size_t most,
                     event_take *take, void *context)
{
        uint64_t oldest, until;
        bool more;

        pthread_mutex_lock(&feed->lock);
        oldest = feed->head < LIMIT_EVENTS ? 1 : feed->head - LIMIT_EVENTS + 1;
        if (*at > feed->head)
                *at = feed->head; /* nobody has been told of that one */
        if (*at + 1 < oldest) {
                if (*at > 0)
                        tell_gap(oldest - *at - 1, take, context);
                *at = oldest - 1;
        }
        until = feed->head - *at > LOOK_AT ? *at + LOOK_AT : feed->head;
        while (*at < until && most > 0) {
                if (!is_wanted(&feed->ring[++*at % LIMIT_EVENTS], filter))
                        continue;
                tell(feed, *at, take, context);
                most--;
        }
        more = *at < feed->head;
        pthread_mutex_unlock(&feed->lock);
        return more;
}
