/* SPDX-License-Identifier: MIT */
/* What the two parties of a grant do: the device that holds it, and the site that it is for. */
#include "routing/engine_internal.h"

/* The job under exactly this lease, if it is held by this runner and has this id; or NULL. */
static struct job *held_job(const struct engine *e, struct lessor_slice runner_id,
                            const struct lessor_lease_ref *lease)
{
        uint64_t hash = table_hash(&e->by_lease, lease->lease_id);

        for (struct table_node *n = table_first(&e->by_lease, hash); n != NULL; n = table_next(n)) {
                struct claim *c = container_of(n, struct claim, by_lease);

                if (lessor_slice_equal(c->lease_id, lease->lease_id))
                        return lessor_slice_equal(c->job->id, lease->job_id) &&
                                               lessor_slice_equal(c->runner->id, runner_id)
                                       ? c->job
                                       : NULL;
        }
        return NULL;
}

/* Whether the lease is a current one of a job with this id, whoever holds it. */
static bool is_leased_to_another(const struct engine *e, struct lessor_slice runner_id,
                                 const struct lessor_lease_ref *lease)
{
        uint64_t hash = table_hash(&e->by_lease, lease->lease_id);

        for (struct table_node *n = table_first(&e->by_lease, hash); n != NULL; n = table_next(n)) {
                const struct claim *c = container_of(n, struct claim, by_lease);

                if (lessor_slice_equal(c->lease_id, lease->lease_id))
                        return lessor_slice_equal(c->job->id, lease->job_id) &&
                               !lessor_slice_equal(c->runner->id, runner_id);
        }
        return false;
}

/* Whether this runner holds a job of this id under some lease: the oldest such job, or NULL. */
static struct job *job_of_holder(const struct engine *e, struct lessor_slice runner_id,
                                 struct lessor_slice job_id)
{
        uint64_t hash = table_hash_pair(&e->by_holder, runner_id, job_id);
        struct job *oldest = NULL;

        for (struct table_node *n = table_first(&e->by_holder, hash); n != NULL; n = table_next(n)) {
                struct claim *c = container_of(n, struct claim, by_holder);

                if (lessor_slice_equal(c->job->id, job_id) && lessor_slice_equal(c->runner->id, runner_id) &&
                    (oldest == NULL || job_seq(c->job) < job_seq(oldest)))
                        oldest = c->job;
        }
        return oldest;
}

/*
 * Which job a (job id, runner, lease) means (relay-protocol 10): never one that the caller neither holds nor
 * can name the lease of, since a bare id must not tell whether another site has such a job.
 */
static int holder(const struct engine *e, struct lessor_slice runner_id, const struct lessor_lease_ref *lease,
                  struct job **ret_job)
{
        struct job *job = held_job(e, runner_id, lease);

        if (job != NULL) {
                *ret_job = job;
                return 0;
        }
        if (is_leased_to_another(e, runner_id, lease))
                return LESSOR_E_NOT_HOLDER;
        if (job_of_holder(e, runner_id, lease->job_id) != NULL)
                return LESSOR_E_STALE_LEASE;
        return LESSOR_E_NOT_FOUND;
}

int engine_payload_holder(const struct engine *e, struct lessor_slice runner_id,
                          const struct lessor_lease_ref *lease, struct job **ret_job)
{
        struct job *job;
        int r;

        r = holder(e, runner_id, lease, &job);
        if (r < 0)
                return r;
        if (!job->has_payload)
                return LESSOR_E_NOT_READY; /* even when done: it never was sealed */
        if (job->state != LESSOR_JOB_READY && job->state != LESSOR_JOB_RUNNING)
                return LESSOR_E_TERMINAL;
        *ret_job = job;
        return 0;
}

void engine_run(struct engine *e, struct job *job)
{
        if (job->state == LESSOR_JOB_RUNNING)
                return;
        job_leave(e, job);
        job->state = LESSOR_JOB_RUNNING;
        job_enter(e, job);
        change_note(e, &job->change);
}

int engine_complete(struct engine *e, struct lessor_slice runner_id, const struct lessor_lease_ref *lease,
                    enum lessor_disposition disposition, struct job **ret_job, bool *ret_duplicate)
{
        struct job *job;
        int r;

