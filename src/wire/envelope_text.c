/* SPDX-License-Identifier: MIT */
#include "wire/envelope_text.h"

#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "wire/relay_shapes.h"

#define EACH_BYTE(c) (UINT64_C(0x0101010101010101) * (c))
#define HIGH_BITS    EACH_BYTE(0x80)

/* How much room a text takes in JSON spelling, without its quotes. */
struct measure {
        size_t units; /* UTF-16 units */
        size_t bytes; /* UTF-8 bytes */
};

/* Whether eight bytes are eight characters that stand for themselves: ASCII, no control, no quote, no
 * backslash. */
static bool is_plain(uint64_t word)
{
        uint64_t quote = word ^ EACH_BYTE('"');
        uint64_t backslash = word ^ EACH_BYTE('\\');
        uint64_t special = (word - EACH_BYTE(0x20)) | (quote - EACH_BYTE(1)) | (backslash - EACH_BYTE(1));

        return ((special | word) & HIGH_BITS) == 0;
}

/* How many characters more than itself a character takes. */
static size_t escape_extra(unsigned char c)
{
        switch (c) {
        case '"':
        case '\\':
        case '\b':
        case '\t':
        case '\n':
        case '\f':
        case '\r':
                return 1;
        default:
                return c < 0x20 ? 5 : 0;
        }
}

/* Counted in one pass, since a ciphertext has megabytes. No overflow: six times a text that is in memory. */
static struct measure measure_text(struct lessor_slice text)
{
        struct measure m = {0, text.n};
        size_t i = 0;

        while (i < text.n) {
                unsigned char c;
                size_t extra;
                uint64_t word;

                if (text.n - i >= sizeof(word)) {
                        memcpy(&word, text.p + i, sizeof(word));
                        if (is_plain(word)) {
                                m.units += sizeof(word);
                                i += sizeof(word);
                                continue;
                        }
                }
                c = (unsigned char)text.p[i++];
                extra = escape_extra(c);
                m.bytes += extra;
                /* Continuation bytes count nothing, four-byte characters are two units. */
                m.units += extra + ((c & 0xc0) != 0x80) + (size_t)(c >= 0xf0);
        }
        return m;
}

static size_t decimal_len(int64_t number)
{
        size_t n = number < 0 ? 2 : 1;

        while (number > 9 || number < -9) {
                number /= 10;
                n++;
        }
        return n;
}

static struct measure measure_envelope(const struct lessor_sealed_envelope *e)
{
        static const char around[] = "{\"ciphertext\":\"\",\"recipientKeyId\":\"\",\"senderKeyId\":\"\","
                                     "\"direction\":\"\",\"deadlineAt\":}";
        const struct lessor_slice texts[] = {e->ciphertext, e->recipient_key_id, e->sender_key_id};
        size_t rest = sizeof(around) - 1 + strlen(message_word(&direction_words, (int)e->direction)) +
                      decimal_len(e->deadline_ms);
        struct measure total = {rest, rest};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                struct measure m = measure_text(texts[i]);

                total.units += m.units;
                total.bytes += m.bytes;
        }
        return total;
}

size_t envelope_units(const struct lessor_sealed_envelope *envelope)
{
        return measure_envelope(envelope).units;
}

static void buf_done_in_arena(void *object)
{
        buf_done(object);
}

/* A buffer with room for n bytes, whose memory goes with the arena. */
static struct buf *arena_buf(struct lessor_arena *arena, size_t n)
{
        struct buf *b = lessor_arena_alloc(arena, sizeof(*b));

        if (b == NULL)
                return NULL;
        buf_init(b);
        if (lessor_arena_own(arena, b, buf_done_in_arena) < 0)
                return NULL;
        return buf_reserve(b, n) < 0 ? NULL : b;
}

int envelope_text(const struct lessor_sealed_envelope *envelope, struct lessor_arena *arena,
                  struct lessor_envelope *ret_envelope, size_t *ret_units)
{
        struct measure m = measure_envelope(envelope);
        struct buf *text;

        if (ret_units != NULL)
                *ret_units = m.units;
        if (m.units > LIMIT_ENVELOPE_UNITS)
                return LESSOR_E_TOO_LARGE;
        text = arena_buf(arena, m.bytes);
        if (text == NULL || message_append(&sealed_envelope_table, envelope, text) < 0)
                return LESSOR_E_NOMEM;
        ret_envelope->json = buf_view(text);
        return 0;
}

int envelope_size_append(size_t units, struct buf *out)
{
        const size_t unit = 1048576;
        /* Tenths, rounded up; whole units first, so that nothing overflows. */
        size_t tenths = units / unit * 10 + (units % unit * 10 + unit - 1) / unit;

        return buf_printf(out, "%zu.%zu MB", tenths / 10, tenths % 10);
}
