/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "client/agent.h"

/* The main thread: when to beat and claim, what to make of trouble, and how to stop. */

#define TROUBLE_FIRST_MS   1000
#define TROUBLE_LONGEST_MS 30000
#define RECHECK_MS         60000 /* after a relay that knew us says that it does not */
#define REFUSALS_BELIEVED  3
#define IDLE_FIRST_MS      100
#define SHUTDOWN_GRACE_MS  5000

/* Sleeps until the agent is stopped, a slot has something to say, or the time is over. */
static void wait_for(struct lessor_agent *agent, int64_t pause_ms)
{
        struct pollfd fds[] = {
                {.fd = lessor_stop_fd(agent->stop), .events = POLLIN},
                {.fd = agent->wake_fd, .events = POLLIN},
        };
        uint64_t times;

        if (pause_ms > 0)
                poll(fds, ARRAY_SIZE(fds), (int)pause_ms);
        if (read(agent->wake_fd, &times, sizeof(times)) < 0)
                return; /* nobody woke us */
}

/* Devices that were started together must not knock together. */
static int64_t jittered(int64_t pause_ms)
{
        uint32_t spread = (uint32_t)(pause_ms / 4);

        return pause_ms - (int64_t)(spread / 2) + (spread == 0 ? 0 : (int64_t)randombytes_uniform(spread));
}

static size_t n_active(struct lessor_agent *agent, int *ret_fatal)
{
        size_t n;

        pthread_mutex_lock(&agent->mutex);
        n = agent->n_active;
        *ret_fatal = agent->fatal;
        pthread_mutex_unlock(&agent->mutex);
        return n;
}

static void tell_trouble(struct lessor_agent *agent, int error)
{
        agent->online = false;
        agent_tell(agent, &(struct lessor_agent_event){
                                  .type = LESSOR_AGENT_TROUBLE,
                                  .error = error,
                                  .message = relay_failure_message(&agent->link.failure),
                          });
}

/*
 * What a failed call means for the agent.
 *
 * Returns 0 when it goes on after `ret_pause_ms`, or what it ends with.
 */
static int judge_failure(struct lessor_agent *agent, int error, int64_t *ret_pause_ms)
{
        int64_t asked_ms = agent->link.failure.retry_after_ms;

        if (error == LESSOR_E_CLOSED) {
                *ret_pause_ms = 0;
                return 0;
        }
        tell_trouble(agent, error);
        switch (error) {
        case LESSOR_E_PERMISSION: /* revoked */
        case LESSOR_E_NEWER:      /* our version is not served */
        case LESSOR_E_NOMEM:
        case LESSOR_E_IO:
                return error;
        case LESSOR_E_REFUSED:
        case LESSOR_E_NOT_FOUND:
                /* A relay that never knew us will not now; one that did may be in the middle of a change. */
                if (!agent->ever_online || ++agent->refusals >= REFUSALS_BELIEVED)
                        return LESSOR_E_REFUSED;
                *ret_pause_ms = RECHECK_MS;
                return 0;
        default:
                *ret_pause_ms =
                        jittered(rules_backoff_ms(agent->troubles++, TROUBLE_FIRST_MS, TROUBLE_LONGEST_MS));
                if (asked_ms > *ret_pause_ms)
                        *ret_pause_ms = asked_ms;
                return 0;
        }
}

static void came_online(struct lessor_agent *agent)
{
        agent->troubles = 0;
        agent->refusals = 0;
        agent->ever_online = true;
        if (agent->online)
                return;
        agent->online = true;
        agent_tell(agent, &(struct lessor_agent_event){.type = LESSOR_AGENT_ONLINE});
}

/* One heartbeat, and a claim if a slot is free. Returns 0 and how long to wait, or what the agent ends with.
 */
