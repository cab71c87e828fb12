/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_SIGNALS_H
#define LESSOR_SIGNALS_H

/*
 * Has `stop(context)` called at the first SIGINT or SIGTERM, in the signal handler: it must be safe there. A
 * second one ends the program as ever. NULL lets go of it again. One at a time, on the main thread.
 */
void signals_watch(void (*stop)(void *context), void *context);

#endif
