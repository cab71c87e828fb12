/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/command.h"
#include "lessor/commands.h"
#include "lessor/device_agent.h"
#include "lessor/input.h"
#include "lessor/kind.h"
#include "lessor/output.h"
#include "lessor/relay_url.h"
#include "lessor/signals.h"
#include "wire/relay_shapes.h"

/* This machine as a device: pairing it, and letting it work. */

#define SLOTS_MAX 64

DEFINE_CLEANUP(struct lessor_pairing, lessor_pairing_free)
DEFINE_CLEANUP(struct lessor_agent, lessor_agent_free)
DEFINE_CLEANUP(struct lessor_stop, lessor_stop_free)

static void free_text(char **text)
{
        free(*text);
}

/* What a device is started with. Wants to stay where it is: the options point into it. */
struct setup {
        struct lessor_backend *backend;
        struct lessor_service service;
        struct lessor_device_options options;
};

static void setup_done(struct setup *s)
{
        s->backend = lessor_backend_free(s->backend);
}

/* "openai:URL,MODEL" names its model; the others go by their own name. */
static const char *default_service(const char *backend)
{
        const char *comma = strrchr(backend, ',');

        if (strncmp(backend, "openai:", 7) == 0 && comma != NULL && comma[1] != '\0')
                return comma + 1;
        return strncmp(backend, "exec:", 5) == 0 ? "exec" : "echo";
}

static int read_service(struct cli *cli, const char *backend, struct setup *s)
{
        const char *service = cli_option(cli, "service"), *kind_text = cli_option(cli, "kind");
        const char *offer = cli_option(cli, "offer");
        enum lessor_kind kind;

        s->service = (struct lessor_service){.name = service == NULL ? default_service(backend) : service,
                                             .kinds = (1u << LESSOR_N_KINDS) - 1,
                                             .model = cli_option(cli, "model"),
                                             .offer = LESSOR_OFFER_PRIVATE};
        if (kind_text != NULL) {
                if (kind_read(kind_text, &kind) < 0)
                        return cli_misuse(cli, "--kind: \"%s\" is neither chat nor generate", kind_text);
                s->service.kinds = LESSOR_KIND_BIT(kind);
        }
        if (offer != NULL && strcmp(offer, "team") == 0)
                s->service.offer = LESSOR_OFFER_TEAM;
        return CLI_EXIT_OK;
}

static int read_setup(struct cli *cli, struct setup *s)
{
        const char *backend = cli_option(cli, "backend"), *slots = cli_option(cli, "slots");
        int64_t n_slots = 1;
        int code, e;

        if (cli_option(cli, "dir") == NULL)
                return cli_misuse(cli, "give --dir DIR: where the device keeps its keys and logs");
        if (backend == NULL)
                return cli_misuse(cli, "give --backend echo, openai:URL,MODEL or exec:PROGRAM");
        if (slots != NULL && args_number(slots, 1, SLOTS_MAX, &n_slots) < 0)
                return cli_misuse(cli, "--slots: \"%s\" is no number from 1 to %d", slots, SLOTS_MAX);
        code = read_service(cli, backend, s);
        if (code != CLI_EXIT_OK)
                return code;
        e = lessor_backend_parse(backend, &s->backend);
        if (e == LESSOR_E_INVALID)
                return cli_misuse(
                        cli,
                        strncmp(backend, "exec:", 5) == 0
                                ? "--backend: \"%s\": exec: wants a name in PATH or a whole path"
                                : "--backend: \"%s\" is neither echo, openai:URL,MODEL nor exec:PROGRAM",
                        backend);
        if (e < 0)
                return cli_fail_error(cli, e, backend, NULL);
        s->service.backend = s->backend;
        s->options = (struct lessor_device_options){.dir = cli_option(cli, "dir"),
                                                    .relay_url = relay_url(cli),
                                                    .label = cli_option(cli, "label"),
                                                    .ca_file = cli_option(cli, "ca"),
                                                    .proxy = cli_option(cli, "proxy"),
                                                    .services = &s->service,
                                                    .n_services = 1,
                                                    .slots = (size_t)n_slots};
        return CLI_EXIT_OK;
}

/* --- Pairing --- */

static int print_code(struct cli *cli, const struct lessor_pairing *pairing)
{
        struct lessor_pairing_info info;
        struct buf out = {0};
        struct json_writer w;

        lessor_pairing_info(pairing, &info);
        if (cli->json) {
                json_writer_init(&w, &out);
                json_open_object(&w);
                json_member_cstr(&w, "event", "code");
                json_member_cstr(&w, "userCode", info.user_code);
                json_member_cstr(&w, "verificationUrl", info.verification_url);
                json_member_cstr(&w, "keyId", info.device_key_id);
                json_member_int(&w, "expiresAt", info.expires_ms);
                json_close_object(&w);
                buf_char(&out, '\n');
                return output_print(cli, &out);
        }
        buf_printf(&out,
                   "code     %s\nenter at %s\ncompare  %s\n"
                   "or, on the server's machine: lessor device approve %s --owner USER\n",
                   info.user_code, info.verification_url, info.device_key_id, info.user_code);
        return output_print(cli, &out);
}

