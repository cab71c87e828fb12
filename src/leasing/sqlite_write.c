/* SPDX-License-Identifier: MIT */
/* A collected batch as statements, inside the committer's transaction. */
#include "database/rows.h"
#include "database/sqlite_db.h"
#include "leasing/sqlite_internal.h"

static const char lease_sql[] =
        "REPLACE INTO leasing_lease VALUES"
        "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";
static const char attempt_sql[] = "REPLACE INTO leasing_attempt VALUES"
                                  "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

/* clang-format off */
static const char *const write_sql[N_WRITE_KINDS] = {
        [WRITE_LEASE] = lease_sql,
        [WRITE_STATE] = "REPLACE INTO leasing_state VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        [WRITE_EVENT] = "REPLACE INTO leasing_event VALUES(?1, ?2)",
        [WRITE_RESULT] = "REPLACE INTO leasing_result VALUES(?1, ?2)",
        [WRITE_ATTEMPT] = attempt_sql,
        [WRITE_KEY] = "REPLACE INTO leasing_key VALUES(?1, ?2, ?3)",
        [WRITE_TARGET] = "REPLACE INTO leasing_target VALUES(?1, ?2, ?3)",
        [WRITE_CAPABILITY] = "REPLACE INTO leasing_capability VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        [WRITE_CAPABILITY_GONE] = "DELETE FROM leasing_capability WHERE seq=?1 AND id=?2",
        [WRITE_LEASE_GONE] = "DELETE FROM leasing_lease WHERE seq=?1",
        [WRITE_EVENT_GONE] = "DELETE FROM leasing_event WHERE seq=?1",
        [WRITE_STATE_GONE] = "DELETE FROM leasing_state WHERE seq=?1",
        [WRITE_RESULT_GONE] = "DELETE FROM leasing_result WHERE seq=?1",
        [WRITE_ATTEMPTS_GONE] = "DELETE FROM leasing_attempt WHERE seq=?1",
        [WRITE_KEYS_GONE] = "DELETE FROM leasing_key WHERE seq=?1",
        [WRITE_TARGETS_GONE] = "DELETE FROM leasing_target WHERE seq=?1",
        [WRITE_CAPABILITIES_GONE] = "DELETE FROM leasing_capability WHERE seq=?1",
        [WRITE_RACK] = "REPLACE INTO leasing_rack VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        [WRITE_RACK_TIER] = "REPLACE INTO leasing_rack_tier VALUES(?1, ?2, ?3)",
        [WRITE_RACK_SEEN] = "REPLACE INTO leasing_rack_seen VALUES(?1, ?2, ?3, ?4)",
        [WRITE_RACK_GONE] = "DELETE FROM leasing_rack WHERE ord=?1",
        [WRITE_RACK_TIERS_GONE] = "DELETE FROM leasing_rack_tier WHERE ord=?1",
        [WRITE_RACK_SEEN_GONE] = "DELETE FROM leasing_rack_seen WHERE ord=?1",
        [WRITE_TOKEN] = "REPLACE INTO leasing_token VALUES(?1, ?2, ?3, ?4, ?5)",
        [WRITE_TOKEN_GONE] = "DELETE FROM leasing_token WHERE hash=?1",
        [WRITE_ENROLMENT] = "REPLACE INTO leasing_enrolment VALUES(?1, ?2, ?3, ?4)",
        [WRITE_ENROLMENT_GONE] = "DELETE FROM leasing_enrolment WHERE hash=?1",
        [WRITE_ENVIRONMENT] = "REPLACE INTO leasing_environment VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        [WRITE_ENVIRONMENT_GONE] = "DELETE FROM leasing_environment WHERE ord=?1",
        [WRITE_META_INT] = "REPLACE INTO leasing_meta VALUES(?1, ?2)",
        [WRITE_META_TEXT] = "REPLACE INTO leasing_meta VALUES(?1, ?2)",
};
/* clang-format on */

