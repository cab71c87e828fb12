/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SUPPORT_LEASE_TEXT_H
#define TESTS_SUPPORT_LEASE_TEXT_H

#include "base/buf.h"
#include "lessor/lease_store.h"
#include "scratch.h"

/*
 * Everything that a lease store tells of its leases with their events, results, attempts and targets, of
 * racks, enrolments, environments, the policy and the figures, as one text: two stores hold the same exactly
 * if their texts are equal. Of racks all but when they were seen, which a store may keep back for a while.
 *
 * Returns 0 or what the store answered.
 */
int lease_text(struct lessor_lease_store *store, struct buf *out);

#endif
