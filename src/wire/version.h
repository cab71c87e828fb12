/* SPDX-License-Identifier: MIT */
#ifndef WIRE_VERSION_H
#define WIRE_VERSION_H

#include <stdbool.h>

#include "lessor/slice.h"

/* Program versions, MAJOR.MINOR.PATCH[-pre][+build] (relay-protocol 12). All pure. */

/* Whether the text is a version at all. */
bool version_valid(struct lessor_slice version);

/*
 * Compares two versions. False when either is not a version, and then nothing is written; otherwise
 * `ret_order` is -1, 0 or 1.
 */
bool version_compare(struct lessor_slice a, struct lessor_slice b, int *ret_order);

/* Whether a daemon is to be refused: both are versions and the daemon's is lower. An absent floor refuses
 * nobody. */
bool version_below_floor(struct lessor_slice daemon, struct lessor_slice floor);

/* Whether a daemon is to be told of `offer` (updateTo). An absent offer is never made. */
bool version_offered(struct lessor_slice daemon, struct lessor_slice offer);

#endif
