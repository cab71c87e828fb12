/* SPDX-License-Identifier: MIT */
#include "http/offload.h"
#include "objects/object_graph.h"
#include "plane/attempt_log.h"
#include "plane/rack_data.h"
#include "wire/lease_result.h"

/*
 * The end of a lease by its rack (rack-protocol 6.5). What the section does inside the lease's fence is done
 * before the one operation of the store that decides and records; each earlier step repeats harmlessly, and
 * whoever lost the lease meanwhile is told so by that operation.
 */

/* One request under way. In the call's arena. */
struct completion {
        struct rack_call *call;
        const struct rack_complete_request *in;
        struct lessor_lease lease; /* valid if held */
        struct lessor_lease_completion record;
        enum lessor_completed how;
        struct rack_trouble trouble;
        int error;
};

/* --- Step 2: the output --- */

static int put_inline(struct completion *c)
{
        struct lessor_object_store *objects = c->call->plane->parts.objects;
        struct lessor_slice bytes = c->in->inline_output;
        struct lessor_object_writer *writer = NULL;
        struct lessor_object_written written = {0};
        int e;

        e = lessor_object_put(objects, c->lease.name.repo, (struct lessor_slice){0}, (int64_t)bytes.n,
                              &writer);
        if (e == 0)
                e = lessor_object_write(writer, bytes);
        if (e == 0)
                e = lessor_object_finish(writer, c->call->arena, &written);
        lessor_object_writer_free(writer);
        if (e < 0)
                return e;
        /* R083: the hash that counts is the one that we computed, in what readers see of the result too. */
        c->record.verdict.output_hash = written.hash;
        return lease_result_with_output(c->in->result_json, written.hash, c->call->arena, &c->record.result);
}

static int take_staged(struct completion *c)
{
        struct lessor_object_store *objects = c->call->plane->parts.objects;
        char claim[RACK_CLAIM_TEXT];
        struct lessor_object_version version;
        struct lessor_object_stage stage;
        struct lessor_capability upload;
        struct lessor_ticket ticket = {0};
        bool committed = false;
        int e;

        e = lessor_lease_staged(c->call->store, &c->record.holder, c->in->output_upload_id, c->call->arena,
                                &upload, &ticket);
        rack_call_rests_on(c->call, ticket);
        if (e == LESSOR_E_NOT_FOUND)
                return rack_trouble(c->call, &c->trouble, RACK_CONFLICT,
                                    "there is no such upload, it is not whole, or its URL has expired");
        if (e < 0)
                return e;
        if (!lessor_slice_equal(upload.hash, c->record.verdict.output_hash))
                return rack_trouble(c->call, &c->trouble, RACK_CONFLICT,
                                    "the upload was declared with another hash than outputHash");
        stage = rack_stage(&upload.name, upload.claim_number, claim);
        version = (struct lessor_object_version){upload.hash, upload.size, upload.receipt};
        e = lessor_object_check_staged(objects, &stage, &version);
        if (e == 0)
                e = lessor_object_commit(objects, &stage, &version, 1, &committed);
        if (e == LESSOR_E_NOT_FOUND || e == LESSOR_E_CORRUPT || (e == 0 && !committed)) /* R086 */
                return rack_trouble(c->call, &c->trouble, RACK_CONFLICT, "the upload does not verify");
        c->record.upload_id = upload.id;
        return e;
}

static int take_output(struct completion *c)
{
        if (c->in->inline_output.p != NULL)
                return put_inline(c);
        return c->in->output_upload_id.p != NULL ? take_staged(c) : 0;
}

/* --- Step 3: everything that it names --- */

static int verify_output(struct completion *c)
{
        struct object_graph_gap gap = {0};
        int e = object_graph_complete(c->call->plane->parts.objects, c->lease.name.repo,
                                      c->record.verdict.output_hash, c->call->arena, &gap);

        if (e == LESSOR_E_NOT_FOUND || e == LESSOR_E_INVALID || e == LESSOR_E_TOO_LARGE) /* R088 */
                return rack_trouble(c->call, &c->trouble, RACK_CONFLICT,
                                    "the output is not whole: object %.*s: %s", (int)gap.hash.n,
                                    gap.hash.p == NULL ? "" : gap.hash.p,
                                    gap.problem == NULL ? lessor_error_text(e) : gap.problem);
        return e;
}

/* --- Steps 4 and 6 --- */

/* A result that says it was cancelled leaves a line, as every cancelled attempt does (section 10). */
static void say_cancelled(struct completion *c)
{
        const struct rack_parts *parts = &c->call->plane->parts;
        const struct log_key key = {c->lease.name.repo, c->lease.task_hash, c->lease.inputs_hash,
                                    c->lease.attempt};
        struct lessor_slice reason = c->record.verdict.message;

        if (reason.n == 0)
                reason = lessor_slice_of(attempt_cause(LESSOR_CAUSE_CANCELLED));
        (void)attempt_say(parts->logs, parts->log_watch, &key, reason); /* best effort */
}

