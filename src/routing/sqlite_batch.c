/* SPDX-License-Identifier: MIT */
/* What a batch takes: the engine's changes as rows to write, copied so that they need the engine no longer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/size.h"
#include "routing/sqlite_internal.h"

/* Presences that are overdue go in handfuls, so that a crowd of devices does not hold up a batch. */
#define LATE_PER_BATCH 256

/* --- envelopes --- */

struct held *held_new(struct lessor_slice bytes)
{
        struct held *h;
        size_t size;

        if (!size_add(sizeof(*h), bytes.n, &size))
                return NULL;
        h = malloc(size);
        if (h == NULL)
                return NULL;
        *h = (struct held){.n = bytes.n};
        atomic_init(&h->refs, 1);
        if (bytes.n > 0)
                memcpy(h->bytes, bytes.p, bytes.n);
        return h;
}

struct held *held_ref(struct held *h)
{
        atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
        return h;
}

struct held *held_unref(struct held *h)
{
        if (h != NULL && atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) == 1)
                free(h);
        return NULL;
}

static struct held *held_find(const struct sqlite_store *s, uint64_t id)
{
        struct table_node *node = table_first(&s->held, id);

        return node == NULL ? NULL : container_of(node, struct held, node);
}

static void held_forget(struct sqlite_store *s, struct held *h)
{
        table_remove(&s->held, &h->node);
        s->n_held_bytes -= h->n;
        held_unref(h);
}

void store_drop_held(struct sqlite_store *s, uint64_t id)
{
        struct held *h = id == 0 ? NULL : held_find(s, id);

        if (h != NULL)
                held_forget(s, h);
}

/* --- holders --- */

static uint64_t holder_hash(const struct sqlite_store *s, const struct lessor_presence *who)
{
        return table_hash_pair(&s->holders, who->runner_id, who->device.identity) ^
               table_hash(&s->holders, who->owner);
}

static bool holder_is(const struct holder *h, const struct lessor_presence *who)
{
        return lessor_slice_equal(h->who.runner_id, who->runner_id) &&
               lessor_slice_equal(h->who.owner, who->owner) &&
               lessor_slice_equal(h->who.device.identity, who->device.identity) &&
               lessor_slice_equal(h->who.device.encryption, who->device.encryption) &&
               lessor_slice_equal(h->who.device.encryption_sig, who->device.encryption_sig);
}

static struct lessor_slice put(char **at, struct lessor_slice from)
{
        struct lessor_slice to = {*at, from.n};

        if (from.n > 0)
                memcpy(*at, from.p, from.n);
        *at += from.n;
        return to;
}

int store_holder_add(struct sqlite_store *s, uint64_t id, const struct lessor_presence *who,
                     struct holder **ret_holder)
{
        size_t size = sizeof(struct holder);
        struct holder *h;
        char *at;

        if (!size_add(size, who->runner_id.n, &size) || !size_add(size, who->owner.n, &size) ||
            !size_add(size, who->device.identity.n, &size) ||
            !size_add(size, who->device.encryption.n, &size) ||
            !size_add(size, who->device.encryption_sig.n, &size))
                return LESSOR_E_NOMEM;
        h = calloc(1, size);
        if (h == NULL)
                return LESSOR_E_NOMEM;
        at = (char *)(h + 1);
        h->id = id;
        h->who.runner_id = put(&at, who->runner_id);
        h->who.owner = put(&at, who->owner);
        h->who.device.identity = put(&at, who->device.identity);
        h->who.device.encryption = put(&at, who->device.encryption);
        h->who.device.encryption_sig = put(&at, who->device.encryption_sig);
        table_add(&s->holders, &h->node, holder_hash(s, who));
        if (id >= s->next_holder)
                s->next_holder = id + 1;
        *ret_holder = h;
        return 0;
}

