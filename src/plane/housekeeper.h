/* SPDX-License-Identifier: MIT */
#ifndef PLANE_HOUSEKEEPER_H
#define PLANE_HOUSEKEEPER_H

#include "base/macro.h"
#include "objects/log_file.h"
#include "plane/log_watch.h"
#include "plane/rack_events.h"
#include "plane/transfers.h"

/*
 * Does on a thread of its own what follows from the lease store's events and has to wait for the disk: an
 * attempt's stderr says why it ended (rack-protocol 10), uploads that were never committed are deleted
 * (section 7), the logs of forgotten leases go, and transfers whose lease has ended are cut off. Besides, it
 * looks now and then for uploads and logs that a crash left behind, and collects objects that nobody needs
 * (plane/collection.h).
 *
 * All of that is best effort, in the order of the events: what fails is logged, and nothing else depends on
 * it.
 */
struct housekeeper;

struct housekeeper_options {
        int64_t collect_ms; /* from one collection of objects to the next; 0: none but those asked for */
        int64_t collect_grace_ms;
        int64_t retention_ms; /* of leases that have ended, and so of their logs */
};

/* All borrowed, and outlive it. */
struct housekeeper_parts {
        struct lessor_lease_store *store;
        struct lessor_object_store *objects;
        struct log_files *logs;
        struct log_watch *log_watch; /* NULL: nobody reads along */
        struct transfers *transfers;
        struct rack_events *events;
};

/*
 * Makes it and lets it listen; the thread starts with this, and looks for what a crash left first.
 *
 * Returns 0; LESSOR_E_FULL (no place among the listeners); LESSOR_E_NOMEM (or no thread).
 */
int housekeeper_new(const struct housekeeper_options *options, const struct housekeeper_parts *parts,
                    struct housekeeper **ret_house);

/*
 * Does what is due, and ends the thread. Before the stores are closed; what happens afterwards is not heard.
 * A collection that runs is waited for.
 */
void housekeeper_stop(struct housekeeper *house);

/* Stops it if it runs. Nothing may happen in the store any more. Takes NULL, returns NULL. */
struct housekeeper *housekeeper_free(struct housekeeper *house);
DEFINE_CLEANUP(struct housekeeper, housekeeper_free)

/* Waits until all that was heard so far is done. For tests, and for whoever answers a test. */
void housekeeper_settle(struct housekeeper *house);

#endif
