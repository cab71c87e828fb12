/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/utf8.h"
#include "base/uuid.h"
#include "crypto/key_id.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/input.h"
#include "lessor/kind.h"
#include "lessor/output.h"
#include "lessor/progress.h"
#include "lessor/relay_url.h"
#include "lessor/signals.h"
#include "lessor/site_client.h"
#include "wire/relay_shapes.h"

/* One question, put to a device of its owner's: the site's side of the protocol, by hand. */

#define DEADLINE_DEFAULT  "10m"
#define CANCEL_TIMEOUT_MS 5000
/*
 * How long the pump runs between looks at a job's state, which the relay does not push: until it is sealed,
 * until it runs, and afterwards. The pump gives up its waiting reads each time, so not too often.
 */
#define UNSEALED_SLICE_MS 5000
#define SEALED_SLICE_MS   1500
#define RUNNING_SLICE_MS  60000
#define PROMPT_MAX        ((size_t)LIMIT_PAYLOAD_TEXT * 4)

DEFINE_CLEANUP(struct lessor_stop, lessor_stop_free)
DEFINE_CLEANUP(struct lessor_site_client, lessor_site_client_free)
DEFINE_CLEANUP(struct lessor_pump, lessor_pump_free)

struct question {
        struct cli *cli;
        struct lessor_site_options site;
        struct lessor_stub stub;
        struct lessor_slice *device_key_ids; /* in the arena of the run */
        size_t n_device_key_ids;
        char job_id[UUID_TEXT_LEN + 1];
        struct buf payload; /* wiped: it is what only a device may read */
        struct progress *progress;
        struct buf trouble; /* what was last in the way, as a sentence */
        bool is_queued;
        bool is_sealed;
        bool is_running;
        int code; /* an enum cli_exit, once it is over */
};

static void question_done(struct question *q)
{
        buf_wipe(&q->payload);
        buf_done(&q->trouble);
        progress_free(q->progress);
}

/* --- The question --- */

static void write_payload(struct json_writer *w, enum lessor_kind kind, struct lessor_slice prompt,
                          const char *system)
{
        json_open_object(w);
        if (kind == LESSOR_KIND_LLM_GENERATE) {
                json_member_text(w, "prompt", prompt);
        } else {
                json_key(w, "messages");
                json_open_array(w);
                json_open_object(w);
                json_member_cstr(w, "role", "user");
                json_member_text(w, "content", prompt);
                json_close_object(w);
                json_close_array(w);
        }
        json_member_cstr(w, "system", system);
        json_close_object(w);
}

static int read_prompt(struct question *q, struct buf *out)
{
        struct cli *cli = q->cli;
        int code = CLI_EXIT_OK;

        if (strcmp(cli->args[0], "-") == 0)
                code = input_read(cli, "-", PROMPT_MAX, out);
        else if (buf_text(out, cli->args[0]) < 0)
                code = cli_fail_nomem(cli);
        if (code == CLI_EXIT_OK && !utf8_valid(buf_view(out)))
                code = cli_fail(cli, CLI_EXIT_FAILED, "the prompt is no UTF-8");
        if (code == CLI_EXIT_OK && out->n == 0)
                code = cli_fail(cli, CLI_EXIT_FAILED, "the prompt is empty");
        return code;
}

static int make_payload(struct question *q)
{
        _cleanup_(buf_wipe) struct buf prompt = {0};
        struct json_writer w;
        int code = read_prompt(q, &prompt), e;

        if (code != CLI_EXIT_OK)
                return code;
        json_writer_init(&w, &q->payload);
        write_payload(&w, q->stub.kind, buf_view(&prompt), cli_option(q->cli, "system"));
        if (buf_failed(&q->payload) < 0)
                return cli_fail_nomem(q->cli);
        e = lessor_payload_check(q->stub.kind, buf_view(&q->payload), &q->stub.size_class);
        if (e == LESSOR_E_TOO_LARGE || e == LESSOR_E_INVALID)
                return cli_fail(q->cli, CLI_EXIT_FAILED,
                                "the prompt is too large: a device takes texts of at most %d characters",
                                LIMIT_PAYLOAD_TEXT);
        return e < 0 ? cli_fail_error(q->cli, e, "the prompt", NULL) : CLI_EXIT_OK;
}

