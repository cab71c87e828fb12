/* SPDX-License-Identifier: MIT */
#include "crypto/identity_key.h"

#include <sodium.h>

#include "base/encode.h"
#include "lessor/error.h"

int identity_key_read(struct lessor_slice text, struct identity_key *ret_key)
{
        struct identity_key key;

        if (base64url_read_fixed(text, key.bytes, sizeof(key.bytes)) != sizeof(key.bytes))
                return LESSOR_E_MALFORMED;
        *ret_key = key;
        return 0;
}

int identity_key_verify(const struct identity_key *key, struct lessor_slice message,
                        struct lessor_slice signature)
{
        uint8_t bytes[SIGNATURE_BYTES];

        if (base64url_read_fixed(signature, bytes, sizeof(bytes)) != sizeof(bytes))
                return LESSOR_E_BAD_SIGNATURE;
        if (crypto_sign_verify_detached(bytes, (const unsigned char *)message.p, message.n, key->bytes) != 0)
                return LESSOR_E_BAD_SIGNATURE;
        return 0;
}
