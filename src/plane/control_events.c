/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/limits.h"
#include "base/macro.h"
#include "http/offload.h"
#include "http/stream.h"
#include "plane/control_call.h"
#include "plane/event_feed.h"
#include "plane/webhooks.h"

/* What happens, as it happens: a stream of events, and the webhooks that are told of them. */

#define ALIVE_MS      15000 /* so often a stream says something, if only that it is there */
#define EVENTS_A_TIME 64

static const struct lessor_slice news_key = {"events", 6};

static void news(void *context)
{
        parking_wake(context, news_key);
}

int control_events_open(struct control *control, struct buf *ret_problem)
{
        const struct control_parts *parts = &control->parts;
        _cleanup_(buf_done) struct buf path = {0};
        int e;

        control->feed = event_feed_new();
        if (control->feed == NULL || buf_printf(&path, "%s/webhooks.json", parts->data) < 0)
                return LESSOR_E_NOMEM;
        event_feed_listen(control->feed, news, control->watchers);
        e = webhooks_open(path.p, control->feed, &control->webhooks);
        if (e < 0) {
                buf_clear(ret_problem);
                buf_printf(ret_problem, "the webhooks in %s cannot be %s: %s", path.p,
                           e == LESSOR_E_UNAVAILABLE ? "told anything" : "read",
                           e == LESSOR_E_UNAVAILABLE ? "there is no libcurl" : lessor_error_text(e));
                return e;
        }
        return rack_events_add(parts->rack->parts.events, event_feed_happened, control->feed);
}

void control_events_close(struct control *control)
{
        control->webhooks = webhooks_free(control->webhooks);
        control->feed = event_feed_free(control->feed);
}

/* --- The stream --- */

struct reader {
        struct control *control;
        struct event_filter filter;
        uint64_t at;
        bool begun;
        bool elsewhere; /* what it has seen last was another server's */
};

static void take(void *context, struct lessor_slice id, const char *type, struct lessor_slice json)
{
        http_event(context, id, type, json);
}

static int produce(struct http_request *http, void *context, struct buf *out)
{
        struct reader *r = context;
        bool more;

        if (!r->begun || http_wait_over(http))
                http_event_comment(out);
        if (!r->begun && r->elsewhere)
                http_event(out, (struct lessor_slice){0}, "gap", LESSOR_SLICE("{\"missed\":null}"));
        r->begun = true;
        do {
                more = event_feed_read(r->control->feed, &r->filter, &r->at, EVENTS_A_TIME, take, out);
        } while (more && out->n == 0);
        return more ? HTTP_MORE : HTTP_WAIT;
}

/* "lease.completed,lease.poisoned" as bits. False when the call was refused. */
static bool read_types(struct control_call *call, struct lessor_slice text, uint32_t *ret_types)
{
        *ret_types = 0;
        while (text.n > 0) {
                const char *comma = memchr(text.p, ',', text.n);
                struct lessor_slice name = {text.p, comma == NULL ? text.n : (size_t)(comma - text.p)};
                int type = event_type_number(name);

                if (type < 0) {
                        control_refuse(call, 400, "invalid", "there is no event of type \"%.*s\"",
                                       (int)name.n, name.p);
                        return false;
                }
                *ret_types |= UINT32_C(1) << type;
                text.p += name.n + (comma != NULL);
                text.n -= name.n + (comma != NULL);
        }
        return true;
}

static bool feed_is_there(struct control_call *call)
{
        if (call->control->feed != NULL)
                return true;
        return control_leases(call) != NULL; /* which refuses: this server has no racks */
}

/* After which event it goes on: as a browser that reconnects says it, or as the query does; else after the
 * newest. */
static bool read_place(struct control_call *call, struct reader *r)
{
        struct lessor_slice last = http_header(call->http, "last-event-id"), after;

        if (!control_query(call, "after", &after))
                return false;
        if (last.n == 0)
                last = after;
        r->at = event_feed_head(call->control->feed);
        if (last.n > 0 && !event_feed_find(call->control->feed, last, &r->at)) {
                r->elsewhere = true;
                r->at = 0;
        }
        return true;
}

