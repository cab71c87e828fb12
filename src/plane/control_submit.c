/* SPDX-License-Identifier: MIT */
#include "base/json_span.h"
#include "base/limits.h"
#include "base/macro.h"
#include "http/offload.h"
#include "plane/control_lease_json.h"
#include "plane/rack_closure.h"
#include "plane/rack_event.h"

/* New leases: from an event, or from a task object of which the event is made. */

struct create_body {
        struct lessor_slice repo;
        struct lessor_slice workspace;
        struct lessor_slice task_name;
        struct lessor_slice tier;
        struct lessor_slice compute_size;
        struct lessor_slice e3_version;
        struct lessor_slice environment;
        struct lessor_slice task; /* hash; absent: there is an event */
        int64_t timeout_ms;
        struct lessor_slice owner;
        struct lessor_slice run;
        struct lessor_slice key;
        bool share;
        int64_t ttl_ms;
        int64_t attempt_limit;
};

static bool create_holds(const void *body)
{
        const struct create_body *in = body;

        return in->timeout_ms == 0 || in->task.p != NULL;
}

static const struct message_field create_fields[] = {
        FIELD_TEXT1(struct create_body, repo, "repo"),
        FIELD_TEXT1(struct create_body, workspace, "workspace", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, task_name, "taskName", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, tier, "tier"),
        FIELD_TEXT1(struct create_body, compute_size, "computeSize", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, e3_version, "e3Version", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, environment, "environment", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, task, "task", .flags = MESSAGE_OPTIONAL),
        FIELD_INT(struct create_body, timeout_ms, "timeoutMs", 1, LIMIT_LEASE_SPAN_MS,
                  .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, owner, "owner", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, run, "run", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct create_body, key, "key", .flags = MESSAGE_OPTIONAL),
        FIELD_BOOL(struct create_body, share, "share", .flags = MESSAGE_OPTIONAL),
        FIELD_INT(struct create_body, ttl_ms, "ttlMs", 1, LIMIT_LEASE_SPAN_MS, .flags = MESSAGE_OPTIONAL),
        FIELD_INT(struct create_body, attempt_limit, "attemptLimit", 1, LIMIT_LEASE_ATTEMPTS,
                  .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_lease_create_body =
        MESSAGE_TABLE("LeaseCreate", struct create_body, create_fields, .holds = create_holds);

static const struct control_words words[] = {
        {LESSOR_E_EXISTS, "the key {} belongs to other work of this owner: another repo, task or inputs"},
        {LESSOR_E_INVALID, "the lease cannot be: `share` needs a `key`, and no repo is called @rack"},
        {LESSOR_E_FULL, "the server holds as many leases as it takes: try again when some have ended"},
        {0},
};

/* --- The event --- */

/*
 * The body as JSON: within LIMIT_JSON_VALUES, which other bodies of the control API are too small to exceed.
 * NULL when the call was refused.
 */
static struct json *read_body(struct control_call *call)
{
        const char *problem = NULL;
        struct lessor_slice text;
        struct json *body;
        int e = lessor_arena_copy(call->arena, call->http->body, &text);

        if (e == 0)
                e = json_read_unique(text, call->arena, &body, &problem);
        if (e == 0)
                return body;
        control_refuse_body(call, &control_lease_create_body, e, problem);
        return NULL;
}

/* Takes `event` out of the body, so that a table can read the rest. False when there is none. */
static bool take_event(struct json *body)
{
        if (!json_is(body, JSON_OBJECT))
                return false;
        for (struct json **at = &body->items.first; *at != NULL; at = &(*at)->next)
                if (lessor_slice_equal((*at)->key, LESSOR_SLICE("event"))) {
                        *at = (*at)->next;
                        body->items.n--;
                        return true;
                }
        return false;
}

/* --- Creating --- */

struct creation {
        struct control_call *call;
        struct rack_terms terms;
        struct lessor_slice task;
        int64_t now_ms;
        struct lessor_lease_submission submission;
        const char *problem;
        int error;
};

static void finish(struct creation *c)
{
        struct control_call *call = c->call;
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        struct buf json = {0};
        struct json_writer w;
        bool created;
        int e = lessor_lease_create(call->parts->rack->parts.store, &c->submission, call->arena, &lease,
                                    &created, &ticket);

        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, c->terms.key);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "created", created);
        json_key(&w, "lease");
        lease_put(&w, &lease);
        json_close_object(&w);
        control_answer(call, &json);
}

static void refuse_submission(struct creation *c)
{
        if (c->error == LESSOR_E_NOMEM || c->problem == NULL)
                control_refuse_error(c->call, c->error, NULL, (struct lessor_slice){0});
        else
                control_refuse(c->call, control_status_of(c->error), lessor_error_name(c->error), "%s%s",
                               c->task.p == NULL ? "the lease cannot be: " : "the task cannot be leased: ",
                               c->problem);
}

/* On a thread that may wait for the disk. */
static void read_task(void *context)
{
        struct creation *c = context;

        c->error = rack_submission_of_task(&c->terms, c->call->parts->rack->parts.objects, c->task, c->now_ms,
                                           c->call->arena, &c->submission, &c->problem);
}

static void reference_closure(void *context)
{
        struct creation *c = context;

        c->error = closure_reference(c->call->parts->rack->parts.objects, c->submission.repo,
                                     c->submission.event, c->call->arena);
}

static void submission_ready(struct http_request *http, void *context)
{
        struct creation *c = context;

        (void)http;
        if (c->error < 0)
                refuse_submission(c);
        else
                finish(c);
}

static void create(struct control_call *call, const struct create_body *in, struct lessor_slice event)
{
        struct creation *c = lessor_arena_array(call->arena, 1, sizeof(*c));
        int e = c == NULL ? LESSOR_E_NOMEM : lessor_lease_now(control_leases(call), &c->now_ms);

        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        c->call = call;
        c->task = in->task;
        c->terms = (struct rack_terms){.repo = in->repo,
                                       .workspace = in->workspace,
                                       .task_name = in->task_name,
                                       .tier = in->tier,
                                       .compute_size = in->compute_size,
                                       .floor = in->e3_version,
                                       .environment = in->environment,
                                       .run = in->run,
                                       .owner = in->owner,
                                       .key = in->key,
                                       .share = in->share,
                                       .ttl_ms = in->ttl_ms,
                                       .attempt_limit = (unsigned)in->attempt_limit,
                                       .timeout_ms = in->timeout_ms};
        if (in->task.p != NULL) {
                http_offload(call->http, read_task, submission_ready, c);
                return;
        }
        c->error = rack_submission_of_event(&c->terms, event, call->arena, &c->submission, &c->problem);
        if (c->error < 0)
                refuse_submission(c);
        else
                http_offload(call->http, reference_closure, submission_ready, c);
}

void control_lease_create(struct control_call *call, const void *body)
{
        const struct create_body *in;
        struct lessor_slice event = {0};
        struct json *json;
        bool has_event;

        (void)body;
        if (control_leases(call) == NULL)
                return;
        json = read_body(call);
        if (json == NULL)
                return;
        has_event = take_event(json);
        in = control_read(call, &control_lease_create_body, json);
        if (in == NULL)
                return;
        if (has_event)
                event = json_span_member(call->http->body, LESSOR_SLICE("\"event\""));
        if ((event.p == NULL) == (in->task.p == NULL))
                control_refuse(call, 400, "invalid",
                               "give either `event`, an object, or `task`, the hash of a task object");
        else
                create(call, in, event);
}
