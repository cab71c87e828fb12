/* SPDX-License-Identifier: MIT */
#include "crypto/envelope_seal.h"

#include <sodium.h>

#include "base/encode.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/macro.h"
#include "crypto/envelope_words.h"
#include "crypto/public_identity.h"
#include "lessor/error.h"

/* Signature, braces and names around the body of an inner text. */
#define INNER_FRAME 128

int envelope_signed_body(const struct envelope_terms *terms, struct lessor_slice sender_key_id,
                         struct lessor_slice recipient_key_id, struct lessor_slice plaintext, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_cstr(&w, "v", "byollm/v1/envelope");
        json_member_text(&w, "jobId", terms->job_id);
        json_member_text(&w, "senderKeyId", sender_key_id);
        json_member_text(&w, "recipientKeyId", recipient_key_id);
        json_member_int(&w, "deadlineAt", terms->deadline_ms);
        json_member_text(&w, "direction", direction_text(terms->direction));
        json_key(&w, "plaintext");
        json_put_text(&w, plaintext);
        json_close_object(&w);
        return buf_failed(out);
}

int envelope_inner_text(const struct signing_key *sender, struct lessor_slice signed_body, struct buf *out)
{
        int r;

        /* All at once, so that growing leaves no copies of the body behind. */
        r = buf_reserve(out, signed_body.n / 3 * 4 + 4 + INNER_FRAME);
        if (r < 0)
                return r;
        buf_text(out, "{\"body\":\"");
        base64url_append(out, signed_body.p, signed_body.n);
        buf_text(out, "\",\"signature\":\"");
        signing_key_sign_text(sender, signed_body, out);
        buf_text(out, "\"}");
        return buf_failed(out);
}

/* How many UTF-16 units the JSON text of an envelope has, all of which are ASCII (relay-protocol 6.7). */
static size_t envelope_size(const struct lessor_sealed_envelope *envelope)
{
        static const char frame[] = "{\"ciphertext\":\"\",\"recipientKeyId\":\"\",\"senderKeyId\":\"\","
                                    "\"direction\":\"\",\"deadlineAt\":}";
        size_t n = sizeof(frame) - 1 + envelope->ciphertext.n + envelope->recipient_key_id.n +
                   envelope->sender_key_id.n + direction_text(envelope->direction).n;

        for (int64_t rest = envelope->deadline_ms; rest > 0; rest /= 10)
                n++;
        return n;
}

/* Seals the inner text and spells the box. */
static int seal_text(struct lessor_slice inner, const uint8_t encryption[crypto_box_PUBLICKEYBYTES],
                     struct lessor_arena *arena, struct lessor_slice *ret_ciphertext)
{
        _cleanup_(buf_done) struct buf box;
        _cleanup_(buf_done) struct buf text;
        int r;

        buf_init(&box);
        buf_init(&text);
        r = buf_reserve(&box, inner.n + crypto_box_SEALBYTES);
        if (r < 0)
                return r;
        /* fails for a key that no secret can be shared with */
        if (crypto_box_seal((unsigned char *)box.p, (const unsigned char *)inner.p, inner.n, encryption) != 0)
                return LESSOR_E_INVALID;
        box.n = inner.n + crypto_box_SEALBYTES;
        r = base64url_append(&text, box.p, box.n);
        return r < 0 ? r : lessor_arena_copy(arena, buf_view(&text), ret_ciphertext);
}

int envelope_seal(const struct signing_key *sender, const struct lessor_public_identity *recipient,
                  const struct envelope_terms *terms, struct lessor_slice plaintext,
                  struct lessor_arena *arena, struct lessor_sealed_envelope *ret_envelope)
{
        _cleanup_(buf_wipe) struct buf body;
        _cleanup_(buf_wipe) struct buf inner;
        struct lessor_sealed_envelope envelope = {.direction = terms->direction,
                                                  .deadline_ms = terms->deadline_ms};
        uint8_t encryption[crypto_box_PUBLICKEYBYTES];
        struct identity_key identity;
        struct key_id recipient_id;
        int r;

        buf_init(&body);
        buf_init(&inner);
        if (sodium_init() < 0)
                return LESSOR_E_IO;
        if (plaintext.n > LIMIT_ENVELOPE_UNITS || terms->job_id.n > LIMIT_ENVELOPE_UNITS)
                return LESSOR_E_TOO_LARGE;
        r = public_identity_check(recipient, &identity);
        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : LESSOR_E_INVALID;
        if (base64url_read_fixed(recipient->encryption, encryption, sizeof(encryption)) != sizeof(encryption))
                return LESSOR_E_INVALID;
        key_id_of(&identity, &recipient_id);
        r = envelope_signed_body(terms, signing_key_id(sender), key_id_text(&recipient_id), plaintext, &body);
        if (r < 0)
                return r;
        r = envelope_inner_text(sender, buf_view(&body), &inner);
        if (r < 0)
                return r;
        r = seal_text(buf_view(&inner), encryption, arena, &envelope.ciphertext);
        if (r < 0)
                return r;
        if (lessor_arena_copy(arena, key_id_text(&recipient_id), &envelope.recipient_key_id) < 0 ||
            lessor_arena_copy(arena, signing_key_id(sender), &envelope.sender_key_id) < 0)
                return LESSOR_E_NOMEM;
        if (envelope_size(&envelope) > LIMIT_ENVELOPE_UNITS)
                return LESSOR_E_TOO_LARGE;
        *ret_envelope = envelope;
        return 0;
}
