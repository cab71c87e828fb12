/* SPDX-License-Identifier: MIT */
#include "plane/rack_event.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/uuid.h"
#include "objects/io.h"
#include "objects/object_graph.h"
#include "plane/collection.h"
#include "wire/lease_event.h"
#include "wire/rack_message.h"
#include "wire/task_objects.h"

/* --- Vocabulary --- */

bool rack_tier_valid(struct lessor_slice tier)
{
        if (tier.n < 1 || tier.n > LIMIT_RACK_TIER)
                return false;
        for (size_t i = 0; i < tier.n; i++) {
                char c = tier.p[i];

                if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '.' || c == '_' || c == '-'))
                        return false;
        }
        return true;
}

bool rack_size_valid(struct lessor_slice size)
{
        static const struct lessor_slice sizes[] = {LESSOR_SLICE("serverless"), LESSOR_SLICE("small"),
                                                    LESSOR_SLICE("medium"), LESSOR_SLICE("large"),
                                                    LESSOR_SLICE("xlarge")};

        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                if (lessor_slice_equal(sizes[i], size))
                        return true;
        return false;
}

/* --- From an event --- */

static int check_terms(const struct rack_terms *terms, const char **problem)
{
        if (!lessor_object_repo_valid(terms->repo))
                *problem = "repo: must be 1 to 128 letters, digits, `.`, `_` and `-`";
        else if (lessor_slice_equal(terms->repo, LESSOR_SLICE(RACK_LAYER_REPO)))
                *problem = "repo: " RACK_LAYER_REPO " is for the layers of environments";
        else if (!rack_tier_valid(terms->tier))
                *problem = "tier: must be 1 to 64 letters, digits, `.`, `_` and `-`";
        else if (terms->compute_size.p != NULL && !rack_size_valid(terms->compute_size))
                *problem = "size: must be serverless, small, medium, large or xlarge";
        else if (terms->environment.p != NULL && !lessor_object_hash_valid(terms->environment))
                *problem = "environment: must be a SHA-256 in lower-case hex";
        else
                return 0;
        return LESSOR_E_INVALID;
}

static int fail(int e, const char *problem, const char **ret_problem)
{
        if (ret_problem != NULL)
                *ret_problem = problem == NULL ? lessor_error_text(e) : problem;
        return e;
}

/* What the host says must not be said otherwise by the event; what it does not say, the event does. */
static bool agree(struct lessor_slice term, struct lessor_slice said, struct lessor_slice *ret_value)
{
        if (term.p != NULL && said.p != NULL && !lessor_slice_equal(term, said))
                return false;
        *ret_value = term.p != NULL ? term : said;
        return true;
}

/* Returns what disagrees, for people, or NULL. */
static const char *settle(const struct rack_terms *terms, const struct lease_event *event,
                          struct lessor_lease_submission *out)
{
        if (!agree(terms->repo, event->repo, &out->repo))
                return "runnerEvent.repo: is another than the repository of the submission";
        if (!agree(terms->workspace, event->workspace, &out->workspace))
                return "workspace: is another than that of the submission";
        if (!agree(terms->task_name, event->task_name, &out->task_name))
                return "taskName: is another than that of the submission";
        if (!agree(terms->floor, event->e3_version, &out->floor))
                return "e3Version: is another than that of the submission";
        if (!agree(terms->environment, event->environment, &out->environment))
                return "environment: is another than that of the submission";
        return NULL;
}

/* Everything that the two sources have in common. The hash of the inputs goes to `inputs_hash`. */
static int fill(const struct rack_terms *terms, const struct lease_event *event, struct lessor_slice text,
                struct lessor_arena *arena, struct lessor_lease_submission *out)
{
        char *inputs_hash = lessor_arena_alloc(arena, 65);

        if (inputs_hash == NULL)
                return LESSOR_E_NOMEM;
        lessor_lease_inputs_hash(event->inputs, event->n_inputs, inputs_hash);
        out->task_hash = event->task_hash;
        out->inputs_hash = (struct lessor_slice){inputs_hash, 64};
        out->tier = terms->tier;
        out->compute_size = terms->compute_size;
        out->run = terms->run.p != NULL ? terms->run : event->run;
        out->owner = terms->owner;
        out->mode = event->mode;
        out->own = event->own;
        out->event_version = LESSOR_EVENT_VERSION;
        out->event = text;
        out->ttl_ms = terms->ttl_ms;
        out->attempt_limit = terms->attempt_limit;
        out->key = terms->key;
        out->share = terms->share;
        return 0;
}