static int serve_once(struct lessor_agent *agent, int64_t *ret_pause_ms)
{
        size_t n_claimed = 0;
        int fatal = 0;
        size_t free_slots;
        int r;

        /* What came of earlier calls may have changed this; agent_release borrows the link too. */
        agent->link.caller.stop = agent->stop;
        r = agent_beat(agent);
        if (r < 0)
                return judge_failure(agent, r, ret_pause_ms);
        came_online(agent);
        free_slots = agent->options.slots - n_active(agent, &fatal);
        if (fatal < 0)
                return fatal;
        if (free_slots == 0) {
                *ret_pause_ms = HEARTBEAT_MS;
                return 0;
        }
        r = agent_claim(agent, free_slots, &n_claimed);
        if (r < 0)
                return judge_failure(agent, r, ret_pause_ms);
        if (n_claimed == 0) {
                *ret_pause_ms =
                        jittered(rules_backoff_ms(agent->idle++, IDLE_FIRST_MS, agent->options.idle_ms));
                return 0;
        }
        agent->idle = 0;
        *ret_pause_ms = n_claimed < free_slots ? IDLE_FIRST_MS : HEARTBEAT_MS;
        return 0;
}

static int serve(struct lessor_agent *agent)
{
        while (!lessor_stop_raised(agent->stop)) {
                int64_t pause_ms = 0;
                int fatal = 0;
                int r = serve_once(agent, &pause_ms);

                if (r < 0)
                        return r;
                /* Leases of running jobs want to be renewed, whatever else there is to wait for. */
                if (n_active(agent, &fatal) > 0 && pause_ms > HEARTBEAT_MS)
                        pause_ms = HEARTBEAT_MS;
                if (fatal < 0)
                        return fatal;
                wait_for(agent, pause_ms);
        }
        return 0;
}

static void close_jobs(struct lessor_agent *agent)
{
        pthread_mutex_lock(&agent->mutex);
        agent->closing = true;
        for (struct agent_job *job = agent->active; job != NULL; job = job->next) {
                if (job->fate == FATE_NONE)
                        job->fate = FATE_SHUTDOWN;
                lessor_stop_raise(job->stop);
        }
        pthread_cond_broadcast(&agent->work);
        pthread_mutex_unlock(&agent->mutex);
}

/* Waits for the slots, a while kindly. */
static void drain(struct lessor_agent *agent, pthread_t *slots, size_t n_slots)
{
        int64_t until_ms = clock_monotonic_ms() + SHUTDOWN_GRACE_MS;
        struct pollfd wake = {.fd = agent->wake_fd, .events = POLLIN};
        uint64_t times;
        int fatal;

        close_jobs(agent);
        while (n_active(agent, &fatal) > 0) {
                int64_t left_ms = until_ms - clock_monotonic_ms();

                if (left_ms <= 0)
                        break;
                if (poll(&wake, 1, (int)left_ms) > 0 && read(agent->wake_fd, &times, sizeof(times)) < 0)
                        break;
        }
        lessor_stop_raise(agent->hard_stop);
        for (size_t i = 0; i < n_slots; i++)
                pthread_join(slots[i], NULL);
}

static void give_back(struct lessor_agent *agent)
{
        struct lessor_lease_ref leases[LIMIT_CLAIM_MAX];
        struct agent_job *job = agent->returned;
        size_t n = 0;

        /* No slot runs any more; a job may not be among them twice, and there are no more than slots. */
        for (; job != NULL && n < ARRAY_SIZE(leases); job = job->next)
                leases[n++] = (struct lessor_lease_ref){job->stub.id, job->lease_id};
        if (n == 0)
                return;
        agent->link.caller.timeout_ms = SHUTDOWN_GRACE_MS;
        agent_release(agent, &agent->link, NULL, leases, n, LESSOR_RELEASE_SHUTDOWN);
}

int lessor_agent_run(struct lessor_agent *agent)
{
        pthread_t *slots = calloc(agent->options.slots, sizeof(*slots));
        size_t n_slots = 0;
        int r = slots == NULL ? LESSOR_E_NOMEM : 0;

        while (r == 0 && n_slots < agent->options.slots) {
                if (pthread_create(&slots[n_slots], NULL, agent_slot, agent) != 0)
                        r = LESSOR_E_NOMEM;
                else
                        n_slots++;
        }
        if (r == 0)
                r = serve(agent);
        drain(agent, slots, n_slots);
        if (r != LESSOR_E_PERMISSION)
                give_back(agent);
        free(slots);
        agent_tell(agent, &(struct lessor_agent_event){
                                  .type = LESSOR_AGENT_STOPPED,
                                  .error = r,
                                  .message = r < 0 ? lessor_error_text(r) : NULL,
                          });
        return r;
}
