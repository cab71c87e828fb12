/* SPDX-License-Identifier: MIT */
/* What a batch takes: the engine's changes as rows to write, copied so that they need the engine no longer.
 */
#include <stdlib.h>

#include "base/macro.h"
#include "base/size.h"
#include "leasing/sqlite_internal.h"

/* Racks that are overdue go in handfuls, so that a crowd of them does not hold up a batch. */
#define LATE_PER_BATCH 256

/* --- long texts --- */

struct held_text *held_text_new(struct lessor_slice bytes)
{
        struct held_text *h;
        size_t size;

        if (!size_add(sizeof(*h), bytes.n, &size))
                return NULL;
        h = malloc(size);
        if (h == NULL)
                return NULL;
        *h = (struct held_text){.n = bytes.n};
        atomic_init(&h->refs, 1);
        if (bytes.n > 0)
                memcpy(h->bytes, bytes.p, bytes.n);
        return h;
}

struct held_text *held_text_ref(struct held_text *h)
{
        atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
        return h;
}

struct held_text *held_text_unref(struct held_text *h)
{
        if (h != NULL && atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) == 1)
                free(h);
        return NULL;
}

int kept_new(struct lease_sqlite_store *s, struct kept **ret_kept)
{
        struct kept *kept = calloc(1, sizeof(*kept));

        if (kept == NULL)
                return LESSOR_E_NOMEM;
        kept->refs = 1;
        kept->of = s;
        *ret_kept = kept;
        return 0;
}

void kept_hold(struct kept *kept, enum text_kind kind, struct held_text *h)
{
        h->of = kept;
        h->kind = kind;
        kept->held[kind] = h;
        kept->bytes[kind] = h->n;
        kept->of->n_held_bytes += h->n;
}

static void kept_release(struct kept *kept, enum text_kind kind)
{
        struct lease_sqlite_store *s = kept->of;
        struct held_text *h = kept->held[kind];

        if (h == NULL)
                return;
        if (h->is_written) {
                s->n_late_bytes -= h->n;
                *(h->older == NULL ? &s->oldest : &h->older->newer) = h->newer;
                *(h->newer == NULL ? &s->newest : &h->newer->older) = h->older;
        } else {
                s->n_held_bytes -= h->n;
        }
        kept->held[kind] = held_text_unref(h);
}

/* A text is on disk: it becomes the newest of those lately written, and the oldest make room. */
static void note_written(struct lease_sqlite_store *s, struct held_text *h)
{
        s->n_held_bytes -= h->n;
        s->n_late_bytes += h->n;
        h->is_written = true;
        h->newer = NULL;
        h->older = s->newest;
        *(s->newest == NULL ? &s->oldest : &s->newest->newer) = h;
        s->newest = h;
        while (s->n_late_bytes > s->options.max_late_bytes)
                kept_release(s->oldest->of, s->oldest->kind);
}

void kept_unref(struct kept *kept)
{
        if (--kept->refs > 0)
                return;
        for (unsigned i = 0; i < N_TEXT_KINDS; i++)
                kept_release(kept, i);
        free(kept);
}

/* --- when racks were seen, which need not be written at once --- */

static int late_add(struct lease_sqlite_store *s, const struct lease_change *change)
{
        bool is_first = s->late.first == NULL;
        int r = late_note(&s->late, change->order, change->rack.rack_id);

        if (r == 0 && is_first) {
                s->late_due_ms = clock_monotonic_ms() + s->options.seen_ms;
                /* The writer sleeps without an end while there are none: it must learn of the first. */
                committer_wake(&s->committer);
        }
        return r;
}

int64_t lease_late_ms(const void *store)
{
        const struct lease_sqlite_store *s = store;

        return s->late.first == NULL ? INT64_MAX : s->late_due_ms;
}

bool lease_has_changes(void *store)
{
        struct lease_sqlite_store *s = store;
        struct lease_change change;

        if (s->check_wanted || lease_engine_has_event(s->store.engine))
                return true;
        while (lease_engine_change(s->store.engine, &change)) {
                if (!change.soft || late_add(s, &change) < 0)
                        return true;
                (void)lease_engine_change_drop(s->store.engine);
        }
        return false;
}

