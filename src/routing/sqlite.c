/* SPDX-License-Identifier: MIT */
/* The operations: a decision of the engine under the lock, and a ticket for the batch that makes it last. */
#include "routing/sqlite.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/size.h"
#include "base/uuid.h"
#include "database/backup.h"
#include "routing/sqlite_internal.h"

static struct sqlite_store *store_of(struct lessor_routing_store *s)
{
        return container_of(s, struct sqlite_store, base);
}

static int enter(struct sqlite_store *s)
{
        return committer_enter(&s->committer);
}

static int leave(struct sqlite_store *s, struct lessor_ticket *ticket, int result)
{
        return committer_leave(&s->committer, ticket, result);
}

static int sqlite_now(struct lessor_routing_store *base, int64_t *ret_now_ms)
{
        *ret_now_ms = clock_now_ms(store_of(base)->clock);
        return 0;
}

/* --- jobs --- */

static int enqueue(struct sqlite_store *s, struct lessor_slice site_id, const struct lessor_stub *stub,
                   struct lessor_arena *arena, struct lessor_job *ret_job)
{
        const struct aside *aside = asides_find(&s->asides, site_id, stub->id);

        if (aside != NULL)
                return aside_render(aside, arena, ret_job);
        if (committer_is_low(&s->committer) && engine_find(s->engine, site_id, stub->id) == NULL)
                return LESSOR_E_LOW_SPACE;
        return engine_enqueue(s->engine, site_id, stub, clock_now_ms(s->clock), arena, ret_job, NULL);
}

static int sqlite_enqueue(struct lessor_routing_store *base, struct lessor_slice site_id,
                          const struct lessor_stub *stub, struct lessor_arena *arena,
                          struct lessor_job *ret_job, struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        return r < 0 ? r : leave(s, ticket, enqueue(s, site_id, stub, arena, ret_job));
}

static int sqlite_job(struct lessor_routing_store *base, struct lessor_slice site_id,
                      struct lessor_slice job_id, struct lessor_arena *arena, struct lessor_job *ret_job,
                      struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        const struct aside *aside;
        int r = enter(s);

        if (r < 0)
                return r;
        r = engine_job(s->engine, site_id, job_id, arena, ret_job);
        if (r == LESSOR_E_NOT_FOUND) {
                aside = asides_find(&s->asides, site_id, job_id);
                if (aside != NULL)
                        r = aside_render(aside, arena, ret_job);
        }
        return leave(s, ticket, r);
}

static int sqlite_jobs(struct lessor_routing_store *base, const struct lessor_slice *site_id, size_t max,
                       struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                       struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        if (r < 0)
                return r;
        r = engine_jobs(s->engine, site_id, max, arena, ret_jobs);
        if (r == 0)
                r = asides_merge(&s->asides, site_id, max, arena, ret_jobs);
        return leave(s, ticket, r);
}

static int sqlite_awaiting(struct lessor_routing_store *base, struct lessor_slice site_id, size_t max,
                           struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                           struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        return r < 0 ? r : leave(s, ticket, engine_awaiting(s->engine, site_id, max, arena, ret_jobs));
}

static int sqlite_cancel(struct lessor_routing_store *base, struct lessor_slice site_id,
                         struct lessor_slice job_id, struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        struct aside *aside;
        int r = enter(s);

        if (r < 0)
                return r;
        r = engine_cancel(s->engine, site_id, job_id);
        if (r == LESSOR_E_NOT_FOUND) {
                aside = asides_find(&s->asides, site_id, job_id);
                if (aside != NULL) {
                        asides_cancel(&s->asides, aside);
                        r = 0;
                }
        }
        return leave(s, ticket, r);
}

static int sqlite_cancel_requests(struct lessor_routing_store *base, struct lessor_slice runner_id,
                                  struct lessor_arena *arena, struct lessor_lease_ref_list *ret_leases,
                                  struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        return r < 0 ? r : leave(s, ticket, engine_cancel_requests(s->engine, runner_id, arena, ret_leases));
}

