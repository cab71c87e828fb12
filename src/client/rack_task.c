/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/uuid.h"
#include "client/dir_tree.h"
#include "client/rack.h"
#include "client/rack_log.h"
#include "client/tree_unpack.h"

/* A job from its event to a result: fetch, place, run, send. */

#define TIME_MOST_MS (INT64_C(1) << 52)

/* What a job has while it is worked on. */
struct work {
        struct rack_slot *slot;
        struct rack_job *job;
        struct lessor_arena *arena;
        struct lease_event event;
        struct task task;
        struct task_limits limits;
        char *dir;      /* the job's own, below work_dir */
        char *task_dir; /* the task's, in it */
        char *tmp_dir;
        struct buf problem;
        struct rack_result *result;
};

/* The task ends as an infrastructure error: another rack may do better. Returns 0, or LESSOR_E_NOMEM. */
static int end_in_error(struct work *w, const char *what)
{
        struct lessor_slice copy;
        _cleanup_(buf_done) struct buf text = {0};
        int r;

        buf_text(&text, what);
        if (w->problem.n > 0) {
                buf_text(&text, ": ");
                buf_slice(&text, buf_view(&w->problem));
        }
        r = buf_failed(&text);
        if (r == 0)
                r = lessor_arena_copy(w->arena, buf_view(&text), &copy);
        if (r < 0)
                return r;
        w->result->state = RACK_RESULT_ERROR;
        w->result->has_exit_code = false;
        w->result->error = copy.p;
        return 0;
}

/* As end_in_error, but it was the task's own doing. */
static int end_in_failure(struct work *w, const char *what)
{
        int r = end_in_error(w, what);

        w->result->state = RACK_RESULT_FAILED;
        return r;
}

/* What a step that failed means: no result at all, or one that says so. Returns 1 for the latter. */
static int after_failure(struct work *w, int code, const char *what)
{
        int r;

        if (code == LESSOR_E_CLOSED || code == LESSOR_E_NOMEM)
                return code;
        r = end_in_error(w, what);
        return r < 0 ? r : 1;
}

static int read_cached(struct work *w, struct lessor_slice hash, size_t limit, struct lessor_slice *ret_bytes)
{
        int fd = object_cache_read(w->slot->agent->cache, hash), r = 0;
        struct stat st;
        char *bytes = NULL;
        size_t at = 0;

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || st.st_size < 0)
                r = LESSOR_E_IO;
        else if ((uintmax_t)st.st_size > limit)
                r = LESSOR_E_TOO_LARGE;
        else if ((bytes = lessor_arena_alloc(w->arena, (size_t)st.st_size + 1)) == NULL)
                r = LESSOR_E_NOMEM;
        while (r == 0 && at < (size_t)st.st_size) {
                ssize_t n = read(fd, bytes + at, (size_t)st.st_size - at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        r = LESSOR_E_IO;
                else
                        at += (size_t)n;
        }
        close(fd);
        if (r == 0)
                *ret_bytes = (struct lessor_slice){bytes, at};
        return r;
}

static void set_limits(struct work *w)
{
        const struct lessor_rack_limits *allowed = &w->slot->agent->limits;
        int64_t time_ms =
                w->event.timeout_ms >= (double)TIME_MOST_MS ? TIME_MOST_MS : (int64_t)w->event.timeout_ms;

        if (time_ms < 1)
                time_ms = 1;
        w->limits.time_ms = rack_limit(rack_limit(w->task.limits.time_ms, time_ms), allowed->time_ms);
        w->limits.memory_bytes = rack_limit(w->task.limits.memory_bytes, allowed->memory_bytes);
        w->limits.disk_bytes = rack_limit(w->task.limits.disk_bytes, allowed->disk_bytes);
        w->limits.processes = rack_limit(w->task.limits.processes, allowed->processes);
}

