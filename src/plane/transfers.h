/* SPDX-License-Identifier: MIT */
#ifndef PLANE_TRANSFERS_H
#define PLANE_TRANSFERS_H

#include "http/http.h"
#include "lessor/lease_transfer.h"

/*
 * The transfers that are under way, so that those whose capability has died meanwhile can be cut off
 * (rack-protocol 7: "in-flight streams aborted"). Thread-safe.
 */
struct transfers;

struct transfers *transfers_new(void); /* NULL when memory is short */

/* No transfer may be under way any more. Takes NULL, returns NULL. */
struct transfers *transfers_free(struct transfers *transfers);

/*
 * Notes a transfer for as long as the request's arena lives. Whoever found the capability alive before this
 * looks again afterwards, or its death in between is missed. Returns 0 or LESSOR_E_NOMEM.
 *
 * capability  borrowed for as long as the request
 */
int transfers_add(struct transfers *transfers, struct http_request *request,
                  const struct lessor_capability *capability);

/* Whether any transfer of a lease is under way. Quick. */
bool transfers_of(struct transfers *transfers, const struct lessor_lease_name *name);

/* Asks the store about the capabilities of a lease's transfers, and aborts those that have none any more. */
void transfers_check(struct transfers *transfers, struct lessor_lease_store *store,
                     const struct lessor_lease_name *name);

/* How many there are. */
size_t transfers_count(struct transfers *transfers);

#endif
