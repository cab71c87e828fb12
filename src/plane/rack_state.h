/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RACK_STATE_H
#define PLANE_RACK_STATE_H

#include "lessor/rack_registry.h"
#include "wire/message.h"

/*
 * How a rack is, in one word: the first of these that is so (docs/control-api.md). What a rack reports and
 * what it does are two things: one whose heart beats while its polling has died looks well, and will never
 * work again.
 */
enum rack_state {
        RACK_NEW,       /* enrolled, and never heard of since */
        RACK_UNSEEN,    /* neither a poll nor a beat within the healthy window */
        RACK_AWAITING,  /* the policy wants each start approved, and this one is not */
        RACK_TOO_OLD,   /* its agent */
        RACK_UNHEALTHY, /* says so */
        RACK_DRAINING,
        RACK_NOT_POLLING, /* beats, has room, and does not ask for work */
        RACK_BUSY,        /* has no room, and therefore does not ask */
        RACK_READY,
};
#define N_RACK_STATES 9
extern const struct message_words rack_state_words;

enum rack_state rack_state(const struct lessor_rack *rack, int64_t now_ms);

/* The word. Static. */
const char *rack_state_name(const struct lessor_rack *rack, int64_t now_ms);

#endif