void control_event_stream(struct control_call *call, const void *body)
{
        struct reader *r = lessor_arena_array(call->arena, 1, sizeof(*r));
        struct http_source source = {produce, r, ALIVE_MS};
        struct lessor_slice types = {0};

        (void)body;
        if (r == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        r->control = call->control;
        if (!feed_is_there(call) || !control_query(call, "repo", &r->filter.repo) ||
            !control_query(call, "lease", &r->filter.lease) || !control_query(call, "run", &r->filter.run) ||
            !control_query(call, "rack", &r->filter.rack) || !control_query(call, "types", &types) ||
            !read_types(call, types, &r->filter.types) || !read_place(call, r))
                return;
        if (parking_follow(call->control->watchers, call->http, news_key) < 0 ||
            http_answer_header(call->http, "Cache-Control", "no-store") < 0)
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
        else
                http_answer_stream(call->http, 200, "text/event-stream", &source);
}

/* --- Webhooks --- */

struct webhook_body {
        struct lessor_slice url;
        struct lessor_slice secret;
        struct lessor_slice repo;
        struct lessor_slice run;
        struct lessor_slice *types;
        size_t n_types;
};

struct webhook_name_body {
        struct lessor_slice webhook_id;
};

static const struct message_field webhook_fields[] = {
        FIELD_TEXT(struct webhook_body, url, "url", 1, LIMIT_WEBHOOK_URL),
        FIELD_TEXT(struct webhook_body, secret, "secret", LIMIT_WEBHOOK_SECRET_LEAST, LIMIT_ID_BYTES,
                   .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT(struct webhook_body, repo, "repo", 1, LIMIT_REPO_BYTES, .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT(struct webhook_body, run, "run", 1, LIMIT_ID_BYTES, .flags = MESSAGE_OPTIONAL),
        FIELD_TEXTS(struct webhook_body, types, n_types, "types", 0, N_EVENT_TYPES,
                    .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_webhook_body =
        MESSAGE_TABLE("WebhookAdd", struct webhook_body, webhook_fields);

static const struct message_field webhook_name_fields[] = {
        FIELD_TEXT1(struct webhook_name_body, webhook_id, "webhookId"),
};
const struct message_table control_webhook_name_body =
        MESSAGE_TABLE("WebhookName", struct webhook_name_body, webhook_name_fields);

static const struct control_words webhook_words[] = {
        {LESSOR_E_INVALID, "\"{}\" is no URL of http or https"},
        {LESSOR_E_NOT_FOUND, "there is no webhook {}; `lessor webhook ls` lists them"},
        {0},
};

/* What is done aside, since it waits for the disk. */
struct webhook_errand {
        struct control_call *call;
        struct webhook_wish wish;
        struct lessor_slice id; /* to be removed */
        char made_id[WEBHOOK_ID_LEN + 1];
        struct buf secret;
        int error;
};

static void errand_done(void *context)
{
        buf_wipe(&((struct webhook_errand *)context)->secret);
}

/* NULL when the call was refused. */
static struct webhook_errand *errand_new(struct control_call *call)
{
        struct webhook_errand *errand;

        if (!feed_is_there(call))
                return NULL;
        errand = lessor_arena_array(call->arena, 1, sizeof(*errand));
        if (errand == NULL || lessor_arena_own(call->arena, errand, errand_done) < 0) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return NULL;
        }
        errand->call = call;
        return errand;
}

static void add_webhook(void *context)
{
        struct webhook_errand *errand = context;

        errand->error = webhooks_add(errand->call->control->webhooks, &errand->wish, errand->made_id,
                                     &errand->secret);
}

static void webhook_added(struct http_request *http, void *context)
{
        struct webhook_errand *errand = context;
        struct buf json = {0};
        struct json_writer w;

        (void)http;
        if (errand->error == LESSOR_E_FULL) {
                control_refuse(errand->call, 409, "full", "there are %d webhooks, and no more can be",
                               LIMIT_WEBHOOKS);
                return;
        }
        if (errand->error < 0) {
                control_refuse_error(errand->call, errand->error, webhook_words, errand->wish.url);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_cstr(&w, "webhookId", errand->made_id);
        json_member_text(&w, "secret", buf_view(&errand->secret));
        json_close_object(&w);
        control_answer(errand->call, &json);
}

void control_webhook_add(struct control_call *call, const void *body)
{
        const struct webhook_body *in = body;
        struct webhook_errand *errand = errand_new(call);

        if (errand == NULL)
                return;
        errand->wish =
                (struct webhook_wish){.url = in->url, .secret = in->secret, .repo = in->repo, .run = in->run};
        for (size_t i = 0; i < in->n_types; i++) {
                uint32_t type;

                if (!read_types(call, in->types[i], &type))
                        return;
                errand->wish.types |= type;
        }
        http_offload(call->http, add_webhook, webhook_added, errand);
}

static void remove_webhook(void *context)
{
        struct webhook_errand *errand = context;

        errand->error = webhooks_remove(errand->call->control->webhooks, errand->id);
}

static void webhook_removed(struct http_request *http, void *context)
{
        struct webhook_errand *errand = context;

        (void)http;
        control_done(errand->call, errand->error, webhook_words, errand->id);
}

void control_webhook_remove(struct control_call *call, const void *body)
{
        const struct webhook_name_body *in = body;
        struct webhook_errand *errand = errand_new(call);

        if (errand == NULL)
                return;
        errand->id = in->webhook_id;
        http_offload(call->http, remove_webhook, webhook_removed, errand);
}

void control_webhook_list(struct control_call *call, const void *body)
{
        struct buf json = {0};
        struct json_writer w;

        (void)body;
        if (!feed_is_there(call))
                return;
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "webhooks");
        webhooks_write(call->control->webhooks, &w);
        json_close_object(&w);
        control_answer(call, &json);
}
