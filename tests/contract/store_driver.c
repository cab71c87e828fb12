/* SPDX-License-Identifier: MIT */
/*
 * A routing store behind a pipe: one request a line on stdin, {"id":n,"op":"claim","args":{...}}, one answer
 * a line on stdout, {"id":n,"ok":<result>} or {"id":n,"error":"<code>"}. The operations, their arguments and
 * their results are those of the peers' own store interface, protocol 2, so that their contract can be run on
 * our stores; what is absent is null. Beside them: `ack`, `advance` {ms} for the clock, which stands still
 * otherwise, and `writeRawStub` {id, raw, siteId?}.
 *
 * A job's `payload` is always null: a store hands payloads to nobody but their holder.
 *
 * usage: lessor-store-driver [--store KIND] [--data DIR]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "driver_json.h"
#include "wire/relay_device.h"
#include "wire/relay_shapes.h"

/* --- operations --- */

static int op_now(struct driver *d)
{
        int64_t now_ms;
        int r = lessor_routing_now(d->store, &now_ms);

        if (r == 0)
                json_put_int(&d->w, now_ms);
        return r;
}

static int op_advance(struct driver *d)
{
        int64_t by_ms = 0;
        int r = need_int(d, "ms", &by_ms);

        if (r < 0)
                return r;
        clock_manual_advance(&d->clock, by_ms);
        return op_now(d);
}

static int op_enqueue(struct driver *d)
{
        struct lessor_slice id, site_id;
        struct lessor_stub stub;
        struct lessor_job job;
        int r;

        if ((r = need_text(d, "id", &id)) < 0 || (r = need_text(d, "siteId", &site_id)) < 0 ||
            (r = need_object(d, "stub", &stub_table, &stub)) < 0)
                return r;
        if (!lessor_slice_equal(id, stub.id))
                return LESSOR_E_INVALID;
        r = lessor_routing_enqueue(d->store, site_id, &stub, d->arena, &job, NULL);
        return r < 0 ? r : answer_job(d, &job);
}

static int op_job(struct driver *d)
{
        struct lessor_slice site_id, job_id;
        struct lessor_job job;
        int r;

        if ((r = need_text(d, "siteId", &site_id)) < 0 || (r = need_text(d, "jobId", &job_id)) < 0)
                return r;
        r = lessor_routing_job(d->store, site_id, job_id, d->arena, &job, NULL);
        if (r == LESSOR_E_NOT_FOUND) {
                json_put_null(&d->w);
                return 0;
        }
        return r < 0 ? r : answer_job(d, &job);
}

static int op_jobs(struct driver *d)
{
        struct lessor_job_list jobs;
        int r = lessor_routing_jobs(d->store, NULL, SIZE_MAX, d->arena, &jobs, NULL);

        if (r < 0)
                return r;
        json_open_array(&d->w);
        r = answer_jobs(d, jobs.items, jobs.n);
        json_close_array(&d->w);
        return r;
}

static int op_awaiting(struct driver *d)
{
        struct lessor_slice site_id;
        struct lessor_job_list jobs = {0};
        int r;

        r = need_text(d, "siteId", &site_id);
        if (r == 0)
                r = lessor_routing_awaiting(d->store, site_id, SIZE_MAX, d->arena, &jobs, NULL);
        if (r < 0)
                return r;
        json_open_array(&d->w);
        r = answer_jobs(d, jobs.items, jobs.n);
        json_close_array(&d->w);
        return r;
}

static int op_finished(struct driver *d)
{
        struct lessor_slice site_id;
        struct lessor_result_list results = {0};
        int r;

        r = need_text(d, "siteId", &site_id);
        if (r == 0)
                r = lessor_routing_finished(d->store, site_id, SIZE_MAX, d->arena, &results, NULL);
        if (r < 0)
                return r;
        json_open_array(&d->w);
        for (size_t i = 0; i < results.n; i++)
                put_job(&d->w, &results.items[i].job, results.items[i].envelope.json);
        json_close_array(&d->w);
        return 0;
}

static void put_claimed(struct json_writer *w, const struct lessor_job *job)
{
        struct claimed_stub stub = {
                .stub = job->stub,
                .lease = {job->lease_id, job->runner_id, job->lease_expires_ms},
        };

        message_write(&claimed_stub_table, &stub, w);
}

