/* SPDX-License-Identifier: MIT */
#include "routing/memory.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/macro.h"
#include "base/size.h"
#include "base/uuid.h"
#include "routing/engine.h"

struct memory_store {
        struct lessor_routing_store base;
        struct clock *clock;
        pthread_mutex_t lock; /* guards the engine and all that hangs on its jobs */
        struct engine *engine;
};

/* A job's envelopes, hung on it. Texts from malloc, NULL where there is none. */
struct envelopes {
        char *payload;
        size_t payload_len;
        char *result;
        size_t result_len;
};

static void envelopes_free(void *object)
{
        struct envelopes *held = object;

        if (held == NULL)
                return;
        free(held->payload);
        free(held->result);
        free(held);
}

static void envelopes_freep(struct envelopes **held)
{
        envelopes_free(*held);
}

static struct memory_store *store_of(struct lessor_routing_store *s)
{
        return container_of(s, struct memory_store, base);
}

static void enter(struct memory_store *m)
{
        pthread_mutex_lock(&m->lock);
}

/* Drops the bytes that nobody can ask for any more: payloads of jobs that are queued again or done. */
static void settle_changes(struct memory_store *m)
{
        struct job *job;

        while (engine_change_drops_payload(m->engine, &job)) {
                struct envelopes *held = job == NULL ? NULL : job_attachment(job);

                if (held != NULL) {
                        free(held->payload);
                        held->payload = NULL;
                        held->payload_len = 0;
                }
                engine_change_drop(m->engine);
        }
}

static void tell(const struct lessor_routing_listener *l, const struct engine_event *event)
{
        switch (event->what) {
        case ENGINE_EVENT_AWAITING:
                if (l->awaiting != NULL)
                        l->awaiting(l->context, event->site_id);
                break;
        case ENGINE_EVENT_FINISHED:
                if (l->finished != NULL)
                        l->finished(l->context, event->site_id);
                break;
        case ENGINE_EVENT_CHURN:
                if (l->churn != NULL)
                        l->churn(l->context, &event->churn);
                break;
        }
}

/* Ends an operation: gives the lock back and then tells the listener, which must hear with no lock held. */
static int leave(struct memory_store *m, struct lessor_ticket *ticket, int result)
{
        struct engine_event event;

        settle_changes(m);
        while (engine_event_take(m->engine, &event)) {
                pthread_mutex_unlock(&m->lock);
                tell(&m->base.listener, &event);
                pthread_mutex_lock(&m->lock);
                engine_event_done(m->engine, &event);
        }
        pthread_mutex_unlock(&m->lock);
        if (ticket != NULL)
                ticket->seq = 0;
        return result;
}

static int memory_now(struct lessor_routing_store *s, int64_t *ret_now_ms)
{
        *ret_now_ms = clock_now_ms(store_of(s)->clock);
        return 0;
}

static int memory_enqueue(struct lessor_routing_store *s, struct lessor_slice site_id,
                          const struct lessor_stub *stub, struct lessor_arena *arena,
                          struct lessor_job *ret_job, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        int r;

        enter(m);
        r = engine_enqueue(m->engine, site_id, stub, clock_now_ms(m->clock), arena, ret_job, NULL);
        return leave(m, ticket, r);
}

static int memory_job(struct lessor_routing_store *s, struct lessor_slice site_id, struct lessor_slice job_id,
                      struct lessor_arena *arena, struct lessor_job *ret_job, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_job(m->engine, site_id, job_id, arena, ret_job));
}

static int memory_jobs(struct lessor_routing_store *s, const struct lessor_slice *site_id, size_t max,
                       struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                       struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_jobs(m->engine, site_id, max, arena, ret_jobs));
}

static int memory_awaiting(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max,
                           struct lessor_arena *arena, struct lessor_job_list *ret_jobs,
                           struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_awaiting(m->engine, site_id, max, arena, ret_jobs));
}

/* How many results come next, and whether more are left. */
static size_t count_results(const struct engine *e, struct lessor_slice site_id, size_t max_bytes,
                            bool *ret_more)
{
        size_t n = 0, bytes = 0;
        uint64_t after = 0;
        struct job *job;

        *ret_more = false;
        while ((job = engine_finished_next(e, site_id, after)) != NULL) {
                const struct envelopes *held = job_attachment(job);

                if (!size_add(bytes, held->result_len, &bytes) || (n > 0 && bytes > max_bytes)) {
                        *ret_more = true;
                        break;
                }
                n++;
                after = job_seq(job);
        }
        return n;
}

static int list_results(const struct engine *e, struct lessor_slice site_id, size_t max_bytes,
                        struct lessor_arena *arena, struct lessor_result_list *ret_results)
{
        struct lessor_result_list list = {0};
        size_t n = count_results(e, site_id, max_bytes, &list.more);
        uint64_t after = 0;

