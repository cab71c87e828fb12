/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_SCHEMA_H
#define DIRECTORY_SCHEMA_H

#include "database/sqlite_db.h"

/* The tables of the built-in control plane and of pairing, one part of lessor.db with one version. */
extern const struct sqlite_migration directory_migration;

#endif
