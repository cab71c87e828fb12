/* SPDX-License-Identifier: MIT */
#include "driver_json.h"

#include <stdlib.h>
#include <string.h>

#include "wire/envelope_text.h"
#include "wire/relay_shapes.h"

/* --- arguments --- */

struct lessor_slice text_arg(const struct driver *d, const char *name)
{
        const struct json *value = json_member_named(d->args, name);

        return json_is(value, JSON_STRING) ? json_text(value) : (struct lessor_slice){0};
}

int need_text(const struct driver *d, const char *name, struct lessor_slice *ret_text)
{
        *ret_text = text_arg(d, name);
        return ret_text->p == NULL ? LESSOR_E_INVALID : 0;
}

int need_int(const struct driver *d, const char *name, int64_t *ret_number)
{
        return json_int(json_member_named(d->args, name), ret_number) ? 0 : LESSOR_E_INVALID;
}

int need_object(struct driver *d, const char *name, const struct message_table *table, void *ret_object)
{
        return message_read(table, json_member_named(d->args, name), d->arena, ret_object, NULL);
}

int need_envelope(struct driver *d, struct lessor_envelope *ret_envelope)
{
        struct lessor_sealed_envelope sealed;
        int r;

        r = need_object(d, "envelope", &sealed_envelope_table, &sealed);
        return r < 0 ? r : envelope_text(&sealed, d->arena, ret_envelope, NULL);
}

int need_leases(struct driver *d, struct lessor_lease_ref **ret_leases, size_t *ret_n)
{
        return message_read_list(&lease_ref_table, json_member_named(d->args, "leases"), d->arena, ret_leases,
                                 ret_n, NULL);
}

/* A route as the peers' routeKey spells it (site, NUL, owner), as [site, owner], or as {siteId, owner}. */
static int read_route(const struct json *value, struct lessor_route *ret_route)
{
        const struct json *site = NULL, *owner = NULL;

        if (json_is(value, JSON_STRING)) {
                struct lessor_slice key = json_text(value);
                const char *nul = memchr(key.p, 0, key.n);

                if (nul == NULL)
                        return LESSOR_E_INVALID;
                ret_route->site_id = (struct lessor_slice){key.p, (size_t)(nul - key.p)};
                ret_route->owner = (struct lessor_slice){nul + 1, key.n - ret_route->site_id.n - 1};
                return 0;
        }
        if (json_is(value, JSON_ARRAY)) {
                site = json_item(value, 0);
                owner = json_item(value, 1);
        } else if (json_is(value, JSON_OBJECT)) {
                site = json_member_named(value, "siteId");
                owner = json_member_named(value, "owner");
        }
        if (!json_is(site, JSON_STRING) || !json_is(owner, JSON_STRING))
                return LESSOR_E_INVALID;
        *ret_route = (struct lessor_route){json_text(site), json_text(owner)};
        return 0;
}

int need_routes(struct driver *d, struct lessor_claim *claim)
{
        const struct json *list = json_member_named(d->args, "routes");
        struct lessor_route *routes = lessor_arena_array(d->arena, json_count(list), sizeof(*routes));

        if (routes == NULL)
                return LESSOR_E_NOMEM;
        if (!json_is(list, JSON_ARRAY))
                return LESSOR_E_INVALID;
        json_each (item, list) {
                int r = read_route(item, &routes[claim->n_routes++]);

                if (r < 0)
                        return r;
        }
        claim->routes = routes;
        return 0;
}

int need_kinds(struct driver *d, unsigned *ret_kinds)
{
        const struct json *list = json_member_named(d->args, "kinds");
        unsigned kinds = 0;

        if (!json_is(list, JSON_ARRAY))
                return LESSOR_E_INVALID;
        json_each (word, list) {
                int kind =
                        json_is(word, JSON_STRING) ? message_word_number(&kind_words, json_text(word)) : -1;

                if (kind < 0)
                        return LESSOR_E_INVALID;
                kinds |= LESSOR_KIND_BIT(kind);
        }
        *ret_kinds = kinds;
        return 0;
}

/* --- results --- */

static void put_text_or_null(struct json_writer *w, const char *key, struct lessor_slice text)
{
        json_key(w, key);
        if (text.p == NULL)
                json_put_null(w);
        else
                json_put_text(w, text);
}

static void put_int_or_null(struct json_writer *w, const char *key, bool there, int64_t number)
{
        json_key(w, key);
        if (there)
                json_put_int(w, number);
        else
                json_put_null(w);
}