static int sqlite_ack(struct lessor_routing_store *base, struct lessor_slice site_id,
                      const struct lessor_slice *job_ids, size_t n_job_ids, struct lessor_arena *arena,
                      struct lessor_slice **ret_acked, size_t *ret_n_acked, struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        if (r < 0)
                return r;
        return leave(s, ticket,
                     engine_ack(s->engine, site_id, job_ids, n_job_ids, arena, ret_acked, ret_n_acked));
}

/* --- leases --- */

static int sqlite_claim(struct lessor_routing_store *base, const struct lessor_claim *claim,
                        struct lessor_arena *arena, struct lessor_job_list *ret_granted,
                        struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        char texts[LIMIT_CLAIM_MAX][UUID_TEXT_LEN + 1];
        struct lessor_slice lease_ids[LIMIT_CLAIM_MAX];
        int64_t now_ms;
        int r;

        for (size_t i = 0; i < claim->max && i < LIMIT_CLAIM_MAX; i++) {
                uuid_v4(texts[i]);
                lease_ids[i] = (struct lessor_slice){texts[i], UUID_TEXT_LEN};
        }
        r = enter(s);
        if (r < 0)
                return r;
        now_ms = clock_now_ms(s->clock);
        asides_expire(&s->asides, now_ms);
        return leave(s, ticket, engine_claim(s->engine, claim, now_ms, lease_ids, arena, ret_granted));
}

static int sqlite_release_leases(struct lessor_routing_store *base, const struct lessor_release *release,
                                 struct lessor_arena *arena, struct lessor_lease_ref_list *ret_released,
                                 struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        if (r < 0)
                return r;
        r = engine_release_leases(s->engine, release, clock_now_ms(s->clock), arena, ret_released);
        return leave(s, ticket, r);
}

static int sqlite_renew_leases(struct lessor_routing_store *base, struct lessor_slice runner_id,
                               const struct lessor_lease_ref *leases, size_t n_leases, int64_t lease_ms,
                               struct lessor_arena *arena, struct lessor_renewal_list *ret_renewals,
                               struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        if (r < 0)
                return r;
        r = engine_renew_leases(s->engine, runner_id, leases, n_leases, lease_ms, clock_now_ms(s->clock),
                                arena, ret_renewals);
        return leave(s, ticket, r);
}

static int sqlite_sweep(struct lessor_routing_store *base, struct lessor_arena *arena,
                        struct lessor_swept *ret_swept, struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int64_t now_ms;
        int r = enter(s);

        if (r < 0)
                return r;
        now_ms = clock_now_ms(s->clock);
        asides_expire(&s->asides, now_ms);
        return leave(s, ticket, engine_sweep(s->engine, now_ms, arena, ret_swept));
}

/* --- envelopes --- */

/* An envelope that is on its way in, and the place for it on a job: all that may fail, before the decision.
 */
struct incoming {
        struct held *held;
        struct sealed *place;
};

static void incoming_done(struct incoming *in)
{
        held_unref(in->held);
        free(in->place);
}

static int incoming_init(struct incoming *in, const struct lessor_envelope *envelope)
{
        in->held = held_new(envelope->json);
        in->place = calloc(1, sizeof(*in->place));
        return in->held == NULL || in->place == NULL ? LESSOR_E_NOMEM : 0;
}

/* Room among the bytes that wait for the disk. Lock held. */
static int admit(const struct sqlite_store *s, const struct incoming *in)
{
        /* A single one always passes, so that a small limit cannot lock out a large envelope for good. */
        if (s->n_held_bytes > 0 && s->n_held_bytes + in->held->n > s->options.max_held_bytes)
                return LESSOR_E_UNAVAILABLE;
        return 0;
}

