/* SPDX-License-Identifier: MIT */
#include "plane/relay.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/utf8.h"
#include "crypto/request_signature.h"
#include "plane/relay_call.h"
#include "plane/relay_hooks.h"
#include "wire/envelope_text.h"
#include "wire/handshake.h"
#include "wire/relay_shapes.h"

/* Parsing a body up to this leaves an arena that is worth keeping, and not too large to. */
#define USUAL_BODY 4096u

/* --- One request --- */

static void projection_release(void *projection)
{
        projection_unref(projection);
}

static void json_release(void *call)
{
        relay_call_forget_body(call);
}

static struct lessor_slice without_byte_order_mark(struct lessor_slice body)
{
        static const char mark[] = "\xef\xbb\xbf";

        if (body.n >= 3 && memcmp(body.p, mark, 3) == 0)
                return (struct lessor_slice){body.p + 3, body.n - 3};
        return body;
}

static bool begins_with(struct lessor_slice text, const char *prefix)
{
        size_t n = strlen(prefix);

        return text.n >= n && memcmp(text.p, prefix, n) == 0;
}

static bool is_post(const struct http_request *http)
{
        return lessor_slice_equal(http->method, LESSOR_SLICE("POST"));
}

/* Returns NULL after an answer when there is no memory for the call. */
static struct relay_call *call_new(struct http_request *http, struct relay *relay)
{
        struct relay_call *call = lessor_arena_alloc(http->arena, sizeof(*call));

        if (call == NULL) {
                http_answer(http, 500, NULL, NULL);
                return NULL;
        }
        call->relay = relay;
        call->http = http;
        call->arena = http->arena;
        call->projection = projection_cell_get(&relay->parts.projections[0]);
        if (lessor_arena_own(http->arena, call->projection, projection_release) < 0) {
                projection_unref(call->projection);
                http_answer(http, 500, NULL, NULL);
                return NULL;
        }
        if (lessor_arena_own(http->arena, call, json_release) < 0) {
                http_answer(http, 500, NULL, NULL);
                return NULL;
        }
        return call;
}

/* The version check holds for these two prefixes literally, wherever the device plane is. */
static bool wants_version(const struct http_request *http)
{
        return begins_with(http->path, "/byollm/") || begins_with(http->path, "/relay/");
}

/* Returns 0, also for a body that is no JSON, or LESSOR_E_NOMEM. */
static int read_body(struct relay_call *call)
{
        int e;

        call->http->body = without_byte_order_mark(call->http->body);
        call->json = atomic_exchange(&call->relay->spare_json, NULL);
        if (call->json == NULL)
                call->json = lessor_arena_new();
        if (call->json == NULL)
                return LESSOR_E_NOMEM;
        e = json_read(call->http->body, call->json, &call->body);
        if (e < 0)
                relay_call_forget_body(call);
        return e == LESSOR_E_NOMEM ? e : 0;
}

void relay_call_forget_body(struct relay_call *call)
{
        struct lessor_arena *json = TAKE(call->json);

        call->body = NULL;
        if (json != NULL && call->http->body.n <= USUAL_BODY) {
                lessor_arena_clear(json);
                json = atomic_exchange(&call->relay->spare_json, json);
        }
        lessor_arena_free(json);
}

struct relay_call *relay_call_begin(struct http_request *http, struct relay *relay)
{
        struct relay_call *call = call_new(http, relay);
        struct relay_refusal_details details = {0};
        struct lessor_slice query = {0};
        enum relay_refusal refusal;
        int e;

        if (call == NULL)
                return NULL;
        e = is_post(http) ? read_body(call) : 0;
        if (e < 0) {
                relay_call_refuse_error(call, e);
                return NULL;
        }
        if (!wants_version(http))
                return call;
        if (http_query(http, "protocolVersion", &query) < 0) {
                relay_call_refuse_error(call, LESSOR_E_NOMEM);
                return NULL;
        }
        if (handshake_check(call->body, query, &refusal, &details.subject) < 0) {
                relay_call_refuse(call, refusal, &details);
                return NULL;
        }
        return call;
}

/*
 * A caller's id as text. Header bytes are Latin-1 to the reference and to those who write headers as the web
 * does (relay-protocol 4); a client that writes UTF-8 is understood too. Returns the absent slice without
 * memory.
 */
static struct lessor_slice caller_text(struct relay_call *call, struct lessor_slice bytes)
{
        char *text;

        if (utf8_valid(bytes))
                return bytes;
        text = lessor_arena_array(call->arena, bytes.n, 2);
        return text == NULL ? (struct lessor_slice){0}
                            : (struct lessor_slice){text, utf8_of_latin1(bytes, text)};
}

