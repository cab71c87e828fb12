/* SPDX-License-Identifier: MIT */
#ifndef LEASING_SQLITE_SCHEMA_H
#define LEASING_SQLITE_SCHEMA_H

#include "database/sqlite_db.h"

/* The tables of the lease store. */
extern const struct sqlite_migration lease_sqlite_migration;

#endif
