/* SPDX-License-Identifier: MIT */
/* The engine, rebuilt from the rows at start. */
#include <stdlib.h>

#include "base/log.h"
#include "base/macro.h"
#include "database/rows.h"
#include "database/sqlite_db.h"
#include "leasing/sqlite_internal.h"

const char *const row_mode[N_ROW_MODES] = {
        [LESSOR_LEASE_TASK] = "task",
        [LESSOR_LEASE_UNIT] = "unit",
        [LESSOR_LEASE_FUNCTION] = "function",
};
const char *const row_status[LESSOR_N_LEASE_STATUSES] = {
        [LESSOR_LEASE_PENDING] = "pending",     [LESSOR_LEASE_CLAIMED] = "claimed",
        [LESSOR_LEASE_COMPLETED] = "completed", [LESSOR_LEASE_SUPERSEDED] = "superseded",
        [LESSOR_LEASE_CANCELLED] = "cancelled", [LESSOR_LEASE_POISONED] = "poisoned",
        [LESSOR_LEASE_EXPIRED] = "expired",
};
const char *const row_cause[N_ROW_CAUSES] = {
        [LESSOR_CAUSE_NONE] = "none",
        [LESSOR_CAUSE_RECLAIMED] = "reclaimed",
        [LESSOR_CAUSE_LOST] = "lost",
        [LESSOR_CAUSE_SUPERSEDED] = "superseded",
        [LESSOR_CAUSE_CANCELLED] = "cancelled",
        [LESSOR_CAUSE_DEREGISTERED] = "deregistered",
        [LESSOR_CAUSE_UNDELIVERED] = "undelivered",
};
const char *const row_attempt_state[N_ROW_ATTEMPT_STATES] = {
        [LESSOR_ATTEMPT_RUNNING] = "running",         [LESSOR_ATTEMPT_SUCCESS] = "success",
        [LESSOR_ATTEMPT_FAILED] = "failed",           [LESSOR_ATTEMPT_ERROR] = "error",
        [LESSOR_ATTEMPT_INTERRUPTED] = "interrupted", [LESSOR_ATTEMPT_CANCELLED] = "cancelled",
};
const char *const row_capability_kind[N_ROW_CAPABILITY_KINDS] = {
        [LESSOR_CAPABILITY_GET] = "get",
        [LESSOR_CAPABILITY_GET_LAYER] = "get-layer",
        [LESSOR_CAPABILITY_PUT] = "put",
        [LESSOR_CAPABILITY_PUT_STAGED] = "put-staged",
};
const char *const row_token_status[N_ROW_TOKEN_STATUSES] = {
        [LESSOR_TOKEN_CURRENT] = "current",
        [LESSOR_TOKEN_PENDING] = "pending",
        [LESSOR_TOKEN_GRACE] = "grace",
};

/* --- rows that belong to others, read beside them --- */

/* A list that is sorted as the rows are that its rows belong to. */
struct beside {
        sqlite3_stmt *stmt;
        bool is_on_row;
};

enum { ATTEMPTS, KEYS, TARGETS, CAPABILITIES, N_PARTS };

/* An array that grows. */
struct list {
        void *items;
        size_t n, cap;
};

/* What loading needs and the store does not. */
struct loader {
        struct lease_sqlite_store *s;
        struct buf *problem;
        struct beside parts[N_PARTS]; /* of leases */
        struct beside tiers;          /* of racks */
        struct lessor_arena *scratch; /* for one row and what belongs to it */
        struct list attempts, keys, targets, capabilities, rack_tiers;
        unsigned rows;        /* of lease_rows, for one lease */
        const char *bad_part; /* the column of a part that made the lease unreadable; NULL: none */
        struct lessor_lease *lease;
};

/* Room for one more item. */
static void *grow(struct list *list, size_t item_size)
{
        if (list->n == list->cap) {
                size_t more = list->cap == 0 ? 64 : list->cap * 2;
                void *bigger = reallocarray(list->items, more, item_size);

                if (bigger == NULL)
                        return NULL;
                list->items = bigger;
                list->cap = more;
        }
        return (char *)list->items + list->n * item_size;
}

