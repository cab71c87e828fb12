/* SPDX-License-Identifier: MIT */
/* A collected batch as one transaction. */
#include <limits.h>
#include <string.h>

#include "database/rows.h"
#include "database/sqlite_db.h"
#include "routing/sqlite_internal.h"

static const char state_sql[] = "REPLACE INTO routing_state VALUES"
                                "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
static const char aside_cancelled_sql[] =
        "INSERT INTO routing_state(seq, state, cancelled) VALUES(?1, 'queued', 1)"
        " ON CONFLICT(seq) DO UPDATE SET cancelled=1";

/* clang-format off */
static const char *const write_sql[N_WRITE_KINDS] = {
        [WRITE_HOLDER] = "REPLACE INTO routing_holder VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
        [WRITE_JOB] = "REPLACE INTO routing_job VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        [WRITE_JOB_GONE] = "DELETE FROM routing_job WHERE seq=?1",
        [WRITE_STATE] = state_sql,
        [WRITE_STATE_GONE] = "DELETE FROM routing_state WHERE seq=?1",
        [WRITE_BAR] = "REPLACE INTO routing_bar VALUES(?1, ?2, ?3)",
        [WRITE_BARS_GONE] = "DELETE FROM routing_bar WHERE seq=?1",
        [WRITE_ENVELOPE] = "REPLACE INTO routing_envelope VALUES(?1, ?2, ?3, ?4)",
        [WRITE_ENVELOPE_GONE] = "DELETE FROM routing_envelope WHERE id=?1",
        [WRITE_PRESENCE] = "REPLACE INTO routing_presence VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        [WRITE_ASIDE_CANCELLED] = aside_cancelled_sql,
        [WRITE_CHECK] = "REPLACE INTO routing_meta VALUES('checked_ms', ?2)",
};
/* clang-format on */

int batch_prepare(struct sqlite_store *s, struct buf *ret_problem)
{
        int code = SQLITE_OK;

        for (size_t i = 0; code == SQLITE_OK && i < N_WRITE_KINDS; i++)
                code = sqlite3_prepare_v3(s->committer.db, write_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                          &s->statements[i], NULL);
        return code == SQLITE_OK ? 0 : sqlite_db_problem(s->committer.db, code, s->path, ret_problem);
}

void batch_finalize(struct sqlite_store *s)
{
        for (size_t i = 0; i < N_WRITE_KINDS; i++)
                (void)sqlite3_finalize(s->statements[i]);
}

static void bind_job(struct binder *b, const struct write *w)
{
        const struct lessor_stub *stub = &w->job.stub;

        bind_text(b, w->job.site_id);
        bind_text(b, stub->id);
        bind_word(b, row_kind[stub->kind]);
        bind_text(b, stub->owner);
        bind_text(b, stub->site);
        bind_word(b, row_audience[stub->audience]);
        bind_text(b, stub->purpose);
        bind_word(b, row_size_class[stub->size_class]);
        bind_int(b, stub->streaming);
        bind_int(b, stub->deadline_ms);
        bind_int(b, w->job.enqueued_ms);
}

static void bind_state(struct binder *b, const struct write *w)
{
        bind_word(b, row_state[w->state.state]);
        bind_id(b, w->state.holder);
        bind_text(b, w->state.lease_id);
        bind_int(b, w->state.lease_expires_ms);
        bind_int(b, w->state.awaiting_until_ms);
        bind_int(b, w->state.seal_attempts);
        bind_text(b, w->state.reoffer_to);
        bind_int(b, w->state.cancelled);
        bind_int(b, w->state.sealed);
        bind_id(b, w->state.payload);
        bind_id(b, w->state.payload_bytes);
        bind_id(b, w->state.result);
        bind_id(b, w->state.result_bytes);
        bind_word(b, w->state.has_result ? row_disposition[w->state.disposition] : NULL);
}

static void bind_who(struct binder *b, const struct lessor_presence *who)
{
        bind_text(b, who->runner_id);
        bind_text(b, who->owner);
        bind_text(b, who->device.identity);
        bind_text(b, who->device.encryption);
        bind_text(b, who->device.encryption_sig);
}

static void bind_envelope(struct binder *b, const struct write *w)
{
        const struct held *h = w->envelope.held;

        bind_int(b, (int64_t)h->seq);
        bind_word(b, w->envelope.is_result ? "result" : "payload");
        bind_text(b, (struct lessor_slice){h->bytes, h->n});
}

static void bind_rest(struct binder *b, const struct write *w)
{
        switch (w->kind) {
        case WRITE_HOLDER:
                bind_who(b, &w->presence);
                return;
        case WRITE_JOB:
                bind_job(b, w);
                return;
        case WRITE_STATE:
                bind_state(b, w);
                return;
        case WRITE_BAR:
                bind_text(b, w->bar.runner_id);
                bind_int_if(b, w->bar.until_ms != ENGINE_BAR_FOREVER, w->bar.until_ms);
                return;
        case WRITE_ENVELOPE:
                bind_envelope(b, w);
                return;
        case WRITE_PRESENCE:
                bind_who(b, &w->presence);
                bind_int(b, w->presence.last_seen_ms);
                bind_text(b, w->presence.capabilities);
                bind_text(b, w->presence.withheld);
                return;
        case WRITE_CHECK:
                bind_int(b, w->check_ms);
                return;
        default:
                return; /* the key alone */
        }
}

static int run_write(struct sqlite_store *s, const struct write *w)
{
        struct binder b = BINDER(s->statements[w->kind]);
        int code;

        bind_int(&b, (int64_t)w->seq);
        bind_rest(&b, w);
        code = binder_run(&b);
        /* What was bound lives in the batch, which will be gone before this statement is bound again. */
        if (w->kind == WRITE_ENVELOPE)
                (void)sqlite3_clear_bindings(b.stmt);
        return code;
}

int batch_write(void *store)
{
        struct sqlite_store *s = store;
        int code = SQLITE_OK;

        for (const struct write *w = s->batch.writes; code == SQLITE_OK && w != NULL; w = w->next)
                code = run_write(s, w);
        return code;
}
