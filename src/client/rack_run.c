/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/limits.h"
#include "client/rack.h"
#include "wire/rack_message.h"

/* The main thread: everything that a rack says without being asked, all over one client. */

#define LOW_SPACE_BYTES (INT64_C(64) << 20)

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

static void tell_simple(struct lessor_rack_agent *agent, enum lessor_rack_event_type type, int error,
                        const char *message)
{
        rack_tell(agent, &(struct lessor_rack_event){.type = type, .error = error, .message = message});
}

static void tell_trouble(struct lessor_rack_agent *agent)
{
        struct rack_loop *loop = &agent->loop;

        /* Once for each time that it begins: what follows is the same again. */
        if (loop->online || loop->beat_failures + loop->poll_failures + loop->watch_failures <= 1)
                tell_simple(agent, LESSOR_RACK_TROUBLE, loop->failure.code,
                            rack_failure_message(&loop->failure));
        loop->online = false;
}

static void came_online(struct lessor_rack_agent *agent)
{
        if (agent->loop.online)
                return;
        agent->loop.online = true;
        tell_simple(agent, LESSOR_RACK_ONLINE, 0, NULL);
}

/* Whether a failure ends the agent, whatever endpoint it came from. */
static bool is_fatal(int code)
{
        return code == LESSOR_E_PERMISSION || code == LESSOR_E_AGENT_TOO_OLD || code == LESSOR_E_NOMEM;
}

/* --- What is said of the jobs --- */

/* With the mutex. The refs are in the arena; NULL when memory is short. */
static struct rack_lease_ref *list_active(struct lessor_rack_agent *agent, struct lessor_arena *arena,
                                          size_t *ret_n)
{
        struct rack_lease_ref *refs = lessor_arena_array(arena, agent->n_active + 1, sizeof(*refs));

        *ret_n = 0;
        for (struct rack_job *job = agent->active; refs != NULL && job != NULL; job = job->next)
                if (job->fate == RACK_FATE_NONE && !job->over)
                        refs[(*ret_n)++] = (struct rack_lease_ref){job->repo, job->lease_id};
        return refs;
}

static void obey_stops(struct lessor_rack_agent *agent, const struct rack_lease_ref *stops, size_t n)
{
        for (size_t i = 0; i < n; i++)
                for (struct rack_job *job = agent->active; job != NULL; job = job->next)
                        if (lessor_slice_equal(job->repo, stops[i].repo) &&
                            lessor_slice_equal(job->lease_id, stops[i].lease_id))
                                rack_job_end(agent, job, RACK_FATE_LOST);
}

/* --- Heartbeats --- */

/* Whether tasks have a chance here: without room on the disk no input arrives. */
static bool is_healthy(const struct lessor_rack_agent *agent)
{
        struct statvfs fs;

        if (statvfs(agent->work_dir, &fs) < 0 ||
            (int64_t)fs.f_bavail * (int64_t)fs.f_frsize < LOW_SPACE_BYTES)
                return false;
        return statvfs(agent->cache_dir, &fs) == 0 &&
               (int64_t)fs.f_bavail * (int64_t)fs.f_frsize >= LOW_SPACE_BYTES;
}

static void note_health(struct lessor_rack_agent *agent, bool healthy)
{
        if (agent->loop.unhealthy == !healthy)
                return;
        agent->loop.unhealthy = !healthy;
        tell_simple(agent, LESSOR_RACK_NOTICE, healthy ? 0 : LESSOR_E_LOW_SPACE,
                    healthy ? "there is room on the disk again"
                            : "the disk is nearly full, so this rack reports itself unhealthy");
}

static int start_beat(struct lessor_rack_agent *agent)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_loop *loop = &agent->loop;
        struct rack_heartbeat_request request = {.healthy = is_healthy(agent),
                                                 .agent_version = LESSOR_SLICE(RACK_VERSION),
                                                 .boot_id = lessor_slice_of(agent->boot_id)};
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_lock(&agent->mutex);
        request.running_leases = list_active(agent, arena, &request.n_running_leases);
        request.free_capacity =
                agent->n_active >= agent->slots ? 0 : (int64_t)(agent->slots - agent->n_active);
        pthread_mutex_unlock(&agent->mutex);
        if (request.running_leases == NULL)
                return LESSOR_E_NOMEM;
        note_health(agent, request.healthy);
        if (loop->situation.draining)
                request.free_capacity = 0;
        request.cache_bytes = object_cache_bytes(agent->cache);
        r = rack_call_start(&loop->caller, "heartbeat", &rack_heartbeat_request_type, &request, RACK_CALL_MS,
                            &loop->beat);
        loop->situation.beating = r == 0;
        return r;
}