static int read_stub(struct question *q)
{
        struct cli *cli = q->cli;
        const char *kind = cli_option(cli, "kind"), *deadline = cli_option(cli, "deadline");
        const char *audience = cli_option(cli, "audience"), *owner = cli_option(cli, "owner");
        int64_t now_ms = clock_now_ms(clock_wall()), in_ms;

        if (owner == NULL)
                return cli_misuse(cli, "give --owner USER: whose devices shall answer");
        if (kind_read(kind == NULL ? "chat" : kind, &q->stub.kind) < 0)
                return cli_misuse(cli, "--kind: \"%s\" is neither chat nor generate", kind);
        if (args_duration(deadline == NULL ? DEADLINE_DEFAULT : deadline, &in_ms) < 0 || in_ms < 1)
                return cli_misuse(cli, "--deadline: \"%s\" is no time, such as 90s, 10m or 1h", deadline);
        uuid_v7(now_ms, q->job_id);
        q->stub.id = lessor_slice_of(q->job_id);
        q->stub.owner = lessor_slice_of(owner);
        q->stub.purpose = lessor_slice_of(cli_option(cli, "purpose"));
        q->stub.audience = audience != NULL && strcmp(audience, "team") == 0 ? LESSOR_AUDIENCE_TEAM
                                                                             : LESSOR_AUDIENCE_PRIVATE;
        q->stub.deadline_ms = now_ms + in_ms;
        return CLI_EXIT_OK;
}

static int read_device_keys(struct question *q)
{
        struct cli *cli = q->cli;

        q->device_key_ids = lessor_arena_array(cli->arena, cli->n_values + 1, sizeof(*q->device_key_ids));
        if (q->device_key_ids == NULL)
                return cli_fail_nomem(cli);
        for (size_t i = 0; i < cli->n_values; i++) {
                const struct cli_value *v = &cli->values[i];

                if (strcmp(v->option->name, "device-key") != 0)
                        continue;
                if (strncmp(v->text, "BYOLLM-", 7) != 0 || strlen(v->text) != KEY_ID_LEN)
                        return cli_misuse(cli, "--device-key: \"%s\" is no key id (BYOLLM-XXXX-...)",
                                          v->text);
                q->device_key_ids[q->n_device_key_ids++] = lessor_slice_of(v->text);
        }
        return CLI_EXIT_OK;
}

static int read_site(struct question *q)
{
        struct cli *cli = q->cli;

        if (cli_option(cli, "site") == NULL || cli_option(cli, "site-keys") == NULL)
                return cli_misuse(cli, "give --site ID and --site-keys FILE: who asks");
        q->site = (struct lessor_site_options){.relay_url = relay_url(cli),
                                               .site_id = cli_option(cli, "site"),
                                               .keys_file = cli_option(cli, "site-keys"),
                                               .ca_file = cli_option(cli, "ca"),
                                               .proxy = cli_option(cli, "proxy")};
        return CLI_EXIT_OK;
}

static int open_client(struct question *q, struct lessor_stop *stop, struct lessor_site_client **ret_client)
{
        struct lessor_site_options options = q->site;
        char *problem = NULL;
        int e, code = CLI_EXIT_OK;

        options.stop = stop;
        if (stop == NULL)
                options.timeout_ms = CANCEL_TIMEOUT_MS;
        e = lessor_site_client_new(&options, ret_client, &problem);
        if (e < 0)
                code = cli_fail_error(q->cli, e,
                                      e == LESSOR_E_INVALID ? "cannot ask" : "cannot use the site's keys",
                                      problem != NULL ? problem : lessor_error_text(e));
        free(problem);
        return code;
}

/* --- The answer --- */

static void write_provenance(struct json_writer *w, const struct lessor_answer *a)
{
        json_key(w, "provenance");
        json_open_object(w);
        json_member_text(w, "runnerId", a->runner_id);
        json_member_text(w, "owner", a->runner_owner);
        json_member_text(w, "keyId", a->device_key_id);
        json_member_text(w, "leaseId", a->lease_id);
        json_member_text(w, "model", a->model);
        json_member_cstr(w, "backendClass", message_word(&backend_class_words, (int)a->backend_class));
        json_member_int(w, "durationMs", a->duration_ms);
        json_member_text(w, "stop", a->stop);
        json_close_object(w);
}