/* Hangs it on its job. Lock held. */
static void keep(struct sqlite_store *s, struct job *job, struct incoming *in, bool is_result)
{
        struct sealed *sealed = job_attachment(job);
        struct held *h = TAKE(in->held);

        if (sealed == NULL) {
                sealed = TAKE(in->place);
                job_attach(job, sealed);
        }
        h->id = s->next_envelope++;
        table_add(&s->held, &h->node, h->id);
        s->n_held_bytes += h->n;
        if (is_result) {
                sealed->result = h->id;
                sealed->result_bytes = h->n;
                return;
        }
        if (sealed->payload != sealed->noted_payload)
                store_drop_held(s, sealed->payload);
        sealed->payload = h->id;
        sealed->payload_bytes = h->n;
}

static int sqlite_seal(struct lessor_routing_store *base, struct lessor_slice site_id,
                       struct lessor_slice job_id, const struct lessor_envelope *envelope,
                       enum lessor_job_state *ret_was, struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        _cleanup_(incoming_done) struct incoming in;
        struct job *job;
        int r;

        r = incoming_init(&in, envelope);
        if (r == 0)
                r = enter(s);
        if (r < 0)
                return r;
        r = admit(s, &in);
        if (r == 0)
                r = engine_seal(s->engine, site_id, job_id, &job, ret_was);
        if (r == 0)
                keep(s, job, &in, false);
        if (r == LESSOR_E_NOT_FOUND && asides_find(&s->asides, site_id, job_id) != NULL) {
                *ret_was = LESSOR_JOB_QUEUED;
                r = LESSOR_E_TOO_LATE;
        }
        return leave(s, ticket, r);
}

static int sqlite_complete(struct lessor_routing_store *base, struct lessor_slice runner_id,
                           const struct lessor_lease_ref *lease, const struct lessor_envelope *envelope,
                           enum lessor_disposition disposition, bool *ret_duplicate,
                           struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        _cleanup_(incoming_done) struct incoming in;
        struct job *job;
        int r;

        r = incoming_init(&in, envelope);
        if (r == 0)
                r = enter(s);
        if (r < 0)
                return r;
        r = admit(s, &in);
        if (r == 0)
                r = engine_complete(s->engine, runner_id, lease, disposition, &job, ret_duplicate);
        if (r == 0 && !*ret_duplicate)
                keep(s, job, &in, true);
        return leave(s, ticket, r);
}

/* Where the bytes of an envelope are at one instant: in memory, or else on disk. */
struct whereabouts {
        uint64_t id;
        uint64_t bytes;
        struct held *held; /* a reference; NULL: on disk */
};

static struct whereabouts locate(const struct sqlite_store *s, uint64_t id, uint64_t bytes)
{
        const struct table_node *node = table_first(&s->held, id);
        struct whereabouts w = {.id = id, .bytes = bytes};

        if (node != NULL)
                w.held = held_ref(container_of(node, struct held, node));
        return w;
}

/* Fetches the bytes; no lock held. Gives the reference back. Returns as readers_text. */
static int fetch(struct sqlite_store *s, struct whereabouts *w, struct lessor_arena *arena,
                 struct lessor_envelope *ret_envelope)
{
        struct lessor_slice bytes;
        int r;

        if (w->held == NULL)
                return readers_text(&s->readers, 0, w->id, w->bytes, arena, &ret_envelope->json);
        bytes = (struct lessor_slice){w->held->bytes, w->held->n};
        r = lessor_arena_copy(arena, bytes, &ret_envelope->json);
        w->held = held_unref(w->held);
        return r;
}

/* A row that was promised is not there, and the promise still stands: the file was damaged or meddled with.
 */
static int refuse_missing(const struct sqlite_store *s, uint64_t id)
{
        log_error("routing-envelope-missing", LOG_CSTR("path", s->path), LOG_INT("id", (int64_t)id));
        return LESSOR_E_UNAVAILABLE;
}

static int unreadable(int r)
{
        return r == LESSOR_E_CORRUPT ? LESSOR_E_UNAVAILABLE : r;
}

