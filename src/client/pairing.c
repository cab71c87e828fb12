/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "client/agent_rules.h"
#include "client/device_link.h"
#include "client/device_state.h"

#define HOST_NAME_ROOM   256
#define POLL_SHORTEST_MS 500
#define POLL_LONGEST_MS  30000
#define CODE_LONGEST_MS  1800000 /* whatever the relay's clock says, a code is not waited for longer */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)
DEFINE_CLEANUP(struct lessor_pairing, lessor_pairing_free)

struct lessor_pairing {
        struct lessor_arena *arena; /* owns the texts of `started` */
        char *dir;
        char *base_url;
        struct stored_keys *keys;
        struct device_link link;
        struct pair_start_answer started;
        struct key_id key_id;
        int64_t started_ms; /* monotonic */
};

struct lessor_pairing *lessor_pairing_free(struct lessor_pairing *pairing)
{
        if (pairing == NULL)
                return NULL;
        device_link_done(&pairing->link);
        stored_keys_free(pairing->keys);
        lessor_arena_free(pairing->arena);
        free(pairing->base_url);
        free(pairing->dir);
        free(pairing);
        return NULL;
}

/* What a person calls this machine: at most as long as the protocol takes. */
static struct lessor_slice label_of(const struct lessor_device_options *options, char host[HOST_NAME_ROOM])
{
        struct lessor_slice label = lessor_slice_of(options->label);

        if (label.n == 0) {
                if (gethostname(host, HOST_NAME_ROOM - 1) < 0)
                        host[0] = '\0';
                host[HOST_NAME_ROOM - 1] = '\0';
                label = lessor_slice_of(host);
                if (label.n > LIMIT_PAIRING_LABEL) /* host names are ASCII: bytes are code points */
                        label.n = LIMIT_PAIRING_LABEL;
        }
        return label.n == 0 ? LESSOR_SLICE("device") : label;
}

static int failed(struct lessor_pairing *pairing, int code, char **ret_problem)
{
        switch (code) {
        case LESSOR_E_NOT_READY:
        case LESSOR_E_TOO_LATE:
                code = LESSOR_E_LATER;
                break;
        case LESSOR_E_NOT_FOUND:
        case LESSOR_E_PERMISSION:
        case LESSOR_E_STALE:
        case LESSOR_E_NEWER:
                code = LESSOR_E_REFUSED;
                break;
        default:
                break;
        }
        return device_problem(ret_problem, code, "%s", relay_failure_message(&pairing->link.failure));
}

static int start(struct lessor_pairing *pairing, const struct lessor_device_options *options,
                 char **ret_problem)
{
        const struct signing_key *signing = stored_keys_signing(pairing->keys);
        char host[HOST_NAME_ROOM] = "";
        struct pair_start_request request = {
                .daemon =
                        {
                                .version = LESSOR_SLICE(LESSOR_VERSION),
                                .label = label_of(options, host),
                                .platform = PAIR_PLATFORM_LINUX,
                        },
                .device = *signing_key_identity(signing),
        };
        int r;

        if (!utf8_valid(request.daemon.label) || utf8_code_points(request.daemon.label) > LIMIT_PAIRING_LABEL)
                return device_problem(ret_problem, LESSOR_E_INVALID, "a label has at most %d characters",
                                      LIMIT_PAIRING_LABEL);
        r = rules_capabilities(options->services, options->n_services, pairing->arena, &request.capabilities,
                               &request.n_capabilities);
        if (r < 0)
                return r;
        pairing->started_ms = clock_monotonic_ms();
        r = relay_post(&pairing->link.caller, "pair", &pair_start_request_table, &request,
                       &pair_start_answer_table, pairing->arena, &pairing->started, &pairing->link.failure);
        return r < 0 ? failed(pairing, r, ret_problem) : 0;
}

static int set_up(struct lessor_pairing *pairing, const struct lessor_device_options *options,
                  char **ret_problem)
{
        int r;

        pairing->arena = lessor_arena_new();
        pairing->dir = strdup(options->dir);
        if (pairing->arena == NULL || pairing->dir == NULL)
                return LESSOR_E_NOMEM;
        r = http_base_url(options->relay_url, &pairing->base_url, NULL);
        if (r == LESSOR_E_INVALID)
                return device_problem(
                        ret_problem, r,
                        "the relay's URL must be http or https, without user, query or fragment");
        if (r < 0)
                return r;
        r = device_dir_make(options->dir);
        if (r < 0)
                return device_problem(ret_problem, r, "cannot make %s", options->dir);
        r = device_keys_load(options->dir, true, &pairing->keys, ret_problem);
        if (r < 0)
                return r;
        pairing->key_id = (struct key_id){{0}};
        memcpy(pairing->key_id.text, signing_key_id(stored_keys_signing(pairing->keys)).p, KEY_ID_LEN);
        return device_link_init(&pairing->link, options, pairing->base_url);
}