bool relay_call_signature(struct relay_call *call, const char *caller_header,
                          struct relay_signature *ret_signature)
{
        struct lessor_slice caller = caller_text(call, http_header(call->http, caller_header));
        struct lessor_slice issued = http_header(call->http, "x-byollm-issued-at");
        struct lessor_slice signature = http_header(call->http, "x-byollm-signature");

        if (caller.n == 0 || issued.n == 0 || signature.n == 0)
                return false;
        if (request_issued_read(issued, &ret_signature->issued_ms) < 0)
                return false;
        ret_signature->caller = caller;
        ret_signature->signature = signature;
        return true;
}

struct lessor_slice relay_call_signed_body(const struct relay_call *call)
{
        return is_post(call->http) ? call->http->body : LESSOR_SLICE("");
}

void relay_call_rests_on(struct relay_call *call, struct lessor_ticket ticket)
{
        if (ticket.seq > call->ticket.seq)
                call->ticket = ticket;
}

/* --- Answers --- */

static int when_durable(void *context, http_told *told, void *told_context)
{
        struct relay_call *call = context;

        return lessor_routing_when_durable(call->relay->parts.store, call->ticket, told, told_context);
}

/* The store could not write what the answer rests on, so the answer must not be given. */
static void not_durable(struct http_request *http, void *context)
{
        struct relay_call *call = context;

        (void)http;
        call->ticket.seq = 0;
        relay_call_refuse(call, RELAY_REFUSAL_UNAVAILABLE, NULL);
}

static void answer(struct relay_call *call, unsigned status, struct buf *body)
{
        relay_call_forget_body(call);
        if (call->ticket.seq != 0)
                http_answer_after(call->http, when_durable, not_durable, call);
        http_answer(call->http, status, "application/json", body);
}

void relay_call_answer(struct relay_call *call, const struct message_table *table, const void *message)
{
        struct buf body = http_answer_buffer(call->http);

        message_append(table, message, &body);
        answer(call, 200, &body);
}

void relay_call_refuse(struct relay_call *call, enum relay_refusal refusal,
                       const struct relay_refusal_details *details)
{
        struct buf body = {0};

        relay_refusal_append(refusal, details, &body);
        answer(call, relay_refusal_status(refusal), &body);
}

void relay_call_refuse_error(struct relay_call *call, int error)
{
        relay_call_refuse(call, relay_refusal_of_store(error), NULL);
}

bool relay_call_envelope(struct relay_call *call, const struct lessor_sealed_envelope *sealed,
                         struct lessor_envelope *ret_envelope)
{
        struct relay_refusal_details details = {0};
        _cleanup_(buf_done) struct buf size = {0};
        size_t units;
        int e;

        e = envelope_text(sealed, call->arena, ret_envelope, &units);
        if (e == 0)
                return true;
        if (e == LESSOR_E_TOO_LARGE && envelope_size_append(units, &size) == 0) {
                details.subject = buf_view(&size);
                relay_call_refuse(call, RELAY_REFUSAL_ENVELOPE_TOO_LARGE, &details);
        } else {
                relay_call_refuse_error(call, LESSOR_E_NOMEM);
        }
        return false;
}

int relay_call_pins(struct relay_call *call, struct lessor_slice owner, struct pinned_site **ret_sites,
                    size_t *ret_n)
{
        struct projection_pins pins = projection_sites_for(call->projection, owner);
        struct pinned_site *sites = lessor_arena_array(call->arena, pins.n, sizeof(*sites));

        if (sites == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < pins.n; i++) {
                sites[i].key_id = pins.items[i].site->key_id;
                sites[i].identity = pins.items[i].site->record->site;
        }
        *ret_sites = sites;
        *ret_n = pins.n;
        return 0;
}

/* --- Paths that nobody serves --- */

static void handle_unknown(struct http_request *http, void *context)
{
        struct relay_call *call = relay_call_begin(http, context);

        if (call != NULL)
                relay_call_refuse(call, RELAY_REFUSAL_NO_SUCH_PATH, NULL);
}

/* --- The route table --- */

/* Readiness writes, so it may take as long as a commit; it is asked every few seconds at most. */
static void handle_ready(struct http_request *http, void *context)
{
        const struct relay *relay = context;
        int e = http_draining(http) ? LESSOR_E_UNAVAILABLE : lessor_routing_check(relay->parts.store);

        if (e == 0 && relay->parts.also_ready != NULL)
                e = relay->parts.also_ready(relay->parts.also_ready_context);
        if (e == 0)
                http_answer_json(http, 200, LESSOR_SLICE("{\"ready\":true}"));
        else
                http_answer_json(http, 503, LESSOR_SLICE("{\"ready\":false}"));
}

static void handle_live(struct http_request *http, void *context)
{
        (void)context;
        http_answer_json(http, 200, LESSOR_SLICE("{\"live\":true}"));
}