static void rotate(struct lessor_rack_agent *agent, struct lessor_slice token)
{
        int r = rack_identity_rotate(agent->identity, token);

        if (r < 0)
                tell_simple(agent, LESSOR_RACK_NOTICE, r,
                            "the server offers a new token, which cannot be written to rack.json");
        else
                tell_simple(agent, LESSOR_RACK_NOTICE, 0, "the token was changed for a new one");
}

static void note_approval(struct lessor_rack_agent *agent, bool pending)
{
        char text[160];

        if (pending && !agent->loop.pending_approval) {
                snprintf(text, sizeof(text),
                         "this start is to be approved before work comes: lessor rack approve %s",
                         rack_identity_rack_id(agent->identity));
                tell_simple(agent, LESSOR_RACK_NOTICE, 0, text);
        } else if (!pending && agent->loop.pending_approval) {
                tell_simple(agent, LESSOR_RACK_NOTICE, 0, "this start is approved");
        }
        agent->loop.pending_approval = pending;
}

static int end_beat(struct lessor_rack_agent *agent)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_loop *loop = &agent->loop;
        struct rack_situation *s = &loop->situation;
        struct rack_heartbeat_response answer;
        int r = arena == NULL ? LESSOR_E_NOMEM
                              : rack_call_finish(&loop->caller, &loop->beat, &rack_heartbeat_response_type,
                                                 arena, &answer, NULL, &loop->failure);

        rack_exchange_clear(&loop->beat);
        s->beating = false;
        if (r < 0) {
                loop->beat_failures++;
                s->beat_at_ms =
                        s->now_ms + rack_backoff_ms(loop->beat_failures - 1, loop->failure.retry_after_ms,
                                                    randombytes_random());
                /* Even so no later than ever, or running leases would not be named. */
                if (s->beat_at_ms > s->now_ms + RACK_HEARTBEAT_MS && loop->failure.retry_after_ms == 0)
                        s->beat_at_ms = s->now_ms + RACK_HEARTBEAT_MS;
                tell_trouble(agent);
                return is_fatal(r) ? r : 0;
        }
        loop->beat_failures = 0;
        s->beat_done = true;
        s->beat_at_ms = s->now_ms + RACK_HEARTBEAT_MS;
        came_online(agent);
        obey_stops(agent, answer.stop, answer.n_stop);
        note_approval(agent, answer.pending_approval);
        if (answer.rotated_token.p != NULL)
                rotate(agent, answer.rotated_token);
        return 0;
}

/* --- Polls --- */

static int start_poll(struct lessor_rack_agent *agent)
{
        struct rack_loop *loop = &agent->loop;
        struct lessor_slice *tiers = calloc(agent->n_tiers, sizeof(*tiers));
        struct rack_lease_request request = {
                .tiers = tiers, .n_tiers = agent->n_tiers, .boot_id = lessor_slice_of(agent->boot_id)};
        int r;

        if (tiers == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < agent->n_tiers; i++)
                tiers[i] = lessor_slice_of(agent->tiers[i]);
        r = rack_call_start(&loop->caller, "lease", &rack_lease_request_type, &request, RACK_POLL_MS,
                            &loop->poll);
        loop->situation.polling = r == 0;
        free(tiers);
        return r;
}

/* The name that the event gives its task, in the arena; for people, so that any will do. */
static struct lessor_slice task_name_of(struct lessor_slice event_json, struct lessor_arena *arena)
{
        struct lessor_slice name = {0};
        struct json *event;

        if (json_read(event_json, arena, &event) == 0)
                name = json_text(json_member_named(event, "taskName"));
        return name.p == NULL ? LESSOR_SLICE("task") : name;
}

int rack_job_new(struct lessor_arena *arena, struct rack_job **ret_job)
{
        struct rack_job *job = calloc(1, sizeof(*job));
        int r;

        if (job == NULL)
                return LESSOR_E_NOMEM;
        r = lessor_stop_new(&job->stop);
        if (r < 0) {
                free(job);
                return r;
        }
        job->arena = arena;
        job->granted_ms = clock_monotonic_ms();
        job->extend_at_ms = job->granted_ms + RACK_EXTEND_MS;
        *ret_job = job;
        return 0;
}

void rack_queue_job(struct lessor_rack_agent *agent, struct rack_job *job)
{
        pthread_mutex_lock(&agent->mutex);
        job->next = agent->active;
        agent->active = job;
        agent->n_active++;
        agent->active_version++;
        if (agent->queue_last != NULL)
                agent->queue_last->queue_next = job;
        else
                agent->queue_first = job;
        agent->queue_last = job;
        pthread_cond_signal(&agent->work);
        pthread_mutex_unlock(&agent->mutex);
}

