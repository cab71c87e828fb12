/* SPDX-License-Identifier: MIT */
#include "crypto/public_identity.h"

#include "base/macro.h"
#include "lessor/error.h"

int public_identity_statement(struct lessor_slice encryption, struct buf *out)
{
        int r = buf_text(out, "byollm/v1/encryption-key:");

        return r < 0 ? r : buf_slice(out, encryption);
}

int public_identity_check(const struct lessor_public_identity *identity, struct identity_key *ret_key)
{
        _cleanup_(buf_done) struct buf statement;
        struct identity_key key;
        int r;

        buf_init(&statement);
        if (identity_key_read(identity->identity, &key) < 0)
                return LESSOR_E_BAD_SIGNATURE;
        r = public_identity_statement(identity->encryption, &statement);
        if (r < 0)
                return r;
        r = identity_key_verify(&key, buf_view(&statement), identity->encryption_sig);
        if (r < 0)
                return r;
        if (ret_key != NULL)
                *ret_key = key;
        return 0;
}
