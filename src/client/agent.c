/* SPDX-License-Identifier: MIT */
#include "client/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/limits.h"

DEFINE_CLEANUP(struct lessor_agent, lessor_agent_free)

void agent_tell(struct lessor_agent *agent, const struct lessor_agent_event *event)
{
        if (agent->event == NULL)
                return;
        pthread_mutex_lock(&agent->event_mutex);
        agent->event(agent->context, event);
        pthread_mutex_unlock(&agent->event_mutex);
}

void agent_tell_job(struct lessor_agent *agent, enum lessor_agent_event_type type,
                    const struct agent_job *job, int error, const char *message)
{
        agent_tell(agent, &(struct lessor_agent_event){
                                  .type = type,
                                  .error = error,
                                  .message = message,
                                  .site = job->stub.site,
                                  .job_id = job->stub.id,
                                  .lease_id = job->lease_id,
                                  .service = lessor_slice_of(job->service->name),
                          });
}

void agent_wake(struct lessor_agent *agent)
{
        uint64_t one = 1;
        /* Fails only when it is readable already, which is all that is wanted. */
        ssize_t n = write(agent->wake_fd, &one, sizeof(one));

        (void)n;
}

struct agent_job *agent_job_free(struct agent_job *job)
{
        if (job == NULL)
                return NULL;
        lessor_stop_free(job->stop);
        lessor_arena_free(job->arena);
        free(job);
        return NULL;
}

void agent_release(struct lessor_agent *agent, struct device_link *link, struct lessor_stop *stop,
                   const struct lessor_lease_ref *leases, size_t n, enum lessor_release_reason reason)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct release_request request = {.runner_id = agent->runner_id, .n_leases = n, .reason = reason};
        struct release_answer answer;

        if (arena == NULL)
                return;
        request.leases = lessor_arena_array(arena, n, sizeof(*leases));
        if (request.leases != NULL) {
                memcpy(request.leases, leases, n * sizeof(*leases));
                link->caller.stop = stop;
                relay_post(&link->caller, "release", &release_request_table, &request, &release_answer_table,
                           arena, &answer, &link->failure);
        }
        lessor_arena_free(arena);
}

static int lock_directory(struct lessor_agent *agent, char **ret_problem)
{
        char *path = device_path(agent->dir, "agent.lock");

        if (path == NULL)
                return LESSOR_E_NOMEM;
        agent->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        free(path);
        if (agent->lock_fd < 0)
                return device_problem(ret_problem, errno == ENOENT ? LESSOR_E_NOT_FOUND : LESSOR_E_IO,
                                      "cannot open %s/agent.lock: %s", agent->dir, strerror(errno));
        if (flock(agent->lock_fd, LOCK_EX | LOCK_NB) < 0)
                return device_problem(ret_problem, errno == EWOULDBLOCK ? LESSOR_E_BUSY : LESSOR_E_IO,
                                      "another agent runs in %s", agent->dir);
        return 0;
}

static int load_state(struct lessor_agent *agent, char **ret_problem)
{
        const char *problem = NULL;
        int r;

        agent->state_path = device_path(agent->dir, "device.json");
        agent->state_arena = lessor_arena_new();
        agent->arena = lessor_arena_new();
        if (agent->state_path == NULL || agent->state_arena == NULL || agent->arena == NULL)
                return LESSOR_E_NOMEM;
        r = device_state_load(agent->state_path, agent->state_arena, &agent->state, &problem);
        if (r == LESSOR_E_NOT_FOUND)
                return device_problem(ret_problem, r, "%s is not paired with a relay yet", agent->dir);
        if (r < 0)
                return device_problem(ret_problem, r, "%s", problem == NULL ? lessor_error_text(r) : problem);
        if (!relay_id_is_sendable(agent->state.runner_id))
                return device_problem(ret_problem, LESSOR_E_MALFORMED, "%s: runnerId is none",
                                      agent->state_path);
        r = lessor_arena_copy(agent->arena, agent->state.relay_url, &agent->relay_url);
        if (r == 0)
                r = lessor_arena_copy(agent->arena, agent->state.runner_id, &agent->runner_id);
        if (r == 0)
                r = lessor_arena_copy(agent->arena, agent->state.owner, &agent->owner);
        if (r < 0 || agent->state.control_plane_public.p == NULL)
                return r;
        agent->has_control_plane = true;
        r = identity_key_read(agent->state.control_plane_public, &agent->control_plane);
        if (r < 0)
                return device_problem(ret_problem, r, "%s: controlPlanePublic is no key", agent->state_path);
        return 0;
}

static int open_logs(struct lessor_agent *agent, char **ret_problem)
{
        char *ingress = device_path(agent->dir, "ingress.log");
        char *grants = device_path(agent->dir, "grants.log");
        int r = ingress == NULL || grants == NULL ? LESSOR_E_NOMEM : 0;

        if (r == 0) {
                r = ingress_log_open(ingress, &agent->ingress);
                if (r < 0)
                        device_problem(ret_problem, r, "%s: %s", ingress, lessor_error_text(r));
        }
        if (r == 0) {
                r = grant_log_open(grants, clock_now_ms(agent->clock), &agent->grants);
                if (r < 0)
                        device_problem(ret_problem, r, "%s: %s", grants, lessor_error_text(r));
        }
        free(ingress);
        free(grants);
        return r;
}