/* Takes the arena, which the grant is in. */
static int take_grant(struct lessor_rack_agent *agent, const struct rack_lease_grant *grant,
                      struct lessor_arena *arena)
{
        struct rack_job *job = NULL;
        int r = rack_job_new(arena, &job);

        if (r < 0) {
                lessor_arena_free(arena);
                return r;
        }
        job->repo = grant->repo;
        job->lease_id = grant->lease_id;
        job->attempt = grant->attempt;
        job->event_json = grant->event_json;
        job->task_name = task_name_of(grant->event_json, arena);
        /* The same lease again: whatever an earlier attempt of it does here is nobody's business any more. */
        for (struct rack_job *old = agent->active; old != NULL; old = old->next)
                if (lessor_slice_equal(old->repo, job->repo) &&
                    lessor_slice_equal(old->lease_id, job->lease_id))
                        rack_job_end(agent, old, RACK_FATE_LOST);
        agent->loop.n_granted++;
        rack_tell_job(agent, job, (struct lessor_rack_event){.type = LESSOR_RACK_GRANTED});
        rack_queue_job(agent, job);
        return 0;
}

static int end_poll(struct lessor_rack_agent *agent)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_loop *loop = &agent->loop;
        struct rack_situation *s = &loop->situation;
        int64_t took_ms = s->now_ms - loop->poll.started_ms;
        struct rack_lease_grant grant;
        bool empty = false;
        int r = arena == NULL ? LESSOR_E_NOMEM
                              : rack_call_finish(&loop->caller, &loop->poll, &rack_lease_grant_type, arena,
                                                 &grant, &empty, &loop->failure);

        rack_exchange_clear(&loop->poll);
        s->polling = false;
        loop->poll_failures = r < 0 ? loop->poll_failures + 1 : 0;
        s->poll_at_ms = s->now_ms + rack_poll_pause_ms(r, r == 0 && !empty, took_ms,
                                                       r < 0 ? loop->poll_failures - 1 : 0,
                                                       loop->failure.retry_after_ms, randombytes_random());
        if (r < 0) {
                tell_trouble(agent);
                return is_fatal(r) ? r : 0;
        }
        came_online(agent);
        return empty ? 0 : take_grant(agent, &grant, TAKE(arena));
}

/* --- The watch --- */

static int start_watch(struct lessor_rack_agent *agent)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_loop *loop = &agent->loop;
        struct rack_watch_request request = {.boot_id = lessor_slice_of(agent->boot_id)};
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_lock(&agent->mutex);
        request.leases = list_active(agent, arena, &request.n_leases);
        loop->watched = agent->active_version;
        pthread_mutex_unlock(&agent->mutex);
        if (request.leases == NULL)
                return LESSOR_E_NOMEM;
        if (request.n_leases > LIMIT_RACK_TRANSFERS)
                request.n_leases = LIMIT_RACK_TRANSFERS; /* the heartbeat names them all */
        r = rack_call_start(&loop->caller, "lease/watch", &rack_watch_request_type, &request, RACK_WATCH_MS,
                            &loop->watch);
        loop->situation.watching = r == 0;
        return r;
}

static int end_watch(struct lessor_rack_agent *agent)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_loop *loop = &agent->loop;
        struct rack_situation *s = &loop->situation;
        int64_t took_ms = s->now_ms - loop->watch.started_ms;
        struct rack_watch_response answer;
        int r = arena == NULL ? LESSOR_E_NOMEM
                              : rack_call_finish(&loop->caller, &loop->watch, &rack_watch_response_type,
                                                 arena, &answer, NULL, &loop->failure);

        rack_exchange_clear(&loop->watch);
        s->watching = false;
        loop->watch_failures = r < 0 ? loop->watch_failures + 1 : 0;
        s->watch_at_ms = s->now_ms + rack_poll_pause_ms(r, r == 0 && answer.n_stop > 0, took_ms,
                                                        r < 0 ? loop->watch_failures - 1 : 0,
                                                        loop->failure.retry_after_ms, randombytes_random());
        if (r == LESSOR_E_NOT_FOUND)
                s->watch_missing = true; /* the heartbeats are enough, only later (rack-protocol 6.8) */
        else if (r < 0)
                tell_trouble(agent);
        else
                came_online(agent);
        if (r == 0)
                obey_stops(agent, answer.stop, answer.n_stop);
        return is_fatal(r) ? r : 0;
}

/* --- Extending --- */