static int problem(struct loader *l, int code)
{
        return sqlite_db_problem(l->s->committer.db, code, l->s->path, l->problem);
}

static int beside_step(struct loader *l, struct beside *b)
{
        int code = sqlite3_step(b->stmt);

        if (code != SQLITE_ROW && code != SQLITE_DONE)
                return problem(l, code);
        b->is_on_row = code == SQLITE_ROW;
        return 0;
}

static int beside_begin(struct loader *l, struct beside *b, const char *sql)
{
        int code = sqlite3_prepare_v2(l->s->committer.db, sql, -1, &b->stmt, NULL);

        return code == SQLITE_OK ? beside_step(l, b) : problem(l, code);
}

static void beside_end(struct beside *b)
{
        (void)sqlite3_finalize(b->stmt);
        *b = (struct beside){0};
}

/* Hands the rows of this key to `load`, and passes over those of keys before it, whose rows are gone. */
static int beside_read(struct loader *l, struct beside *b, int64_t key,
                       int (*load)(struct loader *l, struct row_reader *row))
{
        while (b->is_on_row && sqlite3_column_int64(b->stmt, 0) <= key) {
                struct row_reader row = {.stmt = b->stmt};
                int r = 0;

                if (sqlite3_column_int64(b->stmt, 0) == key)
                        r = load(l, &row);
                if (r == 0)
                        r = beside_step(l, b);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Copies texts of a row that is stepped over before they are used. */
static int own_texts(struct loader *l, struct lessor_slice *const *texts, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                int r = lessor_arena_copy(l->scratch, *texts[i], texts[i]);

                if (r < 0)
                        return r;
        }
        return 0;
}

static void note_bad(struct loader *l, const struct row_reader *row)
{
        if (row->bad != NULL && l->bad_part == NULL)
                l->bad_part = row->bad;
}

/* --- leases --- */

static int load_attempt(struct loader *l, struct row_reader *row)
{
        struct lease_attempt_row *to = grow(&l->attempts, sizeof(*to));
        struct lessor_attempt *a;

        if (to == NULL)
                return LESSOR_E_NOMEM;
        *to = (struct lease_attempt_row){0};
        a = &to->attempt;
        a->number = (unsigned)row_int(row, 1, 1, UINT32_MAX);
        a->execution_id = row_text_or_null(row, 2);
        a->rack_id = row_text(row, 3);
        a->boot_id = row_text(row, 4);
        a->started_ms = row_int(row, 5, INT64_MIN, INT64_MAX);
        a->ended_ms = row_int(row, 6, INT64_MIN, INT64_MAX);
        a->state = row_word(row, 7, row_attempt_state, N_ROW_ATTEMPT_STATES);
        a->cause = row_word(row, 8, row_cause, N_ROW_CAUSES);
        a->reason = row_text_or_null(row, 9);
        a->output_hash = row_text_or_null(row, 10);
        a->has_exit_code = !row_is_null(row, 11);
        if (a->has_exit_code)
                a->exit_code = row_int(row, 11, INT64_MIN, INT64_MAX);
        a->has_peak_bytes = !row_is_null(row, 12);
        if (a->has_peak_bytes)
                a->peak_bytes = row_int(row, 12, INT64_MIN, INT64_MAX);
        a->counts = row_bool(row, 13);
        to->must_name = row_bool(row, 14);
        note_bad(l, row);
        l->attempts.n++;
        l->rows |= ROWS_ATTEMPTS;

        struct lessor_slice *const texts[] = {&a->execution_id, &a->rack_id, &a->boot_id, &a->reason,
                                              &a->output_hash};
        return own_texts(l, texts, ARRAY_SIZE(texts));
}

static int load_key(struct loader *l, struct row_reader *row)
{
        struct lease_key_row *to = grow(&l->keys, sizeof(*to));

        if (to == NULL)
                return LESSOR_E_NOMEM;
        *to = (struct lease_key_row){.key = row_text(row, 1), .left = row_bool(row, 2)};
        note_bad(l, row);
        l->keys.n++;
        l->rows |= ROWS_KEYS;
        return own_texts(l, (struct lessor_slice *const[]){&to->key}, 1);
}

static int load_target(struct loader *l, struct row_reader *row)
{
        struct lessor_slice *to = grow(&l->targets, sizeof(*to));

        if (to == NULL)
                return LESSOR_E_NOMEM;
        *to = row_text(row, 2);
        note_bad(l, row);
        l->targets.n++;
        l->rows |= ROWS_TARGETS;
        return own_texts(l, (struct lessor_slice *const[]){to}, 1);
}

/* A capability that cannot be read opens nothing; its rack asks for another. */
static int load_capability(struct loader *l, struct row_reader *row)
{
        struct lessor_capability *to = grow(&l->capabilities, sizeof(*to));

        if (to == NULL)
                return LESSOR_E_NOMEM;
        *to = (struct lessor_capability){
                .id = row_text(row, 1),
                .kind = row_word(row, 2, row_capability_kind, N_ROW_CAPABILITY_KINDS),
                .claim_number = (unsigned)row_int(row, 3, 1, UINT32_MAX),
                .hash = row_text(row, 4),
                .size = row_int(row, 5, -1, INT64_MAX),
                .expires_ms = row_int(row, 6, INT64_MIN, INT64_MAX),
                .receipt = row_text_or_null(row, 7),
                .committed = row_bool(row, 8),
        };
        l->rows |= ROWS_CAPABILITIES;
        if (row->bad == NULL && to->id.n != 64)
                row_bad(row, 1);
        if (row->bad != NULL) {
                log_warning("leasing-row-set-aside", LOG_CSTR("table", "leasing_capability"),
                            LOG_INT("key", sqlite3_column_int64(row->stmt, 0)), LOG_CSTR("why", row->bad));
                l->s->n_set_aside++;
                return 0;
        }
        if (l->lease->status != LESSOR_LEASE_CLAIMED || to->claim_number != l->lease->claim_number)
                return 0; /* dead */
        l->capabilities.n++;

        struct lessor_slice *const texts[] = {&to->id, &to->hash, &to->receipt};
        return own_texts(l, texts, ARRAY_SIZE(texts));
}

/* clang-format off */
static const char leases_sql[] =
        "SELECT l.seq, l.repo, l.id, l.workspace, l.task_name, l.tier, l.compute_size, l.floor, l.environment,"
        " l.run, l.owner, l.mode, l.own, l.event_version, l.event_bytes, l.created_ms, l.expires_ms,"
        " l.attempt_limit,"
        " s.seq, s.status, s.expires_ms, s.attempts_spent, s.claim_number, s.deadline_ms, s.ended_ms, s.cause,"
        " s.success, s.error, s.cancelled, s.result_bytes"
        " FROM leasing_lease l LEFT JOIN leasing_state s ON s.seq = l.seq ORDER BY l.seq";
/* clang-format on */

enum lease_column {
        L_SEQ,
        L_REPO,
        L_ID,
        L_WORKSPACE,
        L_TASK_NAME,
        L_TIER,
        L_COMPUTE_SIZE,
        L_FLOOR,
        L_ENVIRONMENT,
        L_RUN,
        L_OWNER,
        L_MODE,
        L_OWN,
        L_EVENT_VERSION,
        L_EVENT_BYTES,
        L_CREATED,
        L_EXPIRES,
        L_ATTEMPT_LIMIT,
        S_SEQ,
        S_STATUS,
        S_EXPIRES,
        S_ATTEMPTS_SPENT,
        S_CLAIM_NUMBER,
        S_DEADLINE,
        S_ENDED,
        S_CAUSE,
        S_SUCCESS,
        S_ERROR,
        S_CANCELLED,
        S_RESULT_BYTES,
};

/* taskHash#inputsHash#uuid: neither hash has a `#`. */
static bool split_id(struct lessor_lease *lease)
{
        struct lessor_slice id = lease->name.lease_id;
        const char *first = id.n == 0 ? NULL : memchr(id.p, '#', id.n);
        const char *second;

        if (first == NULL)
                return false;
        second = memchr(first + 1, '#', id.n - (size_t)(first + 1 - id.p));
        if (second == NULL)
                return false;
        lease->task_hash = (struct lessor_slice){id.p, (size_t)(first - id.p)};
        lease->inputs_hash = (struct lessor_slice){first + 1, (size_t)(second - first - 1)};
        return true;
}

static void read_lease(struct row_reader *row, struct lessor_lease *lease)
{
        lease->seq = (uint64_t)row_int(row, L_SEQ, 1, INT64_MAX);
        lease->name.repo = row_text(row, L_REPO);
        lease->name.lease_id = row_text(row, L_ID);
        lease->workspace = row_text(row, L_WORKSPACE);
        lease->task_name = row_text(row, L_TASK_NAME);
        lease->tier = row_text(row, L_TIER);
        lease->compute_size = row_text_or_null(row, L_COMPUTE_SIZE);
        lease->floor = row_text_or_null(row, L_FLOOR);
        lease->environment = row_text_or_null(row, L_ENVIRONMENT);
        lease->run = row_text_or_null(row, L_RUN);
        lease->owner = row_text(row, L_OWNER);
        lease->mode = row_word(row, L_MODE, row_mode, N_ROW_MODES);
        lease->own = row_bool(row, L_OWN);
        lease->event_version = row_int(row, L_EVENT_VERSION, INT64_MIN, INT64_MAX);
        lease->created_ms = row_int(row, L_CREATED, INT64_MIN, INT64_MAX);
        lease->expires_ms = row_int(row, L_EXPIRES, 0, INT64_MAX);
        lease->attempt_limit = (unsigned)row_int(row, L_ATTEMPT_LIMIT, 0, UINT32_MAX);
        if (row->bad == NULL && !split_id(lease))
                row_bad(row, L_ID);
}

static void read_state(struct row_reader *row, struct lessor_lease *lease)
{
        if (row_is_null(row, S_SEQ))
                return; /* pending, and never touched */
        lease->status = row_word(row, S_STATUS, row_status, LESSOR_N_LEASE_STATUSES);
        lease->expires_ms = row_int(row, S_EXPIRES, 0, INT64_MAX);
        lease->attempts_spent = (unsigned)row_int(row, S_ATTEMPTS_SPENT, 0, UINT32_MAX);
        lease->claim_number = (unsigned)row_int(row, S_CLAIM_NUMBER, 0, UINT32_MAX);
        lease->deadline_ms = row_int(row, S_DEADLINE, 0, INT64_MAX);
        lease->ended_ms = row_int(row, S_ENDED, 0, INT64_MAX);
        lease->cause = row_word(row, S_CAUSE, row_cause, N_ROW_CAUSES);
        lease->verdict.success = row_bool(row, S_SUCCESS);
        lease->verdict.error = row_bool(row, S_ERROR);
        lease->verdict.cancelled = row_bool(row, S_CANCELLED);
}

static int load_parts(struct loader *l, int64_t seq)
{
        static int (*const loads[N_PARTS])(struct loader *, struct row_reader *) = {
                [ATTEMPTS] = load_attempt,
                [KEYS] = load_key,
                [TARGETS] = load_target,
                [CAPABILITIES] = load_capability,
        };
        int r = 0;

        l->attempts.n = l->keys.n = l->targets.n = l->capabilities.n = 0;
        l->bad_part = NULL;
        for (int i = 0; r == 0 && i < N_PARTS; i++)
                r = beside_read(l, &l->parts[i], seq, loads[i]);
        return r;
}

static int set_aside(struct loader *l, const char *table, int64_t key, struct lessor_slice name,
                     const char *why)
{
        log_warning("leasing-row-set-aside", LOG_CSTR("table", table), LOG_INT("key", key),
                    LOG_TEXT("name", name), LOG_CSTR("why", why));
        l->s->n_set_aside++;
        return 0;
}

/* Whether the engine finds that a row contradicts itself or another. */
static bool is_unsound(int r)
{
        return r == LESSOR_E_INVALID || r == LESSOR_E_EXISTS;
}

static int attach(struct loader *l, struct row_reader *row, const struct lessor_lease *lease)
{
        struct kept *kept;
        int r = kept_new(l->s, &kept);

        if (r < 0)
                return r;
        kept->bytes[TEXT_EVENT] = (uint64_t)row_int(row, L_EVENT_BYTES, 0, INT64_MAX);
        kept->has_result = !row_is_null(row, S_RESULT_BYTES);
        if (kept->has_result)
                kept->bytes[TEXT_RESULT] = (uint64_t)row_int(row, S_RESULT_BYTES, 0, INT64_MAX);
        kept->rows = l->rows | ROWS_LEASE;
        if (!row_is_null(row, S_SEQ))
                kept->rows |= ROWS_STATE;
        if (kept->has_result)
                kept->rows |= ROWS_RESULT;
        lease_attach(lease_engine_find_lease(l->s->store.engine, &lease->name), kept);
        return 0;
}

static int load_lease(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        int64_t seq = sqlite3_column_int64(stmt, L_SEQ);
        struct lease_row from = {0};
        int r;

        lessor_arena_clear(l->scratch);
        read_lease(&row, &from.lease);
        read_state(&row, &from.lease);
        (void)row_int(&row, L_EVENT_BYTES, 0, INT64_MAX);
        if (from.lease.status == LESSOR_LEASE_COMPLETED)
                (void)row_int(&row, S_RESULT_BYTES, 0, INT64_MAX);
        l->lease = &from.lease;
        l->rows = 0;
        r = load_parts(l, seq);
        if (r < 0)
                return r;
        if (seq > 0 && (uint64_t)seq > l->s->noted_seq)
                l->s->noted_seq = (uint64_t)seq;
        if (row.bad == NULL)
                row.bad = l->bad_part;
        if (row.bad != NULL)
                return set_aside(l, "leasing_lease", seq, from.lease.name.lease_id, row.bad);
        from.attempts = l->attempts.items;
        from.n_attempts = l->attempts.n;
        from.keys = l->keys.items;
        from.n_keys = l->keys.n;
        from.targets = l->targets.items;
        from.n_targets = l->targets.n;
        from.capabilities = l->capabilities.items;
        from.n_capabilities = l->capabilities.n;
        r = lease_engine_restore_lease(l->s->store.engine, &from);
        if (is_unsound(r))
                return set_aside(l, "leasing_lease", seq, from.lease.name.lease_id, lessor_error_name(r));
        return r < 0 ? r : attach(l, &row, &from.lease);
}

static int load_leases(struct loader *l)
{
        /* In the order of their columns in the tables, which is that of the loads. */
        static const char *const sql[N_PARTS] = {
                [ATTEMPTS] = "SELECT * FROM leasing_attempt ORDER BY seq, number",
                [KEYS] = "SELECT * FROM leasing_key ORDER BY seq, key",
                [TARGETS] = "SELECT * FROM leasing_target ORDER BY seq, ord",
                [CAPABILITIES] = "SELECT * FROM leasing_capability ORDER BY seq, id",
        };
        int r = 0;

        for (int i = 0; r == 0 && i < N_PARTS; i++)
                r = beside_begin(l, &l->parts[i], sql[i]);
        if (r == 0)
                r = rows_each(l->s->committer.db, l->s->path, leases_sql, load_lease, l, l->problem);
        for (int i = 0; i < N_PARTS; i++)
                beside_end(&l->parts[i]);
        lease_engine_reserve(l->s->store.engine, l->s->noted_seq, 0, 0);
        return r;
}

/* --- racks and what they come in with --- */

static int load_tier(struct loader *l, struct row_reader *row)
{
        struct lessor_slice *to = grow(&l->rack_tiers, sizeof(*to));

        if (to == NULL)
                return LESSOR_E_NOMEM;
        *to = row_text(row, 2);
        note_bad(l, row);
        l->rack_tiers.n++;
        return own_texts(l, (struct lessor_slice *const[]){to}, 1);
}

/*
 * A rack that cannot be read is none, and its tokens are nobody's. When it was seen is no reason: it is as
 * if at its enrolment.
 */
static int load_rack(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        struct row_reader seen = {.stmt = stmt};
        int64_t order = row_int(&row, 0, 1, INT64_MAX);
        struct lessor_rack rack = {
                .rack_id = row_text(&row, 1),
                .label = row_text(&row, 2),
                .capacity = row_int(&row, 3, INT64_MIN, INT64_MAX),
                .agent_version = row_text(&row, 4),
                .healthy = row_bool(&row, 5),
                .draining = row_bool(&row, 6),
                .last_boot = row_text_or_null(&row, 7),
                .approved_boot = row_text_or_null(&row, 8),
                .enrolled_ms = row_int(&row, 9, INT64_MIN, INT64_MAX),
                .last_seen_ms = row_int(&seen, 11, INT64_MIN, INT64_MAX),
                .last_poll_ms = row_int(&seen, 12, INT64_MIN, INT64_MAX),
                .last_beat_ms = row_int(&seen, 13, INT64_MIN, INT64_MAX),
        };
        int r;

        lessor_arena_clear(l->scratch);
        l->rack_tiers.n = 0;
        l->bad_part = NULL;
        r = beside_read(l, &l->tiers, order, load_tier);
        if (r < 0)
                return r;
        lease_engine_reserve(l->s->store.engine, 0, (uint64_t)order, 0);
        if (row_int(&row, 10, 0, INT64_MAX) != (int64_t)l->rack_tiers.n)
                row_bad(&row, 10);
        if (row.bad == NULL)
                row.bad = l->bad_part;
        if (row.bad != NULL)
                return set_aside(l, "leasing_rack", order, rack.rack_id, row.bad);
        if (seen.bad != NULL) {
                rack.last_seen_ms = rack.enrolled_ms;
                rack.last_poll_ms = rack.last_beat_ms = 0;
        }
        rack.tiers = l->rack_tiers.items;
        rack.n_tiers = l->rack_tiers.n;
        r = lease_engine_restore_rack(l->s->store.engine, &rack, (uint64_t)order);
        return is_unsound(r) ? set_aside(l, "leasing_rack", order, rack.rack_id, lessor_error_name(r)) : r;
}

static int load_racks(struct loader *l)
{
        int r = beside_begin(l, &l->tiers, "SELECT * FROM leasing_rack_tier ORDER BY ord, place");

        if (r == 0)
                r = rows_each(l->s->committer.db, l->s->path,
                              "SELECT r.*, s.last_seen_ms, s.last_poll_ms, s.last_beat_ms FROM leasing_rack r"
                              " LEFT JOIN leasing_rack_seen s ON s.ord = r.ord ORDER BY r.ord",
                              load_rack, l, l->problem);
        beside_end(&l->tiers);
        return r;
}

/* The log names no hash: it stands for a credential. */
static int load_token(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        struct rack_token_row token = {
                .hash = row_text(&row, 0),
                .rack_id = row_text(&row, 1),
                .status = row_word(&row, 2, row_token_status, N_ROW_TOKEN_STATUSES),
                .issued_ms = row_int(&row, 3, INT64_MIN, INT64_MAX),
                .grace_until_ms = row_int(&row, 4, 0, INT64_MAX),
        };
        int r;

        if (row.bad == NULL && token.hash.n == 0)
                row_bad(&row, 0);
        if (row.bad != NULL)
                return set_aside(l, "leasing_token", 0, token.rack_id, row.bad);
        r = lease_engine_restore_token(l->s->store.engine, &token);
        return is_unsound(r) ? set_aside(l, "leasing_token", 0, token.rack_id, lessor_error_name(r)) : r;
}

static int load_enrolment(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        struct lessor_enrolment enrolment = {
                .hash = row_text(&row, 0),
                .label = row_text(&row, 1),
                .minted_ms = row_int(&row, 2, INT64_MIN, INT64_MAX),
                .expires_ms = row_int(&row, 3, INT64_MIN, INT64_MAX),
        };
        int r;

        if (row.bad == NULL && enrolment.hash.n == 0)
                row_bad(&row, 0);
        if (row.bad != NULL)
                return set_aside(l, "leasing_enrolment", 0, enrolment.label, row.bad);
        r = lease_engine_restore_enrolment(l->s->store.engine, &enrolment);
        return is_unsound(r) ? set_aside(l, "leasing_enrolment", 0, enrolment.label, lessor_error_name(r))
                             : r;
}

static int load_environment(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        int64_t order = row_int(&row, 0, 1, INT64_MAX);
        struct lessor_environment env = {
                .env_hash = row_text(&row, 1),
                .e3_version = row_text(&row, 2),
                .base_image = row_text(&row, 3),
                .base_tier = row_text(&row, 4),
                .manifest_key = row_text(&row, 5),
                .manifest = row_text(&row, 6),
                .n_layers = row_int(&row, 7, INT64_MIN, INT64_MAX),
                .published_ms = row_int(&row, 8, INT64_MIN, INT64_MAX),
        };
        int r;

        lease_engine_reserve(l->s->store.engine, 0, 0, (uint64_t)order);
        if (row.bad != NULL)
                return set_aside(l, "leasing_environment", order, env.env_hash, row.bad);
        r = lease_engine_restore_environment(l->s->store.engine, &env, (uint64_t)order);
        return is_unsound(r) ? set_aside(l, "leasing_environment", order, env.env_hash, lessor_error_name(r))
                             : r;
}

static int load_meta(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        struct lessor_slice key = row_text(&row, 0);

        if (lessor_slice_equal(key, LESSOR_SLICE("require_start_approval"))) {
                bool wanted = row_bool(&row, 1);

                /* Who asked for approvals must not lose them to a bad page: unreadable is yes. */
                lease_engine_restore_policy(l->s->store.engine, wanted || row.bad != NULL);
                return row.bad == NULL ? 0 : set_aside(l, "leasing_meta", 0, key, row.bad);
        }
        if (lessor_slice_equal(key, LESSOR_SLICE("last_seq"))) {
                uint64_t seq = (uint64_t)row_int(&row, 1, 0, INT64_MAX);

                if (seq > l->s->noted_seq)
                        l->s->noted_seq = seq;
                return row.bad == NULL ? 0 : set_aside(l, "leasing_meta", 0, key, row.bad);
        }
        if (lessor_slice_equal(key, LESSOR_SLICE("turn"))) {
                struct lessor_slice turn = row_text(&row, 1);

                return row.bad == NULL ? lease_engine_restore_turn(l->s->store.engine, turn)
                                       : set_aside(l, "leasing_meta", 0, key, row.bad);
        }
        return 0;
}

int lease_sqlite_load(struct lease_sqlite_store *s, struct buf *ret_problem)
{
        struct loader l = {.s = s, .problem = ret_problem, .scratch = lessor_arena_new()};
        const struct {
                const char *sql;
                int (*load)(void *loader, sqlite3_stmt *stmt);
        } plain[] = {
                {"SELECT key, value FROM leasing_meta", load_meta},
                {"SELECT hash, rack_id, status, issued_ms, grace_until_ms FROM leasing_token", load_token},
                {"SELECT hash, label, minted_ms, expires_ms FROM leasing_enrolment", load_enrolment},
                {"SELECT ord, env_hash, e3_version, base_image, base_tier, manifest_key, manifest, n_layers,"
                 " published_ms FROM leasing_environment ORDER BY ord",
                 load_environment},
        };
        int r = l.scratch == NULL ? LESSOR_E_NOMEM : load_racks(&l);

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(plain); i++)
                r = rows_each(s->committer.db, s->path, plain[i].sql, plain[i].load, &l, ret_problem);
        if (r == 0)
                r = load_leases(&l);
        free(l.attempts.items);
        free(l.keys.items);
        free(l.targets.items);
        free(l.capabilities.items);
        free(l.rack_tiers.items);
        l.scratch = lessor_arena_free(l.scratch);
        return r;
}