static void put_claimed_by(struct json_writer *w, const struct lessor_job *job)
{
        json_key(w, "claimedBy");
        if (!job->claimed) {
                json_put_null(w);
                return;
        }
        json_open_object(w);
        json_member_text(w, "runnerId", job->runner_id);
        json_member_text(w, "owner", job->runner_owner);
        json_key(w, "device");
        message_write(&public_identity_table, &job->device, w);
        json_member_text(w, "leaseId", job->lease_id);
        json_member_int(w, "leaseExpiresAt", job->lease_expires_ms);
        json_close_object(w);
}

static void put_bars(struct json_writer *w, const struct lessor_job *job)
{
        json_key(w, "refusedBy");
        json_open_array(w);
        for (size_t i = 0; i < job->n_refused_by; i++)
                json_put_text(w, job->refused_by[i]);
        json_close_array(w);
        json_key(w, "retryAfter");
        if (job->n_retry_after == 0) {
                json_put_null(w);
                return;
        }
        json_open_object(w);
        for (size_t i = 0; i < job->n_retry_after; i++) {
                json_key_text(w, job->retry_after[i].runner_id);
                json_put_int(w, job->retry_after[i].until_ms);
        }
        json_close_object(w);
}

void put_job(struct json_writer *w, const struct lessor_job *job, struct lessor_slice result)
{
        json_open_object(w);
        json_member_text(w, "id", job->stub.id);
        json_member_text(w, "siteId", job->site_id);
        json_key(w, "stub");
        message_write(&stub_table, &job->stub, w);
        json_member_cstr(w, "state", message_word(&job_state_words, (int)job->state));
        put_claimed_by(w, job);
        put_int_or_null(w, "awaitingUntil", job->awaiting_until_ms != 0, job->awaiting_until_ms);
        put_int_or_null(w, "sealAttempts", job->seal_attempts != 0, job->seal_attempts);
        put_text_or_null(w, "reofferTo", job->reoffer_to);
        put_bars(w, job);
        json_key(w, "cancelled");
        if (job->cancelled)
                json_put_bool(w, true);
        else
                json_put_null(w);
        json_key(w, "payload");
        json_put_null(w);
        json_key(w, "result");
        if (result.p == NULL)
                json_put_null(w);
        else
                json_put_raw(w, result);
        json_key(w, "disposition");
        if (job->has_result)
                json_put_cstr(w, message_word(&disposition_words, (int)job->disposition));
        else
                json_put_null(w);
        json_close_object(w);
}

/* The result of a done job, out of those that wait to go home; absent if it has none. */
static int result_of(struct driver *d, const struct lessor_job *job, struct lessor_slice *ret_result)
{
        struct lessor_result_list results;
        int r;

        *ret_result = (struct lessor_slice){0};
        if (!job->has_result)
                return 0;
        r = lessor_routing_finished(d->store, job->site_id, SIZE_MAX, d->arena, &results, NULL);
        if (r < 0)
                return r;
        for (size_t i = 0; i < results.n; i++)
                if (lessor_slice_equal(results.items[i].job.stub.id, job->stub.id))
                        *ret_result = results.items[i].envelope.json;
        return 0;
}

int answer_job(struct driver *d, const struct lessor_job *job)
{
        struct lessor_slice result;
        int r = result_of(d, job, &result);

        if (r == 0)
                put_job(&d->w, job, result);
        return r;
}

int answer_jobs(struct driver *d, const struct lessor_job *jobs, size_t n)
{
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++)
                r = answer_job(d, &jobs[i]);
        return r;
}

void put_presence(struct json_writer *w, const struct lessor_presence *p)
{
        json_open_object(w);
        json_member_text(w, "runnerId", p->runner_id);
        json_member_text(w, "owner", p->owner);
        json_key(w, "device");
        message_write(&public_identity_table, &p->device, w);
        json_member_int(w, "lastSeenAt", p->last_seen_ms);
        json_member_raw(w, "capabilities", p->capabilities);
        json_member_raw(w, "withheld", p->withheld);
        json_close_object(w);
}

int answer_refused(struct driver *d, int code)
{
        json_open_object(&d->w);
        json_member_cstr(&d->w, "refused", lessor_error_name(code));
        json_close_object(&d->w);
        return 0;
}

bool is_refusal(int code)
{
        return code == LESSOR_E_NOT_FOUND || code == LESSOR_E_NOT_HOLDER || code == LESSOR_E_STALE_LEASE ||
               code == LESSOR_E_NOT_READY || code == LESSOR_E_TERMINAL;
}

void put_refs(struct json_writer *w, const struct lessor_lease_ref *refs, size_t n)
{
        message_write_list(&lease_ref_table, refs, n, w);
}