static int op_claim(struct driver *d)
{
        struct lessor_claim claim = {0};
        struct lessor_job_list granted;
        int64_t max = 0;
        int r;

        if ((r = need_text(d, "runnerId", &claim.runner_id)) < 0 ||
            (r = need_text(d, "owner", &claim.owner)) < 0 ||
            (r = need_object(d, "device", &public_identity_table, &claim.device)) < 0 ||
            (r = need_routes(d, &claim)) < 0 || (r = need_kinds(d, &claim.kinds)) < 0 ||
            (r = need_int(d, "max", &max)) < 0 || (r = need_int(d, "leaseMs", &claim.lease_ms)) < 0)
                return r;
        if (max < 1 || max > LIMIT_CLAIM_MAX)
                return LESSOR_E_INVALID;
        claim.max = (unsigned)max;
        r = lessor_routing_claim(d->store, &claim, d->arena, &granted, NULL);
        if (r < 0)
                return r;
        json_open_array(&d->w);
        for (size_t i = 0; i < granted.n; i++)
                put_claimed(&d->w, &granted.items[i]);
        json_close_array(&d->w);
        return 0;
}

/* The {jobId, runnerId, leaseId} of the holder's operations. */
static int need_holder(struct driver *d, struct lessor_slice *ret_runner_id,
                       struct lessor_lease_ref *ret_lease)
{
        int r;

        if ((r = need_text(d, "runnerId", ret_runner_id)) < 0 ||
            (r = need_text(d, "jobId", &ret_lease->job_id)) < 0)
                return r;
        return need_text(d, "leaseId", &ret_lease->lease_id);
}

static int op_take_payload(struct driver *d)
{
        struct lessor_slice runner_id;
        struct lessor_lease_ref lease;
        struct lessor_envelope envelope;
        int r = need_holder(d, &runner_id, &lease);

        if (r < 0)
                return r;
        r = lessor_routing_take_payload(d->store, runner_id, &lease, d->arena, &envelope, NULL);
        if (is_refusal(r))
                return answer_refused(d, r);
        if (r < 0)
                return r;
        json_open_object(&d->w);
        json_member_raw(&d->w, "envelope", envelope.json);
        json_close_object(&d->w);
        return 0;
}

static int op_complete(struct driver *d)
{
        struct lessor_slice runner_id, word = {0};
        struct lessor_lease_ref lease;
        struct lessor_envelope envelope;
        bool duplicate;
        int disposition;
        int r;

        if ((r = need_holder(d, &runner_id, &lease)) < 0 || (r = need_envelope(d, &envelope)) < 0 ||
            (r = need_text(d, "disposition", &word)) < 0)
                return r;
        disposition = message_word_number(&disposition_words, word);
        if (disposition < 0)
                return LESSOR_E_INVALID;
        r = lessor_routing_complete(d->store, runner_id, &lease, &envelope,
                                    (enum lessor_disposition)disposition, &duplicate, NULL);
        if (is_refusal(r))
                return answer_refused(d, r);
        if (r < 0)
                return r;
        json_open_object(&d->w);
        json_member_bool(&d->w, "accepted", !duplicate);
        if (duplicate)
                json_member_bool(&d->w, "duplicate", true);
        json_member_cstr(&d->w, "state", "done");
        json_close_object(&d->w);
        return 0;
}

static int op_release_leases(struct driver *d)
{
        struct lessor_release release = {0};
        struct lessor_lease_ref *leases;
        struct lessor_lease_ref_list released;
        const struct json *retry_after = json_member_named(d->args, "retryAfter");
        int r;

        if ((r = need_text(d, "runnerId", &release.runner_id)) < 0 ||
            (r = need_leases(d, &leases, &release.n_leases)) < 0)
                return r;
        if (json_is(retry_after, JSON_NUMBER) && !json_int(retry_after, &release.retry_after_ms))
                return LESSOR_E_INVALID;
        release.leases = leases;
        release.refused = lessor_slice_equal(text_arg(d, "reason"), LESSOR_SLICE("refused"));
        r = lessor_routing_release_leases(d->store, &release, d->arena, &released, NULL);
        if (r < 0)
                return r;
        json_open_array(&d->w);
        for (size_t i = 0; i < released.n; i++)
                json_put_text(&d->w, released.items[i].job_id);
        json_close_array(&d->w);
        return 0;
}

