/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_KEY_ID_H
#define CRYPTO_KEY_ID_H

#include "crypto/identity_key.h"
#include "lessor/slice.h"

#define KEY_ID_LEN 36 /* BYOLLM-XXXX-XXXX-XXXX-XXXX-XXXX-XXXX */

/* The name of an identity key, also shown to people as its fingerprint (relay-protocol 3). Plain data. */
struct key_id {
        char text[KEY_ID_LEN + 1]; /* followed by a NUL */
};

/* The key id of an identity key. Pure. */
void key_id_of(const struct identity_key *key, struct key_id *ret_id);

/*
 * As key_id_of, from the text of the key, decoded leniently. Every text has a key id, also one that is no
 * key: a projection's identities are not verified when it is loaded. Returns 0 or LESSOR_E_NOMEM. Pure.
 */
int key_id_of_text(struct lessor_slice identity, struct key_id *ret_id);

/* The id as a slice, borrowed from `id`. Key ids compare as text. */
static inline struct lessor_slice key_id_text(const struct key_id *id)
{
        return (struct lessor_slice){id->text, KEY_ID_LEN};
}

#endif
