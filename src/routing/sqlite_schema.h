/* SPDX-License-Identifier: MIT */
#ifndef ROUTING_SQLITE_SCHEMA_H
#define ROUTING_SQLITE_SCHEMA_H

#include "database/sqlite_db.h"

/* The tables of the routing store. */
extern const struct sqlite_migration sqlite_routing_migration;

#endif
