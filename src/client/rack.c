/* SPDX-License-Identifier: MIT */
#include "client/rack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/uuid.h"
#include "client/device_state.h"
#include "client/dir_tree.h"
#include "client/rack_outbox.h"

/* An agent from its making to its end, and what all of its parts use. */

#define PROGRESS_MS       250
#define CACHE_DEFAULT     (INT64_C(10) << 30)
#define TIME_DEFAULT_MS   (INT64_C(24) * 3600 * 1000)
#define DISK_DEFAULT      (INT64_C(64) << 30)
#define PROCESSES_DEFAULT 4096
#define GRACE_DEFAULT_MS  30000
#define CHECK_MS          20000

DEFINE_CLEANUP(struct lessor_rack_agent, lessor_rack_agent_free)

void rack_tell(struct lessor_rack_agent *agent, const struct lessor_rack_event *event)
{
        if (agent->event == NULL)
                return;
        pthread_mutex_lock(&agent->event_mutex);
        agent->event(agent->context, event);
        pthread_mutex_unlock(&agent->event_mutex);
}

void rack_tell_job(struct lessor_rack_agent *agent, const struct rack_job *job,
                   struct lessor_rack_event event)
{
        event.task_name = job->task_name;
        event.repo = job->repo;
        event.lease_id = job->lease_id;
        event.attempt = job->attempt;
        rack_tell(agent, &event);
}

void rack_tell_progress(struct rack_slot *slot, const struct rack_job *job, enum lessor_rack_event_type type)
{
        struct lessor_rack_agent *agent = slot->agent;
        int64_t now_ms = clock_monotonic_ms();
        bool due;

        if (agent->event == NULL)
                return;
        pthread_mutex_lock(&agent->event_mutex);
        due = now_ms - agent->progress_ms >= PROGRESS_MS;
        if (due)
                agent->progress_ms = now_ms;
        pthread_mutex_unlock(&agent->event_mutex);
        if (due)
                rack_tell_job(agent, job,
                              (struct lessor_rack_event){.type = type,
                                                         .done_bytes = slot->done_bytes,
                                                         .total_bytes = slot->total_bytes});
}

int rack_problem(char **ret_problem, int code, const char *format, ...)
{
        va_list args;

        if (ret_problem == NULL || *ret_problem != NULL)
                return code;
        va_start(args, format);
        if (vasprintf(ret_problem, format, args) < 0)
                *ret_problem = NULL;
        va_end(args);
        return code;
}

struct http_client_options rack_http_options(const struct lessor_rack_agent *agent)
{
        return (struct http_client_options){.ca_file = agent->ca_file, .proxy = agent->proxy};
}

struct rack_job *rack_job_free(struct rack_job *job)
{
        if (job == NULL)
                return NULL;
        rack_exchange_clear(&job->extend);
        lessor_stop_free(job->stop);
        lessor_arena_free(job->arena);
        free(job->outbox_path);
        free(job);
        return NULL;
}

void rack_job_end(struct lessor_rack_agent *agent, struct rack_job *job, enum rack_fate fate)
{
        pthread_mutex_lock(&agent->mutex);
        if (job->fate == RACK_FATE_NONE) {
                job->fate = fate;
                lessor_stop_raise(job->stop);
        }
        pthread_mutex_unlock(&agent->mutex);
}

enum rack_fate rack_job_fate(struct lessor_rack_agent *agent, const struct rack_job *job)
{
        enum rack_fate fate;

        pthread_mutex_lock(&agent->mutex);
        fate = job->fate;
        pthread_mutex_unlock(&agent->mutex);
        return fate;
}

void rack_fatal(struct lessor_rack_agent *agent, int code)
{
        pthread_mutex_lock(&agent->mutex);
        if (agent->fatal == 0)
                agent->fatal = code;
        pthread_mutex_unlock(&agent->mutex);
        http_client_wake(agent->loop.http);
}

/* --- Making one --- */

