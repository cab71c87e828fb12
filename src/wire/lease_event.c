/* SPDX-License-Identifier: MIT */
#include "wire/lease_event.h"

#include <math.h>
#include <stdio.h>

#include "base/json_read.h"
#include "base/json_write.h"
#include "base/macro.h"
#include "base/uuid.h"

/* The reading of one event: the first thing that is wrong ends it. */
struct reading {
        struct lessor_arena *arena;
        int error;           /* 0 so far */
        const char *problem; /* for people */
};

/* "runnerEvent.unit.parts: must be …" */
static void wrong(struct reading *r, const char *where, const char *what)
{
        size_t cap = strlen(where) + strlen(what) + 3;
        char *text;

        if (r->error < 0)
                return;
        r->error = LESSOR_E_INVALID;
        text = lessor_arena_alloc(r->arena, cap);
        if (text != NULL)
                snprintf(text, cap, "%s: %s", where, what);
        r->problem = text == NULL ? what : text;
}

/* --- Members. `where` is the whole way to the member, for people; its key is what follows the last dot. ---
 */

static const struct json *find(const struct json *object, const char *where)
{
        const char *dot = strrchr(where, '.');

        return json_member_named(object, dot == NULL ? where : dot + 1);
}

static const struct json *object_at(struct reading *r, const struct json *object, const char *where)
{
        const struct json *value = find(object, where);

        if (json_is(value, JSON_OBJECT))
                return value;
        wrong(r, where, "must be an object");
        return NULL;
}

static struct lessor_slice text_at(struct reading *r, const struct json *object, const char *where)
{
        const struct json *value = find(object, where);

        if (!json_is(value, JSON_STRING))
                wrong(r, where, "must be a text");
        return json_text(value);
}

static struct lessor_slice text1_at(struct reading *r, const struct json *object, const char *where)
{
        struct lessor_slice text = text_at(r, object, where);

        if (text.n == 0)
                wrong(r, where, "must be a text that is not empty");
        return text;
}

static bool is_hash(const struct json *value)
{
        struct lessor_slice text = json_text(value);

        if (text.n != 64)
                return false;
        for (size_t i = 0; i < text.n; i++)
                if (!((text.p[i] >= '0' && text.p[i] <= '9') || (text.p[i] >= 'a' && text.p[i] <= 'f')))
                        return false;
        return true;
}

static struct lessor_slice hash_at(struct reading *r, const struct json *object, const char *where)
{
        const struct json *value = find(object, where);

        if (!is_hash(value))
                wrong(r, where, "must be a SHA-256 in lower-case hex");
        return json_text(value);
}

static struct lessor_slice optional_hash_at(struct reading *r, const struct json *object, const char *where)
{
        return find(object, where) == NULL ? (struct lessor_slice){0} : hash_at(r, object, where);
}

static struct lessor_slice uuid_at(struct reading *r, const struct json *object, const char *where)
{
        struct lessor_slice text = json_text(find(object, where));

        if (text.p == NULL || !uuid_is_v7(text))
                wrong(r, where, "must be a UUID of version 7");
        return text;
}

static bool bool_at(struct reading *r, const struct json *object, const char *where, bool required)
{
        const struct json *value = find(object, where);

        if (value == NULL ? required : !json_is_bool(value))
                wrong(r, where, "must be true or false");
        return json_is(value, JSON_TRUE);
}

static double duration_at(struct reading *r, const struct json *object, const char *where)
{
        const struct json *value = find(object, where);

        if (json_is(value, JSON_NUMBER) && isfinite(value->number) && value->number > 0)
                return value->number;
        wrong(r, where, "must be a finite number above 0");
        return 0;
}

static int64_t count_at(struct reading *r, const struct json *object, const char *where, bool required)
{
        const struct json *value = find(object, where);
        int64_t number;

        if (value == NULL && !required)
                return -1;
        if (json_int(value, &number) && number >= 0)
                return number;
        wrong(r, where, "must be an integer of at least 0");
        return -1;
}

/* A list of which each item is `good`. */
static void list_at(struct reading *r, const struct json *object, const char *where, const char *what,
                    bool (*good)(const struct json *value), struct lessor_slice **ret_items, size_t *ret_n)
{
        const struct json *list = find(object, where);
        size_t n = json_count(list), at = 0;
        struct lessor_slice *items;

        if (!json_is(list, JSON_ARRAY)) {
                wrong(r, where, what);
                return;
        }
        items = lessor_arena_array(r->arena, n, sizeof(*items));
        if (items == NULL) {
                if (r->error == 0)
                        r->error = LESSOR_E_NOMEM;
                return;
        }
        json_each (item, list) {
                if (!good(item)) {
                        wrong(r, where, what);
                        return;
                }
                items[at++] = json_text(item);
        }
        *ret_items = items;
        *ret_n = n;
}

