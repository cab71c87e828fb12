/* SPDX-License-Identifier: MIT */
#include "routing/sqlite_schema.h"

#include "base/macro.h"

/*
 * Version 1. To change the tables: append a step, never edit one; add a golden file of the version before to
 * tests/data (tests/data/README.md says how) and a case to sqlite_schema_test.
 *
 * What a claim rewrites is kept apart from what it does not: a row of routing_state is a tenth of a row of
 * routing_job. There are no indexes but the keys: the engine is the index.
 * Columns allow NULL on purpose: a row of a version that says less is set aside when it is read, not lost.
 */
static const char *const routing_steps[] = {
        "CREATE TABLE routing_meta("
        " key TEXT PRIMARY KEY,"
        " value) WITHOUT ROWID;"

        /* What a site published: written once. seq is the enqueue order. */
        "CREATE TABLE routing_job("
        " seq INTEGER PRIMARY KEY,"
        " site_id TEXT,"
        " id TEXT,"
        " kind TEXT,"
        " owner TEXT,"
        " site TEXT,"
        " audience TEXT,"
        " purpose TEXT,"
        " size_class TEXT,"
        " streaming INTEGER,"
        " deadline_ms INTEGER,"
        " enqueued_ms INTEGER);"

        /* Where a job is. A job without a row here is queued and was never touched. */
        "CREATE TABLE routing_state("
        " seq INTEGER PRIMARY KEY,"
        " state TEXT,"
        " holder INTEGER," /* routing_holder.id */
        " lease_id TEXT,"
        " lease_expires_ms INTEGER,"
        " awaiting_until_ms INTEGER,"
        " seal_attempts INTEGER,"
        " reoffer_to TEXT,"
        " cancelled INTEGER,"
        " sealed INTEGER,"  /* whether a payload was handed in under this claim */
        " payload INTEGER," /* routing_envelope.id; NULL: not kept */
        " payload_bytes INTEGER,"
        " result INTEGER,"
        " result_bytes INTEGER,"
        " disposition TEXT);"

        /* Devices as they were when they claimed, said once for all their claims. */
        "CREATE TABLE routing_holder("
        " id INTEGER PRIMARY KEY,"
        " runner_id TEXT,"
        " owner TEXT,"
        " identity TEXT,"
        " encryption TEXT,"
        " encryption_sig TEXT);"

        /* Runners that are not offered a job; until_ms NULL: for good. */
        "CREATE TABLE routing_bar("
        " seq INTEGER,"
        " runner_id TEXT,"
        " until_ms INTEGER,"
        " PRIMARY KEY(seq, runner_id)) WITHOUT ROWID;"

        /* Sealed envelopes. An id is never used twice while a server runs, so a reader cannot mistake one. */
        "CREATE TABLE routing_envelope("
        " id INTEGER PRIMARY KEY,"
        " seq INTEGER,"
        " direction TEXT,"
        " body TEXT);"

        "CREATE TABLE routing_presence("
        " ord INTEGER PRIMARY KEY,"
        " runner_id TEXT,"
        " owner TEXT,"
        " identity TEXT,"
        " encryption TEXT,"
        " encryption_sig TEXT,"
        " last_seen_ms INTEGER,"
        " capabilities TEXT,"
        " withheld TEXT);"

        /* For people with sqlite3. */
        "CREATE VIEW routing_jobs AS"
        " SELECT j.seq, j.site_id, j.id, coalesce(s.state, 'queued') AS state, j.kind, j.owner, j.audience,"
        "  j.purpose, j.deadline_ms, h.runner_id, h.owner AS runner_owner, s.lease_id, s.lease_expires_ms,"
        "  s.awaiting_until_ms, coalesce(s.cancelled, 0) AS cancelled, s.disposition, s.payload_bytes,"
        "  s.result_bytes, j.enqueued_ms"
        " FROM routing_job j LEFT JOIN routing_state s ON s.seq = j.seq"
        " LEFT JOIN routing_holder h ON h.id = s.holder;",
};

const struct sqlite_migration sqlite_routing_migration = {
        .part = "routing",
        .steps = routing_steps,
        .n_steps = ARRAY_SIZE(routing_steps),
};