int rack_submission_of_event(const struct rack_terms *terms, struct lessor_slice event,
                             struct lessor_arena *arena, struct lessor_lease_submission *ret_submission,
                             const char **ret_problem)
{
        struct lessor_lease_submission out = {0};
        struct lease_event read;
        const char *problem = NULL;
        int e = check_terms(terms, &problem);

        if (e == 0)
                e = lease_event_read(event, arena, &read, &problem);
        if (e == 0) {
                problem = settle(terms, &read, &out);
                e = problem != NULL ? LESSOR_E_INVALID : fill(terms, &read, event, arena, &out);
        }
        if (e < 0)
                return fail(e, problem, ret_problem);
        *ret_submission = out;
        return 0;
}

/* --- From a task object --- */

static int read_object(struct lessor_object_store *objects, struct lessor_slice repo,
                       struct lessor_slice hash, int64_t limit, struct lessor_arena *arena,
                       struct lessor_slice *ret_bytes)
{
        _cleanup_(object_io_close) int fd = -1;
        int64_t size;
        char *bytes;
        size_t n;
        int e = lessor_object_open(objects, repo, hash, &fd, &size);

        if (e < 0)
                return e;
        if (size > limit)
                return LESSOR_E_TOO_LARGE;
        bytes = lessor_arena_alloc(arena, (size_t)size);
        if (bytes == NULL)
                return LESSOR_E_NOMEM;
        e = object_io_read(fd, bytes, (size_t)size, 0, &n);
        if (e < 0)
                return e;
        if (n != (size_t)size)
                return LESSOR_E_CORRUPT;
        *ret_bytes = (struct lessor_slice){bytes, n};
        return 0;
}

/* The file's name of a command: what comes after the last slash. */
static struct lessor_slice name_of_command(struct lessor_slice command)
{
        size_t at = command.n;

        while (at > 0 && command.p[at - 1] != '/')
                at--;
        return at == command.n ? command : (struct lessor_slice){command.p + at, command.n - at};
}

static int inputs_of(const struct task *task, struct lessor_arena *arena, struct lease_event *event)
{
        event->inputs = lessor_arena_array(arena, task->n_inputs, sizeof(*event->inputs));
        if (event->inputs == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < task->n_inputs; i++)
                if (task->inputs[i].type == TREE_FILE || task->inputs[i].type == TREE_TREE)
                        event->inputs[event->n_inputs++] = task->inputs[i].hash;
        return 0;
}

/* Stores the list of a closure that is too long for the event (section 11). */
static int store_closure(struct lessor_object_store *objects, struct lessor_slice repo,
                         struct lessor_arena *arena, struct lease_closure *closure)
{
        _cleanup_(buf_done) struct buf bytes;
        struct lessor_object_writer *writer = NULL;
        struct lessor_object_written written;
        struct rack_closure_list list = {closure->hashes, closure->n_hashes};
        int e;

        buf_init(&bytes);
        e = rack_message_write_beast2(&rack_closure_list_type, &list, &bytes);
        if (e == 0)
                e = lessor_object_put(objects, repo, (struct lessor_slice){0}, (int64_t)bytes.n, &writer);
        if (e == 0)
                e = lessor_object_write(writer, buf_view(&bytes));
        if (e == 0)
                e = lessor_object_finish(writer, arena, &written);
        lessor_object_writer_free(writer);
        if (e < 0)
                return e;
        closure->hashes = NULL;
        closure->n_hashes = 0;
        closure->object = written.hash;
        return 0;
}

static int close_task(struct lessor_object_store *objects, struct lessor_slice repo,
                      struct lessor_slice task_hash, struct lessor_arena *arena,
                      struct lease_closure *closure, const char **problem)
{
        struct object_graph_gap gap = {0};
        int e = object_graph_closure(objects, repo, task_hash, arena, &closure->hashes, &closure->n_hashes,
                                     &gap);