static bool is_text(const struct json *value)
{
        return json_is(value, JSON_STRING);
}

static bool is_text1(const struct json *value)
{
        return json_text(value).n > 0;
}

/* --- A function's spec --- */

static bool is_base64(struct lessor_slice text)
{
        size_t padding = 0;

        if (text.n % 4 != 0)
                return false;
        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i];

                if (c == '=') {
                        padding++;
                        continue;
                }
                if (padding > 0 || !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                                     (c >= 'A' && c <= 'Z') || c == '+' || c == '/'))
                        return false;
        }
        return padding <= 2;
}

static bool is_argument(const struct json *value)
{
        if (json_is(value, JSON_STRING))
                return is_base64(value->text);
        return json_is(value, JSON_OBJECT) && is_hash(json_member_named(value, "dataset"));
}

static bool is_word(const struct json *value, const char *word)
{
        return json_is(value, JSON_STRING) && lessor_slice_equal(value->text, lessor_slice_of(word));
}

static void read_stock_runner(struct reading *r, const struct json *value)
{
        struct lessor_slice *platforms;
        const struct json *decode;
        const struct json *type;
        size_t n;

        list_at(r, value, "runnerEvent.spec.runner.value.platforms", "must be a list of texts", is_text,
                &platforms, &n);
        decode = object_at(r, value, "runnerEvent.spec.runner.value.decode");
        if (decode == NULL)
                return;
        type = json_member_named(decode, "type");
        if (!is_word(type, "lazy") && !is_word(type, "whole"))
                wrong(r, "runnerEvent.spec.runner.value.decode.type", "must be lazy or whole");
        if (!json_is(json_member_named(decode, "value"), JSON_NULL))
                wrong(r, "runnerEvent.spec.runner.value.decode.value", "must be null");
}

static void read_runner(struct reading *r, const struct json *runner)
{
        const struct json *type = json_member_named(runner, "type");
        const struct json *value = object_at(r, runner, "runnerEvent.spec.runner.value");
        struct lessor_slice *command;
        size_t n;

        if (value == NULL)
                return;
        if (is_word(type, "custom"))
                list_at(r, value, "runnerEvent.spec.runner.value.command", "must be a list of texts", is_text,
                        &command, &n);
        else if (is_word(type, "east_node") || is_word(type, "east_py") || is_word(type, "east_c"))
                read_stock_runner(r, value);
        else
                wrong(r, "runnerEvent.spec.runner.type", "must be east_node, east_py, east_c or custom");
}

static void read_spec(struct reading *r, const struct json *spec)
{
        const struct json *limits = object_at(r, spec, "runnerEvent.spec.limits");
        const struct json *runner = object_at(r, spec, "runnerEvent.spec.runner");
        struct lessor_slice body = text_at(r, spec, "runnerEvent.spec.bodyIr");
        struct lessor_slice *arguments;
        size_t n;

        if (!is_base64(body))
                wrong(r, "runnerEvent.spec.bodyIr", "must be base64");
        list_at(r, spec, "runnerEvent.spec.args", "must be a list of base64 texts and {dataset: hash}",
                is_argument, &arguments, &n);
        optional_hash_at(r, spec, "runnerEvent.spec.environment");
        if (limits != NULL) {
                duration_at(r, limits, "runnerEvent.spec.limits.timeoutMs");
                count_at(r, limits, "runnerEvent.spec.limits.maxResultBytes", true);
                count_at(r, limits, "runnerEvent.spec.limits.maxLogBytes", true);
        }
        if (runner != NULL)
                read_runner(r, runner);
}

/* --- The runner event --- */

static void read_merge(struct reading *r, const struct json *unit)
{
        const struct json *merge = json_member_named(unit, "merge");
        const struct json *range;
        struct lessor_slice *parts;
        size_t n;

        if (json_is(merge, JSON_NULL))
                return;
        merge = object_at(r, unit, "runnerEvent.unit.merge");
        if (merge == NULL)
                return;
        list_at(r, merge, "runnerEvent.unit.merge.parts", "must be a list of hashes", is_hash, &parts, &n);
        range = json_member_named(merge, "range");
        if (!json_is(range, JSON_NULL) && !is_hash(range))
                wrong(r, "runnerEvent.unit.merge.range", "must be null or a hash");
}

