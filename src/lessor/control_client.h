/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_CONTROL_CLIENT_H
#define LESSOR_CONTROL_CLIENT_H

#include "base/json_read.h"
#include "base/json_write.h"
#include "lessor/command.h"

/*
 * Talks to a server's control API: through the socket in its data directory (--data, LESSOR_DATA), or over
 * TCP with a token (--control URL --token FILE).
 *
 * Each of these says on stderr what went wrong and returns an enum cli_exit; on CLI_EXIT_OK the answer is in
 * the run's arena.
 */
struct control_answer {
        struct lessor_slice text; /* JSON with its line end, as the server spelled it */
        struct json *root;        /* an object */
};

/* path  below /api/control/v1, with its query: "/sites" */
int control_get(struct cli *cli, const char *path, struct control_answer *ret_answer);

/* As control_get, for an answer that need not be JSON: only `text` is written. */
int control_get_text(struct cli *cli, const char *path, struct control_answer *ret_answer);

/* `body` is a whole JSON object; a buffer that failed counts as memory that is short. */
int control_post(struct cli *cli, const char *path, const struct buf *body,
                 struct control_answer *ret_answer);
/* As control_post, but an answer of HTTP status `passed` is no failure: `root` is NULL then. */
int control_post_passing(struct cli *cli, const char *path, const struct buf *body, long passed,
                         struct control_answer *ret_answer);
int control_put(struct cli *cli, const char *path, const struct buf *body, struct control_answer *ret_answer);

/*
 * Posts an object of texts, NULL-terminated pairs of key and value. A NULL value leaves its member out:
 *     control_post_texts(cli, "/consents/pause", &answer, "owner", owner, "siteId", site, NULL);
 */
int control_post_texts(struct cli *cli, const char *path, struct control_answer *ret_answer, ...)
        __attribute__((sentinel));

/* Adds a query parameter, percent-encoded: `path` holds the path so far. NULL values are passed over. */
void control_query(struct buf *path, const char *name, const char *value);

/* A value of an answer as text; "" when it is none. The answer was read so that its texts end with a NUL. */
const char *control_value(const struct json *value);

/* A member of an answer as text; "" when it is not there. And as a number; 0 likewise. */
const char *control_text(const struct json *object, const char *key);
struct lessor_slice control_slice(const struct json *object, const char *key);
int64_t control_int(const struct json *object, const char *key);
bool control_true(const struct json *object, const char *key);

/* Prints the server's own JSON. Returns CLI_EXIT_OK, or CLI_EXIT_FAILED when stdout takes no more. */
int control_print(struct cli *cli, const struct control_answer *answer);

/*
 * The end of a command that changed something: with --json the server's answer, else a sentence. Texts in the
 * sentence are shown with control characters replaced.
 */
int control_report(struct cli *cli, const struct control_answer *answer, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

#endif