static int record(struct completion *c)
{
        struct lessor_ticket ticket = {0};
        int e = lessor_lease_complete(c->call->store, &c->record, c->call->arena, &c->how, NULL, &ticket);

        rack_call_rests_on(c->call, ticket);
        if (e == LESSOR_E_NOT_FOUND)
                return rack_trouble(c->call, &c->trouble, RACK_CONFLICT, "the upload's URL has expired");
        return e;
}

static void answer(struct completion *c)
{
        static const enum rack_disposition dispositions[] = {
                [LESSOR_COMPLETED_RECORDED] = RACK_DISPOSITION_RECORDED,
                [LESSOR_COMPLETED_IDEMPOTENT] = RACK_DISPOSITION_IDEMPOTENT,
                [LESSOR_COMPLETED_DISCARDED] = RACK_DISPOSITION_DISCARDED,
        };
        const struct lessor_slice attempt = c->lease.attempt;

        if (c->error < 0) {
                rack_refuse_trouble(c->call, &c->trouble, c->error);
                return;
        }
        if (c->how == LESSOR_COMPLETED_RECORDED && attempt.p != NULL &&
            c->call->plane->parts.log_watch != NULL)
                log_watch_wake(c->call->plane->parts.log_watch, attempt);
        rack_answer(c->call, &(struct rack_complete_response){dispositions[c->how]});
}

/* --- The whole --- */

static bool writes_records(const struct completion *c)
{
        return c->lease.mode != LESSOR_LEASE_FUNCTION;
}

/* What a success of a held lease must look like, before anything is touched. Returns 0 or a code. */
static int check_success(struct completion *c)
{
        const struct rack_complete_request *in = c->in;
        bool has_hash = c->record.verdict.output_hash.p != NULL;

        if (!writes_records(c))
                return in->inline_output.p == NULL && in->output_upload_id.p == NULL
                               ? 0
                               : rack_trouble(c->call, &c->trouble, RACK_BAD_REQUEST,
                                              "a function has no output of its own");
        if (in->inline_output.p != NULL)
                return in->inline_output.n <= RACK_INLINE_BYTES
                               ? 0 /* R084 */
                               : rack_trouble(c->call, &c->trouble, RACK_TOO_LARGE,
                                              "an inline output has at most %d bytes", RACK_INLINE_BYTES);
        if (!has_hash) /* R085, R087 */
                return rack_trouble(c->call, &c->trouble, RACK_BAD_REQUEST,
                                    "outputHash: a success needs it, or an inline output");
        return 0;
}

static int complete_held(struct completion *c)
{
        int e = 0;

        if (c->record.verdict.success && writes_records(c)) {
                e = take_output(c);
                if (e == 0)
                        e = verify_output(c);
        }
        /* Somebody else has it by now: the store says what becomes of the result. */
        if (e == 0 || e == LESSOR_E_NOT_HELD)
                e = record(c);
        if (e == 0 && c->how == LESSOR_COMPLETED_RECORDED && c->record.verdict.cancelled && writes_records(c))
                say_cancelled(c);
        return e;
}

static void work(void *context)
{
        struct completion *c = context;

        c->error = complete_held(c);
}

static void done(struct http_request *http, void *context)
{
        (void)http;
        answer(context);
}

static void serve_held(struct completion *c)
{
        const struct lessor_verdict *verdict = &c->record.verdict;

        c->error = verdict->success ? check_success(c) : 0;
        if (c->error == 0 && writes_records(c) && (verdict->success || verdict->cancelled)) {
                http_offload(c->call->http, work, done, c);
                return;
        }
        if (c->error == 0)
                c->error = complete_held(c);
        answer(c);
}

/* Validation, which comes first for everybody. False when the call was refused. */
static bool read_result(struct completion *c)
{
        const char *problem = NULL;
        int e = lease_result_read(c->in->result_json, c->call->arena, &c->record.verdict, &problem);

        if (e == LESSOR_E_NOMEM)
                rack_refuse_error(c->call, LESSOR_E_UNAVAILABLE);
        else if (e < 0)
                rack_refuse(c->call, RACK_BAD_REQUEST, "resultJson: %s", problem);
        return e == 0;
}

void rack_serve_complete(struct rack_call *call, const void *request)
{
        struct completion *c = lessor_arena_alloc(call->arena, sizeof(*c));
        struct lessor_ticket ticket = {0};
        int e;

        if (c == NULL) {
                rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
                return;
        }
        c->call = call;
        c->in = request;
        if (!read_result(c))
                return;
        c->record.result = c->in->result_json;
        c->record.holder = rack_call_holder(call, c->in->repo, c->in->lease_id, c->in->attempt);
        e = lessor_lease_hold(call->store, &c->record.holder, 0, call->arena, &c->lease, &ticket);
        rack_call_rests_on(call, ticket);
        if (e == 0) {
                serve_held(c);
                return;
        }
        if (e == LESSOR_E_NOT_HELD) {
                /* In nobody's name, so that what was not checked is not recorded should the lease be granted
                 * to this rack right now. */
                c->record.holder.rack_id = LESSOR_SLICE("");
                e = record(c);
        }
        c->error = e;
        answer(c);
}