static int op_seal(struct driver *d)
{
        struct lessor_slice site_id, job_id;
        struct lessor_envelope envelope;
        enum lessor_job_state was = LESSOR_JOB_READY;
        int r;

        if ((r = need_text(d, "siteId", &site_id)) < 0 || (r = need_text(d, "jobId", &job_id)) < 0 ||
            (r = need_envelope(d, &envelope)) < 0)
                return r;
        r = lessor_routing_seal(d->store, site_id, job_id, &envelope, &was, NULL);
        if (r < 0 && r != LESSOR_E_NOT_FOUND && r != LESSOR_E_TOO_LATE)
                return r;
        json_open_object(&d->w);
        if (r == 0)
                json_member_cstr(&d->w, "state", "ready");
        else
                json_member_cstr(&d->w, "refused", lessor_error_name(r));
        if (r == LESSOR_E_TOO_LATE)
                json_member_cstr(&d->w, "was", message_word(&job_state_words, (int)was));
        json_close_object(&d->w);
        return 0;
}

static int op_cancel(struct driver *d)
{
        struct lessor_slice site_id, job_id;
        int r;

        if ((r = need_text(d, "siteId", &site_id)) < 0 || (r = need_text(d, "jobId", &job_id)) < 0)
                return r;
        r = lessor_routing_cancel(d->store, site_id, job_id, NULL);
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                return r;
        json_put_bool(&d->w, r == 0);
        return 0;
}

static int op_cancel_requests(struct driver *d)
{
        struct lessor_slice runner_id;
        struct lessor_lease_ref_list leases;
        int r;

        r = need_text(d, "runnerId", &runner_id);
        if (r == 0)
                r = lessor_routing_cancel_requests(d->store, runner_id, d->arena, &leases, NULL);
        if (r == 0)
                put_refs(&d->w, leases.items, leases.n);
        return r;
}

static int op_renew_leases(struct driver *d)
{
        struct lessor_slice runner_id;
        struct lessor_lease_ref *leases;
        size_t n_leases;
        int64_t lease_ms;
        struct lessor_renewal_list list;
        int r;

        if ((r = need_text(d, "runnerId", &runner_id)) < 0 || (r = need_leases(d, &leases, &n_leases)) < 0 ||
            (r = need_int(d, "leaseMs", &lease_ms)) < 0)
                return r;
        r = lessor_routing_renew_leases(d->store, runner_id, leases, n_leases, lease_ms, d->arena, &list,
                                        NULL);
        if (r < 0)
                return r;
        json_open_object(&d->w);
        json_key(&d->w, "renewed");
        json_open_array(&d->w);
        for (size_t i = 0; i < list.n_renewed; i++) {
                json_open_object(&d->w);
                json_member_text(&d->w, "jobId", list.renewed[i].ref.job_id);
                json_member_int(&d->w, "expiresAt", list.renewed[i].expires_ms);
                json_close_object(&d->w);
        }
        json_close_array(&d->w);
        json_key(&d->w, "lost");
        put_refs(&d->w, list.lost, list.n_lost);
        json_close_object(&d->w);
        return 0;
}

static int op_ack(struct driver *d)
{
        const struct json *list = json_member_named(d->args, "jobIds");
        struct lessor_slice site_id, *ids, *acked;
        size_t n_acked, n_ids = 0;
        int r;

        r = need_text(d, "siteId", &site_id);
        if (r < 0 || !json_is(list, JSON_ARRAY))
                return LESSOR_E_INVALID;
        ids = lessor_arena_array(d->arena, json_count(list), sizeof(*ids));
        if (ids == NULL)
                return LESSOR_E_NOMEM;
        json_each (id, list) {
                if (!json_is(id, JSON_STRING))
                        return LESSOR_E_INVALID;
                ids[n_ids++] = json_text(id);
        }
        r = lessor_routing_ack(d->store, site_id, ids, n_ids, d->arena, &acked, &n_acked, NULL);
        if (r < 0)
                return r;
        json_open_array(&d->w);
        for (size_t i = 0; i < n_acked; i++)
                json_put_text(&d->w, acked[i]);
        json_close_array(&d->w);
        return 0;
}

