/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_CONTROL_LINK_H
#define LESSOR_CONTROL_LINK_H

#include "client/http_client.h"
#include "lessor/command.h"

/*
 * A way to a server's control API that stays open: for commands that ask it often, send and take more than a
 * message, or ask several things at once. Where the server is follows from the command line
 * (control_client.h). One thread at a time.
 */
struct control_link;
struct json;

/* Connects to nobody yet. Says on stderr what went wrong. Returns an enum cli_exit. */
int control_link_open(struct cli *cli, struct control_link **ret_link);

/* Its transfers must have been freed. Takes NULL, returns NULL. */
struct control_link *control_link_free(struct control_link *link);

DEFINE_CLEANUP(struct control_link, control_link_free)

struct cli *control_link_cli(const struct control_link *link);

/* What http_client_wait and http_client_wake are to be called with. */
struct http_client *control_link_http(struct control_link *link);

/*
 * Asks: as http_client_start, but `request->url` is a path below /api/control/v1 with its query, and where
 * the server asks for a token, that is added. `content-type` is JSON unless a file is sent. Answers may be as
 * large as those of control_client.h where `max_answer_bytes` is 0.
 */
int control_link_start(struct control_link *link, const struct http_request *request,
                       struct http_transfer **ret_transfer);

/* Asks and waits: as http_client_call. */
int control_link_call(struct control_link *link, const struct http_request *request, struct lessor_stop *stop,
                      struct http_transfer **ret_transfer);

/*
 * Says on stderr why a transfer came to nothing: the server cannot be reached, or refused, with its own
 * sentence.
 *
 * error     what it failed with; 0: the answer's status is at fault
 * transfer  may be NULL
 *
 * Returns the enum cli_exit that belongs to it.
 */
int control_link_fail(const struct control_link *link, int error, const struct http_transfer *transfer);

/*
 * The answer as JSON, in the arena, its texts followed by a NUL; NULL when it is no JSON object, or memory is
 * short.
 */
struct json *control_link_json(const struct http_transfer *transfer, struct lessor_arena *arena);

#endif