/* --- collecting --- */

/*
 * The writes of one record, apart until all of them could be made: a record is noted whole or not at all.
 */
struct note {
        struct lessor_arena *arena;
        struct write *first, **end;
        struct batch_text *texts; /* without references yet */
        int error;
};

static struct write *note_write(struct note *n, enum write_kind kind, uint64_t key)
{
        struct write *w = n->error < 0 ? NULL : lessor_arena_alloc(n->arena, sizeof(*w));

        if (w == NULL) {
                n->error = LESSOR_E_NOMEM;
                return NULL;
        }
        w->kind = kind;
        w->key = key;
        *n->end = w;
        n->end = &w->next;
        return w;
}

/* Replaces borrowed texts by copies. */
static void own_texts(struct note *n, struct lessor_slice *const *texts, size_t n_texts)
{
        for (size_t i = 0; i < n_texts && n->error == 0; i++)
                n->error = lessor_arena_copy(n->arena, *texts[i], texts[i]);
}

static void note_lease(struct note *n, const struct lease_change *c, const struct kept *kept)
{
        struct write *w = note_write(n, WRITE_LEASE, c->seq);
        struct lessor_lease *l;

        if (w == NULL)
                return;
        l = &w->lease;
        *l = c->lease;
        w->bytes = kept->bytes[TEXT_EVENT];

        struct lessor_slice *const texts[] = {
                &l->name.repo,    &l->name.lease_id, &l->workspace,   &l->task_name, &l->tier,
                &l->compute_size, &l->floor,         &l->environment, &l->run,       &l->owner};
        own_texts(n, texts, ARRAY_SIZE(texts));
}

static void note_state(struct note *n, const struct lease_change *c, const struct kept *kept)
{
        struct write *w = note_write(n, WRITE_STATE, c->seq);

        if (w == NULL)
                return;
        w->lease = c->lease; /* of which only numbers are written */
        w->has_result = kept->has_result;
        w->bytes = kept->bytes[TEXT_RESULT];
}

static void note_long_text(struct note *n, uint64_t seq, struct kept *kept, enum text_kind kind)
{
        struct batch_text *t = n->error < 0 ? NULL : lessor_arena_alloc(n->arena, sizeof(*t));
        struct write *w = note_write(n, kind == TEXT_EVENT ? WRITE_EVENT : WRITE_RESULT, seq);

        if (t == NULL || w == NULL) {
                n->error = LESSOR_E_NOMEM;
                return;
        }
        w->text = kept->held[kind];
        *t = (struct batch_text){.next = n->texts, .kept = kept, .held = kept->held[kind], .kind = kind};
        n->texts = t;
}

/* A lease nobody has touched since it came: its row in leasing_lease says it all. */
static bool is_untouched(const struct lessor_lease *l)
{
        return l->status == LESSOR_LEASE_PENDING && l->claim_number == 0 && l->attempts_spent == 0;
}

static int collect_put(struct lease_sqlite_store *s, struct note *n, const struct lease_change *c)
{
        struct kept *kept = lease_attachment(c->handle);
        unsigned rows = ROWS_LEASE;

        if (c->is_new) {
                note_lease(n, c, kept);
                note_long_text(n, c->seq, kept, TEXT_EVENT);
        }
        if ((kept->rows & ROWS_STATE) != 0 || !is_untouched(&c->lease)) {
                note_state(n, c, kept);
                rows |= ROWS_STATE;
        }
        if (c->result_changed) {
                note_long_text(n, c->seq, kept, TEXT_RESULT);
                rows |= ROWS_RESULT;
        }
        if (n->error < 0)
                return n->error;
        kept->rows |= rows;
        if (c->seq > s->noted_seq)
                s->noted_seq = c->seq;
        return 0;
}