/* What pairing told the device, which is in its directory now. */
static int print_paired(struct cli *cli, const struct lessor_device_options *options)
{
        _cleanup_(lessor_agent_freep) struct lessor_agent *agent = NULL;
        _cleanup_(free_text) char *problem = NULL;
        struct lessor_agent_info info;
        struct buf out = {0};
        struct json_writer w;
        int e = lessor_agent_new(options, NULL, NULL, &agent, &problem);

        if (e < 0)
                return cli_fail_error(cli, e, "paired, but the device cannot be used", problem);
        lessor_agent_info(agent, &info);
        if (cli->json) {
                json_writer_init(&w, &out);
                json_open_object(&w);
                json_member_cstr(&w, "event", "paired");
                json_member_cstr(&w, "runnerId", info.runner_id);
                json_member_cstr(&w, "owner", info.owner);
                json_member_cstr(&w, "relay", info.relay_url);
                json_member_cstr(&w, "keyId", info.device_key_id);
                json_member_bool(&w, "checksGrants", info.checks_grants);
                json_close_object(&w);
                buf_char(&out, '\n');
        } else {
                buf_printf(&out, "paired   device %s of %s at %s\n", info.runner_id, info.owner,
                           info.relay_url);
        }
        return output_print(cli, &out);
}

static void raise_stop(void *stop)
{
        lessor_stop_raise(stop);
}

int run_device_pair(struct cli *cli)
{
        _cleanup_(lessor_stop_freep) struct lessor_stop *stop = NULL;
        _cleanup_(lessor_pairing_freep) struct lessor_pairing *pairing = NULL;
        _cleanup_(setup_done) struct setup setup = {0};
        _cleanup_(free_text) char *problem = NULL;
        int code = read_setup(cli, &setup), e;

        if (code != CLI_EXIT_OK)
                return code;
        e = lessor_stop_new(&stop);
        if (e < 0)
                return cli_fail_error(cli, e, "cannot start", NULL);
        signals_watch(raise_stop, stop);
        e = lessor_pairing_start(&setup.options, &pairing, &problem);
        if (e < 0)
                return cli_fail_error(cli, e, setup.options.relay_url, problem);
        code = print_code(cli, pairing);
        if (code != CLI_EXIT_OK)
                return code;
        e = lessor_pairing_wait(pairing, stop, &problem);
        signals_watch(NULL, NULL);
        if (e == LESSOR_E_CLOSED)
                return cli_fail(cli, CLI_EXIT_INTERRUPTED, "stopped before the device was approved");
        if (e == LESSOR_E_EXPIRED)
                return cli_fail(cli, CLI_EXIT_TIMED_OUT, "nobody approved the device in time: pair again");
        if (e < 0)
                return cli_fail_error(cli, e, "not paired", problem);
        return print_paired(cli, &setup.options);
}

/* --- Working --- */

struct narrator {
        bool json;
        bool colour;
};

static const struct {
        const char *name;
        enum output_colour colour;
} event_words[] = {
        [LESSOR_AGENT_ONLINE] = {"online", COLOUR_GREEN},
        [LESSOR_AGENT_TROUBLE] = {"trouble", COLOUR_YELLOW},
        [LESSOR_AGENT_NOTICE] = {"notice", COLOUR_BOLD},
        [LESSOR_AGENT_SITE_PINNED] = {"site-pinned", COLOUR_NONE},
        [LESSOR_AGENT_SITE_REFUSED] = {"site-refused", COLOUR_RED},
        [LESSOR_AGENT_JOB_CLAIMED] = {"claimed", COLOUR_NONE},
        [LESSOR_AGENT_JOB_REFUSED] = {"refused", COLOUR_YELLOW},
        [LESSOR_AGENT_JOB_RUNNING] = {"running", COLOUR_NONE},
        [LESSOR_AGENT_JOB_DONE] = {"done", COLOUR_GREEN},
        [LESSOR_AGENT_JOB_DROPPED] = {"dropped", COLOUR_YELLOW},
        [LESSOR_AGENT_STOPPED] = {"stopped", COLOUR_BOLD},
};

static const char *disposition_name(const struct lessor_agent_event *e)
{
        return e->type == LESSOR_AGENT_JOB_DONE ? message_word(&disposition_words, (int)e->disposition)
                                                : NULL;
}