struct route_row {
        bool under_base; /* the path is relative to the base path */
        struct http_route route;
};

static const struct route_row rows[] = {
        {true,
         {NULL, "/claim", relay_handle_device, LIMIT_BODY_CONTROL, "claim", "Claim work for this device"}},
        {true,
         {NULL, "/fetch", relay_handle_device, LIMIT_BODY_CONTROL, "fetch",
          "Fetch the sealed payload of a claimed job"}},
        {true,
         {NULL, "/result", relay_handle_device, LIMIT_BODY_ENVELOPE, "result", "Hand in a sealed result"}},
        {true,
         {NULL, "/heartbeat", relay_handle_device, LIMIT_BODY_CONTROL, "heartbeat",
          "Say that the device is there, and renew its leases"}},
        {true, {NULL, "/release", relay_handle_device, LIMIT_BODY_CONTROL, "release", "Give leases back"}},
        {true,
         {NULL, "/pair", relay_handle_pair, LIMIT_BODY_PAIRING, "pair", "Pair a device with its owner"}},
        {true,
         {NULL, "/debug", relay_handle_debug, LIMIT_BODY_CONTROL, "debug",
          "Show every job, when switched on"}},
        {false,
         {NULL, "/debug", relay_handle_debug, LIMIT_BODY_CONTROL, "debug",
          "Show every job, when switched on"}},
        {false,
         {NULL, "/relay/site/enqueue", relay_handle_site, LIMIT_BODY_CONTROL, "enqueue", "Publish a stub"}},
        {false,
         {NULL, "/relay/site/payload", relay_handle_site, LIMIT_BODY_ENVELOPE, "payload",
          "Hand in a sealed payload"}},
        {false,
         {NULL, "/relay/site/cancel", relay_handle_site, LIMIT_BODY_CONTROL, "cancel", "Withdraw a job"}},
        {false,
         {NULL, "/relay/site/pending", relay_handle_site, LIMIT_BODY_CONTROL, "pending",
          "Ask which jobs await their payload"}},
        {false,
         {NULL, "/relay/site/results", relay_handle_site, LIMIT_BODY_CONTROL, "results", "Ask for results"}},
        {false,
         {NULL, "/relay/site/ack", relay_handle_site, LIMIT_BODY_CONTROL, "ack",
          "Let the relay forget results"}},
        {false,
         {"GET", "/health/live", handle_live, LIMIT_BODY_CONTROL, "live", "Whether the process answers"}},
        {false,
         {"GET", "/health/ready", handle_ready, LIMIT_BODY_CONTROL, "ready", "Whether work can be taken"}},
        {false, {NULL, "*", handle_unknown, LIMIT_BODY_CONTROL, "-", "Everything else"}},
};

static int make_routes(struct relay *relay)
{
        size_t n_hooks = 0;

        while (relay_hook_routes[n_hooks].handler != NULL)
                n_hooks++;
        relay->routes = calloc(n_hooks + ARRAY_SIZE(rows) + 1, sizeof(*relay->routes));
        relay->paths = calloc(ARRAY_SIZE(rows), sizeof(*relay->paths));
        if (relay->routes == NULL || relay->paths == NULL)
                return LESSOR_E_NOMEM;
        if (n_hooks > 0)
                memcpy(relay->routes, relay_hook_routes, n_hooks * sizeof(*relay->routes));
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct http_route *route = &relay->routes[n_hooks + i];

                *route = rows[i].route;
                if (!rows[i].under_base)
                        continue;
                if (asprintf(&relay->paths[relay->n_paths], "%s%s", relay->options.base_path,
                             rows[i].route.path) < 0)
                        return LESSOR_E_NOMEM;
                route->path = relay->paths[relay->n_paths++];
        }
        return 0;
}

int relay_new(const struct relay_options *options, const struct relay_parts *parts, struct relay **ret_relay)
{
        struct relay *relay;
        int e;

        if (options->grants && parts->author->signer == NULL)
                return LESSOR_E_INVALID;
        relay = calloc(1, sizeof(*relay));
        if (relay == NULL)
                return LESSOR_E_NOMEM;
        relay->options = *options;
        relay->parts = *parts;
        e = make_routes(relay);
        if (e < 0) {
                relay_free(relay);
                return e;
        }
        *ret_relay = relay;
        return 0;
}

struct relay *relay_free(struct relay *relay)
{
        if (relay == NULL)
                return NULL;
        for (size_t i = 0; i < relay->n_paths; i++)
                free(relay->paths[i]);
        free(relay->paths);
        free(relay->routes);
        lessor_arena_free(atomic_load(&relay->spare_json));
        free(relay);
        return NULL;
}

const struct http_route *relay_routes(const struct relay *relay)
{
        return relay->routes;
}