static int copy_options(struct lessor_agent *agent, const struct lessor_device_options *options)
{
        agent->options = *options;
        if (agent->options.slots == 0)
                agent->options.slots = 1;
        if (agent->options.idle_ms <= 0)
                agent->options.idle_ms = 2000;
        if (agent->options.idle_ms > HEARTBEAT_MS)
                agent->options.idle_ms = HEARTBEAT_MS;
        agent->dir = strdup(options->dir);
        agent->ca_file = options->ca_file == NULL ? NULL : strdup(options->ca_file);
        agent->proxy = options->proxy == NULL ? NULL : strdup(options->proxy);
        if (agent->dir == NULL || (options->ca_file != NULL && agent->ca_file == NULL) ||
            (options->proxy != NULL && agent->proxy == NULL))
                return LESSOR_E_NOMEM;
        agent->options.dir = agent->dir;
        agent->options.ca_file = agent->ca_file;
        agent->options.proxy = agent->proxy;
        return 0;
}

static int set_up(struct lessor_agent *agent, const struct lessor_device_options *options, char **ret_problem)
{
        int r = copy_options(agent, options);

        if (r == 0)
                r = lessor_stop_new(&agent->stop);
        if (r == 0)
                r = lessor_stop_new(&agent->hard_stop);
        if (r < 0)
                return r;
        agent->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (agent->wake_fd < 0)
                return LESSOR_E_IO;
        r = lock_directory(agent, ret_problem);
        if (r == 0)
                r = load_state(agent, ret_problem);
        if (r == 0)
                r = device_keys_load(agent->dir, false, &agent->keys, ret_problem);
        if (r == 0)
                r = open_logs(agent, ret_problem);
        if (r == 0)
                r = rules_capabilities(agent->options.services, agent->options.n_services, agent->arena,
                                       &agent->capabilities, &agent->n_capabilities);
        if (r == 0)
                r = device_link_init(&agent->link, &agent->options, agent->relay_url.p);
        if (r < 0)
                return r;
        agent->link.caller.id = agent->runner_id;
        agent->link.caller.key = stored_keys_signing(agent->keys);
        return 0;
}

int lessor_agent_new(const struct lessor_device_options *options,
                     void (*event)(void *context, const struct lessor_agent_event *event), void *context,
                     struct lessor_agent **ret_agent, char **ret_problem)
{
        _cleanup_(lessor_agent_freep) struct lessor_agent *agent = NULL;
        int r;

        if (ret_problem != NULL)
                *ret_problem = NULL;
        r = device_options_check(options, ret_problem);
        if (r < 0)
                return r;
        agent = calloc(1, sizeof(*agent));
        if (agent == NULL)
                return LESSOR_E_NOMEM;
        agent->lock_fd = agent->wake_fd = -1;
        agent->clock = clock_wall();
        agent->event = event;
        agent->context = context;
        relay_failure_init(&agent->link.failure);
        pthread_mutex_init(&agent->event_mutex, NULL);
        pthread_mutex_init(&agent->mutex, NULL);
        pthread_cond_init(&agent->work, NULL);
        r = set_up(agent, options, ret_problem);
        if (r == 0)
                *ret_agent = TAKE(agent);
        return r;
}

static void free_lists(struct lessor_agent *agent)
{
        while (agent->returned != NULL) {
                struct agent_job *job = agent->returned;

                agent->returned = job->next;
                agent_job_free(job);
        }
        while (agent->gave_up != NULL) {
                struct gave_up *entry = agent->gave_up;

                agent->gave_up = entry->next;
                free(entry->key);
                free(entry);
        }
}

struct lessor_agent *lessor_agent_free(struct lessor_agent *agent)
{
        if (agent == NULL)
                return NULL;
        free_lists(agent);
        device_link_done(&agent->link);
        ingress_log_close(agent->ingress);
        grant_log_close(agent->grants);
        stored_keys_free(agent->keys);
        lessor_arena_free(agent->arena);
        lessor_arena_free(agent->state_arena);
        lessor_arena_free(agent->noted_arena);
        if (agent->wake_fd >= 0)
                close(agent->wake_fd);
        if (agent->lock_fd >= 0)
                close(agent->lock_fd); /* which unlocks it */
        lessor_stop_free(agent->stop);
        lessor_stop_free(agent->hard_stop);
        pthread_cond_destroy(&agent->work);
        pthread_mutex_destroy(&agent->mutex);
        pthread_mutex_destroy(&agent->event_mutex);
        free(agent->state_path);
        free(agent->dir);
        free(agent->ca_file);
        free(agent->proxy);
        free(agent);
        return NULL;
}

void lessor_agent_info(const struct lessor_agent *agent, struct lessor_agent_info *ret_info)
{
        /* Copies in an arena end with a NUL. */
        *ret_info = (struct lessor_agent_info){
                .runner_id = agent->runner_id.p,
                .owner = agent->owner.p,
                .relay_url = agent->relay_url.p,
                .device_key_id = signing_key_id(stored_keys_signing(agent->keys)).p,
                .checks_grants = agent->has_control_plane,
        };
}

void lessor_agent_stop(struct lessor_agent *agent)
{
        lessor_stop_raise(agent->stop);
}