static int lock_directory(struct lessor_rack_agent *agent, char **ret_problem)
{
        char *path = device_path(agent->dir, "agent.lock");

        if (path == NULL)
                return LESSOR_E_NOMEM;
        agent->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        free(path);
        if (agent->lock_fd < 0)
                return rack_problem(ret_problem, errno == ENOENT ? LESSOR_E_NOT_FOUND : LESSOR_E_IO,
                                    "cannot open %s/agent.lock: %s", agent->dir, strerror(errno));
        if (flock(agent->lock_fd, LOCK_EX | LOCK_NB) < 0)
                return rack_problem(ret_problem, errno == EWOULDBLOCK ? LESSOR_E_BUSY : LESSOR_E_IO,
                                    "another agent runs in %s", agent->dir);
        return 0;
}

static int load_identity(struct lessor_rack_agent *agent, char **ret_problem)
{
        _cleanup_(buf_done) struct buf problem = {0};
        char *path = device_path(agent->dir, "rack.json");
        int r = path == NULL ? LESSOR_E_NOMEM : rack_identity_load(path, &agent->identity, &problem);

        if (r < 0)
                rack_problem(ret_problem, r, "%s: %s", path == NULL ? agent->dir : path,
                             problem.n > 0 ? problem.p : lessor_error_text(r));
        free(path);
        return r;
}

/* An absolute path: what runs elsewhere has another current directory. */
static int absolute(const char *path, char **ret_path)
{
        char *here;
        int n;

        if (path[0] == '/') {
                *ret_path = strdup(path);
                return *ret_path == NULL ? LESSOR_E_NOMEM : 0;
        }
        here = getcwd(NULL, 0);
        if (here == NULL)
                return LESSOR_E_IO;
        n = asprintf(ret_path, "%s/%s", here, path);
        free(here);
        if (n < 0)
                *ret_path = NULL;
        return n < 0 ? LESSOR_E_NOMEM : 0;
}

static int below(const char *dir, const char *name, const char *given, char **ret_path)
{
        if (given != NULL)
                return absolute(given, ret_path);
        *ret_path = device_path(dir, name);
        return *ret_path == NULL ? LESSOR_E_NOMEM : 0;
}

static int copy_text(const char *text, char **ret_copy)
{
        *ret_copy = text == NULL ? NULL : strdup(text);
        return text != NULL && *ret_copy == NULL ? LESSOR_E_NOMEM : 0;
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
        return value == 0 ? otherwise : value;
}

static int copy_tiers(struct lessor_rack_agent *agent, const struct lessor_rack_agent_options *options)
{
        agent->tiers = calloc(options->n_tiers, sizeof(*agent->tiers));
        if (agent->tiers == NULL)
                return LESSOR_E_NOMEM;
        for (; agent->n_tiers < options->n_tiers; agent->n_tiers++) {
                agent->tiers[agent->n_tiers] = strdup(options->tiers[agent->n_tiers]);
                if (agent->tiers[agent->n_tiers] == NULL)
                        return LESSOR_E_NOMEM;
        }
        return 0;
}

static int copy_options(struct lessor_rack_agent *agent, const struct lessor_rack_agent_options *options)
{
        const struct lessor_rack_limits *limits = &options->limits;
        int r = absolute(options->dir, &agent->dir);

        agent->slots = options->slots == 0 ? 1 : options->slots;
        agent->allow_network = options->allow_network;
        agent->once = options->once;
        agent->grace_ms = options->grace_ms < 0 ? 0 : or_default(options->grace_ms, GRACE_DEFAULT_MS);
        agent->limits = (struct lessor_rack_limits){
                .time_ms = or_default(limits->time_ms, TIME_DEFAULT_MS),
                .memory_bytes = limits->memory_bytes,
                .disk_bytes = or_default(limits->disk_bytes, DISK_DEFAULT),
                .processes = or_default(limits->processes, PROCESSES_DEFAULT),
                .log_bytes = or_default(limits->log_bytes, LIMIT_LOG_BYTES),
        };
        if (r == 0)
                r = below(agent->dir, "cache", options->cache_dir, &agent->cache_dir);
        if (r == 0)
                r = below(agent->dir, "work", options->work_dir, &agent->work_dir);
        if (r == 0)
                r = below(agent->dir, "outbox", NULL, &agent->outbox_dir);
        if (r == 0)
                r = copy_text(options->ca_file, &agent->ca_file);
        if (r == 0)
                r = copy_text(options->proxy, &agent->proxy);
        return r == 0 ? copy_tiers(agent, options) : r;
}

