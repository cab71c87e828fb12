/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_WATCH_H
#define PLANE_CONTROL_WATCH_H

#include "lessor/lease_store.h"
#include "plane/control_call.h"

/*
 * Long polls of the control API: `after`, `until` and `wait` of the query, and who waits in between
 * (docs/control-api.md). What is watched says how to look at it and how to answer.
 */
struct watch_kind {
        /*
         * Looks whether it is time to answer: another version than `after` (absent: always), or, with
         * `until_end`, the end. Returns 0, or an error, which refuses.
         */
        int (*look)(struct control_call *call, const void *subject, struct lessor_arena *arena,
                    struct lessor_slice after, bool until_end, bool *ret_changed);
        /* Answers or refuses. */
        void (*answer)(struct control_call *call, const void *subject, bool changed);
        void (*refuse)(struct control_call *call, const void *subject, int error);
};

/* Serves a watch. The subject lives in the call's arena; look and answer get it. */
void control_watch_lease(struct control_call *call, const struct watch_kind *kind,
                         struct lessor_lease_name *name);
void control_watch_run(struct control_call *call, const struct watch_kind *kind, struct lessor_slice *run);

#endif
