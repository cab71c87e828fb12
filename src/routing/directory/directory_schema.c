/* SPDX-License-Identifier: MIT */
#include "routing/directory/directory_schema.h"

#include "base/macro.h"

/*
 * Version 1. To change the tables: append a step, never edit one, and add a test that opens the version
 * before. `seq` is the order of the records, which counts: of several mappings for one purpose and kind the
 * first does.
 */
static const char *const steps[] = {
        "CREATE TABLE directory_site("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " site_id TEXT NOT NULL UNIQUE,"
        " identity TEXT NOT NULL,"
        " encryption TEXT NOT NULL,"
        " encryption_sig TEXT NOT NULL,"
        " key_id TEXT NOT NULL UNIQUE,"
        " retiring_until_ms INTEGER NOT NULL DEFAULT 0,"
        " declares INTEGER NOT NULL DEFAULT 0," /* it has said which purposes it has */
        " created_ms INTEGER NOT NULL);"

        /* Retired keys, oldest first. */
        "CREATE TABLE directory_link("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " site_id TEXT NOT NULL,"
        " identity TEXT NOT NULL,"
        " encryption TEXT NOT NULL,"
        " encryption_sig TEXT NOT NULL,"
        " key_id TEXT NOT NULL UNIQUE,"
        " signature TEXT NOT NULL);"
        "CREATE INDEX directory_link_site ON directory_link(site_id);"

        "CREATE TABLE directory_purpose("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " site_id TEXT NOT NULL,"
        " purpose TEXT NOT NULL,"
        " UNIQUE(site_id, purpose));"

        "CREATE TABLE directory_consent("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " owner TEXT NOT NULL,"
        " site_id TEXT NOT NULL,"
        " paused INTEGER NOT NULL DEFAULT 0,"
        " created_ms INTEGER NOT NULL,"
        " UNIQUE(owner, site_id));"

        /* service_owner '': the user's own service. */
        "CREATE TABLE directory_mapping("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " owner TEXT NOT NULL,"
        " site_id TEXT NOT NULL,"
        " purpose TEXT NOT NULL,"
        " kind TEXT NOT NULL,"
        " service TEXT NOT NULL,"
        " service_owner TEXT NOT NULL,"
        " UNIQUE(owner, site_id, purpose, kind, service, service_owner));"

        "CREATE TABLE directory_revocation("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " owner TEXT NOT NULL,"
        " site_id TEXT NOT NULL,"
        " created_ms INTEGER NOT NULL,"
        " UNIQUE(owner, site_id));"

        /* A removed device keeps its runner id, revoked; its keys are free for a new record. */
        "CREATE TABLE directory_device("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " runner_id TEXT NOT NULL UNIQUE,"
        " owner TEXT NOT NULL,"
        " identity TEXT NOT NULL,"
        " encryption TEXT NOT NULL,"
        " encryption_sig TEXT NOT NULL,"
        " key_id TEXT NOT NULL,"
        " label TEXT NOT NULL DEFAULT '',"
        " platform TEXT NOT NULL DEFAULT '',"
        " revoked INTEGER NOT NULL DEFAULT 0,"
        " removed INTEGER NOT NULL DEFAULT 0,"
        " created_ms INTEGER NOT NULL);"
        "CREATE UNIQUE INDEX directory_device_key ON directory_device(key_id) WHERE removed = 0;"

        "CREATE TABLE directory_roster("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " roster_id TEXT NOT NULL UNIQUE,"
        " owner TEXT NOT NULL,"
        " created_ms INTEGER NOT NULL);"

        "CREATE TABLE directory_member("
        " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
        " roster_id TEXT NOT NULL,"
        " member TEXT NOT NULL,"
        " UNIQUE(roster_id, member));"

        /* code_hash: BLAKE2b-256 of the device code's text. */
        "CREATE TABLE directory_pairing("
        " code_hash BLOB PRIMARY KEY,"
        " user_code TEXT NOT NULL UNIQUE,"
        " identity TEXT NOT NULL UNIQUE,"
        " encryption TEXT NOT NULL,"
        " encryption_sig TEXT NOT NULL,"
        " version TEXT NOT NULL,"
        " label TEXT NOT NULL,"
        " platform TEXT NOT NULL,"
        " capabilities TEXT NOT NULL,"
        " started_ms INTEGER NOT NULL,"
        " expires_ms INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE INDEX directory_pairing_expires ON directory_pairing(expires_ms);",
};

const struct sqlite_migration directory_migration = {
        .part = "directory",
        .steps = steps,
        .n_steps = ARRAY_SIZE(steps),
};