static int check_options(const struct lessor_rack_agent_options *options, char **ret_problem)
{
        if (options->dir == NULL || options->dir[0] == '\0')
                return rack_problem(ret_problem, LESSOR_E_INVALID, "a rack needs a directory");
        if (options->n_tiers == 0)
                return rack_problem(ret_problem, LESSOR_E_INVALID, "a rack serves a tier at least");
        if (options->slots > LIMIT_CLAIM_MAX)
                return rack_problem(ret_problem, LESSOR_E_INVALID, "a rack runs at most %d tasks at once",
                                    LIMIT_CLAIM_MAX);
        for (size_t i = 0; i < options->n_tiers; i++)
                if (options->tiers[i][0] == '\0' || strlen(options->tiers[i]) > LIMIT_ID_BYTES)
                        return rack_problem(ret_problem, LESSOR_E_INVALID, "\"%s\" is no tier",
                                            options->tiers[i]);
        return 0;
}

static int open_cache(struct lessor_rack_agent *agent, int64_t bytes, char **ret_problem)
{
        _cleanup_(buf_done) struct buf problem = {0};
        int r = object_cache_open(agent->cache_dir, or_default(bytes, CACHE_DEFAULT), &agent->cache,
                                  &problem);

        if (r < 0)
                rack_problem(ret_problem, r, "%s: %s", agent->cache_dir,
                             problem.n > 0 ? problem.p : lessor_error_text(r));
        return r;
}

/* Tasks that ran when the agent was killed have left their directories. */
static int clear_work(struct lessor_rack_agent *agent, char **ret_problem)
{
        int r = dir_tree_remove(agent->work_dir);

        if (r == 0 && mkdir(agent->work_dir, 0700) < 0)
                r = LESSOR_E_IO;
        if (r < 0)
                rack_problem(ret_problem, r, "%s: cannot be emptied", agent->work_dir);
        return r;
}

/* --- The sandbox --- */

/* Beside this program, as in a build directory, or where `make install` puts it. */
static int find_task_program(const char *given, char **ret_path)
{
        char self[PATH_MAX];
        ssize_t n;
        char *slash;

        if (given != NULL)
                return absolute(given, ret_path);
        n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n > 0) {
                self[n] = '\0';
                slash = strrchr(self, '/');
                if (slash != NULL)
                        *slash = '\0';
                if (asprintf(ret_path, "%s/lessor-task", self) < 0)
                        return LESSOR_E_NOMEM;
                if (access(*ret_path, X_OK) == 0)
                        return 0;
                free(*ret_path);
        }
        *ret_path = strdup(LESSOR_LIBEXEC "/lessor-task");
        return *ret_path == NULL ? LESSOR_E_NOMEM : 0;
}

static int make_sandbox(struct lessor_rack_agent *agent, const struct lessor_rack_agent_options *options,
                        char **ret_problem)
{
        _cleanup_(buf_done) struct buf problem = {0};
        char *task_program = NULL;
        struct sandbox_options sandbox = {.off = options->no_sandbox,
                                          .bwrap = options->bwrap,
                                          .shares = options->shares,
                                          .n_shares = options->n_shares,
                                          .devices = options->devices,
                                          .n_devices = options->n_devices,
                                          .dir = agent->work_dir};
        int r = find_task_program(options->task_program, &task_program);

        sandbox.task_program = task_program;
        if (r == 0)
                r = sandbox_new(&sandbox, &agent->sandbox, &problem);
        if (r < 0)
                rack_problem(ret_problem, r, "%s", problem.n > 0 ? problem.p : lessor_error_text(r));
        free(task_program);
        return r;
}