static int collect_removed(struct lease_sqlite_store *s, struct note *n, const struct lease_change *c)
{
        static const struct {
                enum lease_rows rows;
                enum write_kind gone;
        } tables[] = {
                {ROWS_LEASE, WRITE_LEASE_GONE},       {ROWS_LEASE, WRITE_EVENT_GONE},
                {ROWS_STATE, WRITE_STATE_GONE},       {ROWS_RESULT, WRITE_RESULT_GONE},
                {ROWS_ATTEMPTS, WRITE_ATTEMPTS_GONE}, {ROWS_KEYS, WRITE_KEYS_GONE},
                {ROWS_TARGETS, WRITE_TARGETS_GONE},   {ROWS_CAPABILITIES, WRITE_CAPABILITIES_GONE},
        };
        const struct kept *kept = lease_attachment(c->handle);

        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                if ((kept->rows & tables[i].rows) != 0)
                        (void)note_write(n, tables[i].gone, c->seq);
        /* When the newest goes, its number must not: pages of a list are named by it. */
        if (c->seq >= s->noted_seq) {
                struct write *w = note_write(n, WRITE_META_INT, 0);

                if (w == NULL)
                        return n->error;
                w->meta.name = "last_seq";
                w->meta.number = (int64_t)c->seq;
        }
        if (n->error == 0 && c->seq > s->noted_seq)
                s->noted_seq = c->seq;
        return n->error;
}

static void note_attempt(struct note *n, const struct lease_change *c)
{
        struct write *w = note_write(n, WRITE_ATTEMPT, c->seq);
        struct lessor_attempt *a;

        if (w == NULL)
                return;
        w->attempt = c->attempt;
        a = &w->attempt.attempt;

        struct lessor_slice *const texts[] = {&a->execution_id, &a->rack_id, &a->boot_id, &a->reason,
                                              &a->output_hash};
        own_texts(n, texts, ARRAY_SIZE(texts));
}

static void note_capability(struct note *n, const struct lease_change *c, enum write_kind kind)
{
        struct write *w = note_write(n, kind, c->seq);

        if (w == NULL)
                return;
        w->capability = c->capability;

        struct lessor_slice *const texts[] = {&w->capability.id, &w->capability.hash, &w->capability.receipt};
        own_texts(n, texts, ARRAY_SIZE(texts));
}

/* What belongs to a lease. */
static int collect_part(struct note *n, const struct lease_change *c)
{
        struct kept *kept = lease_attachment(c->handle);
        unsigned rows = 0;
        struct write *w;

        switch (c->what) {
        case LEASE_CHANGE_ATTEMPT_PUT:
                note_attempt(n, c);
                rows = ROWS_ATTEMPTS;
                break;
        case LEASE_CHANGE_KEY_PUT:
                w = note_write(n, WRITE_KEY, c->seq);
                rows = ROWS_KEYS;
                if (w == NULL)
                        break;
                w->key_row = c->key;
                own_texts(n, (struct lessor_slice *const[]){&w->key_row.key}, 1);
                break;
        case LEASE_CHANGE_TARGET_PUT:
                w = note_write(n, WRITE_TARGET, c->seq);
                rows = ROWS_TARGETS;
                if (w == NULL)
                        break;
                w->target.order = c->order;
                w->target.hash = c->target;
                own_texts(n, (struct lessor_slice *const[]){&w->target.hash}, 1);
                break;
        case LEASE_CHANGE_CAPABILITY_PUT:
                note_capability(n, c, WRITE_CAPABILITY);
                rows = ROWS_CAPABILITIES;
                break;
        default:
                if ((kept->rows & ROWS_CAPABILITIES) != 0)
                        note_capability(n, c, WRITE_CAPABILITY_GONE);
        }
        if (n->error == 0)
                kept->rows |= rows;
        return n->error;
}

static void note_seen(struct note *n, uint64_t order, const struct lessor_rack *rack)
{
        struct write *w = note_write(n, WRITE_RACK_SEEN, order);

        if (w != NULL)
                w->rack = *rack; /* of which only numbers are written */
}

