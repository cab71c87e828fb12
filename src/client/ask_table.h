/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_ASK_TABLE_H
#define CLIENT_ASK_TABLE_H

#include "lessor/site_client.h"

/* The asks of a pump, found by job id and kept in the order in which they came. One thread at a time. */

struct ask {
        struct ask *next, *previous; /* by age */
        struct ask *chain;           /* in its bucket */
        struct lessor_arena *arena;  /* owns the texts of the stub */
        struct lessor_stub stub;     /* `site` is the client's to fill in */
        struct lessor_slice payload; /* secret: in a block of its own, wiped */
        char *payload_block;
        bool enqueued;
        int64_t due_ms;    /* monotonic: when to enqueue, or to ask again whether the relay still has it */
        unsigned troubles; /* failed enqueues in a row */
        struct lessor_slice lease_id; /* under which it was sealed last; absent: never */
        struct lessor_slice *devices; /* key ids that it was sealed to */
        size_t n_devices;
        struct lessor_slice *allowed; /* key ids that it may be sealed to; in the arena */
        size_t n_allowed;             /* 0: any */
};

/* All zero is an empty table. */
struct ask_table {
        struct ask *oldest, *newest;
        struct ask **buckets;
        size_t n_buckets; /* a power of two, or 0 */
        size_t n;
};

/* Frees every ask. */
void ask_table_done(struct ask_table *table);

/* Copies an ask into the table. Returns 0, LESSOR_E_EXISTS or LESSOR_E_NOMEM. */
int ask_table_add(struct ask_table *table, const struct lessor_ask *from, enum lessor_size_class size_class,
                  struct ask **ret_ask);

/* NULL when there is none. */
struct ask *ask_table_find(const struct ask_table *table, struct lessor_slice job_id);

/* Takes an ask out; it is the caller's to free. */
void ask_table_take(struct ask_table *table, struct ask *ask);

/* Wipes the payload. Takes NULL, returns NULL. */
struct ask *ask_free(struct ask *ask);

/* Notes under which lease and to which device it was sealed. Returns 0 or LESSOR_E_NOMEM. */
int ask_note_sealed(struct ask *ask, struct lessor_slice lease_id, struct lessor_slice device_key_id);

/* Whether it may be sealed to this device. */
bool ask_may_go_to(const struct ask *ask, struct lessor_slice device_key_id);

/* Whether an answer of this device can be one: it was sealed to it, or this pump never sealed it at all. */
bool ask_may_come_from(const struct ask *ask, struct lessor_slice device_key_id);

#endif
