/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "client/agent.h"

/* What the main thread says to the relay while it serves: heartbeats and claims. */

#define GRANT_LAPSES_MS 120000 /* relay-protocol 7: remembered until issuedAt and so much more */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)
DEFINE_CLEANUP(struct agent_job, agent_job_free)

static void notice(struct lessor_agent *agent, const char *message)
{
        agent_tell(agent, &(struct lessor_agent_event){.type = LESSOR_AGENT_NOTICE, .message = message});
}

/* The leases that run, copied: the jobs may end while the relay is asked. */
static int active_leases(struct lessor_agent *agent, struct lessor_arena *arena,
                         struct lessor_lease_ref **ret_leases, size_t *ret_n)
{
        struct lessor_lease_ref *leases;
        size_t n = 0;
        int r = 0;

        pthread_mutex_lock(&agent->mutex);
        leases = lessor_arena_array(arena, agent->n_active, sizeof(*leases));
        if (leases == NULL)
                r = LESSOR_E_NOMEM;
        for (struct agent_job *job = agent->active; r == 0 && job != NULL; job = job->next) {
                r = lessor_arena_copy(arena, job->stub.id, &leases[n].job_id);
                if (r == 0)
                        r = lessor_arena_copy(arena, job->lease_id, &leases[n].lease_id);
                n++;
        }
        pthread_mutex_unlock(&agent->mutex);
        *ret_leases = leases;
        *ret_n = n;
        return r;
}

static bool names(const struct lessor_lease_ref *list, size_t n, struct lessor_slice lease_id)
{
        for (size_t i = 0; i < n; i++)
                if (lessor_slice_equal(list[i].lease_id, lease_id))
                        return true;
        return false;
}

static void decide(struct agent_job *job, enum job_fate fate)
{
        if (job->fate != FATE_NONE)
                return;
        job->fate = fate;
        lessor_stop_raise(job->stop);
}

/* What the heartbeat means for the jobs that run. */
static void apply_to_jobs(struct lessor_agent *agent, const struct heartbeat_answer *answer,
                          const struct lessor_lease_ref *named, size_t n_named, int64_t sent_ms,
                          int64_t now_ms)
{
        pthread_mutex_lock(&agent->mutex);
        for (struct agent_job *job = agent->active; job != NULL; job = job->next) {
                const struct known_site *site =
                        known_site_find(agent->state.sites, agent->state.n_sites, job->stub.site);

                if (names(answer->lost, answer->n_lost, job->lease_id))
                        decide(job, FATE_LOST);
                else if (names(answer->cancel, answer->n_cancel, job->lease_id))
                        decide(job, FATE_CANCELLED);
                else if (site == NULL || !known_site_is_served(site, now_ms))
                        decide(job, FATE_WITHDRAWN);
                else if (names(named, n_named, job->lease_id))
                        job->lease_until_ms = sent_ms + agent->lease_ms;
        }
        pthread_mutex_unlock(&agent->mutex);
}

static void tell_sites(struct lessor_agent *agent, const struct site_changes *changes)
{
        for (size_t i = 0; i < changes->n_notes; i++) {
                const struct site_note *n = &changes->notes[i];
                struct lessor_agent_event event = {.site = n->key_id};

                switch (n->type) {
                case SITE_PINNED:
                        event.type = LESSOR_AGENT_SITE_PINNED;
                        break;
                case SITE_ROTATED:
                        event.type = LESSOR_AGENT_SITE_PINNED;
                        event.message = "the site changed its key, and its old key vouches for the new one";
                        break;
                case SITE_REFUSED:
                        event.type = LESSOR_AGENT_SITE_REFUSED;
                        event.message = n->reason;
                        break;
                case SITE_WITHDRAWN:
                        event.type = LESSOR_AGENT_NOTICE;
                        event.message = "the relay no longer names this site, so its jobs are not taken";
                        break;
                }
                agent_tell(agent, &event);
        }
}

/*
 * Writes the changed state, then reads it back into an arena of its own, which takes the old one's place:
 * what lives long must not hang on what came with one answer.
 */
static int remember_sites(struct lessor_agent *agent, const struct site_changes *changes)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_arena *old;
        struct device_state state = agent->state;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        state.sites = changes->sites;
        state.n_sites = changes->n_sites;
        r = device_state_save(agent->state_path, &state);
        if (r == 0)
                r = device_state_load(agent->state_path, arena, &state, NULL);
        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : LESSOR_E_IO;
        pthread_mutex_lock(&agent->mutex);
        agent->state = state;
        old = agent->state_arena;
        agent->state_arena = TAKE(arena);
        pthread_mutex_unlock(&agent->mutex);
        lessor_arena_free(old);
        return 0;
}

static int apply_sites(struct lessor_agent *agent, const struct heartbeat_answer *answer, int64_t now_ms,
                       struct lessor_arena *arena)
{
        struct site_changes changes;
        /* Only this thread writes the state, so it may read it without the lock. */
        int r = rules_apply_sites(agent->state.sites, agent->state.n_sites, answer->sites, answer->n_sites,
                                  answer->successions, answer->n_successions, now_ms, arena, &changes);