static void note_rack(struct note *n, const struct lease_change *c)
{
        struct write *w = note_write(n, WRITE_RACK, c->order);
        struct lessor_rack *r;

        if (w == NULL)
                return;
        w->rack = c->rack;
        w->rack.n_tiers = c->n_rack_tiers;
        r = &w->rack;

        struct lessor_slice *const texts[] = {&r->rack_id, &r->label, &r->agent_version, &r->last_boot,
                                              &r->approved_boot};
        own_texts(n, texts, ARRAY_SIZE(texts));
        (void)note_write(n, WRITE_RACK_TIERS_GONE, c->order);
        for (size_t i = 0; i < c->n_rack_tiers; i++) {
                w = note_write(n, WRITE_RACK_TIER, c->order);
                if (w == NULL)
                        return;
                w->tier.place = i;
                w->tier.tier = lease_change_tier(c, i);
                own_texts(n, (struct lessor_slice *const[]){&w->tier.tier}, 1);
        }
        note_seen(n, c->order, &c->rack);
}

static void note_token(struct note *n, const struct lease_change *c, enum write_kind kind)
{
        struct write *w = note_write(n, kind, 0);

        if (w == NULL)
                return;
        w->token = c->token;
        own_texts(n, (struct lessor_slice *const[]){&w->token.hash, &w->token.rack_id}, 2);
}

static void note_enrolment(struct note *n, const struct lease_change *c, enum write_kind kind)
{
        struct write *w = note_write(n, kind, 0);

        if (w == NULL)
                return;
        w->enrolment = c->enrolment;
        own_texts(n, (struct lessor_slice *const[]){&w->enrolment.hash, &w->enrolment.label}, 2);
}

static void note_environment(struct note *n, const struct lease_change *c)
{
        struct write *w = note_write(n, WRITE_ENVIRONMENT, c->order);
        struct lessor_environment *env;

        if (w == NULL)
                return;
        w->environment = c->environment;
        env = &w->environment;

        struct lessor_slice *const texts[] = {&env->env_hash,  &env->e3_version,   &env->base_image,
                                              &env->base_tier, &env->manifest_key, &env->manifest};
        own_texts(n, texts, ARRAY_SIZE(texts));
}

static void note_meta_int(struct note *n, const char *name, int64_t number)
{
        struct write *w = note_write(n, WRITE_META_INT, 0);

        if (w == NULL)
                return;
        w->meta.name = name;
        w->meta.number = number;
}

static void note_turn(struct note *n, const struct lease_change *c)
{
        struct write *w = note_write(n, WRITE_META_TEXT, 0);

        if (w == NULL)
                return;
        w->meta.name = "turn";
        w->meta.text = c->turn;
        own_texts(n, (struct lessor_slice *const[]){&w->meta.text}, 1);
}

/* What is no lease's. */
static int collect_other(struct lease_sqlite_store *s, struct note *n, const struct lease_change *c)
{
        switch (c->what) {
        case LEASE_CHANGE_RACK_PUT:
                if (c->soft)
                        return late_add(s, c);
                note_rack(n, c);
                break;
        case LEASE_CHANGE_RACK_REMOVED:
                (void)note_write(n, WRITE_RACK_GONE, c->order);
                (void)note_write(n, WRITE_RACK_TIERS_GONE, c->order);
                (void)note_write(n, WRITE_RACK_SEEN_GONE, c->order);
                break;
        case LEASE_CHANGE_TOKEN_PUT:
                note_token(n, c, WRITE_TOKEN);
                break;
        case LEASE_CHANGE_TOKEN_REMOVED:
                note_token(n, c, WRITE_TOKEN_GONE);
                break;
        case LEASE_CHANGE_ENROLMENT_PUT:
                note_enrolment(n, c, WRITE_ENROLMENT);
                break;
        case LEASE_CHANGE_ENROLMENT_REMOVED:
                note_enrolment(n, c, WRITE_ENROLMENT_GONE);
                break;
        case LEASE_CHANGE_ENVIRONMENT_PUT:
                note_environment(n, c);
                break;
        case LEASE_CHANGE_ENVIRONMENT_REMOVED:
                (void)note_write(n, WRITE_ENVIRONMENT_GONE, c->order);
                break;
        case LEASE_CHANGE_POLICY_PUT:
                note_meta_int(n, "require_start_approval", c->require_start_approval);
                break;
        default: /* LEASE_CHANGE_TURN_PUT */
                note_turn(n, c);
        }
        return n->error;
}