/* The decision, and where the payload is. Leaves the lock in every case. */
static int decide_payload(struct sqlite_store *s, struct lessor_slice runner_id,
                          const struct lessor_lease_ref *lease, struct whereabouts *ret_where,
                          struct lessor_ticket *ret_ticket)
{
        const struct sealed *sealed;
        struct job *job;
        int r = enter(s);

        if (r < 0)
                return r;
        r = engine_payload_holder(s->engine, runner_id, lease, &job);
        if (r == 0) {
                sealed = job_attachment(job);
                *ret_where = locate(s, sealed->payload, sealed->payload_bytes);
                engine_run(s->engine, job);
        }
        *ret_ticket = committer_part(&s->committer);
        return r;
}

static int sqlite_take_payload(struct lessor_routing_store *base, struct lessor_slice runner_id,
                               const struct lessor_lease_ref *lease, struct lessor_arena *arena,
                               struct lessor_envelope *ret_envelope, struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        struct lessor_ticket t = {0};
        struct whereabouts where = {0};
        uint64_t missing = 0;
        int r;

        for (;;) {
                r = decide_payload(s, runner_id, lease, &where, &t);
                if (r < 0)
                        break;
                r = fetch(s, &where, arena, ret_envelope);
                if (r != LESSOR_E_NOT_FOUND)
                        break;
                /* The job went back, or ended, while the bytes were being looked for: decide again. */
                if (where.id == missing) {
                        r = refuse_missing(s, missing);
                        break;
                }
                missing = where.id;
        }
        return committer_wait(&s->committer, t, ticket, unreadable(r));
}

/* What `finished` shows, before the bytes are fetched. */
static int list_finished(struct sqlite_store *s, struct lessor_slice site_id, size_t max_bytes,
                         struct lessor_arena *arena, struct lessor_result_list *list,
                         struct whereabouts **ret_where)
{
        uint64_t bytes = 0, after = 0;
        struct job *job;
        size_t n = 0;

        *list = (struct lessor_result_list){0};
        while ((job = engine_finished_next(s->engine, site_id, after)) != NULL) {
                const struct sealed *sealed = job_attachment(job);

                bytes += sealed->result_bytes;
                if (n > 0 && bytes > max_bytes) {
                        list->more = true;
                        break;
                }
                n++;
                after = job_seq(job);
        }
        list->items = lessor_arena_array(arena, n, sizeof(*list->items));
        *ret_where = lessor_arena_array(arena, n, sizeof(**ret_where));
        if (list->items == NULL || *ret_where == NULL)
                return LESSOR_E_NOMEM;
        for (after = 0; list->n < n; after = job_seq(job)) {
                const struct sealed *sealed;
                int r;

                job = engine_finished_next(s->engine, site_id, after);
                r = job_render(job, arena, &list->items[list->n].job);
                if (r < 0)
                        return r;
                sealed = job_attachment(job);
                (*ret_where)[list->n++] = locate(s, sealed->result, sealed->result_bytes);
        }
        return 0;
}

/* Fetches the bytes of what list_finished listed, and leaves out what is gone meanwhile. All references go.
 */
static int fetch_finished(struct sqlite_store *s, struct lessor_result_list *list, struct whereabouts *where,
                          int r, struct lessor_arena *arena)
{
        size_t n = 0;

        for (size_t i = 0; i < list->n; i++) {
                struct lessor_result result = list->items[i];
                int fetched;

                if (r < 0) {
                        where[i].held = held_unref(where[i].held);
                        continue;
                }
                fetched = fetch(s, &where[i], arena, &result.envelope);
                if (fetched == 0)
                        list->items[n++] = result;
                else if (fetched != LESSOR_E_NOT_FOUND)
                        r = fetched; /* NOT_FOUND: acknowledged, or its deadline passed, since it was listed
                                      */
        }
        list->n = n;
        return unreadable(r);
}

