/* SPDX-License-Identifier: MIT */
#include <sodium.h>

#include "base/encode.h"
#include "base/utf8.h"
#include "crypto/envelope_open.h"
#include "crypto/envelope_seal.h"
#include "fuzz.h"
#include "lessor/error.h"

/*
 * Opening an envelope. Random bytes would never pass a sealed box, so the first byte of an input says how
 * deep the rest starts: C  it is the ciphertext as spelled I  it is the inner text, and is sealed here B  it
 * is the signed body, and is signed and sealed here P  it is the plaintext: what is sealed must open to the
 * same
 */

#define DEADLINE_MS 4102444800000

static struct stored_keys *sender, *recipient;

static struct lessor_slice id_of(const struct stored_keys *keys)
{
        return signing_key_id(stored_keys_signing(keys));
}

/* Fixed keys, so that an input means the same in every run. */
static void make_keys(void)
{
        static const struct lessor_slice text = LESSOR_SLICE(
                "{\"version\":1,\"identityPublic\":\"mGnwTGrN3kYMyO24o0DRNon_Z94bx3mBNAACB14WHLs\","
                "\"identityPrivate\":\"MC4CAQAwBQYDK2VwBCIEIOdPrRcRVVEJSG/LE6Lym5eKF5WGO/X0/sEVMyxoVWMB\","
                "\"encryptionPublic\":\"abLmEP7LQy6UO45xm6qxUsRSeUZek5OEKa1PqkpvRFo\","
                "\"encryptionPrivate\":\"MC4CAQAwBQYDK2VuBCIEIDaYOLZzQ4elAblL34B89BMODPmpoaBLERvsIlV765Rt\","
                "\"encryptionSig\":\"OerxMynMsRhx3jCMgmdD5Q2HaNcqcEHtCOxvyTRt6Nz9dJApR7XGscIbeuWfm9nry6GF_"
                "COb4ajhk6TCsXP8Bg\",\"createdAt\":1767225600000}");
        struct lessor_arena *arena = lessor_arena_new();

        FUZZ_CHECK(arena != NULL);
        FUZZ_CHECK(stored_keys_read(text, arena, &sender, NULL) == 0);
        recipient = sender; /* as a site seals to itself; one pair is enough here */
        lessor_arena_free(arena);
}

/* Opens what was made of an input, and returns the verdict. */
static int open_box(struct lessor_slice ciphertext, struct lessor_arena *arena, struct lessor_slice *ret_text)
{
        struct lessor_sealed_envelope envelope = {ciphertext, id_of(recipient), id_of(sender),
                                                  LESSOR_DIRECTION_PAYLOAD, DEADLINE_MS};
        struct envelope_expected expected = {LESSOR_SLICE("j1"), id_of(sender), id_of(recipient),
                                             LESSOR_DIRECTION_PAYLOAD,
                                             signing_key_public(stored_keys_signing(sender))};

        return envelope_open(recipient, &expected, &envelope, arena, ret_text);
}

static int open_inner(struct lessor_slice inner, struct lessor_arena *arena, struct lessor_slice *ret_text)
{
        struct lessor_slice spelled = signing_key_identity(stored_keys_signing(recipient))->encryption;
        uint8_t public[crypto_box_PUBLICKEYBYTES];
        struct buf box, text;
        int r;

        buf_init(&box);
        buf_init(&text);
        FUZZ_CHECK(base64url_read_fixed(spelled, public, sizeof(public)) == sizeof(public));
        FUZZ_CHECK(buf_reserve(&box, inner.n + crypto_box_SEALBYTES) == 0);
        FUZZ_CHECK(crypto_box_seal((unsigned char *)box.p, (const unsigned char *)inner.p, inner.n, public) ==
                   0);
        FUZZ_CHECK(base64url_append(&text, box.p, inner.n + crypto_box_SEALBYTES) == 0);
        r = open_box(buf_view(&text), arena, ret_text);
        buf_done(&box);
        buf_done(&text);
        return r;
}

static int open_body(struct lessor_slice body, struct lessor_arena *arena, struct lessor_slice *ret_text)
{
        struct buf inner;
        int r;

        buf_init(&inner);
        FUZZ_CHECK(envelope_inner_text(stored_keys_signing(sender), body, &inner) == 0);
        r = open_inner(buf_view(&inner), arena, ret_text);
        buf_done(&inner);
        /* the box and the signature are ours, so nothing but the body can be at fault */
        FUZZ_CHECK(r == 0 || r == LESSOR_E_MALFORMED || r == LESSOR_E_CONTEXT_MISMATCH);
        return r;
}

static void seal_and_open(struct lessor_slice plaintext, struct lessor_arena *arena)
{
        struct envelope_terms terms = {LESSOR_SLICE("j1"), LESSOR_DIRECTION_PAYLOAD, DEADLINE_MS};
        struct lessor_sealed_envelope envelope;
        struct lessor_slice opened;

        if (!utf8_valid(plaintext))
                return;
        FUZZ_CHECK(envelope_seal(stored_keys_signing(sender),
                                 signing_key_identity(stored_keys_signing(recipient)), &terms, plaintext,
                                 arena, &envelope) == 0);
        FUZZ_CHECK(open_box(envelope.ciphertext, arena, &opened) == 0);
        FUZZ_CHECK(lessor_slice_equal(opened, plaintext));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct lessor_slice rest = {(const char *)data + 1, size - 1}, text = {"", 0};
        struct lessor_arena *arena;
        int r = -1;

        if (size == 0)
                return 0;
        if (sender == NULL)
                make_keys();
        arena = lessor_arena_new();
        FUZZ_CHECK(arena != NULL);
        switch (data[0]) {
        case 'C':
                r = open_box(rest, arena, &text);
                break;
        case 'I':
                r = open_inner(rest, arena, &text);
                break;
        case 'B':
                r = open_body(rest, arena, &text);
                break;
        case 'P':
                seal_and_open(rest, arena);
                break;
        default:
                break;
        }
        FUZZ_CHECK(r < 0 || utf8_valid(text));
        lessor_arena_free(arena);
        return 0;
}