static void read_run(struct reading *r, const struct json *runner, struct lease_event *event)
{
        const struct json *run;

        if (json_member_named(runner, "run") == NULL)
                return;
        run = object_at(r, runner, "runnerEvent.run");
        if (run == NULL)
                return;
        event->run_workspace = text1_at(r, run, "runnerEvent.run.workspace");
        event->run = uuid_at(r, run, "runnerEvent.run.id");
}

/* What tasks and units share. */
static void read_task(struct reading *r, const struct json *runner, struct lease_event *event)
{
        event->task_hash = hash_at(r, runner, "runnerEvent.taskHash");
        read_run(r, runner, event);
        event->force = bool_at(r, runner, "runnerEvent.force", false);
        event->verbose = bool_at(r, runner, "runnerEvent.verbose", false);
        event->expected_peak_bytes = count_at(r, runner, "runnerEvent.expectedPeakBytes", false);
        if (json_member_named(runner, "notice") != NULL)
                event->notice = text1_at(r, runner, "runnerEvent.notice");
}

static void read_unit(struct reading *r, const struct json *runner, struct lease_event *event)
{
        const struct json *unit = object_at(r, runner, "runnerEvent.unit");

        event->mode = LESSOR_LEASE_UNIT;
        read_task(r, runner, event);
        if (unit == NULL)
                return;
        list_at(r, unit, "runnerEvent.unit.inputs", "must be a list of texts that are not empty", is_text1,
                &event->inputs, &event->n_inputs);
        read_merge(r, unit);
        event->own = bool_at(r, unit, "runnerEvent.unit.own", true);
}

static void read_function(struct reading *r, const struct json *runner, struct lease_event *event)
{
        const struct json *spec = object_at(r, runner, "runnerEvent.spec");

        event->mode = LESSOR_LEASE_FUNCTION;
        event->task_hash = event->program.p == NULL ? LESSOR_SLICE("") : event->program;
        event->verbose = bool_at(r, runner, "runnerEvent.verbose", false);
        count_at(r, runner, "runnerEvent.deadline", false);
        if (spec != NULL)
                read_spec(r, spec);
}

static void read_runner_event(struct reading *r, const struct json *runner, struct lease_event *event)
{
        const struct json *mode = json_member_named(runner, "mode");

        if (mode == NULL && json_member_named(runner, "taskName") != NULL) {
                wrong(r, "runnerEvent", "is of version 1, which is retired");
                return;
        }
        event->launch_id = uuid_at(r, runner, "runnerEvent.launchId");
        event->repo = text1_at(r, runner, "runnerEvent.repo");
        event->timeout_ms = duration_at(r, runner, "runnerEvent.timeoutMs");
        if (is_word(mode, "task")) {
                event->mode = LESSOR_LEASE_TASK;
                read_task(r, runner, event);
                list_at(r, runner, "runnerEvent.inputHashes", "must be a list of hashes", is_hash,
                        &event->inputs, &event->n_inputs);
        } else if (is_word(mode, "unit")) {
                read_unit(r, runner, event);
        } else if (is_word(mode, "run-detached")) {
                read_function(r, runner, event);
        } else {
                wrong(r, "runnerEvent.mode", "must be task, unit or run-detached");
        }
}

/* --- The closure --- */

static void read_closure(struct reading *r, const struct json *event, struct lease_closure *ret_closure)
{
        const struct json *closure = object_at(r, event, "closure");
        bool by_list = json_member_named(closure, "hashes") != NULL;

        if (closure == NULL)
                return;
        if (by_list && json_member_named(closure, "object") != NULL) {
                wrong(r, "closure", "must have hashes, or object and count, and not both");
                return;
        }
        if (!by_list) {
                ret_closure->object = hash_at(r, closure, "closure.object");
                ret_closure->count = count_at(r, closure, "closure.count", true);
                return;
        }
        if (json_count(json_member_named(closure, "hashes")) > LEASE_CLOSURE_INLINE) {
                wrong(r, "closure.hashes", "must be at most 512; more belong into an object");
                return;
        }
        list_at(r, closure, "closure.hashes", "must be a list of hashes", is_hash, &ret_closure->hashes,
                &ret_closure->n_hashes);
        ret_closure->count = (int64_t)ret_closure->n_hashes;
}