static int sqlite_finished(struct lessor_routing_store *base, struct lessor_slice site_id, size_t max_bytes,
                           struct lessor_arena *arena, struct lessor_result_list *ret_results,
                           struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        struct lessor_result_list list;
        struct lessor_ticket t;
        struct whereabouts *where;
        int r = enter(s);

        if (r < 0)
                return r;
        r = list_finished(s, site_id, max_bytes, arena, &list, &where);
        t = committer_part(&s->committer);
        r = fetch_finished(s, &list, where, r, arena);
        if (r == 0)
                *ret_results = list;
        return committer_wait(&s->committer, t, ticket, r);
}

/* --- presence --- */

static int sqlite_seen(struct lessor_routing_store *base, const struct lessor_presence *presence,
                       struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        return r < 0 ? r : leave(s, ticket, engine_seen(s->engine, presence, clock_now_ms(s->clock)));
}

static int sqlite_presence(struct lessor_routing_store *base, struct lessor_slice runner_id,
                           struct lessor_arena *arena, struct lessor_presence *ret_presence,
                           struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        return r < 0 ? r : leave(s, ticket, engine_presence(s->engine, runner_id, arena, ret_presence));
}

static int sqlite_everyone(struct lessor_routing_store *base, struct lessor_arena *arena,
                           struct lessor_presence_list *ret_everyone, struct lessor_ticket *ticket)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        return r < 0 ? r : leave(s, ticket, engine_everyone(s->engine, arena, ret_everyone));
}

/* --- the store itself --- */

static int sqlite_when_durable(struct lessor_routing_store *base, struct lessor_ticket ticket,
                               void (*told)(void *context, int result), void *context)
{
        return committer_when_durable(&store_of(base)->committer, ticket, told, context);
}

static int sqlite_stats(struct lessor_routing_store *base, struct lessor_routing_stats *ret_stats)
{
        struct sqlite_store *s = store_of(base);

        (void)pthread_mutex_lock(&s->committer.lock);
        engine_stats(s->engine, ret_stats);
        ret_stats->n_set_aside = s->asides.n_there + s->asides.n_nameless;
        (void)pthread_mutex_unlock(&s->committer.lock);
        return 0;
}

static int sqlite_check(struct lessor_routing_store *base)
{
        struct sqlite_store *s = store_of(base);
        int r = enter(s);

        if (r < 0)
                return r;
        s->check_wanted = true;
        r = leave(s, NULL, 0);
        if (r == 0 && committer_is_low(&s->committer))
                r = LESSOR_E_LOW_SPACE;
        return r;
}

static int sqlite_backup(struct lessor_routing_store *base, const char *path)
{
        const struct sqlite_store *s = store_of(base);

        return sqlite_db_backup(s->path, s->options.vfs, path);
}

static struct lessor_routing_store *sqlite_free(struct lessor_routing_store *base)
{
        return store_free(store_of(base));
}

const struct lessor_routing_store_ops sqlite_store_ops = {
        .now = sqlite_now,
        .enqueue = sqlite_enqueue,
        .job = sqlite_job,
        .jobs = sqlite_jobs,
        .awaiting = sqlite_awaiting,
        .finished = sqlite_finished,
        .claim = sqlite_claim,
        .take_payload = sqlite_take_payload,
        .complete = sqlite_complete,
        .release_leases = sqlite_release_leases,
        .seal = sqlite_seal,
        .cancel = sqlite_cancel,
        .cancel_requests = sqlite_cancel_requests,
        .renew_leases = sqlite_renew_leases,
        .ack = sqlite_ack,
        .seen = sqlite_seen,
        .presence = sqlite_presence,
        .everyone = sqlite_everyone,
        .sweep = sqlite_sweep,
        .when_durable = sqlite_when_durable,
        .stats = sqlite_stats,
        .check = sqlite_check,
        .backup = sqlite_backup,
        .free = sqlite_free,
};
