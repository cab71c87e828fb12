/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_WIRE_RELAY_TABLES_H
#define TESTS_UNIT_WIRE_RELAY_TABLES_H

#include "wire/message.h"

/* Every table of the relay plane, ended by NULL. */
extern const struct message_table *const relay_tables[];

/* The table of that name, or NULL. */
const struct message_table *relay_table_named(struct lessor_slice name);

#endif
