/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LEASE_TRANSFER_H
#define LESSOR_LEASE_TRANSFER_H

#include "lessor/lease_store.h"

/*
 * Capabilities: which rack may read and write which object for which lease (rack-protocol sections 6.6 and
 * 7). For ownership, durability, threads and common errors see lessor/lease_store.h.
 *
 * The store knows bindings and no bytes. A capability is bound to a lease, to the claim that stood when it
 * was issued, to a hash and, for writing, a size. It dies in the same step as that claim: by completion, end,
 * reclaim, undelivery or deregistration. What was stored and not committed by then is announced as
 * LESSOR_EVENT_DISCARDED; after a crash lessor_capability_wants() says which receipts on the disk are still
 * of use.
 */

enum lessor_capability_kind {
        LESSOR_CAPABILITY_GET,        /* an object */
        LESSOR_CAPABILITY_GET_LAYER,  /* a layer of an environment; hash is its digest */
        LESSOR_CAPABILITY_PUT,        /* an object, committed one by one */
        LESSOR_CAPABILITY_PUT_STAGED, /* a whole output, taken in at completion; the id is its upload id too
                                       */
};

struct lessor_capability {
        struct lessor_slice id; /* 64 hex digits: the unguessable part of the URL */
        enum lessor_capability_kind kind;
        struct lessor_lease_name name;
        unsigned claim_number;
        struct lessor_slice hash;
        int64_t size;                /* for writing: exactly so many bytes; else -1 */
        int64_t expires_ms;          /* dead from then on */
        struct lessor_slice receipt; /* of the bytes that were stored; absent: none yet */
        bool committed;
};

/* Something to read. */
struct lessor_transfer_need {
        struct lessor_slice hash;
        bool layer;
};

/* Something to write, with what the object store knows of it. */
struct lessor_transfer_output {
        struct lessor_object_size object;
        bool stored;         /* an object of this hash is there and has been referenced again */
        int64_t stored_size; /* valid if stored */
};

struct lessor_transfer_commit {
        struct lessor_object_size object;
        struct lessor_slice version; /* the receipt */
};

/* The part of a storage request that needs capabilities. Sizes are below 2^63; hashes any text. */
struct lessor_transfer_request {
        struct lessor_lease_holder holder;
        const struct lessor_transfer_need
                *needs; /* to be answered by URL; the plane has checked the closure */
        size_t n_needs;
        const struct lessor_object_size *staged; /* NULL: none */
        const struct lessor_transfer_output *outputs;
        size_t n_outputs;
        const struct lessor_transfer_commit *commits;
        size_t n_commits;
};

/* Each list answers that of the request, in its order. */
struct lessor_transfer_answer {
        struct lessor_slice *need_ids;   /* capability ids */
        struct lessor_slice staged_id;   /* absent: none asked for */
        struct lessor_slice *output_ids; /* absent: held, nothing to be written */
        bool *committed;
};

/*
 * Steps 1, 4 and 6 to 11 of section 6.6, in that order and in one step: either all is issued, recorded and
 * committed, or nothing.
 *
 * A commit is true when the hash was issued for writing under the claim that stands, and the receipt and size
 * are those of the bytes stored. The plane then moves the bytes of that receipt into the object store; doing
 * that again is harmless, and so is committing again.
 *
 * Returns 0; LESSOR_E_NOT_HELD (403); LESSOR_E_PERMISSION (403: the event is not version 2, or a function
 * would write); LESSOR_E_TOO_LARGE (more than 256 in a list); LESSOR_E_INVALID (a hash or size: R104);
 * LESSOR_E_SIZE_CHANGED (bound or stored with another size); LESSOR_E_TARGET_LIMIT (R105); LESSOR_E_FULL (too
 * many capabilities are alive).
 */
int lessor_lease_transfer(struct lessor_lease_store *s, const struct lessor_transfer_request *request,
                          struct lessor_arena *arena, struct lessor_transfer_answer *ret_answer,
                          struct lessor_ticket *ticket);

/*
 * The capability of an id, if it is alive now and for this direction. Returns 0; LESSOR_E_NOT_FOUND: 404
 * (unknown, dead, expired, other direction).
 */
int lessor_capability_open(struct lessor_lease_store *s, struct lessor_slice id, bool write,
                           struct lessor_arena *arena, struct lessor_capability *ret_capability,
                           struct lessor_ticket *ticket);

/*
 * Notes that the bytes of a writing capability were stored and verified. The first wins, and later ones come
 * back with its receipt, so that an acknowledgement repeats.
 *
 * ret_receipt  the receipt to answer; the caller deletes its own bytes if it is another
 *
 * Returns 0; LESSOR_E_NOT_FOUND (it died meanwhile: the bytes are to be deleted).
 */
int lessor_capability_stored(struct lessor_lease_store *s, struct lessor_slice id,
                             struct lessor_slice receipt, struct lessor_arena *arena,
                             struct lessor_slice *ret_receipt, struct lessor_ticket *ticket);

/*
 * A staged output of the caller's lease, while its URL is alive and its bytes are stored: for verification
 * before lessor_lease_complete(). Returns 0; LESSOR_E_NOT_HELD; LESSOR_E_NOT_FOUND.
 */
int lessor_lease_staged(struct lessor_lease_store *s, const struct lessor_lease_holder *holder,
                        struct lessor_slice upload_id, struct lessor_arena *arena,
                        struct lessor_capability *ret_capability, struct lessor_ticket *ticket);

/* Whether bytes stored under a receipt may still be committed, or are and may still have to be moved. */
int lessor_capability_wants(struct lessor_lease_store *s, struct lessor_slice receipt, bool *ret_wants,
                            struct lessor_ticket *ticket);

#endif
