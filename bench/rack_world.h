/* SPDX-License-Identifier: MIT */
#ifndef BENCH_RACK_WORLD_H
#define BENCH_RACK_WORLD_H

#include "bench.h"
#include "wire.h"

/* A server, its control API, and racks that are enrolled with it, over HTTP as JSON. */
struct rack_world {
        struct subject *subject;
        struct wire *control, *racks; /* for what is asked one by one */
        struct buf request;
        struct rack_of_world {
                char token[96];
                unsigned tier; /* of its own, by number */
        } * racks_of;
        unsigned n_racks;
        unsigned n_leases; /* that were created */
};

/*
 * Starts lessord on a store and enrolls so many racks.
 *
 * window_ms  how long their polls are held
 */
int rack_world_new(const struct bench *bench, const char *store, unsigned window_ms, unsigned n_racks,
                   struct rack_world **ret_world);
struct rack_world *rack_world_free(struct rack_world *world);
DEFINE_CLEANUP(struct rack_world, rack_world_free)

/* Appends the poll of a rack for work in its own tier. */
int rack_world_poll(const struct rack_world *world, unsigned rack, struct buf *out);

/*
 * The request that creates a lease for that rack alone. Good until the next call.
 *
 * reads  the one object that its task may read; NULL: one that is not there
 */
int rack_world_create(struct rack_world *world, unsigned rack, const char *reads,
                      struct lessor_slice *ret_request);

/* A call of a rack's, on a connection of its own, and its answer. */
int rack_world_call(const struct rack_world *world, unsigned rack, const char *path, struct lessor_slice body,
                    struct wire *wire, struct lessor_slice *ret_answer);

/* Posts to the control API. */
int rack_world_control(struct rack_world *world, const char *path, const char *body,
                       struct lessor_slice *ret_answer);

/* Waits until so many requests are parked at the server. */
int rack_world_until_parked(struct rack_world *world, unsigned n);

#endif