/* Reads event and task. Returns 0, or as after_failure. */
static int read_task(struct work *w)
{
        const char *problem = NULL, *refusal;
        struct lessor_slice bytes;
        int r = lease_event_read(w->job->event_json, w->arena, &w->event, &problem);

        if (r < 0) {
                buf_text(&w->problem, problem == NULL ? lessor_error_text(r) : problem);
                return after_failure(w, r, "the lease's event cannot be read");
        }
        refusal = rack_refusal(w->event.mode, (struct lessor_slice){0});
        if (refusal != NULL)
                return after_failure(w, LESSOR_E_REFUSED, refusal);
        r = rack_fetch(w->slot, w->job, &w->event.task_hash, 1, &w->problem);
        if (r == 0)
                r = read_cached(w, w->event.task_hash, LIMIT_TASK_BYTES, &bytes);
        if (r < 0 && r != LESSOR_E_TOO_LARGE)
                return after_failure(w, r, "the task cannot be fetched");
        refusal = r < 0 ? rack_refusal(LESSOR_LEASE_TASK, LESSOR_SLICE("?"))
                        : rack_refusal(w->event.mode, bytes);
        if (refusal != NULL)
                return after_failure(w, LESSOR_E_REFUSED, refusal);
        r = task_read(bytes, w->arena, &w->task, &problem);
        if (r < 0) {
                buf_text(&w->problem, problem == NULL ? lessor_error_text(r) : problem);
                return after_failure(w, r, "the task is not a valid lessor.task/1");
        }
        if (w->task.network && !w->slot->agent->allow_network)
                return after_failure(w, LESSOR_E_REFUSED,
                                     "the task wants the network, which this rack does not give "
                                     "(lessor rack run --allow-network)");
        set_limits(w);
        return 0;
}

static int make_dirs(struct work *w)
{
        char id[UUID_TEXT_LEN + 1];

        uuid_v4(id); /* an attempt's id is the server's, and not to be trusted with a path */
        if (asprintf(&w->dir, "%s/%s", w->slot->agent->work_dir, id) < 0) {
                w->dir = NULL;
                return LESSOR_E_NOMEM;
        }
        if (asprintf(&w->task_dir, "%s/task", w->dir) < 0) {
                w->task_dir = NULL;
                return LESSOR_E_NOMEM;
        }
        if (asprintf(&w->tmp_dir, "%s/tmp", w->dir) < 0) {
                w->tmp_dir = NULL;
                return LESSOR_E_NOMEM;
        }
        if (mkdir(w->dir, 0700) < 0 || mkdir(w->task_dir, 0755) < 0 || mkdir(w->tmp_dir, 0700) < 0)
                return errno == ENOSPC ? LESSOR_E_LOW_SPACE : LESSOR_E_IO;
        return 0;
}

/* --- Placing the inputs --- */

static int bring(void *context, struct lessor_slice hash, int64_t size, struct tree_taker *taker)
{
        struct work *w = context;
        int fd, r;

        (void)size; /* what it says of the bytes is compared by whoever takes them */
        if (lessor_stop_raised(w->job->stop))
                return LESSOR_E_CLOSED;
        fd = object_cache_read(w->slot->agent->cache, hash);
        if (fd < 0) {
                /* A tree within a tree is asked for before anything of its level was announced. */
                r = rack_fetch(w->slot, w->job, &hash, 1, &w->problem);
                if (r < 0)
                        return r;
                fd = object_cache_read(w->slot->agent->cache, hash);
        }
        if (fd < 0)
                return fd;
        r = tree_take_file(taker, fd, true);
        close(fd);
        return r;
}

static int expect(void *context, const struct tree_entry *entries, size_t n)
{
        struct work *w = context;
        struct lessor_slice *hashes = calloc(n + 1, sizeof(*hashes));
        size_t n_hashes = 0;
        int r;

        if (hashes == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++) {
                if (entries[i].type != TREE_FILE && entries[i].type != TREE_TREE)
                        continue;
                hashes[n_hashes++] = entries[i].hash;
                w->slot->total_bytes += entries[i].size;
        }
        r = rack_fetch(w->slot, w->job, hashes, n_hashes, &w->problem);
        free(hashes);
        return r;
}

