/* SPDX-License-Identifier: MIT */
#ifndef PLANE_LOG_WATCH_H
#define PLANE_LOG_WATCH_H

#include "base/macro.h"
#include "base/table.h"
#include "lessor/lease_store.h"

/*
 * Who reads a log while it grows, and how they hear that it did. Attempts are known by their execution ids.
 *
 * Whoever appends to an attempt's log (log_files_append, log_files_say), or learns that the attempt has
 * ended, calls log_watch_wake() afterwards. Only this process hears of it: readers look again now and then
 * for what other servers on the same directories append.
 *
 * Thread-safe.
 */
struct log_watch;

/* NULL when memory is short. */
struct log_watch *log_watch_new(void);

/* Nobody may be watching any more. Takes NULL, returns NULL. */
struct log_watch *log_watch_free(struct log_watch *watch);
DEFINE_CLEANUP(struct log_watch, log_watch_free)

/*
 * Tells everybody who watches that attempt. Costs next to nothing where nobody does. Without a watch (NULL)
 * there is nobody.
 */
void log_watch_wake(struct log_watch *watch, struct lessor_slice execution_id);

/* A listener of rack_events, with the watch as its context: wakes the readers when an attempt ends. */
void log_watch_heard(void *watch, const struct lessor_lease_event *event);

/*
 * One who watches; embedded by the caller, who fills in the first two.
 *
 * grew  called from any thread, with the watch locked: it must be quick and must not call the watch
 */
struct log_watcher {
        void (*grew)(struct log_watcher *watcher);
        struct lessor_slice execution_id; /* borrowed for as long as it watches */
        /* The watch's own. */
        struct table_node node;
};

/* From here on every wake is told. Look at the log after this, or something is missed. Never fails. */
void log_watch_add(struct log_watch *watch, struct log_watcher *watcher);

/* After this `grew` is not called, and no call of it is under way. */
void log_watch_remove(struct log_watch *watch, struct log_watcher *watcher);

#endif
