/* SPDX-License-Identifier: MIT */
#include "client/backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

struct lessor_backend *lessor_backend_free(struct lessor_backend *backend)
{
        return backend == NULL ? NULL : backend->ops->free(backend);
}

int backend_error(struct lessor_outcome *outcome, const char *code, const char *message, bool retryable)
{
        *outcome = (struct lessor_outcome){
                .disposition = LESSOR_DISPOSITION_ERROR,
                .code = lessor_slice_of(code),
                .message = lessor_slice_of(message),
                .retryable = retryable,
        };
        return 0;
}

int backend_canceled(struct lessor_outcome *outcome)
{
        *outcome = (struct lessor_outcome){.disposition = LESSOR_DISPOSITION_CANCELED};
        return 0;
}

static int echo_run(struct lessor_backend *backend, const struct lessor_prompt *prompt,
                    struct lessor_stop *stop, struct lessor_arena *arena, struct lessor_outcome *ret_outcome)
{
        struct lessor_slice said = prompt->prompt;

        (void)backend;
        if (lessor_stop_raised(stop))
                return backend_canceled(ret_outcome);
        for (size_t i = prompt->n_messages; said.p == NULL && i > 0; i--)
                if (prompt->messages[i - 1].role == LESSOR_ROLE_USER)
                        said = prompt->messages[i - 1].content;
        if (said.p == NULL)
                said = LESSOR_SLICE("");
        *ret_outcome = (struct lessor_outcome){
                .disposition = LESSOR_DISPOSITION_OK,
                .model = LESSOR_SLICE("echo"),
                .stop = LESSOR_STOPPED_END,
                .stop_reported = true,
        };
        return lessor_arena_copy(arena, said, &ret_outcome->text);
}

static struct lessor_backend *echo_free(struct lessor_backend *backend)
{
        free(backend);
        return NULL;
}

static const struct lessor_backend_ops echo_ops = {
        .name = "echo",
        .backend_id = "openai-http", /* the protocol has no word for it; this one promises least */
        .backend_class = LESSOR_BACKEND_PROCESS,
        .run = echo_run,
        .free = echo_free,
};

int lessor_backend_echo_new(struct lessor_backend **ret_backend)
{
        struct lessor_backend *backend = calloc(1, sizeof(*backend));

        if (backend == NULL)
                return LESSOR_E_NOMEM;
        backend->ops = &echo_ops;
        *ret_backend = backend;
        return 0;
}

static int parse_openai(char *text, struct lessor_backend **ret_backend)
{
        struct lessor_openai_options options = {.base_url = text, .api_key_env = "LESSOR_OPENAI_API_KEY"};
        char *comma = strchr(text, ',');

        if (comma == NULL)
                return LESSOR_E_INVALID;
        *comma = '\0';
        options.model = comma + 1;
        return lessor_backend_openai_new(&options, ret_backend);
}

static int parse_exec(char *text, struct lessor_backend **ret_backend)
{
        struct lessor_exec_options options = {0};
        /* Words are separated by at least one space, so there are at most half as many as bytes, and one. */
        char **argv = calloc(strlen(text) / 2 + 2, sizeof(*argv));
        char *save = NULL;
        size_t n = 0;
        int r;

        if (argv == NULL)
                return LESSOR_E_NOMEM;
        for (char *word = strtok_r(text, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
                argv[n++] = word;
        options.argv = (const char *const *)argv;
        r = n == 0 ? LESSOR_E_INVALID : lessor_backend_exec_new(&options, ret_backend);
        free(argv);
        return r;
}

int lessor_backend_parse(const char *text, struct lessor_backend **ret_backend)
{
        char *copy;
        int r;

        if (text == NULL)
                return LESSOR_E_INVALID;
        if (strcmp(text, "echo") == 0)
                return lessor_backend_echo_new(ret_backend);
        copy = strdup(text);
        if (copy == NULL)
                return LESSOR_E_NOMEM;
        if (strncmp(copy, "openai:", 7) == 0)
                r = parse_openai(copy + 7, ret_backend);
        else if (strncmp(copy, "exec:", 5) == 0)
                r = parse_exec(copy + 5, ret_backend);
        else
                r = LESSOR_E_INVALID;
        free(copy);
        return r;
}
