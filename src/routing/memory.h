/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_MEMORY_H
#define ROUTING_MEMORY_H

#include "base/clock.h"
#include "lessor/routing_store.h"

/*
 * A routing store that forgets everything when it ends: the engine, a lock, and the envelopes in memory. For
 * tests, and for relays whose sites publish again. Its tickets are always 0: what it answers is as durable as
 * it gets.
 *
 * clock     borrowed; must outlive the store
 * listener  copied; NULL for none
 *
 * Returns 0 or LESSOR_E_NOMEM.
 */
int memory_store_new(struct clock *clock, const struct lessor_routing_listener *listener,
                     struct lessor_routing_store **ret_store);

#endif