int store_holder(struct sqlite_store *s, const struct lessor_presence *who, struct holder **ret_holder,
                 bool *ret_new)
{
        for (struct table_node *n = table_first(&s->holders, holder_hash(s, who)); n != NULL;
             n = table_next(n)) {
                struct holder *h = container_of(n, struct holder, node);

                if (!holder_is(h, who))
                        continue;
                *ret_holder = h;
                *ret_new = false;
                return 0;
        }
        *ret_new = true;
        return store_holder_add(s, s->next_holder, who, ret_holder);
}

/* --- presences that need not be written at once --- */

static int late_add(struct sqlite_store *s, uint64_t order, struct lessor_slice runner_id)
{
        bool is_first = s->late.first == NULL;
        int r = late_note(&s->late, order, runner_id);

        if (r == 0 && is_first) {
                s->late_due_ms = clock_monotonic_ms() + s->options.presence_ms;
                /* The writer sleeps without an end while there are none: it must learn of the first. */
                committer_wake(&s->committer);
        }
        return r;
}

int64_t store_late_ms(const void *store)
{
        const struct sqlite_store *s = store;

        return s->late.first == NULL ? INT64_MAX : s->late_due_ms;
}

bool store_has_changes(void *store)
{
        struct sqlite_store *s = store;
        struct engine_change change;

        if (engine_change_is_job(
                    s->engine)) /* asked after every operation, and nearly always so under load */
                return true;
        while (engine_change(s->engine, &change)) {
                if (change.what != ENGINE_PRESENCE_PUT || change.order > s->noted_presence)
                        return true;
                if (late_add(s, change.order, change.presence.runner_id) < 0)
                        return true;
                (void)engine_change_drop(s->engine);
        }
        return s->check_wanted || s->asides.dirty != NULL;
}

static void free_held(struct table_node *node, void *context)
{
        (void)context;
        held_unref(container_of(node, struct held, node));
}

static void free_holder(struct table_node *node, void *context)
{
        (void)context;
        free(container_of(node, struct holder, node));
}

void store_free_notes(struct sqlite_store *s)
{
        late_done(&s->late);
        table_each(&s->held, free_held, NULL);
        table_each(&s->holders, free_holder, NULL);
        table_done(&s->held);
        table_done(&s->holders);
}

/* --- collecting --- */

/*
 * The writes of one record, apart until all of them could be made: a record is noted whole or not at all.
 */
struct note {
        struct lessor_arena *arena;
        struct write *first, **end;
        struct held *held;
        int error;
};

static struct write *note_write(struct note *n, enum write_kind kind, uint64_t seq)
{
        struct write *w = n->error < 0 ? NULL : lessor_arena_alloc(n->arena, sizeof(*w));

        if (w == NULL) {
                n->error = LESSOR_E_NOMEM;
                return NULL;
        }
        w->kind = kind;
        w->seq = seq;
        *n->end = w;
        n->end = &w->next;
        return w;
}

static void note_text(struct note *n, struct lessor_slice from, struct lessor_slice *to)
{
        if (n->error == 0)
                n->error = lessor_arena_copy(n->arena, from, to);
}

static void note_job(struct note *n, const struct engine_row *row)
{
        struct write *w = note_write(n, WRITE_JOB, row->seq);
        const struct lessor_stub *stub = &row->job.stub;

        if (w == NULL)
                return;
        w->job.stub = *stub;
        w->job.enqueued_ms = row->job.enqueued_ms;
        note_text(n, row->job.site_id, &w->job.site_id);
        note_text(n, stub->id, &w->job.stub.id);
        note_text(n, stub->owner, &w->job.stub.owner);
        note_text(n, stub->site, &w->job.stub.site);
        note_text(n, stub->purpose, &w->job.stub.purpose);
}

static void note_who(struct note *n, const struct lessor_presence *from, struct lessor_presence *to)
{
        *to = *from;
        note_text(n, from->runner_id, &to->runner_id);
        note_text(n, from->owner, &to->owner);
        note_text(n, from->device.identity, &to->device.identity);
        note_text(n, from->device.encryption, &to->device.encryption);
        note_text(n, from->device.encryption_sig, &to->device.encryption_sig);
        note_text(n, from->capabilities, &to->capabilities);
        note_text(n, from->withheld, &to->withheld);
}

