/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_TICKET_H
#define LESSOR_TICKET_H

#include <stdint.h>

/* The moment at which a store's answer may be told, because all that it rests on is on disk. 0 needs no
 * waiting. */
struct lessor_ticket {
        uint64_t seq;
};

#endif