        if (r < 0)
                return r;
        if (changes.changed) {
                r = remember_sites(agent, &changes);
                if (r < 0)
                        return r;
        }
        tell_sites(agent, &changes);
        return 0;
}

static void notice_clock(struct lessor_agent *agent, int64_t server_ms, int64_t now_ms)
{
        int64_t ahead_ms = now_ms - server_ms;
        bool off = ahead_ms > CLOCK_NOTICE_MS || ahead_ms < -CLOCK_NOTICE_MS;
        struct buf text;

        if (off && !agent->clock_noted) {
                buf_init(&text);
                buf_printf(&text, "this machine's clock is %lld s %s the relay's",
                           (long long)(ahead_ms < 0 ? -ahead_ms : ahead_ms) / 1000,
                           ahead_ms < 0 ? "behind" : "ahead of");
                if (buf_failed(&text) == 0)
                        notice(agent, text.p);
                buf_done(&text);
        }
        agent->clock_noted = off;
}

/* Says what changed since it was last said: an offered version, and sites whose owner has paused them. */
static int notice_news(struct lessor_agent *agent, const struct heartbeat_answer *answer)
{
        _cleanup_(buf_done) struct buf awaiting;
        _cleanup_(buf_done) struct buf text;
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = NULL;
        int r;

        buf_init(&awaiting);
        buf_init(&text);
        for (size_t i = 0; i < answer->n_awaiting_consent; i++) {
                if (i > 0)
                        buf_text(&awaiting, ", ");
                buf_slice(&awaiting, answer->awaiting_consent[i]);
        }
        if (buf_failed(&awaiting) < 0)
                return LESSOR_E_NOMEM;
        if (lessor_slice_equal(agent->noted_update, answer->update_to) &&
            lessor_slice_equal(agent->noted_awaiting, buf_view(&awaiting)))
                return 0;
        if (answer->update_to.n > 0 && !lessor_slice_equal(agent->noted_update, answer->update_to)) {
                buf_text(&text, "the relay offers version ");
                buf_slice(&text, answer->update_to);
                if (buf_failed(&text) == 0)
                        notice(agent, text.p);
        }
        buf_clear(&text);
        if (!lessor_slice_equal(agent->noted_awaiting, buf_view(&awaiting))) {
                buf_text(&text, awaiting.n > 0 ? "waiting for their owner's consent: "
                                               : "no site waits for consent");
                buf_slice(&text, buf_view(&awaiting));
                if (buf_failed(&text) == 0)
                        notice(agent, text.p);
        }
        arena = lessor_arena_new();
        r = arena == NULL ? LESSOR_E_NOMEM
                          : lessor_arena_copy(arena, answer->update_to, &agent->noted_update);
        if (r == 0)
                r = lessor_arena_copy(arena, buf_view(&awaiting), &agent->noted_awaiting);
        if (r < 0) {
                agent->noted_update = agent->noted_awaiting = (struct lessor_slice){NULL, 0};
                return r;
        }
        lessor_arena_free(agent->noted_arena);
        agent->noted_arena = TAKE(arena);
        return 0;
}

int agent_beat(struct lessor_agent *agent)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct heartbeat_request request = {
                .runner_id = agent->runner_id,
                .daemon_version = LESSOR_SLICE(LESSOR_VERSION),
                .capabilities = agent->capabilities,
                .n_capabilities = agent->n_capabilities,
        };
        struct heartbeat_answer answer;
        int64_t sent_ms, now_ms;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = active_leases(agent, arena, &request.active_leases, &request.n_active_leases);
        if (r < 0)
                return r;
        sent_ms = clock_monotonic_ms();
        r = relay_post(&agent->link.caller, "heartbeat", &heartbeat_request_table, &request,
                       &heartbeat_answer_table, arena, &answer, &agent->link.failure);
        if (r < 0)
                return r;
        now_ms = clock_now_ms(agent->clock);
        agent->beat_ms = sent_ms;
        r = apply_sites(agent, &answer, now_ms, arena);
        if (r < 0)
                return relay_fail(&agent->link.failure, r,
                                  "cannot remember the sites that this device serves");
        apply_to_jobs(agent, &answer, request.active_leases, request.n_active_leases, sent_ms, now_ms);
        notice_clock(agent, answer.server_time_ms, now_ms);
        return notice_news(agent, &answer);
}