static uint64_t note_holder(struct sqlite_store *s, struct note *n, const struct lessor_job *job)
{
        const struct lessor_presence who = {
                .runner_id = job->runner_id, .owner = job->runner_owner, .device = job->device};
        struct holder *holder;
        struct write *w;
        bool is_new;

        if (n->error < 0)
                return 0;
        n->error = store_holder(s, &who, &holder, &is_new);
        if (n->error < 0)
                return 0;
        if (!is_new)
                return holder->id;
        w = note_write(n, WRITE_HOLDER, holder->id);
        if (w != NULL)
                note_who(n, &holder->who, &w->presence);
        if (n->error < 0) {
                /* Its row was not noted, so it must be new to the next one too. */
                table_remove(&s->holders, &holder->node);
                free(holder);
                return 0;
        }
        return holder->id;
}

static void note_state(struct sqlite_store *s, struct note *n, const struct engine_change *change,
                       const struct sealed *sealed)
{
        const struct lessor_job *job = &change->row.job;
        struct write *w = note_write(n, WRITE_STATE, change->row.seq);

        if (w == NULL)
                return;
        w->state.state = job->state;
        w->state.seal_attempts = job->seal_attempts;
        w->state.cancelled = job->cancelled;
        w->state.sealed = job->has_payload;
        note_text(n, job->reoffer_to, &w->state.reoffer_to);
        if (job->claimed) {
                note_text(n, job->lease_id, &w->state.lease_id);
                w->state.lease_expires_ms = job->lease_expires_ms;
                w->state.awaiting_until_ms = job->awaiting_until_ms;
                /* Last, since a new holder that was noted must not be taken back. */
                w->state.holder = note_holder(s, n, job);
        }
        if (sealed != NULL && change->keep_payload) {
                w->state.payload = sealed->payload;
                w->state.payload_bytes = sealed->payload_bytes;
        }
        if (sealed != NULL && job->has_result) {
                w->state.has_result = true;
                w->state.disposition = job->disposition;
                w->state.result = sealed->result;
                w->state.result_bytes = sealed->result_bytes;
        }
}

/* The envelope of one direction: the row that must go, and the one that must come. */
static void note_envelope(struct sqlite_store *s, struct note *n, uint64_t seq, bool is_result,
                          uint64_t noted, uint64_t wanted)
{
        struct write *w;

        if (noted == wanted)
                return;
        if (noted != 0)
                (void)note_write(n, WRITE_ENVELOPE_GONE, noted);
        if (wanted == 0)
                return;
        w = note_write(n, WRITE_ENVELOPE, wanted);
        if (w == NULL)
                return;
        w->envelope.is_result = is_result;
        w->envelope.held = held_find(s, wanted);
        w->envelope.held->seq = seq;
        w->envelope.held->next = n->held;
        n->held = w->envelope.held;
}

/* Order does not matter to it, so that it stands for the set. Never 0. */
uint64_t store_bars_digest(const struct sqlite_store *s, const struct engine_bar *bars, size_t n)
{
        uint64_t sum = 1;

        for (size_t i = 0; i < n; i++) {
                const struct lessor_slice until = {(const char *)&bars[i].until_ms, sizeof(bars[i].until_ms)};

                sum += table_hash_pair(&s->holders, bars[i].runner_id, until);
        }
        return sum == 0 ? 1 : sum;
}

static void note_bars(struct note *n, const struct engine_row *row)
{
        (void)note_write(n, WRITE_BARS_GONE, row->seq);
        for (size_t i = 0; i < row->n_bars; i++) {
                struct write *w = note_write(n, WRITE_BAR, row->seq);

                if (w == NULL)
                        return;
                w->bar.until_ms = row->bars[i].until_ms;
                note_text(n, row->bars[i].runner_id, &w->bar.runner_id);
        }
}