static void write_answer_json(const struct lessor_answer *a, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_text(&w, "jobId", a->job_id);
        json_member_cstr(&w, "disposition", message_word(&disposition_words, (int)a->disposition));
        if (a->disposition == LESSOR_DISPOSITION_OK) {
                json_member_text(&w, "text", a->text);
                json_member_text(&w, "artifactUrl", a->artifact_url);
        }
        if (a->disposition == LESSOR_DISPOSITION_ERROR) {
                json_key(&w, "error");
                json_open_object(&w);
                json_member_text(&w, "code", a->code);
                json_member_text(&w, "message", a->message);
                json_member_bool(&w, "retryable", a->retryable);
                json_close_object(&w);
        }
        write_provenance(&w, a);
        json_close_object(&w);
        buf_char(out, '\n');
}

static int say_failure(struct question *q, const struct lessor_answer *a)
{
        _cleanup_(buf_done) struct buf shown = {0};

        if (a->disposition == LESSOR_DISPOSITION_CANCELED)
                return cli_fail(q->cli, CLI_EXIT_JOB_FAILED, "the job was cancelled");
        output_safe(&shown, a->code);
        buf_text(&shown, ": ");
        output_safe(&shown, a->message);
        return cli_fail(q->cli, CLI_EXIT_JOB_FAILED, "the device answered with an error: %s%s",
                        shown.p == NULL ? "" : shown.p, a->retryable ? " (asking again may help)" : "");
}

/* The text goes out as it came, line ends and all: it is the result, and may be piped. */
static bool on_answered(void *context, const struct lessor_answer *a)
{
        struct question *q = context;
        _cleanup_(buf_done) struct buf model = {0};
        struct buf out = {0};
        bool ok = a->disposition == LESSOR_DISPOSITION_OK;

        output_safe(&model, a->model);
        progress_step(q->progress, ok ? "done by" : "failed on", model.p);
        progress_end(q->progress);
        if (q->cli->json) {
                write_answer_json(a, &out);
        } else if (ok) {
                buf_slice(&out, a->text);
                if (a->text.n == 0 || a->text.p[a->text.n - 1] != '\n')
                        buf_char(&out, '\n');
        }
        q->code = output_print(q->cli, &out);
        /* Kept at the relay when it could not be printed. */
        if (q->code != CLI_EXIT_OK)
                return false;
        if (!ok)
                q->code = say_failure(q, a);
        return true;
}

static void on_failed(void *context, struct lessor_slice job_id, int error, const char *message)
{
        struct question *q = context;

        (void)job_id;
        progress_end(q->progress);
        if (error == LESSOR_E_EXPIRED && !q->is_queued && q->trouble.n > 0)
                q->code = cli_fail(q->cli, CLI_EXIT_UNREACHABLE, "nothing was asked before the deadline: %s",
                                   q->trouble.p);
        else if (error == LESSOR_E_EXPIRED)
                q->code = cli_fail(q->cli, CLI_EXIT_TIMED_OUT, "no answer before the deadline");
        else
                q->code = cli_fail_error(q->cli, error, "no answer", message);
}

static void on_progress(void *context, const struct lessor_ask_progress *p)
{
        struct question *q = context;
        _cleanup_(buf_done) struct buf who = {0};
        const char *why;

        switch (p->step) {
        case LESSOR_ASK_QUEUED:
                q->is_queued = true;
                progress_step(q->progress, "queued", q->job_id);
                break;
        case LESSOR_ASK_CLAIMED:
                output_safe(&who, p->runner_id);
                buf_text(&who, " with key ");
                output_safe(&who, p->device_key_id);
                q->is_sealed = q->is_running = false;
                progress_step(q->progress, "claimed by", who.p);
                break;
        case LESSOR_ASK_SEALED:
                q->is_sealed = true;
                progress_step(q->progress, "sealed", "to that device");
                break;
        case LESSOR_ASK_LATER:
                why = p->message != NULL && p->message[0] != '\0' ? p->message : lessor_error_text(p->error);
                buf_clear(&q->trouble);
                buf_text(&q->trouble, why);
                progress_step(q->progress, "waiting:", why);
                break;
        }
}

/*
 * The relay tells a site who has a job, but not that it runs. Enqueueing is idempotent and answers with the
 * state, so a job that is under way is looked at that way; not near its deadline, when it may be gone and
 * would be enqueued anew.
 */