int lease_batch_prepare(struct lease_sqlite_store *s, struct buf *ret_problem)
{
        int code = SQLITE_OK;

        for (size_t i = 0; code == SQLITE_OK && i < N_WRITE_KINDS; i++)
                code = sqlite3_prepare_v3(s->committer.db, write_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                          &s->statements[i], NULL);
        return code == SQLITE_OK ? 0 : sqlite_db_problem(s->committer.db, code, s->path, ret_problem);
}

void lease_batch_finalize(struct lease_sqlite_store *s)
{
        for (size_t i = 0; i < N_WRITE_KINDS; i++)
                (void)sqlite3_finalize(s->statements[i]);
}

static void bind_lease(struct binder *b, const struct write *w)
{
        const struct lessor_lease *l = &w->lease;

        bind_text(b, l->name.repo);
        bind_text(b, l->name.lease_id);
        bind_text(b, l->workspace);
        bind_text(b, l->task_name);
        bind_text(b, l->tier);
        bind_text(b, l->compute_size);
        bind_text(b, l->floor);
        bind_text(b, l->environment);
        bind_text(b, l->run);
        bind_text(b, l->owner);
        bind_word(b, row_mode[l->mode]);
        bind_int(b, l->own);
        bind_int(b, l->event_version);
        bind_int(b, (int64_t)w->bytes);
        bind_int(b, l->created_ms);
        bind_int(b, l->expires_ms);
        bind_int(b, l->attempt_limit);
}

static void bind_state(struct binder *b, const struct write *w)
{
        const struct lessor_lease *l = &w->lease;

        bind_word(b, row_status[l->status]);
        bind_int(b, l->expires_ms);
        bind_int(b, l->attempts_spent);
        bind_int(b, l->claim_number);
        bind_int(b, l->deadline_ms);
        bind_int(b, l->ended_ms);
        bind_word(b, row_cause[l->cause]);
        bind_int(b, l->verdict.success);
        bind_int(b, l->verdict.error);
        bind_int(b, l->verdict.cancelled);
        bind_int_if(b, w->has_result, (int64_t)w->bytes);
}

static void bind_attempt(struct binder *b, const struct lease_attempt_row *row)
{
        const struct lessor_attempt *a = &row->attempt;

        bind_int(b, a->number);
        bind_text(b, a->execution_id);
        bind_text(b, a->rack_id);
        bind_text(b, a->boot_id);
        bind_int(b, a->started_ms);
        bind_int(b, a->ended_ms);
        bind_word(b, row_attempt_state[a->state]);
        bind_word(b, row_cause[a->cause]);
        bind_text(b, a->reason);
        bind_text(b, a->output_hash);
        bind_int_if(b, a->has_exit_code, a->exit_code);
        bind_int_if(b, a->has_peak_bytes, a->peak_bytes);
        bind_int(b, a->counts);
        bind_int(b, row->must_name);
}

static void bind_capability(struct binder *b, const struct lessor_capability *c)
{
        bind_text(b, c->id);
        bind_word(b, row_capability_kind[c->kind]);
        bind_int(b, c->claim_number);
        bind_text(b, c->hash);
        bind_int(b, c->size);
        bind_int(b, c->expires_ms);
        bind_text(b, c->receipt);
        bind_int(b, c->committed);
}

static void bind_lease_part(struct binder *b, const struct write *w)
{
        switch (w->kind) {
        case WRITE_LEASE:
                bind_lease(b, w);
                return;
        case WRITE_STATE:
                bind_state(b, w);
                return;
        case WRITE_EVENT:
        case WRITE_RESULT:
                bind_text(b, (struct lessor_slice){w->text->bytes, w->text->n});
                return;
        case WRITE_ATTEMPT:
                bind_attempt(b, &w->attempt);
                return;
        case WRITE_KEY:
                bind_text(b, w->key_row.key);
                bind_int(b, w->key_row.left);
                return;
        case WRITE_TARGET:
                bind_int(b, (int64_t)w->target.order);
                bind_text(b, w->target.hash);
                return;
        case WRITE_CAPABILITY:
                bind_capability(b, &w->capability);
                return;
        case WRITE_CAPABILITY_GONE:
                bind_text(b, w->capability.id);
                return;
        default:
                return; /* the key alone */
        }
}

