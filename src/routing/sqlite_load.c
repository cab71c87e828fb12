/* SPDX-License-Identifier: MIT */
/* The engine, rebuilt from the rows at start. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "database/rows.h"
#include "database/sqlite_db.h"
#include "routing/sqlite_internal.h"

const char *const row_kind[LESSOR_N_KINDS] = {
        [LESSOR_KIND_LLM_GENERATE] = "llm.generate",
        [LESSOR_KIND_LLM_CHAT] = "llm.chat",
};
const char *const row_audience[2] = {
        [LESSOR_AUDIENCE_PRIVATE] = "private",
        [LESSOR_AUDIENCE_TEAM] = "team",
};
const char *const row_size_class[4] = {
        [LESSOR_SIZE_SMALL] = "small",
        [LESSOR_SIZE_MEDIUM] = "medium",
        [LESSOR_SIZE_LARGE] = "large",
        [LESSOR_SIZE_UNBOUNDED] = "unbounded",
};
const char *const row_state[5] = {
        [LESSOR_JOB_QUEUED] = "queued",   [LESSOR_JOB_AWAITING] = "awaiting", [LESSOR_JOB_READY] = "ready",
        [LESSOR_JOB_RUNNING] = "running", [LESSOR_JOB_DONE] = "done",
};
const char *const row_disposition[3] = {
        [LESSOR_DISPOSITION_OK] = "ok",
        [LESSOR_DISPOSITION_ERROR] = "error",
        [LESSOR_DISPOSITION_CANCELED] = "canceled",
};

/* clang-format off */
static const char jobs_sql[] =
        "SELECT j.seq, j.site_id, j.id, j.kind, j.owner, j.site, j.audience, j.purpose, j.size_class,"
        " j.streaming, j.deadline_ms, j.enqueued_ms,"
        " s.seq, s.state, s.holder, s.lease_id, s.lease_expires_ms, s.awaiting_until_ms, s.seal_attempts,"
        " s.reoffer_to, s.cancelled, s.sealed, s.payload, s.payload_bytes, s.result, s.result_bytes,"
        " s.disposition"
        " FROM routing_job j LEFT JOIN routing_state s ON s.seq = j.seq ORDER BY j.seq";
/* clang-format on */

enum job_column {
        J_SEQ,
        J_SITE_ID,
        J_ID,
        J_KIND,
        J_OWNER,
        J_SITE,
        J_AUDIENCE,
        J_PURPOSE,
        J_SIZE_CLASS,
        J_STREAMING,
        J_DEADLINE,
        J_ENQUEUED,
        S_SEQ,
        S_STATE,
        S_HOLDER,
        S_LEASE_ID,
        S_LEASE_EXPIRES,
        S_AWAITING_UNTIL,
        S_SEAL_ATTEMPTS,
        S_REOFFER_TO,
        S_CANCELLED,
        S_SEALED,
        S_PAYLOAD,
        S_PAYLOAD_BYTES,
        S_RESULT,
        S_RESULT_BYTES,
        S_DISPOSITION,
};

/* What loading needs and the store does not. */
struct loader {
        struct sqlite_store *s;
        struct holder **holders; /* by id */
        size_t n_holders, cap_holders;
        sqlite3_stmt *bars;
        bool have_bar;                /* `bars` stands on a row */
        struct lessor_arena *scratch; /* for one job */
        struct engine_bar *bar_items;
        size_t n_bars, cap_bars;
};

static void read_who(struct row_reader *row, int from, struct lessor_presence *ret_who)
{
        ret_who->runner_id = row_text(row, from);
        ret_who->owner = row_text(row, from + 1);
        ret_who->device.identity = row_text(row, from + 2);
        ret_who->device.encryption = row_text(row, from + 3);
        ret_who->device.encryption_sig = row_text(row, from + 4);
}

/* Makes room for one more item. */
static int grow(void **items, size_t n, size_t *cap, size_t item_size)
{
        size_t more = *cap == 0 ? 64 : *cap * 2;
        void *bigger;

        if (n < *cap)
                return 0;
        bigger = reallocarray(*items, more, item_size);
        if (bigger == NULL)
                return LESSOR_E_NOMEM;
        *items = bigger;
        *cap = more;
        return 0;
}

/* --- one row each --- */

