/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_IDENTITY_H
#define LESSOR_IDENTITY_H

#include "base/json_write.h"
#include "crypto/signing_key.h"
#include "lessor/command.h"

/*
 * Reads a key file for the half that signs. Says on stderr what is wrong with it. Returns an enum cli_exit.
 */
int identity_load_keys(struct cli *cli, const char *path, struct signing_key **ret_key);

/*
 * A public identity from a key file (`keys`), of which nothing private is kept, or from a file with the
 * public identity's JSON (`public`, "-" is stdin). Exactly one of the two is given.
 *
 * ret_key_id  of the identity
 */
int identity_read(struct cli *cli, const char *keys, const char *public,
                  struct lessor_public_identity *ret_identity, struct lessor_slice *ret_key_id);

/* Writes the JSON of a public identity. */
void identity_write(const struct lessor_public_identity *identity, struct json_writer *w);

#endif
