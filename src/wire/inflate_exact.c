/* SPDX-License-Identifier: MIT */
#include "wire/inflate_exact.h"

#include <limits.h>
#include <stdlib.h>
#define ZLIB_CONST /* what it reads it does not write */
#include <zlib.h>

/* 258 bytes in two bits, a length and a distance of one bit each. */
#define MOST_PER_BYTE 1032

#define RAW_DEFLATE (-15)

bool inflate_is_plausible(size_t payload_len, size_t len)
{
        return len / MOST_PER_BYTE <= payload_len;
}

/* Our own allocator, so that zlib's memory can be made to fail in a test as ours can. */
static voidpf take(voidpf opaque, uInt count, uInt size)
{
        (void)opaque;
        return calloc(count, size);
}

static void give_back(voidpf opaque, voidpf p)
{
        (void)opaque;
        free(p);
}

int inflate_exact(struct lessor_slice payload, size_t len, struct lessor_arena *arena,
                  struct lessor_slice *ret_bytes)
{
        z_stream z = {.zalloc = take, .zfree = give_back};
        bool is_whole;
        char *bytes;
        int r;

        if (payload.n > UINT_MAX || len > UINT_MAX)
                return LESSOR_E_MALFORMED;
        bytes = lessor_arena_alloc(arena, len);
        if (bytes == NULL || inflateInit2(&z, RAW_DEFLATE) != Z_OK)
                return LESSOR_E_NOMEM;
        z.next_in = (const Bytef *)payload.p;
        z.avail_in = (uInt)payload.n;
        z.next_out = (Bytef *)bytes;
        z.avail_out = (uInt)len;
        r = inflate(&z, Z_FINISH);
        is_whole = r == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 0;
        inflateEnd(&z);
        if (r == Z_MEM_ERROR)
                return LESSOR_E_NOMEM;
        if (!is_whole)
                return LESSOR_E_MALFORMED;
        *ret_bytes = (struct lessor_slice){bytes, len};
        return 0;
}
