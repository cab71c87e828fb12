/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SUPPORT_STORE_TEXT_H
#define TESTS_SUPPORT_STORE_TEXT_H

#include "base/buf.h"
#include "lessor/routing_store.h"
#include "scratch.h"

/*
 * Everything that a store tells of its jobs and devices, results and payloads of running jobs included, as
 * one text: two stores hold the same exactly if their texts are equal. Of presences all but last_seen, which
 * a store may keep back for some seconds.
 *
 * Returns 0 or what the store answered.
 */
int store_text(struct lessor_routing_store *store, struct buf *out);

#endif
