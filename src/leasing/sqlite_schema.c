/* SPDX-License-Identifier: MIT */
#include "leasing/sqlite_schema.h"

#include "base/macro.h"

/*
 * Version 1. To change the tables: append a step, never edit one; add a golden file of the version before to
 * tests/data (tests/data/README.md says how) and a case to sqlite_schema_test.
 *
 * What a claim or an extension rewrites is kept apart from what it does not, and the long texts from both.
 * What belongs to a lease has its seq in front of the key, so that it lies together and goes together.
 * There are no indexes but the keys: the engine is the index.
 * Columns allow NULL on purpose: a row of a version that says less is set aside when it is read, not lost.
 */
static const char *const steps[] = {
        /* require_start_approval; turn: the owner whose lease was granted last; last_seq: the highest ever,
         * if its lease is gone; checked_ms. */
        "CREATE TABLE leasing_meta("
        " key TEXT PRIMARY KEY,"
        " value) WITHOUT ROWID;"

        /* As it was created: written once. seq is the order of creation. */
        "CREATE TABLE leasing_lease("
        " seq INTEGER PRIMARY KEY,"
        " repo TEXT,"
        " id TEXT," /* taskHash#inputsHash#uuid */
        " workspace TEXT,"
        " task_name TEXT,"
        " tier TEXT,"
        " compute_size TEXT,"
        " floor TEXT,"
        " environment TEXT,"
        " run TEXT,"
        " owner TEXT,"
        " mode TEXT,"
        " own INTEGER,"
        " event_version INTEGER,"
        " event_bytes INTEGER,"
        " created_ms INTEGER,"
        " expires_ms INTEGER," /* 0: no time to live */
        " attempt_limit INTEGER);"

        /* Where it is. A lease without a row here is pending and was never touched. */
        "CREATE TABLE leasing_state("
        " seq INTEGER PRIMARY KEY,"
        " status TEXT,"
        " expires_ms INTEGER,"
        " attempts_spent INTEGER,"
        " claim_number INTEGER," /* leasing_attempt.number of the claim that stands, or ended it; 0: none */
        " deadline_ms INTEGER,"
        " ended_ms INTEGER,"
        " cause TEXT,"
        " success INTEGER," /* what the result says, once completed */
        " error INTEGER,"
        " cancelled INTEGER,"
        " result_bytes INTEGER);" /* NULL: there is none */

        "CREATE TABLE leasing_event(seq INTEGER PRIMARY KEY, body TEXT);"
        "CREATE TABLE leasing_result(seq INTEGER PRIMARY KEY, body TEXT);"

        "CREATE TABLE leasing_attempt("
        " seq INTEGER,"
        " number INTEGER,"
        " execution_id TEXT,"
        " rack_id TEXT,"
        " boot_id TEXT,"
        " started_ms INTEGER,"
        " ended_ms INTEGER,"
        " state TEXT,"
        " cause TEXT,"
        " reason TEXT,"
        " output_hash TEXT,"
        " exit_code INTEGER,"
        " peak_bytes INTEGER,"
        " counts INTEGER,"
        " must_name INTEGER,"
        " PRIMARY KEY(seq, number)) WITHOUT ROWID;"

        "CREATE TABLE leasing_key("
        " seq INTEGER,"
        " key TEXT,"
        " left INTEGER," /* its subscriber has left */
        " PRIMARY KEY(seq, key)) WITHOUT ROWID;"

        "CREATE TABLE leasing_target("
        " seq INTEGER,"
        " ord INTEGER,"
        " hash TEXT,"
        " PRIMARY KEY(seq, ord)) WITHOUT ROWID;"

        "CREATE TABLE leasing_capability("
        " seq INTEGER,"
        " id TEXT,"
        " kind TEXT,"
        " claim_number INTEGER,"
        " hash TEXT,"
        " size INTEGER,"
        " expires_ms INTEGER,"
        " receipt TEXT,"
        " committed INTEGER,"
        " PRIMARY KEY(seq, id)) WITHOUT ROWID;"

        /* ord is the order of enrolment. */
        "CREATE TABLE leasing_rack("
        " ord INTEGER PRIMARY KEY,"
        " rack_id TEXT,"
        " label TEXT,"
        " capacity INTEGER,"
        " agent_version TEXT,"
        " healthy INTEGER,"
        " draining INTEGER,"
        " last_boot TEXT,"
        " approved_boot TEXT,"
        " enrolled_ms INTEGER,"
        " n_tiers INTEGER);"
        "CREATE TABLE leasing_rack_tier("
        " ord INTEGER,"
        " place INTEGER,"
        " tier TEXT,"
        " PRIMARY KEY(ord, place)) WITHOUT ROWID;"
        "CREATE TABLE leasing_rack_seen("
        " ord INTEGER PRIMARY KEY,"
        " last_seen_ms INTEGER,"
        " last_poll_ms INTEGER,"
        " last_beat_ms INTEGER);"

        "CREATE TABLE leasing_token("
        " hash TEXT PRIMARY KEY,"
        " rack_id TEXT,"
        " status TEXT,"
        " issued_ms INTEGER,"
        " grace_until_ms INTEGER) WITHOUT ROWID;"
        "CREATE TABLE leasing_enrolment("
        " hash TEXT PRIMARY KEY,"
        " label TEXT,"
        " minted_ms INTEGER,"
        " expires_ms INTEGER) WITHOUT ROWID;"

        "CREATE TABLE leasing_environment("
        " ord INTEGER PRIMARY KEY,"
        " env_hash TEXT,"
        " e3_version TEXT,"
        " base_image TEXT,"
        " base_tier TEXT,"
        " manifest_key TEXT,"
        " manifest TEXT,"
        " n_layers INTEGER,"
        " published_ms INTEGER);"

        /* For people with sqlite3. */
        "CREATE VIEW leases AS"
        " SELECT l.seq, l.repo, l.id, coalesce(s.status, 'pending') AS status, l.tier, l.owner, l.run,"
        "  l.workspace, l.task_name, a.rack_id, a.execution_id, s.deadline_ms, s.ended_ms, s.cause, a.reason,"
        "  coalesce(s.attempts_spent, 0) AS attempts_spent, l.attempt_limit, l.created_ms"
        " FROM leasing_lease l LEFT JOIN leasing_state s ON s.seq = l.seq"
        " LEFT JOIN leasing_attempt a ON a.seq = l.seq AND a.number = s.claim_number;",
};

const struct sqlite_migration lease_sqlite_migration = {
        .part = "leasing",
        .steps = steps,
        .n_steps = ARRAY_SIZE(steps),
};