static int place_inputs(struct work *w)
{
        const struct tree_source source = {.context = w, .object = bring, .expect = expect};
        _cleanup_(buf_done) struct buf where = {0};
        int dir, r = make_dirs(w);

        if (r < 0)
                return after_failure(w, r, "no directory for the task");
        dir = open(w->task_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return after_failure(w, LESSOR_E_IO, "no directory for the task");
        w->slot->done_bytes = w->slot->total_bytes = 0;
        r = tree_unpack_entries(w->task.inputs, w->task.n_inputs, dir, &source, NULL, &where);
        close(dir);
        if (r == 0)
                return 0;
        if (w->problem.n == 0)
                buf_slice(&w->problem, buf_view(&where));
        return after_failure(w, r, "its inputs cannot be placed");
}

/* --- Running --- */

static void log_lost(void *context, int code)
{
        struct work *w = context;

        if (code == LESSOR_E_PERMISSION)
                rack_fatal(w->slot->agent, code);
        rack_job_end(w->slot->agent, w->job, RACK_FATE_LOST);
}

static int start_log(struct work *w, struct rack_log **ret_log)
{
        struct rack_log_options options = {.caller = &w->slot->caller,
                                           .http = rack_http_options(w->slot->agent),
                                           .repo = w->job->repo,
                                           .lease_id = w->job->lease_id,
                                           .attempt = w->job->attempt,
                                           .limit_bytes = w->slot->agent->limits.log_bytes,
                                           .stop = w->job->stop,
                                           .lost = log_lost,
                                           .context = w};

        return rack_log_new(&options, ret_log);
}

/* Runs the command and gets its log to the server. Returns 0 if its outputs are wanted, else as
 * after_failure. */
static int run_command(struct work *w)
{
        _cleanup_(buf_done) struct buf error = {0};
        _cleanup_(rack_log_freep) struct rack_log *log = NULL;
        struct task_run run = {.sandbox = w->slot->agent->sandbox,
                               .cgroups = w->slot->agent->cgroups,
                               .name = strrchr(w->dir, '/') + 1,
                               .work_dir = w->task_dir,
                               .tmp_dir = w->tmp_dir,
                               .task = &w->task,
                               .network = w->task.network,
                               .limits = w->limits,
                               .stop = w->job->stop,
                               .room = rack_log_room,
                               .output = rack_log_add};
        struct lessor_slice name = w->result->task_name, copy = {0};
        struct task_end end;
        bool wanted;
        int r = start_log(w, &log);

        if (r < 0)
                return r;
        run.context = log;
        rack_tell_job(w->slot->agent, w->job,
                      (struct lessor_rack_event){.type = LESSOR_RACK_RUNNING,
                                                 .total_bytes = w->slot->total_bytes,
                                                 .work_path = w->task_dir});
        task_run(&run, &end);
        r = rack_log_finish(log);
        if (r == LESSOR_E_CLOSED || lessor_stop_raised(w->job->stop))
                return LESSOR_E_CLOSED;
        wanted = rack_judge_end(&end, &w->limits, &error, w->result);
        w->result->task_name = name;
        if (buf_failed(&error) < 0 ||
            (error.n > 0 && lessor_arena_copy(w->arena, buf_view(&error), &copy) < 0))
                return LESSOR_E_NOMEM;
        w->result->error = copy.p;
        if (r < 0)
                rack_tell_job(w->slot->agent, w->job,
                              (struct lessor_rack_event){.type = LESSOR_RACK_NOTICE,
                                                         .message = "the server did not take its log"});
        return wanted ? 0 : 1;
}

static int send_outputs(struct work *w)
{
        char hash[SHA256_HEX_LEN + 1];
        int r = rack_send_outputs(w->slot, w->job, &w->task, w->task_dir, hash, &w->problem);

        switch (r) {
        case 0:
                return lessor_arena_copy(w->arena, lessor_slice_of(hash), &w->result->output_hash);
        case LESSOR_E_NOT_FOUND:
                return end_in_failure(w, "an output that is required is missing");
        case LESSOR_E_INVALID:
        case LESSOR_E_PERMISSION:
        case LESSOR_E_TOO_LARGE:
        case LESSOR_E_TARGET_LIMIT:
                return end_in_failure(w, "its outputs cannot be taken");
        case LESSOR_E_CLOSED:
        case LESSOR_E_NOMEM:
                return r;
        default:
                return end_in_error(w, "its outputs cannot be sent");
        }
}

static int work(struct work *w)
{
        int r = read_task(w);

        if (r == 0)
                r = place_inputs(w);
        if (r == 0)
                r = run_command(w);
        if (r == 0)
                r = send_outputs(w);
        return r > 0 ? 0 : r;
}

int rack_work_on(struct rack_slot *slot, struct rack_job *job, struct lessor_arena *arena,
                 struct rack_result *ret_result)
{
        struct work w = {.slot = slot, .job = job, .arena = arena, .result = ret_result};
        int r;

        memset(ret_result, 0, sizeof(*ret_result));
        ret_result->task_name = job->task_name;
        r = work(&w);
        ret_result->duration_ms = clock_monotonic_ms() - job->granted_ms;
        if (w.dir != NULL && dir_tree_remove(w.dir) < 0)
                rack_tell_job(slot->agent, job,
                              (struct lessor_rack_event){.type = LESSOR_RACK_NOTICE,
                                                         .message = "its directory cannot be removed whole"});
        free(w.dir);
        free(w.task_dir);
        free(w.tmp_dir);
        buf_done(&w.problem);
        rack_unpin_all(slot);
        return r;
}