static int answer_presence(struct driver *d, struct lessor_slice runner_id)
{
        struct lessor_presence presence;
        int r = lessor_routing_presence(d->store, runner_id, d->arena, &presence, NULL);

        if (r == 0)
                put_presence(&d->w, &presence);
        else if (r == LESSOR_E_NOT_FOUND)
                json_put_null(&d->w);
        return r == LESSOR_E_NOT_FOUND ? 0 : r;
}

/* A member that is kept as JSON text. */
static int need_json(struct driver *d, const char *name, struct lessor_slice *ret_text)
{
        const struct json *value = json_member_named(d->args, name);

        if (value == NULL)
                return LESSOR_E_INVALID;
        *ret_text = json_spelled(value, d->arena);
        return ret_text->p == NULL ? LESSOR_E_NOMEM : 0;
}

static int op_seen(struct driver *d)
{
        struct lessor_presence presence = {0};
        int r;

        if ((r = need_text(d, "runnerId", &presence.runner_id)) < 0 ||
            (r = need_text(d, "owner", &presence.owner)) < 0 ||
            (r = need_object(d, "device", &public_identity_table, &presence.device)) < 0 ||
            (r = need_json(d, "capabilities", &presence.capabilities)) < 0 ||
            (r = need_json(d, "withheld", &presence.withheld)) < 0)
                return r;
        r = lessor_routing_seen(d->store, &presence, NULL);
        return r < 0 ? r : answer_presence(d, presence.runner_id);
}

static int op_presence(struct driver *d)
{
        struct lessor_slice runner_id;
        int r = need_text(d, "runnerId", &runner_id);

        return r < 0 ? r : answer_presence(d, runner_id);
}

static int op_everyone(struct driver *d)
{
        struct lessor_presence_list list;
        int r = lessor_routing_everyone(d->store, d->arena, &list, NULL);

        if (r < 0)
                return r;
        json_open_array(&d->w);
        for (size_t i = 0; i < list.n; i++)
                put_presence(&d->w, &list.items[i]);
        json_close_array(&d->w);
        return 0;
}

static int op_sweep(struct driver *d)
{
        struct lessor_swept swept;
        int r = lessor_routing_sweep(d->store, d->arena, &swept, NULL);

        if (r < 0)
                return r;
        json_open_array(&d->w);
        for (size_t i = 0; i < swept.n_requeued; i++)
                put_job(&d->w, &swept.requeued[i], (struct lessor_slice){0});
        for (size_t i = 0; i < swept.n_removed; i++)
                put_job(&d->w, &swept.removed[i], (struct lessor_slice){0});
        json_close_array(&d->w);
        return 0;
}

/* The site of the only job of this id, if the caller did not say. */
static int only_site(struct driver *d, struct lessor_slice id, struct lessor_slice *ret_site_id)
{
        struct lessor_job_list jobs;
        size_t n = 0;
        int r;

        *ret_site_id = text_arg(d, "siteId");
        if (ret_site_id->p != NULL)
                return 0;
        r = lessor_routing_jobs(d->store, NULL, SIZE_MAX, d->arena, &jobs, NULL);
        if (r < 0)
                return r;
        for (size_t i = 0; i < jobs.n; i++) {
                if (lessor_slice_equal(jobs.items[i].stub.id, id)) {
                        *ret_site_id = jobs.items[i].site_id;
                        n++;
                }
        }
        return n == 1 ? 0 : LESSOR_E_INVALID;
}

static int op_write_raw_stub(struct driver *d)
{
        struct lessor_slice id, raw, site_id;
        int r;

        if (d->kind->write_raw_stub == NULL)
                return LESSOR_E_INVALID;
        if ((r = need_text(d, "id", &id)) < 0 || (r = need_text(d, "raw", &raw)) < 0 ||
            (r = only_site(d, id, &site_id)) < 0)
                return r;
        r = d->kind->write_raw_stub(&d->store, &d->clock.clock, d->directory, site_id, id, raw);
        if (r == 0)
                json_put_null(&d->w);
        return r;
}

