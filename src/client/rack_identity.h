/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_RACK_IDENTITY_H
#define CLIENT_RACK_IDENTITY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/macro.h"
#include "lessor/error.h"
#include "lessor/slice.h"

/*
 * Who a rack is: rack.json, and its token in memory. One JSON object, mode 0600:
 *
 *   version        1; a larger one is LESSOR_E_NEWER. A change of the form counts it up
 *   url, rackId
 *   token          in use
 *   previousToken  absent: none. The one before, until `token` has worked (rack-protocol 14)
 *
 * Thread-safe.
 */
struct rack_identity;

#define RACK_TOKEN_LEN 69 /* rack-protocol 2 */

/* Whether a text is a rack token: e3rk_ and 64 lower-case hex digits. */
bool rack_token_valid(struct lessor_slice token);

/*
 * Writes the file of a rack that has just enrolled. `replace`: over one that is there. Returns 0;
 * LESSOR_E_EXISTS; LESSOR_E_INVALID (a value that cannot be one); what file_replace can fail with.
 */
int rack_identity_create(const char *path, struct lessor_slice url, struct lessor_slice rack_id,
                         struct lessor_slice token, bool replace);

/*
 * Reads the file, which others may not read or write. `ret_problem` gets a clause on failure; emptied first.
 * Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_PERMISSION; LESSOR_E_MALFORMED; LESSOR_E_NEWER; LESSOR_E_IO;
 * LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int rack_identity_load(const char *path, struct rack_identity **ret_identity, struct buf *ret_problem);

/* Wipes it. Takes NULL, returns NULL. */
struct rack_identity *rack_identity_free(struct rack_identity *identity);
DEFINE_CLEANUP(struct rack_identity, rack_identity_free)

/* Live as long as the identity. */
const char *rack_identity_url(const struct rack_identity *identity);
const char *rack_identity_rack_id(const struct rack_identity *identity);

/* The token to use now. */
void rack_identity_token(struct rack_identity *identity, char ret_token[RACK_TOKEN_LEN + 1]);

/*
 * Takes an offered successor: it is on disk when this returns 0, and in use from then on, with the current
 * one kept beside it. Returns 0; LESSOR_E_INVALID; what file_replace can fail with, and then nothing changes.
 */
int rack_identity_rotate(struct rack_identity *identity, struct lessor_slice token);

/*
 * An exchange with that token was answered: the one before it is of no use any more, and is forgotten. Cheap
 * when there is nothing to forget. Returns 0 or what file_replace can fail with: then it stays.
 */
int rack_identity_worked(struct rack_identity *identity, const char *token);

/*
 * The server knows nothing of that token. True if there is another to try: the current one where that has
 * changed meanwhile, or the one before, which is current again now.
 */
bool rack_identity_refused(struct rack_identity *identity, const char *token);

#endif