        if (e < 0) {
                _cleanup_(buf_done) struct buf words;
                struct lessor_slice text = {0};

                buf_init(&words);
                if (gap.problem != NULL &&
                    buf_printf(&words, "object %.*s: %s", (int)gap.hash.n, gap.hash.p, gap.problem) == 0 &&
                    lessor_arena_copy(arena, buf_view(&words), &text) == 0)
                        *problem = text.p;
                return e;
        }
        closure->count = (int64_t)closure->n_hashes;
        return closure->n_hashes > LEASE_CLOSURE_INLINE ? store_closure(objects, repo, arena, closure) : 0;
}

static int read_task(const struct rack_terms *terms, struct lessor_object_store *objects,
                     struct lessor_slice task_hash, struct lessor_arena *arena, struct task *ret_task,
                     const char **problem)
{
        struct lessor_slice bytes;
        int e = read_object(objects, terms->repo, task_hash, LIMIT_TASK_BYTES, arena, &bytes);

        if (e < 0) {
                if (e == LESSOR_E_NOT_FOUND)
                        *problem = "the task object is not in the store";
                return e;
        }
        e = task_read(bytes, arena, ret_task, problem);
        return e == LESSOR_E_MALFORMED ? LESSOR_E_INVALID : e;
}

static int describe(const struct rack_terms *terms, const struct task *task, struct lessor_slice task_hash,
                    int64_t now_ms, struct lessor_arena *arena, struct lease_event *event)
{
        int64_t timeout_ms = terms->timeout_ms > 0      ? terms->timeout_ms
                             : task->limits.time_ms > 0 ? task->limits.time_ms
                                                        : RACK_TASK_TIMEOUT_MS;
        char *launch = lessor_arena_alloc(arena, UUID_TEXT_LEN + 1);

        if (launch == NULL)
                return LESSOR_E_NOMEM;
        uuid_v7(now_ms, launch);
        event->mode = LESSOR_LEASE_TASK;
        event->repo = terms->repo;
        event->workspace = terms->workspace.p != NULL ? terms->workspace : LESSOR_SLICE("");
        event->task_name = terms->task_name.p != NULL ? terms->task_name : name_of_command(task->argv[0]);
        event->e3_version = terms->floor;
        event->environment = terms->environment;
        event->launch_id = (struct lessor_slice){launch, UUID_TEXT_LEN};
        event->timeout_ms = (double)timeout_ms;
        event->task_hash = task_hash;
        if (terms->run.p != NULL && uuid_is_v7(terms->run) && event->workspace.n > 0) {
                event->run = terms->run;
                event->run_workspace = event->workspace;
        }
        return inputs_of(task, arena, event);
}

static int submit_task(const struct rack_terms *terms, struct lessor_object_store *objects,
                       struct lessor_slice task_hash, int64_t now_ms, struct lessor_arena *arena,
                       struct lessor_lease_submission *out, const char **problem)
{
        _cleanup_(buf_done) struct buf json;
        struct lease_event event = {0};
        struct lessor_slice text;
        struct task task;
        int e = check_terms(terms, problem);

        buf_init(&json);
        if (e == 0)
                e = read_task(terms, objects, task_hash, arena, &task, problem);
        if (e == 0)
                e = describe(terms, &task, task_hash, now_ms, arena, &event);
        if (e == 0)
                e = close_task(objects, terms->repo, task_hash, arena, &event.closure, problem);
        if (e == 0)
                e = lease_event_write_task(&event, &json);
        if (e == 0)
                e = lessor_arena_copy(arena, buf_view(&json), &text);
        if (e == 0)
                e = fill(terms, &event, text, arena, out);
        if (e < 0)
                return e;
        out->repo = terms->repo;
        out->workspace = event.workspace;
        out->task_name = event.task_name;
        out->floor = terms->floor;
        out->environment = terms->environment;
        return lessor_arena_copy(arena, task_hash, &out->task_hash);
}

int rack_submission_of_task(const struct rack_terms *terms, struct lessor_object_store *objects,
                            struct lessor_slice task_hash, int64_t now_ms, struct lessor_arena *arena,
                            struct lessor_lease_submission *ret_submission, const char **ret_problem)
{
        struct lessor_lease_submission out = {0};
        const char *problem = NULL;
        int e = submit_task(terms, objects, task_hash, now_ms, arena, &out, &problem);

        if (e < 0)
                return fail(e, problem, ret_problem);
        *ret_submission = out;
        return 0;
}