        list.items = lessor_arena_array(arena, n, sizeof(*list.items));
        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        while (list.n < n) {
                struct job *job = engine_finished_next(e, site_id, after);
                const struct envelopes *held = job_attachment(job);
                struct lessor_result *out = &list.items[list.n++];
                int r;

                r = job_render(job, arena, &out->job);
                if (r == 0)
                        r = lessor_arena_copy(arena, (struct lessor_slice){held->result, held->result_len},
                                              &out->envelope.json);
                if (r < 0)
                        return r;
                after = job_seq(job);
        }
        *ret_results = list;
        return 0;
}

static int memory_finished(struct lessor_routing_store *s, struct lessor_slice site_id, size_t max_bytes,
                           struct lessor_arena *arena, struct lessor_result_list *ret_results,
                           struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, list_results(m->engine, site_id, max_bytes, arena, ret_results));
}

static int memory_claim(struct lessor_routing_store *s, const struct lessor_claim *claim,
                        struct lessor_arena *arena, struct lessor_job_list *ret_granted,
                        struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        char texts[LIMIT_CLAIM_MAX][UUID_TEXT_LEN + 1];
        struct lessor_slice lease_ids[LIMIT_CLAIM_MAX];
        int r;

        for (size_t i = 0; i < claim->max && i < LIMIT_CLAIM_MAX; i++) {
                uuid_v4(texts[i]);
                lease_ids[i] = (struct lessor_slice){texts[i], UUID_TEXT_LEN};
        }
        enter(m);
        r = engine_claim(m->engine, claim, clock_now_ms(m->clock), lease_ids, arena, ret_granted);
        return leave(m, ticket, r);
}

static int memory_take_payload(struct lessor_routing_store *s, struct lessor_slice runner_id,
                               const struct lessor_lease_ref *lease, struct lessor_arena *arena,
                               struct lessor_envelope *ret_envelope, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        struct job *job;
        int r;

        enter(m);
        r = engine_payload_holder(m->engine, runner_id, lease, &job);
        if (r == 0) {
                const struct envelopes *held = job_attachment(job);

                r = lessor_arena_copy(arena, (struct lessor_slice){held->payload, held->payload_len},
                                      &ret_envelope->json);
                if (r == 0)
                        engine_run(m->engine, job);
        }
        return leave(m, ticket, r);
}

/* A copy of an envelope in one of the two places of new `envelopes`. */
static int copy_envelope(const struct lessor_envelope *from, bool is_result, struct envelopes **ret_held)
{
        _cleanup_(envelopes_freep) struct envelopes *held = calloc(1, sizeof(*held));
        char *copy = malloc(from->json.n == 0 ? 1 : from->json.n);

        if (held == NULL || copy == NULL) {
                free(copy);
                return LESSOR_E_NOMEM;
        }
        if (from->json.n > 0)
                memcpy(copy, from->json.p, from->json.n);
        *(is_result ? &held->result : &held->payload) = copy;
        *(is_result ? &held->result_len : &held->payload_len) = from->json.n;
        *ret_held = TAKE(held);
        return 0;
}

/* Hangs new envelopes on a job, beside what it has. */
static void hang(struct job *job, struct envelopes **held)
{
        struct envelopes *there = job_attachment(job);

        if (there == NULL) {
                job_attach(job, TAKE(*held));
                return;
        }
        if ((*held)->payload != NULL) {
                free(there->payload);
                there->payload = TAKE((*held)->payload);
                there->payload_len = (*held)->payload_len;
        }
        if ((*held)->result != NULL) {
                free(there->result);
                there->result = TAKE((*held)->result);
                there->result_len = (*held)->result_len;
        }
}

static int memory_complete(struct lessor_routing_store *s, struct lessor_slice runner_id,
                           const struct lessor_lease_ref *lease, const struct lessor_envelope *envelope,
                           enum lessor_disposition disposition, bool *ret_duplicate,
                           struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        _cleanup_(envelopes_freep) struct envelopes *held = NULL;
        struct job *job;
        int r;

        r = copy_envelope(envelope, true, &held);
        if (r < 0)
                return r;
        enter(m);
        r = engine_complete(m->engine, runner_id, lease, disposition, &job, ret_duplicate);
        if (r == 0 && !*ret_duplicate)
                hang(job, &held);
        return leave(m, ticket, r);
}

static int memory_release_leases(struct lessor_routing_store *s, const struct lessor_release *release,
                                 struct lessor_arena *arena, struct lessor_lease_ref_list *ret_released,
                                 struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        int r;

        enter(m);
        r = engine_release_leases(m->engine, release, clock_now_ms(m->clock), arena, ret_released);
        return leave(m, ticket, r);
}

static int memory_seal(struct lessor_routing_store *s, struct lessor_slice site_id,
                       struct lessor_slice job_id, const struct lessor_envelope *envelope,
                       enum lessor_job_state *ret_was, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        _cleanup_(envelopes_freep) struct envelopes *held = NULL;
        struct job *job;
        int r;

        r = copy_envelope(envelope, false, &held);
        if (r < 0)
                return r;
        enter(m);
        r = engine_seal(m->engine, site_id, job_id, &job, ret_was);
        if (r == 0)
                hang(job, &held);
        return leave(m, ticket, r);
}

