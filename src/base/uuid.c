/* SPDX-License-Identifier: MIT */
#include "base/uuid.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

#define POOL_BYTES 512 /* a multiple of what one id takes, so that none is left over */

#define LOW_BITS  62
#define LOW_MASK  ((UINT64_C(1) << LOW_BITS) - 1)
#define HIGH_MASK 0xfffu
#define TIME_MASK ((INT64_C(1) << 48) - 1)

/*
 * libsodium must be set up once before threads share its random source. Without one there is no way to go
 * on, and libsodium itself ends the process when it loses it later.
 */
static void sodium_ready(void)
{
        if (sodium_init() < 0)
                abort();
}

/* A child of fork() must not give out what its parent has: the bytes of another generation are not used. */
static _Atomic unsigned generation = 1;

static void forked(void)
{
        atomic_fetch_add(&generation, 1);
}

static void pool_ready(void)
{
        sodium_ready();
        pthread_atfork(NULL, NULL, forked);
}

/*
 * Random bytes that nobody has seen yet, since asking the system costs a call each time and every grant needs
 * some. Each thread has its own; what is given out is wiped here.
 */
struct pool {
        uint8_t bytes[POOL_BYTES];
        size_t left; /* at the front */
        unsigned generation;
};

static void random_bytes(void *bytes, size_t n)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        static _Thread_local struct pool pool;

        pthread_once(&once, pool_ready);
        if (pool.left < n || pool.generation != atomic_load_explicit(&generation, memory_order_relaxed)) {
                randombytes_buf(pool.bytes, sizeof(pool.bytes));
                pool.left = sizeof(pool.bytes);
                pool.generation = atomic_load_explicit(&generation, memory_order_relaxed);
        }
        pool.left -= n;
        memcpy(bytes, pool.bytes + pool.left, n);
        sodium_memzero(pool.bytes + pool.left, n);
}

static void write_text(const uint8_t id[16], char ret_text[UUID_TEXT_LEN + 1])
{
        static const char digits[] = "0123456789abcdef";
        char *p = ret_text;

        for (size_t i = 0; i < 16; i++) {
                if (i == 4 || i == 6 || i == 8 || i == 10)
                        *p++ = '-';
                *p++ = digits[id[i] >> 4];
                *p++ = digits[id[i] & 0x0f];
        }
        *p = '\0';
}

void uuid_v4(char ret_text[UUID_TEXT_LEN + 1])
{
        uint8_t id[16];

        random_bytes(id, sizeof(id));
        id[6] = (uint8_t)((id[6] & 0x0f) | 0x40);
        id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
        write_text(id, ret_text);
}

/* The three fields of a version 7 UUID, most significant first. */
struct v7 {
        int64_t ms;    /* 48 bits */
        uint32_t high; /* 12 bits, rand_a */
        uint64_t low;  /* 62 bits, rand_b */
};

/*
 * RFC 9562 section 6.2, method 2: within one millisecond, or when the clock went back, the random bits count
 * up by a random step; when they run over, the time field gives way.
 */
static void v7_next(struct v7 *last, int64_t now_ms, const uint64_t fresh[2])
{
        if (now_ms > last->ms) {
                last->ms = now_ms;
                last->high = (uint32_t)(fresh[0] & HIGH_MASK);
                last->low = fresh[1] & LOW_MASK;
                return;
        }
        last->low += (fresh[0] & UINT32_MAX) + 1;
        if (last->low > LOW_MASK) {
                last->low &= LOW_MASK;
                last->high++;
        }
        if (last->high > HIGH_MASK) {
                last->high = 0;
                last->ms++;
        }
}

void uuid_v7(int64_t now_ms, char ret_text[UUID_TEXT_LEN + 1])
{
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static struct v7 last = {.ms = -1};
        uint64_t fresh[2];
        uint8_t id[16];
        struct v7 v;

        if (now_ms < 0)
                now_ms = 0;
        random_bytes(fresh, sizeof(fresh));
        pthread_mutex_lock(&lock);
        v7_next(&last, now_ms & TIME_MASK, fresh);
        v = last;
        pthread_mutex_unlock(&lock);

        for (unsigned i = 0; i < 6; i++)
                id[i] = (uint8_t)(v.ms >> (40 - 8 * i));
        id[6] = (uint8_t)(0x70 | v.high >> 8);
        id[7] = (uint8_t)v.high;
        for (unsigned i = 0; i < 8; i++)
                id[8 + i] = (uint8_t)(v.low >> (56 - 8 * i));
        id[8] = (uint8_t)(id[8] | 0x80);
        write_text(id, ret_text);
}

static bool is_hex(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool uuid_is_v7(struct lessor_slice text)
{
        if (text.n != UUID_TEXT_LEN)
                return false;
        for (size_t i = 0; i < text.n; i++) {
                bool dash = i == 8 || i == 13 || i == 18 || i == 23;

                if (dash ? text.p[i] != '-' : !is_hex(text.p[i]))
                        return false;
        }
        return text.p[14] == '7' && strchr("89abAB", text.p[19]) != NULL;
}