static int load_holder(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        struct lessor_presence who = {0};
        struct holder *h;
        int64_t id = sqlite3_column_int64(stmt, 0);
        int r;

        read_who(&row, 1, &who);
        if (row.bad != NULL || id < 1) {
                /* Its jobs will be set aside, since they have no holder that can be read. */
                if ((uint64_t)id >= l->s->next_holder && id > 0)
                        l->s->next_holder = (uint64_t)id + 1;
                return 0;
        }
        r = grow((void **)&l->holders, l->n_holders, &l->cap_holders, sizeof(struct holder *));
        if (r < 0)
                return r;
        r = store_holder_add(l->s, (uint64_t)id, &who, &h);
        if (r < 0)
                return r;
        l->holders[l->n_holders++] = h;
        return 0;
}

static struct holder *find_holder(const struct loader *l, uint64_t id)
{
        size_t low = 0, high = l->n_holders;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (l->holders[middle]->id == id)
                        return l->holders[middle];
                if (l->holders[middle]->id < id)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

static void read_stub(struct row_reader *row, struct lessor_job *job)
{
        struct lessor_stub *stub = &job->stub;

        job->site_id = row_text(row, J_SITE_ID);
        stub->id = row_text(row, J_ID);
        stub->kind = row_word(row, J_KIND, row_kind, ARRAY_SIZE(row_kind));
        stub->owner = row_text(row, J_OWNER);
        stub->site = row_text(row, J_SITE);
        stub->audience = row_word(row, J_AUDIENCE, row_audience, ARRAY_SIZE(row_audience));
        stub->purpose = row_text_or_null(row, J_PURPOSE);
        stub->size_class = row_word(row, J_SIZE_CLASS, row_size_class, ARRAY_SIZE(row_size_class));
        stub->streaming = row_int(row, J_STREAMING, 0, 1) != 0;
        stub->deadline_ms = row_int(row, J_DEADLINE, INT64_MIN, INT64_MAX);
        job->enqueued_ms = row_int(row, J_ENQUEUED, INT64_MIN, INT64_MAX);
}

static void read_claim(struct loader *l, struct row_reader *row, struct lessor_job *job)
{
        struct holder *h = find_holder(l, (uint64_t)row_int(row, S_HOLDER, 1, INT64_MAX));

        if (h == NULL) {
                row_bad(row, S_HOLDER);
                return;
        }
        h->used = true;
        job->claimed = true;
        job->runner_id = h->who.runner_id;
        job->runner_owner = h->who.owner;
        job->device = h->who.device;
        job->lease_id = row_text(row, S_LEASE_ID);
        job->lease_expires_ms = row_int(row, S_LEASE_EXPIRES, INT64_MIN, INT64_MAX);
        job->awaiting_until_ms = row_int(row, S_AWAITING_UNTIL, 0, INT64_MAX);
}

static void read_state(struct loader *l, struct row_reader *row, struct lessor_job *job,
                       struct sealed *sealed)
{
        if (sqlite3_column_type(row->stmt, S_SEQ) == SQLITE_NULL)
                return; /* queued, and never touched */
        job->state = row_word(row, S_STATE, row_state, ARRAY_SIZE(row_state));
        job->seal_attempts = (unsigned)row_int(row, S_SEAL_ATTEMPTS, 0, UINT32_MAX);
        job->reoffer_to = row_text_or_null(row, S_REOFFER_TO);
        job->cancelled = row_int(row, S_CANCELLED, 0, 1) != 0;
        job->has_payload = row_int(row, S_SEALED, 0, 1) != 0;
        sealed->payload = sealed->noted_payload = (uint64_t)row_int_or_0(row, S_PAYLOAD);
        sealed->payload_bytes = (uint64_t)row_int_or_0(row, S_PAYLOAD_BYTES);
        sealed->result = sealed->noted_result = (uint64_t)row_int_or_0(row, S_RESULT);
        sealed->result_bytes = (uint64_t)row_int_or_0(row, S_RESULT_BYTES);
        if (sqlite3_column_type(row->stmt, S_HOLDER) != SQLITE_NULL)
                read_claim(l, row, job);
        job->has_result = job->state == LESSOR_JOB_DONE;
        if (job->has_result)
                job->disposition = row_word(row, S_DISPOSITION, row_disposition, ARRAY_SIZE(row_disposition));
        if (job->has_result && sealed->result == 0)
                row_bad(row, S_RESULT);
        if ((job->state == LESSOR_JOB_READY || job->state == LESSOR_JOB_RUNNING) && sealed->payload == 0)
                row_bad(row, S_PAYLOAD);
}

/* The bars of one job, from a list that is sorted as the jobs are. */
static int load_bars(struct loader *l, int64_t seq)
{
        l->n_bars = 0;
        while (l->have_bar && sqlite3_column_int64(l->bars, 0) <= seq) {
                struct row_reader row = {.stmt = l->bars};
                struct lessor_slice runner_id = row_text(&row, 1);
                bool forever = sqlite3_column_type(l->bars, 2) == SQLITE_NULL;
                int64_t until_ms = forever ? ENGINE_BAR_FOREVER : row_int(&row, 2, INT64_MIN, INT64_MAX);
                int code, r;

                if (sqlite3_column_int64(l->bars, 0) == seq && row.bad == NULL) {
                        r = grow((void **)&l->bar_items, l->n_bars, &l->cap_bars, sizeof(struct engine_bar));
                        if (r == 0)
                                r = lessor_arena_copy(l->scratch, runner_id, &runner_id);
                        if (r < 0)
                                return r;
                        l->bar_items[l->n_bars++] =
                                (struct engine_bar){.runner_id = runner_id, .until_ms = until_ms};
                }
                code = sqlite3_step(l->bars);
                if (code != SQLITE_ROW && code != SQLITE_DONE)
                        return sqlite_db_error(code);
                l->have_bar = code == SQLITE_ROW;
        }
        return 0;
}

static int set_aside(struct loader *l, const struct row_reader *row, struct lessor_job *job, const char *why)
{
        struct sqlite_store *s = l->s;
        int64_t seq = sqlite3_column_int64(row->stmt, J_SEQ);
        bool dated = sqlite3_column_type(row->stmt, J_DEADLINE) == SQLITE_INTEGER;
        static const struct lessor_slice empty = {"", 0};

        log_warning("routing-row-set-aside", LOG_INT("seq", seq), LOG_TEXT("site", job->site_id),
                    LOG_TEXT("job", job->stub.id), LOG_CSTR("why", why));
        if (job->site_id.p == NULL || job->stub.id.p == NULL) {
                s->asides.n_nameless++;
                return 0;
        }
        if (!dated)
                job->stub.deadline_ms = 0;
        if (sqlite3_column_type(row->stmt, J_ENQUEUED) != SQLITE_INTEGER)
                job->enqueued_ms = 0;
        if (job->stub.owner.p == NULL)
                job->stub.owner = empty;
        if (job->stub.site.p == NULL)
                job->stub.site = empty;
        return asides_add(&s->asides, (uint64_t)seq,
                          &(struct lessor_job){.site_id = job->site_id,
                                               .stub = job->stub,
                                               .state = LESSOR_JOB_QUEUED,
                                               .cancelled = job->cancelled,
                                               .enqueued_ms = job->enqueued_ms},
                          dated ? job->stub.deadline_ms : INT64_MAX);
}

static int attach(struct loader *l, const struct lessor_job *job, const struct sealed *from)
{
        struct sealed *sealed;

        if (from->payload == 0 && from->result == 0 && l->n_bars == 0)
                return 0;
        sealed = calloc(1, sizeof(*sealed));
        if (sealed == NULL)
                return LESSOR_E_NOMEM;
        *sealed = *from;
        sealed->noted_bars = l->n_bars == 0 ? 0 : store_bars_digest(l->s, l->bar_items, l->n_bars);
        job_attach(engine_find(l->s->engine, job->site_id, job->stub.id), sealed);
        return 0;
}

static int load_job(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        struct engine_row from = {0};
        struct sealed sealed = {0};
        int64_t seq = sqlite3_column_int64(stmt, J_SEQ);
        int r;

        lessor_arena_clear(l->scratch);
        r = load_bars(l, seq);
        if (r < 0)
                return r;
        read_stub(&row, &from.job);
        read_state(l, &row, &from.job, &sealed);
        if (seq > 0 && (uint64_t)seq > l->s->noted_seq) {
                l->s->noted_seq = (uint64_t)seq;
                engine_reserve(l->s->engine, (uint64_t)seq, 0);
        }
        if (row.bad != NULL)
                return set_aside(l, &row, &from.job, row.bad);
        from.seq = (uint64_t)seq;
        from.bars = l->bar_items;
        from.n_bars = l->n_bars;
        r = engine_restore_job(l->s->engine, &from);
        if (r == LESSOR_E_INVALID || r == LESSOR_E_EXISTS)
                return set_aside(l, &row, &from.job, lessor_error_name(r));
        return r < 0 ? r : attach(l, &from.job, &sealed);
}

static int load_presence(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        struct row_reader row = {.stmt = stmt};
        struct lessor_presence who = {0};
        int64_t order = row_int(&row, 0, 1, INT64_MAX);
        int r;

        read_who(&row, 1, &who);
        who.last_seen_ms = row_int(&row, 6, INT64_MIN, INT64_MAX);
        who.capabilities = row_text(&row, 7);
        who.withheld = row_text(&row, 8);
        if ((uint64_t)order > l->s->noted_presence)
                l->s->noted_presence = (uint64_t)order;
        engine_reserve(l->s->engine, 0, (uint64_t)order);
        r = row.bad == NULL ? engine_restore_presence(l->s->engine, &who, (uint64_t)order) : LESSOR_E_INVALID;
        if (r != LESSOR_E_INVALID && r != LESSOR_E_EXISTS)
                return r;
        log_warning("routing-presence-set-aside", LOG_INT("ord", order), LOG_TEXT("runner", who.runner_id),
                    LOG_CSTR("why", row.bad != NULL ? row.bad : lessor_error_name(r)));
        l->s->asides.n_nameless++;
        return 0;
}

/* --- all rows --- */

static int problem(struct loader *l, int code, struct buf *ret_problem)
{
        return sqlite_db_problem(l->s->committer.db, code, l->s->path, ret_problem);
}

static int each_row(struct loader *l, const char *sql, int (*load)(void *loader, sqlite3_stmt *stmt),
                    struct buf *ret_problem)
{
        return rows_each(l->s->committer.db, l->s->path, sql, load, l, ret_problem);
}

static int load_next_envelope(void *loader, sqlite3_stmt *stmt)
{
        struct loader *l = loader;
        l->s->next_envelope = (uint64_t)sqlite3_column_int64(stmt, 0) + 1;
        return 0;
}

static int load_jobs(struct loader *l, struct buf *ret_problem)
{
        int code, r;

        code = sqlite3_prepare_v2(l->s->committer.db,
                                  "SELECT seq, runner_id, until_ms FROM routing_bar ORDER BY seq", -1,
                                  &l->bars, NULL);
        if (code == SQLITE_OK)
                code = sqlite3_step(l->bars);
        if (code != SQLITE_ROW && code != SQLITE_DONE)
                return problem(l, code, ret_problem);
        l->have_bar = code == SQLITE_ROW;
        r = each_row(l, jobs_sql, load_job, ret_problem);
        (void)sqlite3_finalize(l->bars);
        l->bars = NULL;
        return r;
}

/*
 * Devices that hold nothing any more are forgotten, here alone, so that a holder is never taken from under a
 * batch. Not while rows are set aside: they may mean one in a way that could not be read.
 */
static int forget_holders(struct loader *l, struct buf *ret_problem)
{
        struct sqlite_store *s = l->s;
        int code = sqlite3_exec(s->committer.db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

        for (size_t i = 0; code == SQLITE_OK && i < l->n_holders; i++) {
                struct holder *h = l->holders[i];
                char sql[80];

                if (h->used)
                        continue;
                (void)sqlite3_snprintf(sizeof(sql), sql, "DELETE FROM routing_holder WHERE id=%lld",
                                       (sqlite3_int64)h->id);
                code = sqlite3_exec(s->committer.db, sql, NULL, NULL, NULL);
                table_remove(&s->holders, &h->node);
                free(h);
        }
        if (code == SQLITE_OK)
                code = sqlite3_exec(s->committer.db, "COMMIT", NULL, NULL, NULL);
        return code == SQLITE_OK ? 0 : problem(l, code, ret_problem);
}

int store_load(struct sqlite_store *s, struct buf *ret_problem)
{
        struct loader l = {.s = s, .scratch = lessor_arena_new()};
        size_t n_unused = 0;
        int r = l.scratch == NULL ? LESSOR_E_NOMEM : 0;

        if (r == 0)
                r = each_row(&l, "SELECT coalesce(max(id), 0) FROM routing_envelope", load_next_envelope,
                             ret_problem);
        if (r == 0)
                r = each_row(&l,
                             "SELECT id, runner_id, owner, identity, encryption, encryption_sig"
                             " FROM routing_holder ORDER BY id",
                             load_holder, ret_problem);
        if (r == 0)
                r = load_jobs(&l, ret_problem);
        if (r == 0)
                r = each_row(
                        &l,
                        "SELECT ord, runner_id, owner, identity, encryption, encryption_sig, last_seen_ms,"
                        " capabilities, withheld FROM routing_presence ORDER BY ord",
                        load_presence, ret_problem);
        for (size_t i = 0; i < l.n_holders; i++)
                n_unused += !l.holders[i]->used;
        if (r == 0 && n_unused > 0 && s->asides.n == 0 && s->asides.n_nameless == 0)
                r = forget_holders(&l, ret_problem);
        free(l.holders);
        free(l.bar_items);
        l.scratch = lessor_arena_free(l.scratch);
        return r;
}
