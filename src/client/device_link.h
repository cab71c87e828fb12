/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_DEVICE_LINK_H
#define CLIENT_DEVICE_LINK_H

#include "client/relay_call.h"
#include "crypto/stored_keys.h"
#include "lessor/device_agent.h"

/* What pairing and serving have in common: a device's keys and its way to a relay. */

#define DEVICE_TIMEOUT_DEFAULT_MS 30000

/* Gives the caller a sentence to free(); without one if memory is short. `ret_problem` may be NULL. Returns
 * `code`. */
int device_problem(char **ret_problem, int code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Checks what pairing and serving are both told. Returns 0 or LESSOR_E_INVALID. */
int device_options_check(const struct lessor_device_options *options, char **ret_problem);

/*
 * The keys of a device's directory.
 *
 * make  make them if there are none
 *
 * Returns 0; LESSOR_E_NOT_FOUND; what stored_keys_load and stored_keys_create can fail with.
 */
int device_keys_load(const char *dir, bool make, struct stored_keys **ret_keys, char **ret_problem);

/* One thread's connection to a relay. `caller` is borrowed from it and may be adjusted. */
struct device_link {
        struct http_client *http;
        struct relay_caller caller;
        struct relay_failure failure;
};

/*
 * options   for the TLS and proxy settings, copied
 * base_url  borrowed for as long as the link lives
 *
 * Returns 0, LESSOR_E_INVALID (proxy) or LESSOR_E_NOMEM.
 */
int device_link_init(struct device_link *link, const struct lessor_device_options *options,
                     const char *base_url);
void device_link_done(struct device_link *link);

/* Sleeps, unless one of two stops (each may be NULL) is raised. True if one was. */
bool device_pause(int64_t pause_ms, struct lessor_stop *stop, struct lessor_stop *other);

#endif
