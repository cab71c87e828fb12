/* SPDX-License-Identifier: MIT */
#ifndef CRYPTO_ENVELOPE_WORDS_H
#define CRYPTO_ENVELOPE_WORDS_H

#include "lessor/relay_types.h"

/* How a direction is written in a signed body (relay-protocol 6.7). Inside the room only. */
static inline struct lessor_slice direction_text(enum lessor_direction direction)
{
        return direction == LESSOR_DIRECTION_PAYLOAD ? LESSOR_SLICE("payload") : LESSOR_SLICE("result");
}

#endif