static const struct {
        const char *name;
        int (*run)(struct driver *d);
} ops[] = {
        {"now", op_now},
        {"enqueue", op_enqueue},
        {"job", op_job},
        {"jobs", op_jobs},
        {"awaiting", op_awaiting},
        {"finished", op_finished},
        {"claim", op_claim},
        {"takePayload", op_take_payload},
        {"complete", op_complete},
        {"releaseLeases", op_release_leases},
        {"seal", op_seal},
        {"cancel", op_cancel},
        {"cancelRequests", op_cancel_requests},
        {"renewLeases", op_renew_leases},
        {"ack", op_ack},
        {"seen", op_seen},
        {"presence", op_presence},
        {"everyone", op_everyone},
        {"sweep", op_sweep},
        {"advance", op_advance},
        {"writeRawStub", op_write_raw_stub},
};

/* --- the pipe --- */

static int run_op(struct driver *d, const struct json *request)
{
        const struct json *op = json_member_named(request, "op");

        d->args = json_member_named(request, "args");
        if (!json_is(op, JSON_STRING))
                return LESSOR_E_INVALID;
        for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
                if (lessor_slice_equal(json_text(op), lessor_slice_of(ops[i].name)))
                        return ops[i].run(d);
        return LESSOR_E_NOT_FOUND;
}

/* Answers one line. Returns false when the answer could not be written. */
static bool answer(struct driver *d, struct lessor_slice line)
{
        struct buf result, out;
        struct json *request = NULL;
        int64_t id = 0;
        int r;
        bool written;

        buf_init(&result);
        buf_init(&out);
        json_writer_init(&d->w, &result);
        r = json_read(line, d->arena, &request);
        if (r == 0 && !json_int(json_member_named(request, "id"), &id))
                r = LESSOR_E_INVALID;
        if (r == 0)
                r = run_op(d, request);
        if (r == 0)
                r = buf_failed(&result);
        buf_printf(&out, "{\"id\":%lld,", (long long)id);
        if (r == 0) {
                buf_text(&out, "\"ok\":");
                buf_slice(&out, buf_view(&result));
        } else {
                buf_printf(&out, "\"error\":\"%s\"", lessor_error_name(r));
        }
        buf_text(&out, "}\n");
        written = buf_failed(&out) == 0 && fwrite(out.p, 1, out.n, stdout) == out.n && fflush(stdout) == 0;
        buf_done(&result);
        buf_done(&out);
        lessor_arena_clear(d->arena);
        return written;
}

static int serve(struct driver *d)
{
        char *line = NULL;
        size_t cap = 0;
        ssize_t n;
        int status = 0;

        while (status == 0 && (n = getline(&line, &cap, stdin)) > 0)
                if (!answer(d, (struct lessor_slice){line, (size_t)n}))
                        status = 1;
        free(line);
        return status;
}

static int usage(void)
{
        fputs("usage: lessor-store-driver [--store KIND] [--data DIR]\n", stderr);
        return 2;
}

int main(int argc, char **argv)
{
        struct driver d = {.kind = &store_kinds[0], .directory = "."};
        int r;

        for (int i = 1; i < argc; i += 2) {
                if (i + 1 == argc)
                        return usage();
                if (strcmp(argv[i], "--store") == 0)
                        d.kind = store_kind_named(argv[i + 1]);
                else if (strcmp(argv[i], "--data") == 0)
                        d.directory = argv[i + 1];
                else
                        return usage();
        }
        if (d.kind == NULL)
                return usage();
        clock_manual_init(&d.clock, clock_now_ms(clock_wall()));
        r = d.kind->make(&d.clock.clock, NULL, d.directory, &d.store);
        if (r < 0) {
                fprintf(stderr, "lessor-store-driver: cannot make the store: %s\n", lessor_error_text(r));
                return 1;
        }
        d.arena = lessor_arena_new();
        r = d.arena == NULL ? 1 : serve(&d);
        lessor_arena_free(d.arena);
        lessor_routing_store_free(d.store);
        return r;
}