static void bind_rack(struct binder *b, const struct lessor_rack *r)
{
        bind_text(b, r->rack_id);
        bind_text(b, r->label);
        bind_int(b, r->capacity);
        bind_text(b, r->agent_version);
        bind_int(b, r->healthy);
        bind_int(b, r->draining);
        bind_text(b, r->last_boot);
        bind_text(b, r->approved_boot);
        bind_int(b, r->enrolled_ms);
        bind_int(b, (int64_t)r->n_tiers);
}

static void bind_environment(struct binder *b, const struct lessor_environment *env)
{
        bind_text(b, env->env_hash);
        bind_text(b, env->e3_version);
        bind_text(b, env->base_image);
        bind_text(b, env->base_tier);
        bind_text(b, env->manifest_key);
        bind_text(b, env->manifest);
        bind_int(b, env->n_layers);
        bind_int(b, env->published_ms);
}

static void bind_other(struct binder *b, const struct write *w)
{
        switch (w->kind) {
        case WRITE_RACK:
                bind_rack(b, &w->rack);
                return;
        case WRITE_RACK_TIER:
                bind_int(b, (int64_t)w->tier.place);
                bind_text(b, w->tier.tier);
                return;
        case WRITE_RACK_SEEN:
                bind_int(b, w->rack.last_seen_ms);
                bind_int(b, w->rack.last_poll_ms);
                bind_int(b, w->rack.last_beat_ms);
                return;
        case WRITE_ENVIRONMENT:
                bind_environment(b, &w->environment);
                return;
        default:
                return; /* the key alone */
        }
}

/* Rows whose key is a text. */
static void bind_named(struct binder *b, const struct write *w)
{
        switch (w->kind) {
        case WRITE_TOKEN:
                bind_text(b, w->token.hash);
                bind_text(b, w->token.rack_id);
                bind_word(b, row_token_status[w->token.status]);
                bind_int(b, w->token.issued_ms);
                bind_int(b, w->token.grace_until_ms);
                return;
        case WRITE_TOKEN_GONE:
                bind_text(b, w->token.hash);
                return;
        case WRITE_ENROLMENT:
                bind_text(b, w->enrolment.hash);
                bind_text(b, w->enrolment.label);
                bind_int(b, w->enrolment.minted_ms);
                bind_int(b, w->enrolment.expires_ms);
                return;
        case WRITE_ENROLMENT_GONE:
                bind_text(b, w->enrolment.hash);
                return;
        case WRITE_META_INT:
                bind_word(b, w->meta.name);
                bind_int(b, w->meta.number);
                return;
        default: /* WRITE_META_TEXT */
                bind_word(b, w->meta.name);
                bind_text(b, w->meta.text);
        }
}

static int run_write(struct lease_sqlite_store *s, const struct write *w)
{
        struct binder b = BINDER(s->statements[w->kind]);
        int code;

        if (w->key == 0) {
                bind_named(&b, w);
        } else {
                bind_int(&b, (int64_t)w->key);
                if (w->kind <= WRITE_CAPABILITIES_GONE)
                        bind_lease_part(&b, w);
                else
                        bind_other(&b, w);
        }
        code = binder_run(&b);
        /* What was bound lives in the batch, which will be gone before this statement is bound again. */
        if (w->kind == WRITE_EVENT || w->kind == WRITE_RESULT)
                (void)sqlite3_clear_bindings(b.stmt);
        return code;
}

int lease_batch_write(void *store)
{
        struct lease_sqlite_store *s = store;
        int code = SQLITE_OK;

        for (const struct write *w = s->batch.writes; code == SQLITE_OK && w != NULL; w = w->next)
                code = run_write(s, w);
        return code;
}