static void note_limits(struct lessor_rack_agent *agent)
{
        const char *processes = "";

        if (agent->cgroups != NULL)
                return;
        if (!sandbox_is_on(agent->sandbox) || geteuid() == 0)
                processes = ", and that of processes is not enforced";
        snprintf(agent->limits_note, sizeof(agent->limits_note),
                 "no cgroup to divide: the limit of memory is that of each process%s", processes);
}

/* Whether tasks can be started, by starting one. */
static int try_sandbox(struct lessor_rack_agent *agent, char **ret_problem)
{
        struct lessor_slice argv[] = {LESSOR_SLICE("true")};
        struct task task = {.argv = argv, .n_argv = 1, .directory = LESSOR_SLICE(".")};
        char *work_dir = device_path(agent->work_dir, "check"),
             *tmp_dir = device_path(agent->work_dir, "check-tmp");
        struct task_run run = {.sandbox = agent->sandbox,
                               .cgroups = agent->cgroups,
                               .name = "check",
                               .work_dir = work_dir,
                               .tmp_dir = tmp_dir,
                               .task = &task,
                               .limits = {.time_ms = CHECK_MS, .processes = PROCESSES_DEFAULT}};
        struct task_end end = {.how = TASK_END_BROKEN};
        int r = work_dir == NULL || tmp_dir == NULL ? LESSOR_E_NOMEM : 0;

        if (r == 0 && (mkdir(work_dir, 0755) < 0 || mkdir(tmp_dir, 0700) < 0))
                r = rack_problem(ret_problem, LESSOR_E_IO, "%s: %s", agent->work_dir, strerror(errno));
        if (r == 0) {
                task_run(&run, &end);
                rmdir(work_dir);
                dir_tree_remove(tmp_dir);
        }
        free(work_dir);
        free(tmp_dir);
        if (r < 0 || (end.how == TASK_END_EXIT && end.number == 0))
                return r;
        return rack_problem(
                ret_problem, LESSOR_E_UNAVAILABLE, "tasks cannot be run%s%s%s%s",
                end.problem[0] == '\0' ? "" : ": ", end.problem,
                sandbox_is_on(agent->sandbox)
                        ? "; bubblewrap needs user namespaces: see \"The sandbox\" in docs/rack.md"
                        : "",
                sandbox_is_on(agent->sandbox)
                        ? " (or say --no-sandbox, which lets tasks do whatever your user can)"
                        : "");
}

/* --- The outbox --- */

/* Takes the path and the arena. */
static int queue_kept(void *context, char *path, struct lessor_arena *arena,
                      const struct rack_outbox_item *item)
{
        struct lessor_rack_agent *agent = context;
        struct rack_job *job;
        int r;

        if (!lessor_slice_equal(item->rack_id, lessor_slice_of(rack_identity_rack_id(agent->identity)))) {
                rack_outbox_remove(path); /* of a rack that this one was before */
                free(path);
                lessor_arena_free(arena);
                return 0;
        }
        r = rack_job_new(arena, &job);
        if (r < 0) {
                free(path);
                lessor_arena_free(arena);
                return r;
        }
        job->repo = item->repo;
        job->lease_id = item->lease_id;
        job->attempt = item->attempt;
        job->task_name = item->task_name;
        job->result = item->result;
        job->outbox_path = path;
        rack_queue_job(agent, job);
        return 0;
}

static int open_outbox(struct lessor_rack_agent *agent, char **ret_problem)
{
        size_t n_unreadable = 0;
        int r = rack_outbox_make(agent->outbox_dir);

        if (r == 0)
                r = rack_outbox_each(agent->outbox_dir, queue_kept, agent, &n_unreadable);
        if (r < 0)
                rack_problem(ret_problem, r, "%s: %s", agent->outbox_dir, lessor_error_text(r));
        return r;
}

/* --- All of it --- */

