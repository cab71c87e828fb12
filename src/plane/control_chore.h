/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_CHORE_H
#define PLANE_CONTROL_CHORE_H

#include "plane/control_call.h"

/*
 * Work that takes as long as it takes: one at a time, on a thread of its own, with the request parked
 * meanwhile. When the caller leaves or the server drains, the work goes on and nobody is told.
 */
struct control_chore;

/* NULL when memory is short. */
struct control_chore *control_chore_new(void);

/* Waits for the work that is under way. Takes NULL, returns NULL. */
struct control_chore *control_chore_free(struct control_chore *chore);

struct control_chore_kind {
        const char *what; /* "a collection of objects" */
        /*
         * Does the work, on the chore's thread. Nothing of the call may be used: `work` is all there is. What
         * it comes to is kept in there.
         */
        int (*run)(void *work);
        /* Tells the caller; not called when nobody waits any more. */
        void (*answer)(struct control_call *call, const void *work, int result);
        void (*free)(void *work);
};

/* Begins. Takes `work`; refuses with `busy` while other work is under way, or its result was not told yet. */
void control_chore_begin(struct control_call *call, struct control_chore *chore,
                         const struct control_chore_kind *kind, void *work);

#endif