static int start_extends(struct lessor_rack_agent *agent, int64_t now_ms)
{
        struct rack_loop *loop = &agent->loop;
        int r = 0;

        for (struct rack_job *job = agent->active; r == 0 && job != NULL; job = job->next) {
                struct rack_extend_request request = {job->repo, job->lease_id, job->attempt};

                if (job->extend.transfer != NULL || now_ms < job->extend_at_ms ||
                    lessor_stop_raised(job->stop))
                        continue;
                r = rack_call_start(&loop->caller, "lease/extend", &rack_extend_request_type, &request,
                                    RACK_CALL_MS, &job->extend);
        }
        return r;
}

static int end_extend(struct lessor_rack_agent *agent, struct rack_job *job)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_loop *loop = &agent->loop;
        bool extended = true;
        int r = arena == NULL ? LESSOR_E_NOMEM
                              : rack_call_finish(&loop->caller, &job->extend, &beast2_boolean, arena,
                                                 &extended, NULL, &loop->failure);

        rack_exchange_clear(&job->extend);
        job->extend_at_ms = loop->situation.now_ms + (r < 0 ? RACK_EXTEND_SOON : RACK_EXTEND_MS);
        if ((r == 0 && !extended) || r == LESSOR_E_NOT_HELD)
                rack_job_end(agent, job, RACK_FATE_LOST);
        return is_fatal(r) ? r : 0;
}

/* --- The loop --- */

static bool is_done(const struct rack_exchange *exchange)
{
        return exchange->transfer != NULL && http_transfer_done(exchange->transfer);
}

static int collect(struct lessor_rack_agent *agent)
{
        struct rack_loop *loop = &agent->loop;
        int r = 0;

        loop->situation.now_ms = clock_monotonic_ms();
        if (is_done(&loop->beat))
                r = end_beat(agent);
        if (r == 0 && is_done(&loop->watch))
                r = end_watch(agent);
        for (struct rack_job *job = agent->active; r == 0 && job != NULL; job = job->next)
                if (is_done(&job->extend))
                        r = end_extend(agent, job);
        if (r == 0 && is_done(&loop->poll))
                r = end_poll(agent);
        return r;
}

/* Frees the jobs that slots are through with. */
static void clear_over(struct lessor_rack_agent *agent)
{
        struct rack_job *over = NULL;

        pthread_mutex_lock(&agent->mutex);
        for (struct rack_job **link = &agent->active; *link != NULL;) {
                struct rack_job *job = *link;

                if (!job->over) {
                        link = &job->next;
                        continue;
                }
                *link = job->next;
                agent->n_active--;
                agent->active_version++;
                job->next = over;
                over = job;
        }
        pthread_mutex_unlock(&agent->mutex);
        while (over != NULL) {
                struct rack_job *next = over->next;

                rack_job_free(over);
                over = next;
        }
}

static void start_draining(struct lessor_rack_agent *agent, const char *why)
{
        struct rack_situation *s = &agent->loop.situation;

        if (s->draining)
                return;
        s->draining = true;
        rack_exchange_clear(&agent->loop.poll);
        s->polling = false;
        s->beat_at_ms = s->now_ms; /* so that the server knows at once that there is no room any more */
        agent->loop.drain_until_ms =
                agent->once && !lessor_stop_raised(agent->stop) ? INT64_MAX : s->now_ms + agent->grace_ms;
        if (why != NULL)
                tell_simple(agent, LESSOR_RACK_DRAINING, 0, why);
}

static void kill_all(struct lessor_rack_agent *agent)
{
        for (struct rack_job *job = agent->active; job != NULL; job = job->next)
                rack_job_end(agent, job, RACK_FATE_SHUTDOWN);
}

static void look_around(struct lessor_rack_agent *agent)
{
        struct rack_loop *loop = &agent->loop;
        struct rack_situation *s = &loop->situation;

        clear_over(agent);
        pthread_mutex_lock(&agent->mutex);
        s->n_active = agent->n_active;
        s->watch_stale = loop->watched != agent->active_version;
        pthread_mutex_unlock(&agent->mutex);
        s->now_ms = clock_monotonic_ms();
        s->extend_at_ms = INT64_MAX;
        for (struct rack_job *job = agent->active; job != NULL; job = job->next)
                if (job->extend.transfer == NULL && !lessor_stop_raised(job->stop) &&
                    job->extend_at_ms < s->extend_at_ms)
                        s->extend_at_ms = job->extend_at_ms;
        if (lessor_stop_raised(agent->stop)) {
                if (s->draining && loop->drain_until_ms == INT64_MAX)
                        loop->drain_until_ms = s->now_ms + agent->grace_ms;
                start_draining(agent, "it was asked to stop");
        }
        if (agent->once && loop->n_granted > 0)
                start_draining(agent, NULL); /* as it was told to */
        if (s->draining && s->now_ms >= loop->drain_until_ms)
                kill_all(agent);
}