/* --- The event --- */

/* What claim and storage look at. Returns the event, or NULL. */
static const struct json *read_envelope(struct reading *r, struct lessor_slice text)
{
        struct json *event = NULL;
        int64_t version;

        r->error = json_read(text, r->arena, &event);
        if (r->error < 0) {
                r->problem = r->error == LESSOR_E_MALFORMED ? "it is no JSON" : lessor_error_text(r->error);
                return NULL;
        }
        if (!json_is(event, JSON_OBJECT)) {
                wrong(r, "event", "must be an object");
                return NULL;
        }
        if (!json_int(json_member_named(event, "version"), &version) || version != 2) {
                wrong(r, "version", "must be 2");
                return NULL;
        }
        object_at(r, event, "runnerEvent");
        return r->error < 0 ? NULL : event;
}

static int finish(const struct reading *r, const char **ret_problem)
{
        if (r->error < 0 && ret_problem != NULL)
                *ret_problem = r->problem == NULL ? lessor_error_text(r->error) : r->problem;
        return r->error;
}

int lease_event_read(struct lessor_slice text, struct lessor_arena *arena, struct lease_event *ret_event,
                     const char **ret_problem)
{
        struct reading r = {.arena = arena};
        struct lease_event out = {.expected_peak_bytes = -1};
        const struct json *event = read_envelope(&r, text);

        if (event != NULL) {
                out.workspace = text_at(&r, event, "workspace");
                out.task_name = text_at(&r, event, "taskName");
                if (json_member_named(event, "e3Version") != NULL)
                        out.e3_version = text_at(&r, event, "e3Version");
                out.environment = optional_hash_at(&r, event, "environment");
                out.program = optional_hash_at(&r, event, "program");
                read_runner_event(&r, json_member_named(event, "runnerEvent"), &out);
                read_closure(&r, event, &out.closure);
        }
        if (r.error == 0)
                *ret_event = out;
        return finish(&r, ret_problem);
}

int lease_event_read_closure(struct lessor_slice text, struct lessor_arena *arena,
                             struct lease_closure *ret_closure, const char **ret_problem)
{
        struct reading r = {.arena = arena};
        struct lease_closure closure = {0};
        const struct json *event = read_envelope(&r, text);

        if (event != NULL)
                read_closure(&r, event, &closure);
        if (r.error == 0)
                *ret_closure = closure;
        return finish(&r, ret_problem);
}

/* --- Writing --- */

static void put_texts(struct json_writer *w, const char *key, const struct lessor_slice *texts, size_t n)
{
        json_key(w, key);
        json_open_array(w);
        for (size_t i = 0; i < n; i++)
                json_put_text(w, texts[i]);
        json_close_array(w);
}

static void put_runner_event(struct json_writer *w, const struct lease_event *event)
{
        json_open_object(w);
        json_member_cstr(w, "mode", "task");
        json_member_text(w, "launchId", event->launch_id);
        json_member_text(w, "repo", event->repo);
        json_member_int(w, "timeoutMs", (int64_t)event->timeout_ms);
        json_member_text(w, "taskHash", event->task_hash);
        put_texts(w, "inputHashes", event->inputs, event->n_inputs);
        if (event->run.p != NULL) {
                json_key(w, "run");
                json_open_object(w);
                json_member_text(w, "workspace", event->run_workspace);
                json_member_text(w, "id", event->run);
                json_close_object(w);
        }
        json_close_object(w);
}

static void put_closure(struct json_writer *w, const struct lease_closure *closure)
{
        json_open_object(w);
        if (closure->object.p == NULL) {
                put_texts(w, "hashes", closure->hashes, closure->n_hashes);
        } else {
                json_member_text(w, "object", closure->object);
                json_member_int(w, "count", closure->count);
        }
        json_close_object(w);
}

int lease_event_write_task(const struct lease_event *event, struct buf *out)
{
        struct json_writer w;

        if (event->mode != LESSOR_LEASE_TASK)
                return LESSOR_E_INVALID;
        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_int(&w, "version", 2);
        json_key(&w, "runnerEvent");
        put_runner_event(&w, event);
        json_member_text(&w, "workspace", event->workspace);
        json_member_text(&w, "taskName", event->task_name);
        json_member_text(&w, "e3Version", event->e3_version);
        json_member_text(&w, "environment", event->environment);
        json_key(&w, "closure");
        put_closure(&w, &event->closure);
        json_close_object(&w);
        return buf_failed(out);
}