static void batch_take(struct batch *b, struct note *n)
{
        struct held *h;

        if (n->first != NULL) {
                *b->writes_end = n->first;
                b->writes_end = n->end;
        }
        while ((h = n->held) != NULL) {
                n->held = h->next;
                h->next = b->held;
                b->held = held_ref(h);
        }
}

/* A job nobody has touched since it came: its row in routing_job says it all. */
static bool is_untouched(const struct lessor_job *job)
{
        return job->state == LESSOR_JOB_QUEUED && !job->cancelled && job->seal_attempts == 0 &&
               job->reoffer_to.p == NULL && !job->has_payload;
}

static int collect_put(struct sqlite_store *s, struct note *n, const struct engine_change *change)
{
        const struct engine_row *row = &change->row;
        struct sealed *sealed = job_attachment(change->handle);
        bool is_new = row->seq > s->noted_seq;
        uint64_t bars = row->n_bars == 0 ? 0 : store_bars_digest(s, row->bars, row->n_bars);
        uint64_t payload, result;

        if (bars != 0 && sealed == NULL) {
                sealed = calloc(1, sizeof(*sealed));
                if (sealed == NULL)
                        return LESSOR_E_NOMEM;
                job_attach(change->handle, sealed);
        }
        payload = sealed != NULL && change->keep_payload ? sealed->payload : 0;
        result = sealed != NULL && row->job.has_result ? sealed->result : 0;
        if (is_new)
                note_job(n, row);
        if (sealed != NULL) {
                note_envelope(s, n, row->seq, false, sealed->noted_payload, payload);
                note_envelope(s, n, row->seq, true, sealed->noted_result, result);
                if (bars != sealed->noted_bars)
                        note_bars(n, row);
        }
        if (!is_new || !is_untouched(&row->job))
                note_state(s, n, change, sealed);
        if (n->error < 0)
                return n->error;
        if (is_new)
                s->noted_seq = row->seq;
        if (sealed != NULL) {
                if (payload != sealed->payload && sealed->payload != sealed->noted_payload)
                        store_drop_held(s, sealed->payload);
                sealed->payload = sealed->noted_payload = payload;
                sealed->noted_result = result;
                sealed->noted_bars = bars;
        }
        return 0;
}

static int collect_removed(struct sqlite_store *s, struct note *n, const struct engine_change *change)
{
        const struct sealed *sealed = job_attachment(change->handle);
        uint64_t seq = change->row.seq;

        if (seq <= s->noted_seq) {
                (void)note_write(n, WRITE_JOB_GONE, seq);
                (void)note_write(n, WRITE_STATE_GONE, seq);
                if (sealed != NULL && sealed->noted_bars != 0)
                        (void)note_write(n, WRITE_BARS_GONE, seq);
                if (sealed != NULL && sealed->noted_payload != 0)
                        (void)note_write(n, WRITE_ENVELOPE_GONE, sealed->noted_payload);
                if (sealed != NULL && sealed->noted_result != 0)
                        (void)note_write(n, WRITE_ENVELOPE_GONE, sealed->noted_result);
        }
        if (n->error < 0)
                return n->error;
        /* Bytes that were decided and never noted: nobody will write them now. */
        if (sealed != NULL && sealed->payload != sealed->noted_payload)
                store_drop_held(s, sealed->payload);
        if (sealed != NULL && sealed->result != sealed->noted_result)
                store_drop_held(s, sealed->result);
        return 0;
}

static int collect_presence(struct sqlite_store *s, struct note *n, const struct engine_change *change)
{
        struct write *w;

        if (change->order <= s->noted_presence)
                return late_add(s, change->order, change->presence.runner_id);
        w = note_write(n, WRITE_PRESENCE, change->order);
        if (w != NULL)
                note_who(n, &change->presence, &w->presence);
        if (n->error < 0)
                return n->error;
        s->noted_presence = change->order;
        return 0;
}

