/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_PAIRING_H
#define DIRECTORY_PAIRING_H

#include <stdint.h>

#include "base/macro.h"
#include "lessor/arena.h"
#include "lessor/error.h"
#include "lessor/relay_types.h"
#include "routing/directory/directory.h"
#include "routing/directory/projection.h"

/*
 * Pairing codes (relay-protocol 6.1): what a device shows to its owner and polls with until somebody approves
 * it.
 *
 * Kept in the server's database, so that a restart loses no pairing in progress; only a hash of the device
 * code is, since whoever has the code can finish the pairing. A power cut may lose the last moments; the
 * device starts again. Time and randomness come from the caller. Thread-safe.
 *
 * Every function may return LESSOR_E_NOMEM, LESSOR_E_UNAVAILABLE, LESSOR_E_IO or LESSOR_E_CORRUPT.
 */

#define PAIRING_CODE_MS          600000 /* how long a code lives */
#define PAIRING_POLL_INTERVAL_MS 2000
#define PAIRING_DEVICE_CODE_LEN  43 /* 32 random bytes in base64url */
#define PAIRING_USER_CODE_LEN    9  /* XXXX-XXXX in the alphabet of key ids */
#define PAIRING_RANDOM_BYTES     37 /* 32 for the device code, 5 for the user code */

struct pairing_table;

/* `path`, errors and `ret_problem` as directory_open. */
int pairing_open(const char *path, struct pairing_table **ret_table, struct buf *ret_problem);
/* Takes NULL, returns NULL. */
struct pairing_table *pairing_free(struct pairing_table *t);
DEFINE_CLEANUP(struct pairing_table, pairing_free)

/* What a device says of itself when it starts; the plane has checked all of it, consistency of the keys
 * included. */
struct pairing_request {
        struct lessor_public_identity device;
        struct lessor_slice version; /* of the daemon */
        struct lessor_slice label;
        struct lessor_slice platform;
        struct lessor_slice capabilities; /* JSON array, opaque here */
};

struct pairing_codes {
        char device_code[PAIRING_DEVICE_CODE_LEN + 1];
        char user_code[PAIRING_USER_CODE_LEN + 1];
        int64_t expires_ms;
};

/*
 * Drops what has expired and what the same device identity had, then makes a code.
 *
 * random   PAIRING_RANDOM_BYTES bytes from the system's random source
 *
 * Returns 0; LESSOR_E_BUSY (LIMIT_PAIRING_OUTSTANDING are in progress; what was dropped stays dropped);
 * LESSOR_E_EXISTS (the codes are in use: call again with other random bytes).
 */
int pairing_start(struct pairing_table *t, const struct pairing_request *request,
                  const unsigned char random[PAIRING_RANDOM_BYTES], int64_t now_ms,
                  struct pairing_codes *ret_codes);

enum pairing_state {
        PAIRING_EXPIRED, /* unknown, used or too old */
        PAIRING_PENDING,
        PAIRING_APPROVED, /* the projection has a device with these keys */
};

/* One pairing in progress. */
struct pairing {
        struct pairing_request request;
        struct lessor_slice user_code;
        int64_t started_ms;
        int64_t expires_ms;
};

/*
 * Answers a device's poll. Nothing changes: an approved code is used up by pairing_spend().
 *
 * ret_pairing  what the device said when it started, in the arena, when the answer is PAIRING_APPROVED
 * ret_device   the projected device, borrowed from `projection`, likewise
 */
int pairing_poll(struct pairing_table *t, const struct projection *projection,
                 struct lessor_slice device_code, int64_t now_ms, struct lessor_arena *arena,
                 enum pairing_state *ret_state, struct pairing *ret_pairing,
                 const struct projection_device **ret_device);

/*
 * Uses up an approved code, once: of two polls that both saw it approved one gets 0 here and the other
 * LESSOR_E_NOT_FOUND, whose answer then is "expired". Called when the device has been recorded as present,
 * and before it is told.
 */
int pairing_spend(struct pairing_table *t, struct lessor_slice device_code);

/*
 * The pairing that a person means by a user code. Letters in any case; O counts as 0, I and L as 1; spaces
 * and dashes are passed over. Returns 0; LESSOR_E_NOT_FOUND (unknown or expired); LESSOR_E_INVALID (no such
 * code can be).
 */
int pairing_find(struct pairing_table *t, struct lessor_slice user_code, int64_t now_ms,
                 struct lessor_arena *arena, struct pairing *ret_pairing);

/*
 * Approves, in the built-in tables, the device behind a user code: the next poll answers approved.
 * Returns as pairing_find and directory_device_add do.
 */
int pairing_approve(struct pairing_table *t, struct directory *d, struct lessor_slice user_code,
                    struct lessor_slice owner, int64_t now_ms, struct lessor_arena *arena,
                    struct directory_device *ret_device);

/* Those that have not expired, the oldest first. */
struct pairing_list {
        struct pairing *items;
        size_t n;
};
int pairing_list(struct pairing_table *t, int64_t now_ms, struct lessor_arena *arena,
                 struct pairing_list *ret_list);

#endif