static void look(struct question *q, struct lessor_site_client *client)
{
        enum lessor_job_state state;

        if (!q->is_sealed || q->is_running ||
            q->stub.deadline_ms - clock_now_ms(clock_wall()) < INT64_C(2) * UNSEALED_SLICE_MS)
                return;
        if (lessor_site_enqueue(client, &q->stub, &state) < 0)
                return;
        if (state == LESSOR_JOB_RUNNING) {
                q->is_running = true;
                progress_step(q->progress, "running", NULL);
        }
}

static int withdraw(struct question *q)
{
        _cleanup_(lessor_site_client_freep) struct lessor_site_client *client = NULL;
        bool cancelled = false;
        int code;

        progress_end(q->progress);
        code = open_client(q, NULL, &client);
        if (code == CLI_EXIT_OK && lessor_site_cancel(client, q->stub.id, &cancelled) == 0 && cancelled)
                return cli_fail(q->cli, CLI_EXIT_INTERRUPTED, "stopped: job %s is withdrawn", q->job_id);
        return cli_fail(q->cli, CLI_EXIT_INTERRUPTED, "stopped: job %s could not be withdrawn%s%s", q->job_id,
                        client == NULL ? "" : ": ", client == NULL ? "" : lessor_site_client_problem(client));
}

static int64_t slice_ms(const struct question *q)
{
        if (!q->is_sealed)
                return UNSEALED_SLICE_MS;
        return q->is_running ? RUNNING_SLICE_MS : SEALED_SLICE_MS;
}

static int pump(struct question *q, struct lessor_site_client *client, struct lessor_pump *pump)
{
        int e;

        while ((e = lessor_pump_run(pump, slice_ms(q))) == LESSOR_E_TIMEOUT)
                look(q, client);
        if (e == 0)
                return q->code;
        if (e == LESSOR_E_CLOSED)
                return withdraw(q);
        progress_end(q->progress);
        return cli_fail_error(q->cli, e, "the relay does not let this site ask",
                              lessor_site_client_problem(client));
}

static void raise_stop(void *stop)
{
        lessor_stop_raise(stop);
}

static int ask(struct question *q)
{
        static const struct lessor_pump_events events = {
                .progress = on_progress, .answered = on_answered, .failed = on_failed};
        _cleanup_(lessor_stop_freep) struct lessor_stop *stop = NULL;
        _cleanup_(lessor_site_client_freep) struct lessor_site_client *client = NULL;
        _cleanup_(lessor_pump_freep) struct lessor_pump *p = NULL;
        int code, e;

        e = lessor_stop_new(&stop);
        if (e < 0)
                return cli_fail_error(q->cli, e, "cannot start", NULL);
        code = open_client(q, stop, &client);
        if (code != CLI_EXIT_OK)
                return code;
        e = lessor_pump_new(client, &events, q, &p);
        if (e == 0)
                e = lessor_pump_add(p,
                                    &(struct lessor_ask){.job_id = q->stub.id,
                                                         .kind = q->stub.kind,
                                                         .owner = q->stub.owner,
                                                         .audience = q->stub.audience,
                                                         .purpose = q->stub.purpose,
                                                         .payload = buf_view(&q->payload),
                                                         .deadline_ms = q->stub.deadline_ms,
                                                         .device_key_ids = q->device_key_ids,
                                                         .n_device_key_ids = q->n_device_key_ids},
                                    NULL);
        if (e < 0)
                return cli_fail_error(q->cli, e, "cannot ask", NULL);
        signals_watch(raise_stop, stop);
        code = pump(q, client, p);
        signals_watch(NULL, NULL);
        return code;
}

int run_ask(struct cli *cli)
{
        _cleanup_(question_done) struct question q = {.cli = cli, .code = CLI_EXIT_FAILED};
        int code = read_site(&q);

        if (code == CLI_EXIT_OK)
                code = read_stub(&q);
        if (code == CLI_EXIT_OK)
                code = read_device_keys(&q);
        if (code == CLI_EXIT_OK)
                code = make_payload(&q);
        if (code != CLI_EXIT_OK)
                return code;
        if (progress_new(stderr, cli_switch(cli, "quiet"), &q.progress) < 0)
                return cli_fail_nomem(cli);
        return ask(&q);
}