        r = holder(e, runner_id, lease, &job);
        if (r < 0)
                return r;
        *ret_job = job;
        *ret_duplicate = job->state == LESSOR_JOB_DONE;
        if (*ret_duplicate)
                return 0;
        job_leave(e, job);
        job->state = LESSOR_JOB_DONE;
        job->claim->awaiting_until_ms = 0;
        job->disposition = disposition;
        job->has_result = true;
        job->result_changed = true;
        if (job->has_payload)
                job->payload_changed = true;
        job_enter(e, job);
        change_note(e, &job->change);
        event_finished(e, job->pair->site);
        return 0;
}

/* --- release and renewal: many leases in one call --- */

static int copy_ref(struct lessor_arena *arena, const struct lessor_lease_ref *from,
                    struct lessor_lease_ref *ret_copy)
{
        int r;

        r = lessor_arena_copy(arena, from->job_id, &ret_copy->job_id);
        return r < 0 ? r : lessor_arena_copy(arena, from->lease_id, &ret_copy->lease_id);
}

/* Finds what is really given back, marks it, and makes sure that giving it back needs no more memory. */
static int pick_released(struct engine *e, const struct lessor_release *release, bool barred,
                         struct lessor_arena *arena, struct lessor_lease_ref_list *released,
                         struct job **jobs)
{
        for (size_t i = 0; i < release->n_leases; i++) {
                struct job *job = held_job(e, release->runner_id, &release->leases[i]);
                int r = 0;

                if (job == NULL || job->picked || job->state == LESSOR_JOB_DONE)
                        continue;
                if (barred)
                        r = bars_reserve(e, job);
                if (r == 0)
                        r = copy_ref(arena, &release->leases[i], &released->items[released->n]);
                if (r < 0)
                        return r;
                job->picked = true;
                jobs[released->n++] = job;
        }
        return 0;
}

static void give_back(struct engine *e, struct job *job, const struct lessor_release *release, bool barred)
{
        struct runner *runner = job->claim->runner;

        job->picked = false;
        if (barred) {
                /* The bar goes on first: it must be there when the job comes into its queue. */
                runner->refs++;
                bars_set(e, job, runner, release->refused ? ENGINE_BAR_FOREVER : release->retry_after_ms);
        }
        job_requeue(e, job, false);
}

int engine_release_leases(struct engine *e, const struct lessor_release *release, int64_t now_ms,
                          struct lessor_arena *arena, struct lessor_lease_ref_list *ret_released)
{
        struct lessor_lease_ref_list released = {0};
        bool barred = release->refused || release->retry_after_ms > now_ms;
        struct job **jobs;
        int r;

        released.items = lessor_arena_array(arena, release->n_leases, sizeof(*released.items));
        jobs = lessor_arena_array(arena, release->n_leases, sizeof(struct job *));
        if (released.items == NULL || jobs == NULL)
                return LESSOR_E_NOMEM;
        r = pick_released(e, release, barred, arena, &released, jobs);
        if (r < 0) {
                for (size_t i = 0; i < released.n; i++)
                        jobs[i]->picked = false;
                return r;
        }
        for (size_t i = 0; i < released.n; i++)
                give_back(e, jobs[i], release, barred);
        *ret_released = released;
        return 0;
}

int engine_renew_leases(struct engine *e, struct lessor_slice runner_id,
                        const struct lessor_lease_ref *leases, size_t n_leases, int64_t lease_ms,
                        int64_t now_ms, struct lessor_arena *arena, struct lessor_renewal_list *ret_renewals)
{
        struct lessor_renewal_list list = {0};
        int64_t expires_ms = later_ms(now_ms, lease_ms);
        struct job **jobs = lessor_arena_array(arena, n_leases, sizeof(struct job *));

        list.renewed = lessor_arena_array(arena, n_leases, sizeof(*list.renewed));
        list.lost = lessor_arena_array(arena, n_leases, sizeof(*list.lost));
        if (jobs == NULL || list.renewed == NULL || list.lost == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n_leases; i++) {
                struct job *job = held_job(e, runner_id, &leases[i]);
                int r;

                if (job == NULL) {
                        r = copy_ref(arena, &leases[i], &list.lost[list.n_lost++]);
                } else {
                        jobs[list.n_renewed] = job;
                        list.renewed[list.n_renewed].expires_ms = expires_ms;
                        r = copy_ref(arena, &leases[i], &list.renewed[list.n_renewed++].ref);
                }
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < list.n_renewed; i++) {
                struct claim *c = jobs[i]->claim;

                c->lease_expires_ms = expires_ms;
                if (jobs[i]->state == LESSOR_JOB_READY || jobs[i]->state == LESSOR_JOB_RUNNING)
                        timer_set(&e->claims, &c->timer, expires_ms);
                change_note(e, &jobs[i]->change);
        }
        *ret_renewals = list;
        return 0;
}