static int memory_cancel(struct lessor_routing_store *s, struct lessor_slice site_id,
                         struct lessor_slice job_id, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_cancel(m->engine, site_id, job_id));
}

static int memory_cancel_requests(struct lessor_routing_store *s, struct lessor_slice runner_id,
                                  struct lessor_arena *arena, struct lessor_lease_ref_list *ret_leases,
                                  struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_cancel_requests(m->engine, runner_id, arena, ret_leases));
}

static int memory_renew_leases(struct lessor_routing_store *s, struct lessor_slice runner_id,
                               const struct lessor_lease_ref *leases, size_t n_leases, int64_t lease_ms,
                               struct lessor_arena *arena, struct lessor_renewal_list *ret_renewals,
                               struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);
        int r;

        enter(m);
        r = engine_renew_leases(m->engine, runner_id, leases, n_leases, lease_ms, clock_now_ms(m->clock),
                                arena, ret_renewals);
        return leave(m, ticket, r);
}

static int memory_ack(struct lessor_routing_store *s, struct lessor_slice site_id,
                      const struct lessor_slice *job_ids, size_t n_job_ids, struct lessor_arena *arena,
                      struct lessor_slice **ret_acked, size_t *ret_n_acked, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket,
                     engine_ack(m->engine, site_id, job_ids, n_job_ids, arena, ret_acked, ret_n_acked));
}

static int memory_seen(struct lessor_routing_store *s, const struct lessor_presence *presence,
                       struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_seen(m->engine, presence, clock_now_ms(m->clock)));
}

static int memory_presence(struct lessor_routing_store *s, struct lessor_slice runner_id,
                           struct lessor_arena *arena, struct lessor_presence *ret_presence,
                           struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_presence(m->engine, runner_id, arena, ret_presence));
}

static int memory_everyone(struct lessor_routing_store *s, struct lessor_arena *arena,
                           struct lessor_presence_list *ret_everyone, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_everyone(m->engine, arena, ret_everyone));
}

static int memory_sweep(struct lessor_routing_store *s, struct lessor_arena *arena,
                        struct lessor_swept *ret_swept, struct lessor_ticket *ticket)
{
        struct memory_store *m = store_of(s);

        enter(m);
        return leave(m, ticket, engine_sweep(m->engine, clock_now_ms(m->clock), arena, ret_swept));
}

static int memory_when_durable(struct lessor_routing_store *s, struct lessor_ticket ticket,
                               void (*told)(void *context, int result), void *context)
{
        (void)s, (void)ticket, (void)told, (void)context;
        return 1;
}

static int memory_stats(struct lessor_routing_store *s, struct lessor_routing_stats *ret_stats)
{
        struct memory_store *m = store_of(s);

        enter(m);
        engine_stats(m->engine, ret_stats);
        return leave(m, NULL, 0);
}

static int memory_check(struct lessor_routing_store *s)
{
        (void)s;
        return 0;
}

static int memory_backup(struct lessor_routing_store *s, const char *path)
{
        (void)s, (void)path;
        return LESSOR_E_INVALID;
}

static struct lessor_routing_store *memory_free(struct lessor_routing_store *s)
{
        struct memory_store *m = store_of(s);

        engine_free(m->engine);
        pthread_mutex_destroy(&m->lock);
        free(m);
        return NULL;
}

static const struct lessor_routing_store_ops memory_ops = {
        .now = memory_now,
        .enqueue = memory_enqueue,
        .job = memory_job,
        .jobs = memory_jobs,
        .awaiting = memory_awaiting,
        .finished = memory_finished,
        .claim = memory_claim,
        .take_payload = memory_take_payload,
        .complete = memory_complete,
        .release_leases = memory_release_leases,
        .seal = memory_seal,
        .cancel = memory_cancel,
        .cancel_requests = memory_cancel_requests,
        .renew_leases = memory_renew_leases,
        .ack = memory_ack,
        .seen = memory_seen,
        .presence = memory_presence,
        .everyone = memory_everyone,
        .sweep = memory_sweep,
        .when_durable = memory_when_durable,
        .stats = memory_stats,
        .check = memory_check,
        .backup = memory_backup,
        .free = memory_free,
};

int memory_store_new(struct clock *clock, const struct lessor_routing_listener *listener,
                     struct lessor_routing_store **ret_store)
{
        unsigned char hash_key[ENGINE_HASH_KEY_BYTES];
        struct memory_store *m = calloc(1, sizeof(*m));
        int r;

        if (m == NULL)
                return LESSOR_E_NOMEM;
        randombytes_buf(hash_key, sizeof(hash_key));
        r = engine_new(hash_key, envelopes_free, &m->engine);
        if (r < 0) {
                free(m);
                return r;
        }
        pthread_mutex_init(&m->lock, NULL);
        m->base.ops = &memory_ops;
        if (listener != NULL)
                m->base.listener = *listener;
        m->clock = clock;
        *ret_store = &m->base;
        return 0;
}