static int set_up(struct lessor_rack_agent *agent, const struct lessor_rack_agent_options *options,
                  char **ret_problem)
{
        struct http_client_options http;
        int r = copy_options(agent, options);

        if (r == 0)
                r = lock_directory(agent, ret_problem);
        if (r == 0)
                r = load_identity(agent, ret_problem);
        if (r < 0)
                return r;
        http = rack_http_options(agent);
        r = http_client_new(&http, &agent->loop.http);
        if (r == LESSOR_E_INVALID)
                rack_problem(ret_problem, r, "the proxy is none");
        agent->loop.caller = (struct rack_caller){.http = agent->loop.http,
                                                  .identity = agent->identity,
                                                  .url = rack_identity_url(agent->identity)};
        if (r == 0)
                r = open_cache(agent, options->cache_bytes, ret_problem);
        if (r == 0)
                r = clear_work(agent, ret_problem);
        if (r == 0)
                r = make_sandbox(agent, options, ret_problem);
        if (r < 0)
                return r;
        if (cgroup_parent_new(NULL, NULL, &agent->cgroups) == LESSOR_E_NOMEM)
                return LESSOR_E_NOMEM;
        note_limits(agent);
        r = try_sandbox(agent, ret_problem);
        return r == 0 ? open_outbox(agent, ret_problem) : r;
}

int lessor_rack_agent_new(const struct lessor_rack_agent_options *options,
                          void (*event)(void *context, const struct lessor_rack_event *event), void *context,
                          struct lessor_rack_agent **ret_agent, char **ret_problem)
{
        _cleanup_(lessor_rack_agent_freep) struct lessor_rack_agent *agent = NULL;
        int r;

        if (ret_problem != NULL)
                *ret_problem = NULL;
        r = check_options(options, ret_problem);
        if (r < 0)
                return r;
        agent = calloc(1, sizeof(*agent));
        if (agent == NULL)
                return LESSOR_E_NOMEM;
        agent->lock_fd = -1;
        agent->event = event;
        agent->context = context;
        uuid_v4(agent->boot_id);
        rack_failure_init(&agent->loop.failure);
        pthread_mutex_init(&agent->event_mutex, NULL);
        pthread_mutex_init(&agent->mutex, NULL);
        pthread_cond_init(&agent->work, NULL);
        r = lessor_stop_new(&agent->stop);
        if (r == 0)
                r = set_up(agent, options, ret_problem);
        if (r < 0)
                return r;
        *ret_agent = TAKE(agent);
        return 0;
}

struct lessor_rack_agent *lessor_rack_agent_free(struct lessor_rack_agent *agent)
{
        if (agent == NULL)
                return NULL;
        while (agent->active != NULL) {
                struct rack_job *next = agent->active->next;

                rack_job_free(agent->active);
                agent->active = next;
        }
        http_client_free(agent->loop.http);
        rack_failure_done(&agent->loop.failure);
        sandbox_free(agent->sandbox);
        cgroup_parent_free(agent->cgroups);
        object_cache_free(agent->cache);
        rack_identity_free(agent->identity);
        lessor_stop_free(agent->stop);
        pthread_cond_destroy(&agent->work);
        pthread_mutex_destroy(&agent->mutex);
        pthread_mutex_destroy(&agent->event_mutex);
        for (size_t i = 0; i < agent->n_tiers; i++)
                free(agent->tiers[i]);
        free(agent->tiers);
        free(agent->dir);
        free(agent->cache_dir);
        free(agent->work_dir);
        free(agent->outbox_dir);
        free(agent->ca_file);
        free(agent->proxy);
        if (agent->lock_fd >= 0)
                close(agent->lock_fd);
        free(agent);
        return NULL;
}

void lessor_rack_agent_info(const struct lessor_rack_agent *agent, struct lessor_rack_agent_info *ret_info)
{
        *ret_info = (struct lessor_rack_agent_info){
                .rack_id = rack_identity_rack_id(agent->identity),
                .url = rack_identity_url(agent->identity),
                .boot_id = agent->boot_id,
                .limits_note = agent->limits_note[0] == '\0' ? NULL : agent->limits_note,
                .n_kept = agent->n_active,
        };
}

void lessor_rack_agent_stop(struct lessor_rack_agent *agent)
{
        lessor_stop_raise(agent->stop);
}