static int take_steps(struct lessor_rack_agent *agent, int64_t *ret_wait_ms)
{
        struct rack_loop *loop = &agent->loop;
        struct rack_steps steps = rack_next_steps(&loop->situation);
        int r = 0;

        if (steps.stop_polling) {
                rack_exchange_clear(&loop->poll);
                loop->situation.polling = false;
        }
        if (steps.stop_watching) {
                rack_exchange_clear(&loop->watch);
                loop->situation.watching = false;
        }
        if (steps.beat)
                r = start_beat(agent);
        if (r == 0 && steps.extend)
                r = start_extends(agent, loop->situation.now_ms);
        if (r == 0 && steps.watch)
                r = start_watch(agent);
        if (r == 0 && steps.poll)
                r = start_poll(agent);
        *ret_wait_ms = steps.wait_ms;
        return r;
}

static int fatal_of(struct lessor_rack_agent *agent)
{
        int fatal;

        pthread_mutex_lock(&agent->mutex);
        fatal = agent->fatal;
        pthread_mutex_unlock(&agent->mutex);
        return fatal;
}

/* Serves until the agent is to end and no job is left. Returns what it ends with. */
static int serve(struct lessor_rack_agent *agent)
{
        struct rack_loop *loop = &agent->loop;
        struct rack_situation *s = &loop->situation;
        int r = 0;

        while (r == 0) {
                /* Raised, it would be found raised again and again. */
                struct lessor_stop *stop = lessor_stop_raised(agent->stop) ? NULL : agent->stop;
                int64_t wait_ms;

                look_around(agent);
                if (s->draining && s->n_active == 0)
                        return fatal_of(agent);
                r = take_steps(agent, &wait_ms);
                if (s->draining && loop->drain_until_ms != INT64_MAX && loop->drain_until_ms > s->now_ms &&
                    loop->drain_until_ms - s->now_ms < wait_ms)
                        wait_ms = loop->drain_until_ms - s->now_ms;
                if (r == 0)
                        r = http_client_wait(loop->http, stop, wait_ms);
                if (r == LESSOR_E_TIMEOUT || r == LESSOR_E_CLOSED)
                        r = 0;
                if (r == 0)
                        r = collect(agent);
                if (r == 0)
                        r = fatal_of(agent);
        }
        return r;
}

/* The slots end once no job is left to them; those that they have are killed. */
static void close_slots(struct lessor_rack_agent *agent, pthread_t *threads, size_t n)
{
        kill_all(agent);
        pthread_mutex_lock(&agent->mutex);
        agent->closing = true;
        pthread_cond_broadcast(&agent->work);
        pthread_mutex_unlock(&agent->mutex);
        for (size_t i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        clear_over(agent);
}

static void raise_file_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static int start_slots(struct lessor_rack_agent *agent, pthread_t *threads, size_t *ret_n)
{
        sigset_t all, before;
        int r = 0;

        /* Signals are for the thread that the program began with. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (*ret_n = 0; r == 0 && *ret_n < agent->slots;) {
                if (pthread_create(&threads[*ret_n], NULL, rack_slot_run, agent) != 0)
                        r = LESSOR_E_NOMEM;
                else
                        (*ret_n)++;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

static void end_exchanges(struct rack_loop *loop)
{
        rack_exchange_clear(&loop->beat);
        rack_exchange_clear(&loop->poll);
        rack_exchange_clear(&loop->watch);
}

int lessor_rack_agent_run(struct lessor_rack_agent *agent)
{
        pthread_t *threads = calloc(agent->slots, sizeof(*threads));
        struct rack_loop *loop = &agent->loop;
        size_t n_threads = 0;
        int r = threads == NULL ? LESSOR_E_NOMEM : 0;

        raise_file_limit();
        loop->situation.slots = agent->slots;
        loop->situation.now_ms = clock_monotonic_ms();
        loop->situation.beat_at_ms = loop->situation.now_ms;
        if (r == 0)
                r = start_slots(agent, threads, &n_threads);
        if (r == 0)
                r = serve(agent);
        close_slots(agent, threads, n_threads);
        end_exchanges(loop);
        free(threads);
        tell_simple(agent, LESSOR_RACK_STOPPED, r, r < 0 ? lessor_error_text(r) : NULL);
        return r;
}
