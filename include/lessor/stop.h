/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_STOP_H
#define LESSOR_STOP_H

#include <stdbool.h>

/*
 * A request to stop that can be made from anywhere, a signal handler included, and waited for like a socket.
 * Once raised it stays raised. Thread-safe.
 */
struct lessor_stop;

/* Returns 0, LESSOR_E_NOMEM, or LESSOR_E_IO when the process has no file descriptor left. */
int lessor_stop_new(struct lessor_stop **ret_stop);

/* Nobody may be using it. Takes NULL, returns NULL. */
struct lessor_stop *lessor_stop_free(struct lessor_stop *stop);

/* Asks whoever watches to stop. Async-signal-safe; keeps errno. */
void lessor_stop_raise(struct lessor_stop *stop);

/* Whether it was raised. NULL is never raised. */
bool lessor_stop_raised(const struct lessor_stop *stop);

/* A descriptor that is readable once it was raised, for poll(2); only to be polled. -1 for NULL. */
int lessor_stop_fd(const struct lessor_stop *stop);

#endif
