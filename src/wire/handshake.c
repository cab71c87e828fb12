/* SPDX-License-Identifier: MIT */
#include "wire/handshake.h"

#include "base/json_read.h"
#include "base/utf8.h"
#include "lessor/error.h"
#include "wire/relay_shapes.h"

int handshake_check(const struct json *body, struct lessor_slice query, enum relay_refusal *ret_refusal,
                    struct lessor_slice *ret_declared)
{
        const struct lessor_slice ours = LESSOR_SLICE(RELAY_PROTOCOL_VERSION);
        const struct json *in_body = json_member_named(body, "protocolVersion");
        struct lessor_slice declared = query;

        if (in_body != NULL)
                declared =
                        json_is(in_body, JSON_STRING) ? json_text(in_body) : (struct lessor_slice){NULL, 0};
        if (lessor_slice_equal(declared, ours))
                return 0;
        if (declared.n == 0) {
                *ret_refusal = RELAY_REFUSAL_NO_VERSION;
                declared = (struct lessor_slice){NULL, 0};
        } else {
                *ret_refusal = utf8_utf16_cmp(declared, ours) < 0 ? RELAY_REFUSAL_OLDER_VERSION
                                                                  : RELAY_REFUSAL_NEWER_VERSION;
        }
        *ret_declared = declared;
        return LESSOR_E_REFUSED;
}