/* --- the site --- */

int engine_seal(struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id,
                struct job **ret_job, enum lessor_job_state *ret_was)
{
        struct job *job = engine_find(e, site_id, job_id);

        if (job == NULL)
                return LESSOR_E_NOT_FOUND;
        if (job->state != LESSOR_JOB_AWAITING) {
                *ret_was = job->state;
                return LESSOR_E_TOO_LATE;
        }
        job_leave(e, job);
        job->state = LESSOR_JOB_READY;
        job->claim->awaiting_until_ms = 0;
        job->seal_attempts = 0; /* `stuck` stays: a re-offer is for the rest of the job's life */
        job->has_payload = true;
        job->payload_changed = true;
        job_enter(e, job);
        change_note(e, &job->change);
        *ret_job = job;
        return 0;
}

int engine_cancel(struct engine *e, struct lessor_slice site_id, struct lessor_slice job_id)
{
        struct job *job = engine_find(e, site_id, job_id);

        if (job == NULL)
                return LESSOR_E_NOT_FOUND;
        if (job->cancelled)
                return 0;
        job_leave(e, job);
        job->cancelled = true;
        job_enter(e, job);
        change_note(e, &job->change);
        return 0;
}

int engine_cancel_requests(const struct engine *e, struct lessor_slice runner_id, struct lessor_arena *arena,
                           struct lessor_lease_ref_list *ret_leases)
{
        const struct runner *runner = runner_find(e, runner_id);
        struct lessor_lease_ref_list list = {0};
        const struct order_node *node;
        size_t n = 0;
        int r;

        *ret_leases = list;
        if (runner == NULL)
                return 0;
        for (node = order_after(&runner->cancelled, 0); node != NULL;
             node = order_after(&runner->cancelled, node->seq))
                n++;
        list.items = lessor_arena_array(arena, n, sizeof(*list.items));
        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        for (node = order_after(&runner->cancelled, 0); node != NULL;
             node = order_after(&runner->cancelled, node->seq)) {
                const struct claim *c = container_of(node, struct claim, cancel_node);

                r = copy_ref(arena, &(struct lessor_lease_ref){c->job->id, c->lease_id},
                             &list.items[list.n++]);
                if (r < 0)
                        return r;
        }
        *ret_leases = list;
        return 0;
}

int engine_ack(struct engine *e, struct lessor_slice site_id, const struct lessor_slice *job_ids,
               size_t n_job_ids, struct lessor_arena *arena, struct lessor_slice **ret_acked,
               size_t *ret_n_acked)
{
        struct lessor_slice *acked = lessor_arena_array(arena, n_job_ids, sizeof(*acked));
        struct job **jobs = lessor_arena_array(arena, n_job_ids, sizeof(struct job *));
        size_t n = 0;
        int r = 0;

        if (acked == NULL || jobs == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n_job_ids && r == 0; i++) {
                struct job *job = engine_find(e, site_id, job_ids[i]);

                if (job == NULL || job->picked || job->state != LESSOR_JOB_DONE)
                        continue;
                r = lessor_arena_copy(arena, job->id, &acked[n]);
                if (r == 0) {
                        job->picked = true;
                        jobs[n++] = job;
                }
        }
        for (size_t i = 0; i < n; i++) {
                jobs[i]->picked = false;
                if (r == 0)
                        job_remove(e, jobs[i]);
        }
        if (r < 0)
                return r;
        *ret_acked = acked;
        *ret_n_acked = n;
        return 0;
}
