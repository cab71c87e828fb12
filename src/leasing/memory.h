/* SPDX-License-Identifier: MIT */
#ifndef LEASING_MEMORY_H
#define LEASING_MEMORY_H

#include "base/clock.h"
#include "lessor/lease_store.h"

/*
 * A lease store that forgets everything when it ends: the engine, a lock, and the texts in memory. For tests,
 * and for servers whose producers submit again. Its tickets are always 0: what it answers is as durable as it
 * gets.
 *
 * options   copied; NULL for the protocol's
 * clock     borrowed; must outlive the store
 * listener  copied; NULL for none
 *
 * Returns 0, LESSOR_E_NOMEM or LESSOR_E_INVALID (an option is out of its range).
 */
int lease_memory_store_new(const struct lessor_lease_options *options, struct clock *clock,
                           const struct lessor_lease_listener *listener,
                           struct lessor_lease_store **ret_store);

#endif
