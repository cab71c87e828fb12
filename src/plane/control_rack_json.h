/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_RACK_JSON_H
#define PLANE_CONTROL_RACK_JSON_H

#include "lessor/rack_registry.h"

/*
 * How a rack is, in one word: the first of these that is so (docs/control-api.md).
 *
 * new, unseen, awaiting-approval, too-old, unhealthy, draining, not-polling, busy, ready
 *
 * What a rack reports and what it does are two things: one whose heart beats while its polling has died looks
 * well, and will never work again. Static text.
 */
const char *rack_state(const struct lessor_rack *rack, int64_t now_ms);

#endif