static int copy_job(const struct lessor_agent *agent, const struct claimed_stub *claimed, size_t service,
                    int64_t lease_until_ms, struct agent_job **ret_job)
{
        _cleanup_(agent_job_freep) struct agent_job *job = calloc(1, sizeof(*job));
        int r;

        if (job == NULL)
                return LESSOR_E_NOMEM;
        job->arena = lessor_arena_new();
        if (job->arena == NULL)
                return LESSOR_E_NOMEM;
        job->stub = claimed->stub;
        job->service = &agent->options.services[service];
        job->lease_until_ms = lease_until_ms;
        r = lessor_arena_copy(job->arena, claimed->stub.id, &job->stub.id);
        if (r == 0)
                r = lessor_arena_copy(job->arena, claimed->stub.owner, &job->stub.owner);
        if (r == 0)
                r = lessor_arena_copy(job->arena, claimed->stub.site, &job->stub.site);
        if (r == 0)
                r = lessor_arena_copy(job->arena, claimed->stub.purpose, &job->stub.purpose);
        if (r == 0)
                r = lessor_arena_copy(job->arena, claimed->lease.id, &job->lease_id);
        if (r == 0)
                r = lessor_stop_new(&job->stop);
        if (r == 0)
                *ret_job = TAKE(job);
        return r;
}

static void queue_job(struct lessor_agent *agent, struct agent_job *job)
{
        pthread_mutex_lock(&agent->mutex);
        job->next = agent->active;
        agent->active = job;
        agent->n_active++;
        if (agent->queue_last != NULL)
                agent->queue_last->queue_next = job;
        else
                agent->queue_first = job;
        agent->queue_last = job;
        pthread_cond_signal(&agent->work);
        pthread_mutex_unlock(&agent->mutex);
}

/* Whether to run it, with everything that must be on disk before it does. As rules_judge_job. */
static int judge(struct lessor_agent *agent, const struct claimed_stub *claimed, size_t *ret_service,
                 const char **ret_reason)
{
        struct agent_view view = {
                .runner_id = agent->runner_id,
                .owner = agent->owner,
                .control_plane = agent->has_control_plane ? &agent->control_plane : NULL,
                .sites = agent->state.sites,
                .n_sites = agent->state.n_sites,
                .services = agent->options.services,
                .n_services = agent->options.n_services,
        };
        int64_t now_ms = clock_now_ms(agent->clock);
        int r = rules_judge_job(&view, claimed, now_ms, ret_service, ret_reason);

        if (r < 0 || !agent->has_control_plane)
                return r;
        r = grant_log_use(agent->grants, claimed->grant.grant_id, claimed->grant.issued_ms + GRANT_LAPSES_MS,
                          now_ms);
        if (r == LESSOR_E_EXISTS) {
                *ret_reason = "its grant was used before";
                return LESSOR_E_REFUSED;
        }
        return r;
}

static int take_claimed(struct lessor_agent *agent, const struct claimed_stub *claimed,
                        int64_t lease_until_ms, bool *ret_refused)
{
        struct lessor_agent_event event = {
                .type = LESSOR_AGENT_JOB_REFUSED,
                .job_id = claimed->stub.id,
                .lease_id = claimed->lease.id,
                .site = claimed->stub.site,
        };
        struct agent_job *job = NULL;
        const char *reason = NULL;
        size_t service = 0;
        int r = judge(agent, claimed, &service, &reason);

        *ret_refused = false;
        if (r == LESSOR_E_REFUSED) {
                *ret_refused = true;
                event.error = r;
                event.message = reason;
                agent_tell(agent, &event);
                return 0;
        }
        if (r == 0)
                r = copy_job(agent, claimed, service, lease_until_ms, &job);
        if (r < 0 || job == NULL)
                return r;
        event.type = LESSOR_AGENT_JOB_CLAIMED;
        agent_tell(agent, &event);
        queue_job(agent, job);
        return 0;
}

int agent_claim(struct lessor_agent *agent, size_t max, size_t *ret_n)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct claim_request request = {
                .runner_id = agent->runner_id,
                .capabilities = agent->capabilities,
                .n_capabilities = agent->n_capabilities,
                .max = (int64_t)max,
        };
        struct lessor_lease_ref *refused;
        struct claim_answer answer;
        size_t n_refused = 0;
        int64_t sent_ms = clock_monotonic_ms();
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = relay_post(&agent->link.caller, "claim", &claim_request_table, &request, &claim_answer_table,
                       arena, &answer, &agent->link.failure);
        if (r < 0)
                return r;
        agent->lease_ms = answer.lease_ms;
        refused = lessor_arena_array(arena, answer.n_jobs, sizeof(*refused));
        if (refused == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; r == 0 && i < answer.n_jobs; i++) {
                const struct claimed_stub *claimed = &answer.jobs[i];
                bool is_refused = false;

                r = take_claimed(agent, claimed, sent_ms + answer.lease_ms, &is_refused);
                if (is_refused)
                        refused[n_refused++] = (struct lessor_lease_ref){claimed->stub.id, claimed->lease.id};
        }
        if (n_refused > 0)
                agent_release(agent, &agent->link, agent->stop, refused, n_refused, LESSOR_RELEASE_REFUSED);
        *ret_n = answer.n_jobs;
        return r;
}
