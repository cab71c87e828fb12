/* SPDX-License-Identifier: MIT */
#ifndef BENCH_WORLD_H
#define BENCH_WORLD_H

#include <sodium.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/macro.h"
#include "crypto/key_id.h"
#include "crypto/request_signature.h"
#include "lessor/relay_types.h"

/*
 * The parties of a benchmark: sites, and devices of which each belongs to an owner of its own who consents to
 * one site, so that there are as many (site, owner) pairs as devices. Keys follow from the index, so that
 * runs are alike; they protect nothing.
 */
struct party {
        char id[24];    /* site id or runner id */
        char owner[24]; /* of a device */
        unsigned site;  /* of a device: the index of the site its owner consents to */
        struct key_id key_id;
        uint8_t secret[crypto_sign_SECRETKEYBYTES];
        char identity[44], encryption[44], encryption_sig[88];
};

struct world {
        unsigned n_sites, n_devices;
        struct party *sites, *devices;
};

int world_new(unsigned n_sites, unsigned n_devices, struct world **ret_world);
struct world *world_free(struct world *world);
DEFINE_CLEANUP(struct world, world_free)

/* Appends the projection (relay-protocol 9) that makes all of them known. */
int world_projection(const struct world *world, struct buf *out);

struct lessor_public_identity party_identity(const struct party *party);

/*
 * Appends a whole HTTP request, signed by `party` with the time of now.
 *
 * endpoint  last segment of the path, without `site/`
 * body      sent by POST; the absent slice makes a GET whose query says who asks
 */
int party_request(const struct party *party, enum request_plane plane, const char *endpoint,
                  struct lessor_slice body, struct buf *out);

#endif