static int collect_changes(struct sqlite_store *s)
{
        struct engine_change change;

        while (engine_change(s->engine, &change)) {
                struct note n = {.arena = s->batch.arena};
                int r;

                n.end = &n.first;
                switch (change.what) {
                case ENGINE_JOB_PUT:
                        r = collect_put(s, &n, &change);
                        break;
                case ENGINE_JOB_REMOVED:
                        r = collect_removed(s, &n, &change);
                        break;
                default:
                        r = collect_presence(s, &n, &change);
                }
                if (r < 0)
                        return r;
                batch_take(&s->batch, &n);
                (void)engine_change_drop(s->engine);
        }
        return 0;
}

static int collect_late(struct sqlite_store *s)
{
        int64_t monotonic_ms = clock_monotonic_ms();

        for (int i = 0; i < LATE_PER_BATCH && s->late.first != NULL; i++) {
                struct note n = {.arena = s->batch.arena};
                struct write *w;
                int r;

                if (!s->committer.stopping && monotonic_ms < s->late_due_ms)
                        return 0;
                n.end = &n.first;
                w = note_write(&n, WRITE_PRESENCE, s->late.first->order);
                if (w == NULL)
                        return n.error;
                r = engine_presence(s->engine, s->late.first->name, n.arena, &w->presence);
                if (r == LESSOR_E_NOMEM)
                        return r;
                if (r == 0)
                        batch_take(&s->batch, &n);
                late_drop_first(&s->late);
        }
        return 0;
}

static int collect_asides(struct sqlite_store *s)
{
        while (s->asides.dirty != NULL) {
                struct aside *aside = s->asides.dirty;
                struct note n = {.arena = s->batch.arena};

                n.end = &n.first;
                if (aside->remove_unwritten) {
                        (void)note_write(&n, WRITE_JOB_GONE, aside->seq);
                        (void)note_write(&n, WRITE_STATE_GONE, aside->seq);
                        (void)note_write(&n, WRITE_BARS_GONE, aside->seq);
                } else if (aside->cancel_unwritten) {
                        (void)note_write(&n, WRITE_ASIDE_CANCELLED, aside->seq);
                }
                if (n.error < 0)
                        return n.error;
                batch_take(&s->batch, &n);
                aside->remove_unwritten = aside->cancel_unwritten = aside->dirty = false;
                s->asides.dirty = aside->dirty_next;
        }
        return 0;
}

static int collect_check(struct sqlite_store *s)
{
        struct note n = {.arena = s->batch.arena};
        struct write *w;

        if (!s->check_wanted)
                return 0;
        n.end = &n.first;
        w = note_write(&n, WRITE_CHECK, 0);
        if (w == NULL)
                return n.error;
        w->check_ms = clock_now_ms(s->clock);
        batch_take(&s->batch, &n);
        s->check_wanted = false;
        return 0;
}

static int collect_events(struct sqlite_store *s)
{
        for (;;) {
                struct batch_event *event = lessor_arena_alloc(s->batch.arena, sizeof(*event));

                if (event == NULL)
                        return LESSOR_E_NOMEM;
                if (!engine_event_take(s->engine, &event->event))
                        return 0;
                *s->batch.events_end = event;
                s->batch.events_end = &event->next;
        }
}

int batch_collect(void *store)
{
        struct sqlite_store *s = store;
        int r = collect_changes(s);

        if (r == 0)
                r = collect_late(s);
        if (r == 0)
                r = collect_asides(s);
        if (r == 0)
                r = collect_check(s);
        if (r == 0)
                r = collect_events(s);
        return r;
}

void batch_clear(void *store)
{
        struct sqlite_store *s = store;
        struct batch *b = &s->batch;
        struct held *h;

        while ((h = b->held) != NULL) {
                b->held = h->next;
                if (held_find(s, h->id) == h)
                        held_forget(s, h);
                held_unref(h);
        }
        for (struct batch_event *event = b->events; event != NULL; event = event->next)
                engine_event_done(s->engine, &event->event);
        lessor_arena_clear(b->arena);
        b->writes = NULL;
        b->writes_end = &b->writes;
        b->events = NULL;
        b->events_end = &b->events;
}