static void write_event_json(const struct lessor_agent_event *e, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_cstr(&w, "event", event_words[e->type].name);
        json_member_text(&w, "jobId", e->job_id);
        json_member_text(&w, "leaseId", e->lease_id);
        json_member_text(&w, "site", e->site);
        json_member_text(&w, "service", e->service);
        json_member_cstr(&w, "disposition", disposition_name(e));
        if (e->type == LESSOR_AGENT_JOB_DONE)
                json_member_int(&w, "durationMs", e->duration_ms);
        if (e->error < 0)
                json_member_cstr(&w, "error", lessor_error_name(e->error));
        json_member_cstr(&w, "message", e->message);
        json_close_object(&w);
        buf_char(out, '\n');
}

static void write_part(struct buf *out, const char *before, struct lessor_slice text)
{
        if (text.n == 0)
                return;
        buf_text(out, before);
        output_safe(out, text);
}

static void write_event_text(const struct lessor_agent_event *e, bool colour, struct buf *out)
{
        static const char *const codes[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};
        const char *code = colour ? codes[event_words[e->type].colour] : "";

        bool about_job = e->job_id.n > 0 || e->site.n > 0 || e->service.n > 0;
        const char *why = e->message;

        if (why == NULL && e->error < 0)
                why = lessor_error_text(e->error);
        buf_printf(out, "%s%-*s%s", code, about_job || why != NULL ? 12 : 0, event_words[e->type].name,
                   code[0] != '\0' ? "\033[0m" : "");
        write_part(out, " job ", e->job_id);
        write_part(out, " of site ", e->site);
        write_part(out, " on ", e->service);
        if (e->type == LESSOR_AGENT_JOB_DONE) {
                buf_printf(out, ": %s in ", disposition_name(e));
                buf_printf(out, "%lld.%03lld s", (long long)(e->duration_ms / 1000),
                           (long long)(e->duration_ms % 1000));
        }
        if (why != NULL)
                write_part(out, about_job ? ": " : " ", lessor_slice_of(why));
        buf_char(out, '\n');
}

/* One line an event, on stdout for programs and on stderr for people. */
static void on_event(void *context, const struct lessor_agent_event *event)
{
        const struct narrator *narrator = context;
        struct buf out = {0};

        if (narrator->json)
                write_event_json(event, &out);
        else
                write_event_text(event, narrator->colour, &out);
        if (buf_failed(&out) == 0) {
                FILE *stream = narrator->json ? stdout : stderr;

                fwrite(out.p, 1, out.n, stream);
                fflush(stream);
        }
        buf_done(&out);
}

static void stop_agent(void *agent)
{
        lessor_agent_stop(agent);
}

static int run_agent(struct cli *cli, struct lessor_agent *agent)
{
        int e;

        signals_watch(stop_agent, agent);
        e = lessor_agent_run(agent);
        signals_watch(NULL, NULL);
        switch (e) {
        case 0:
                return CLI_EXIT_OK;
        case LESSOR_E_PERMISSION:
                return cli_fail(cli, CLI_EXIT_REFUSED, "this device is revoked");
        case LESSOR_E_REFUSED:
                return cli_fail(cli, CLI_EXIT_REFUSED,
                                "the relay does not know this device any more: pair it again");
        case LESSOR_E_NEWER:
                return cli_fail(cli, CLI_EXIT_REFUSED, "the relay does not serve this version: update it");
        default:
                return cli_fail_error(cli, e, "the device stopped", NULL);
        }
}

int run_device_run(struct cli *cli)
{
        _cleanup_(setup_done) struct setup setup = {0};
        _cleanup_(lessor_agent_freep) struct lessor_agent *agent = NULL;
        _cleanup_(free_text) char *problem = NULL;
        struct narrator narrator = {.json = cli->json, .colour = output_has_colour(stderr)};
        struct lessor_agent_info info;
        int code = read_setup(cli, &setup), e;

        if (code != CLI_EXIT_OK)
                return code;
        e = lessor_agent_new(&setup.options, on_event, &narrator, &agent, &problem);
        if (e == LESSOR_E_NOT_FOUND)
                return cli_fail(cli, CLI_EXIT_NOT_FOUND,
                                "%s holds no paired device: `lessor device pair --dir %s` makes one",
                                setup.options.dir, setup.options.dir);
        if (e < 0)
                return cli_fail_error(cli, e, setup.options.dir, problem);
        lessor_agent_info(agent, &info);
        if (!cli->json)
                fprintf(stderr, "device %s of %s serves %s at %s%s\n", info.runner_id, info.owner,
                        setup.service.name, info.relay_url, info.checks_grants ? ", and checks grants" : "");
        return run_agent(cli, agent);
}