int lessor_pairing_start(const struct lessor_device_options *options, struct lessor_pairing **ret_pairing,
                         char **ret_problem)
{
        _cleanup_(lessor_pairing_freep) struct lessor_pairing *pairing = NULL;
        int r;

        if (ret_problem != NULL)
                *ret_problem = NULL;
        r = device_options_check(options, ret_problem);
        if (r < 0)
                return r;
        pairing = calloc(1, sizeof(*pairing));
        if (pairing == NULL)
                return LESSOR_E_NOMEM;
        relay_failure_init(&pairing->link.failure);
        r = set_up(pairing, options, ret_problem);
        if (r == 0)
                r = start(pairing, options, ret_problem);
        if (r == 0)
                *ret_pairing = TAKE(pairing);
        return r;
}

void lessor_pairing_info(const struct lessor_pairing *pairing, struct lessor_pairing_info *ret_info)
{
        /* Texts of a relay's answer end with a NUL: it is read with json_read_copy. */
        *ret_info = (struct lessor_pairing_info){
                .user_code = pairing->started.user_code.p,
                .verification_url = pairing->started.verification_url.p,
                .device_key_id = pairing->key_id.text,
                .expires_ms = pairing->started.expires_ms,
                .poll_interval_ms = pairing->started.poll_interval_ms,
        };
}

/* Keeps what an approval says, if all of it can be believed. */
static int accept(struct lessor_pairing *pairing, const struct pair_poll_answer *answer,
                  struct lessor_arena *arena, char **ret_problem)
{
        struct device_state state = {
                .relay_url = lessor_slice_of(pairing->base_url),
                .runner_id = answer->runner_id,
                .owner = answer->owner,
                .control_plane_public = answer->control_plane_public,
        };
        struct site_changes changes;
        struct identity_key control_plane;
        char *path;
        int r;

        if (!relay_id_is_sendable(answer->runner_id))
                return device_problem(ret_problem, LESSOR_E_PROTOCOL,
                                      "the relay gave an id that cannot be sent; nothing was paired");
        if (answer->control_plane_public.p != NULL &&
            identity_key_read(answer->control_plane_public, &control_plane) < 0)
                return device_problem(ret_problem, LESSOR_E_PROTOCOL,
                                      "the relay named a control plane key that is none; nothing was paired");
        r = rules_apply_sites(NULL, 0, answer->sites, answer->n_sites, NULL, 0,
                              clock_now_ms(pairing->link.caller.clock), arena, &changes);
        if (r < 0)
                return r;
        for (size_t i = 0; i < changes.n_notes; i++)
                if (changes.notes[i].type == SITE_REFUSED)
                        return device_problem(
                                ret_problem, LESSOR_E_PROTOCOL,
                                "the relay named a site that cannot be believed: %s; nothing was paired",
                                changes.notes[i].reason);
        state.sites = changes.sites;
        state.n_sites = changes.n_sites;
        path = device_path(pairing->dir, "device.json");
        r = path == NULL ? LESSOR_E_NOMEM : device_state_save(path, &state);
        if (r < 0 && path != NULL)
                device_problem(ret_problem, r, "cannot write %s: %s", path, lessor_error_text(r));
        free(path);
        return r;
}

int lessor_pairing_poll(struct lessor_pairing *pairing, char **ret_problem)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct pair_poll_request request = {.device_code = pairing->started.device_code};
        struct pair_poll_answer answer;
        int r;

        if (ret_problem != NULL)
                *ret_problem = NULL;
        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = relay_post(&pairing->link.caller, "pair", &pair_poll_request_table, &request,
                       &pair_poll_answer_table, arena, &answer, &pairing->link.failure);
        if (r < 0)
                return failed(pairing, r, ret_problem);
        switch (answer.status) {
        case PAIR_STATUS_PENDING:
                return LESSOR_E_NOT_READY;
        case PAIR_STATUS_DENIED:
                return device_problem(ret_problem, LESSOR_E_PERMISSION, "the pairing was declined");
        case PAIR_STATUS_EXPIRED:
                return device_problem(ret_problem, LESSOR_E_EXPIRED,
                                      "the code expired before it was approved");
        case PAIR_STATUS_APPROVED:
                break;
        }
        return accept(pairing, &answer, arena, ret_problem);
}

int lessor_pairing_wait(struct lessor_pairing *pairing, struct lessor_stop *stop, char **ret_problem)
{
        int64_t pause_ms = pairing->started.poll_interval_ms;

        if (pause_ms < POLL_SHORTEST_MS)
                pause_ms = POLL_SHORTEST_MS;
        if (pause_ms > POLL_LONGEST_MS)
                pause_ms = POLL_LONGEST_MS;
        pairing->link.caller.stop = stop;
        for (;;) {
                int r = lessor_pairing_poll(pairing, ret_problem);

                if (r != LESSOR_E_NOT_READY && r != LESSOR_E_LATER)
                        return r;
                if (clock_monotonic_ms() - pairing->started_ms > CODE_LONGEST_MS)
                        return device_problem(ret_problem, LESSOR_E_EXPIRED,
                                              "nobody approved the code in time");
                if (ret_problem != NULL) {
                        free(*ret_problem);
                        *ret_problem = NULL;
                }
                if (device_pause(pause_ms, stop, NULL))
                        return LESSOR_E_CLOSED;
        }
}
