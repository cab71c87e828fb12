/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_BACKEND_H
#define LESSOR_BACKEND_H

#include <stdint.h>

#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/relay_types.h"
#include "lessor/stop.h"

/*
 * What a device runs a job on. Three kinds come with the library; others implement lessor_backend_ops.
 *
 * A backend serves several jobs at once: `run` is called from many threads.
 */

enum lessor_role { LESSOR_ROLE_SYSTEM, LESSOR_ROLE_USER, LESSOR_ROLE_ASSISTANT };

struct lessor_message {
        enum lessor_role role;
        struct lessor_slice content;
};

/* One opened and checked payload (relay-protocol 6.7). Borrowed for the call. */
struct lessor_prompt {
        struct lessor_slice job_id;
        enum lessor_kind kind;
        struct lessor_slice prompt;            /* llm.generate; absent for llm.chat */
        struct lessor_slice system;            /* absent: the payload has none */
        const struct lessor_message *messages; /* llm.chat */
        size_t n_messages;
        struct lessor_slice json; /* the payload's JSON text, as the site sealed it */
};

/* Why a model stopped writing. */
enum lessor_stop_reason {
        LESSOR_STOPPED_END,
        LESSOR_STOPPED_LENGTH,
        LESSOR_STOPPED_SEQUENCE,
        LESSOR_STOPPED_UNKNOWN,
};

/*
 * How a job ended. Slices live in the arena that was given to `run`. Texts must be valid UTF-8; the agent
 * turns an answer that is not into an error of code "backend-answer".
 */
struct lessor_outcome {
        enum lessor_disposition disposition;
        struct lessor_slice text;    /* OK: the answer */
        struct lessor_slice code;    /* ERROR: one word for programs, such as "backend-status" */
        struct lessor_slice message; /* ERROR: a sentence for people */
        bool retryable;              /* ERROR: the same job may succeed later or elsewhere */
        struct lessor_slice model;   /* the model that really ran; absent: the service's own name for it */
        enum lessor_stop_reason stop;
        bool stop_reported; /* the backend said so itself */
};

struct lessor_backend;

struct lessor_backend_ops {
        const char *name;       /* for the log */
        const char *backend_id; /* one of the protocol's backend ids (relay-protocol 6) */
        enum lessor_backend_class backend_class;

        /*
         * Runs one job and fills `ret_outcome`. Failures of the model are outcomes, not errors. Returns soon
         * after `stop` is raised, with the disposition CANCELED.
         *
         * Returns 0 or LESSOR_E_NOMEM.
         */
        int (*run)(struct lessor_backend *backend, const struct lessor_prompt *prompt,
                   struct lessor_stop *stop, struct lessor_arena *arena, struct lessor_outcome *ret_outcome);

        struct lessor_backend *(*free)(struct lessor_backend *backend);
};

/* The base of every backend; an implementation embeds it first. */
struct lessor_backend {
        const struct lessor_backend_ops *ops;
};

/* Answers with the prompt, or the last user message. For trying a deployment out. */
int lessor_backend_echo_new(struct lessor_backend **ret_backend);

struct lessor_openai_options {
        const char *base_url; /* "http://127.0.0.1:11434/v1"; without a path, "/v1" is added */
        const char *model;
        const char *api_key_env;  /* name of the environment variable with the key; NULL: see api_key_file */
        const char *api_key_file; /* a file of mode 0600 with the key; NULL: no key is sent */
        const char *ca_file;      /* PEM; NULL: the system's */
        int64_t timeout_ms;       /* for one whole answer; 0: 10 minutes */
        size_t max_answer_bytes;  /* of the HTTP answer; 0: 8 MiB */
};

/*
 * Any server that speaks the OpenAI chat completions API. Redirects are not followed, proxies in the
 * environment are ignored, and link-local and cloud-metadata addresses are refused after the name is
 * resolved, since they hand credentials to whoever asks.
 *
 * Copies what it needs. Returns 0; LESSOR_E_INVALID (no http or https URL, no model, user or password in the
 * URL); what reading the key can fail with; LESSOR_E_NOMEM.
 */
int lessor_backend_openai_new(const struct lessor_openai_options *options,
                              struct lessor_backend **ret_backend);

struct lessor_exec_options {
        const char *const *argv; /* ends with NULL; argv[0] is an absolute path or found in PATH, once, now */
        int64_t timeout_ms;      /* 0: 10 minutes */
        size_t max_output_bytes; /* of stdout; 0: 4 MiB */
        const char *scratch_dir; /* where private scratch directories are made; NULL: TMPDIR or /tmp */
};

/*
 * A program, started once a job: the payload's JSON on stdin, the answer's text on stdout, exit status 0. It
 * gets a fixed argument list and no shell, no descriptor but 0 to 2 (stderr is dropped), an environment of
 * PATH, HOME, TMPDIR and LANG only, and a private scratch directory as working directory and HOME, which is
 * removed afterwards. It is the leader of its own process group, which is killed whole when it ends, takes
 * too long, writes too much or is cancelled.
 *
 * Copies what it needs. Returns 0; LESSOR_E_NOT_FOUND (no such executable); LESSOR_E_INVALID; LESSOR_E_NOMEM.
 */
int lessor_backend_exec_new(const struct lessor_exec_options *options, struct lessor_backend **ret_backend);

/*
 * A backend from its text form: "echo"; "openai:BASE-URL,MODEL" (the key, if any, from the environment
 * variable LESSOR_OPENAI_API_KEY); "exec:PROGRAM ARG..." (split at spaces, no quoting).
 *
 * Returns 0; LESSOR_E_INVALID (none of these); what the constructors above return.
 */
int lessor_backend_parse(const char *text, struct lessor_backend **ret_backend);

/* Takes NULL, returns NULL. */
struct lessor_backend *lessor_backend_free(struct lessor_backend *backend);

#endif