static void batch_take(struct batch *b, struct note *n)
{
        struct batch_text *t;

        if (n->first != NULL) {
                *b->writes_end = n->first;
                b->writes_end = n->end;
        }
        while ((t = n->texts) != NULL) {
                n->texts = t->next;
                t->kept->refs++;
                held_text_ref(t->held);
                t->next = b->texts;
                b->texts = t;
        }
}

static int collect_changes(struct lease_sqlite_store *s)
{
        struct lease_change c;

        while (lease_engine_change(s->store.engine, &c)) {
                struct note n = {.arena = s->batch.arena};
                int r;

                n.end = &n.first;
                if (c.what == LEASE_CHANGE_PUT)
                        r = collect_put(s, &n, &c);
                else if (c.what == LEASE_CHANGE_REMOVED)
                        r = collect_removed(s, &n, &c);
                else
                        r = c.handle != NULL ? collect_part(&n, &c) : collect_other(s, &n, &c);
                if (r < 0)
                        return r;
                batch_take(&s->batch, &n);
                (void)lease_engine_change_drop(s->store.engine);
        }
        return 0;
}

static int collect_late(struct lease_sqlite_store *s)
{
        int64_t monotonic_ms = clock_monotonic_ms();

        for (int i = 0; i < LATE_PER_BATCH && s->late.first != NULL; i++) {
                struct note n = {.arena = s->batch.arena};
                struct lessor_rack rack;
                int r;

                if (!s->committer.stopping && monotonic_ms < s->late_due_ms)
                        return 0;
                n.end = &n.first;
                r = lease_engine_rack(s->store.engine, s->late.first->name, 0, n.arena, &rack);
                if (r == 0)
                        note_seen(&n, s->late.first->order, &rack);
                if (r == LESSOR_E_NOMEM || n.error < 0)
                        return LESSOR_E_NOMEM;
                batch_take(&s->batch, &n);
                late_drop_first(&s->late);
        }
        return 0;
}

static int collect_check(struct lease_sqlite_store *s)
{
        struct note n = {.arena = s->batch.arena};

        if (!s->check_wanted)
                return 0;
        n.end = &n.first;
        note_meta_int(&n, "checked_ms", clock_now_ms(s->store.clock));
        if (n.error < 0)
                return n.error;
        batch_take(&s->batch, &n);
        s->check_wanted = false;
        return 0;
}

static int collect_events(struct lease_sqlite_store *s)
{
        while (lease_engine_has_event(s->store.engine)) {
                struct batch_event *event = lessor_arena_alloc(s->batch.arena, sizeof(*event));

                if (event == NULL)
                        return LESSOR_E_NOMEM;
                (void)lease_engine_event_take(s->store.engine, &event->event);
                *s->batch.events_end = event;
                s->batch.events_end = &event->next;
        }
        return 0;
}

int lease_batch_collect(void *store)
{
        struct lease_sqlite_store *s = store;
        int r = collect_changes(s);

        if (r == 0)
                r = collect_late(s);
        if (r == 0)
                r = collect_check(s);
        if (r == 0)
                r = collect_events(s);
        return r;
}

void lease_batch_tell(void *store)
{
        const struct lease_sqlite_store *s = store;
        const struct lessor_lease_listener *l = &s->store.base.listener;

        if (l->happened == NULL)
                return;
        for (const struct batch_event *b = s->batch.events; b != NULL; b = b->next)
                l->happened(l->context, &b->event.event);
}

void lease_batch_clear(void *store)
{
        struct lease_sqlite_store *s = store;
        struct batch *b = &s->batch;
        struct batch_text *t;

        while ((t = b->texts) != NULL) {
                b->texts = t->next;
                if (t->kept->held[t->kind] == t->held)
                        note_written(s, t->held);
                held_text_unref(t->held);
                kept_unref(t->kept);
        }
        for (struct batch_event *event = b->events; event != NULL; event = event->next)
                lease_engine_event_done(s->store.engine, &event->event);
        lessor_arena_clear(b->arena);
        b->writes = NULL;
        b->writes_end = &b->writes;
        b->events = NULL;
        b->events_end = &b->events;
}
