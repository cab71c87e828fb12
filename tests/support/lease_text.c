/* SPDX-License-Identifier: MIT */
#include "lease_text.h"

#include <inttypes.h>

#include "lessor/rack_registry.h"

static void put(struct buf *out, const char *name, struct lessor_slice text)
{
        if (text.p != NULL)
                (void)buf_printf(out, " %s=%.*s", name, (int)text.n, text.p);
}

static void put_int(struct buf *out, const char *name, int64_t value)
{
        (void)buf_printf(out, " %s=%" PRId64, name, value);
}

static void put_lease(struct buf *out, const struct lessor_lease *l)
{
        put_int(out, "seq", (int64_t)l->seq);
        put(out, "repo", l->name.repo);
        put(out, "id", l->name.lease_id);
        put(out, "workspace", l->workspace);
        put(out, "task_name", l->task_name);
        put(out, "task", l->task_hash);
        put(out, "inputs", l->inputs_hash);
        put(out, "tier", l->tier);
        put(out, "size", l->compute_size);
        put(out, "floor", l->floor);
        put(out, "environment", l->environment);
        put(out, "run", l->run);
        put(out, "owner", l->owner);
        put_int(out, "mode", l->mode);
        put_int(out, "own", l->own);
        put_int(out, "version", l->event_version);
        put_int(out, "status", l->status);
        put_int(out, "created", l->created_ms);
        put_int(out, "expires", l->expires_ms);
        put_int(out, "limit", l->attempt_limit);
        put_int(out, "spent", l->attempts_spent);
        put(out, "claimed_by", l->claimed_by);
        put_int(out, "claimed", l->claimed_ms);
        put_int(out, "deadline", l->deadline_ms);
        put_int(out, "ended", l->ended_ms);
        put_int(out, "cause", l->cause);
        put_int(out, "claim", l->claim_number);
        put(out, "attempt", l->attempt);
        put_int(out, "targets", (int64_t)l->n_targets);
        put_int(out, "success", l->verdict.success);
        put_int(out, "error", l->verdict.error);
        put_int(out, "cancelled", l->verdict.cancelled);
        put(out, "output", l->verdict.output_hash);
        put(out, "message", l->verdict.message);
        put(out, "event", l->event);
        put(out, "result", l->result);
}

static void put_attempt(struct buf *out, const struct lessor_attempt *a)
{
        (void)buf_text(out, "\n attempt");
        put_int(out, "number", a->number);
        put(out, "execution", a->execution_id);
        put(out, "rack", a->rack_id);
        put(out, "boot", a->boot_id);
        put_int(out, "started", a->started_ms);
        put_int(out, "ended", a->ended_ms);
        put_int(out, "state", a->state);
        put_int(out, "cause", a->cause);
        put(out, "reason", a->reason);
        put(out, "output", a->output_hash);
        if (a->has_exit_code)
                put_int(out, "exit", a->exit_code);
        if (a->has_peak_bytes)
                put_int(out, "peak", a->peak_bytes);
        put_int(out, "counts", a->counts);
}

static int put_parts(struct lessor_lease_store *store, const struct lessor_lease_name *name,
                     struct lessor_arena *arena, struct buf *out)
{
        struct lessor_attempt_list attempts;
        struct lessor_slice *targets;
        size_t n_targets;
        int r = lessor_lease_attempts(store, name, arena, &attempts, NULL);

        if (r == 0)
                r = lessor_lease_targets(store, name, arena, &targets, &n_targets, NULL);
        if (r < 0)
                return r;
        for (size_t i = 0; i < attempts.n; i++)
                put_attempt(out, &attempts.items[i]);
        for (size_t i = 0; i < n_targets; i++) {
                (void)buf_text(out, "\n target");
                put(out, "hash", targets[i]);
        }
        return 0;
}

static int put_leases(struct lessor_lease_store *store, struct lessor_arena *arena, struct buf *out)
{
        const struct lessor_lease_query query = {.max = SIZE_MAX};
        struct lessor_lease_list list;
        int r = lessor_lease_list(store, &query, arena, &list, NULL);

        for (size_t i = 0; r == 0 && i < list.n; i++) {
                struct lessor_lease l;

                r = lessor_lease_get(store, &list.items[i].name, LESSOR_WITH_EVENT | LESSOR_WITH_RESULT,
                                     arena, &l, NULL);
                if (r < 0)
                        return r;
                (void)buf_text(out, "\nlease");
                put_lease(out, &l);
                r = put_parts(store, &l.name, arena, out);
        }
        return r;
}

static int put_racks(struct lessor_lease_store *store, struct lessor_arena *arena, struct buf *out)
{
        struct lessor_enrolment_list enrolments;
        struct lessor_rack_list racks;
        int r = lessor_rack_list(store, arena, &racks, NULL);

        for (size_t i = 0; r == 0 && i < racks.n; i++) {
                const struct lessor_rack *k = &racks.items[i];

                (void)buf_text(out, "\nrack");
                put(out, "id", k->rack_id);
                put(out, "label", k->label);
                for (size_t j = 0; j < k->n_tiers; j++)
                        put(out, "tier", k->tiers[j]);
                put_int(out, "capacity", k->capacity);
                put(out, "version", k->agent_version);
                put_int(out, "healthy", k->healthy);
                put(out, "last_boot", k->last_boot);
                put(out, "approved_boot", k->approved_boot);
                put_int(out, "enrolled", k->enrolled_ms);
                put_int(out, "draining", k->draining);
                put_int(out, "pending", k->pending);
                put_int(out, "leases", (int64_t)k->n_leases);
        }
        if (r == 0)
                r = lessor_rack_enrolments(store, arena, &enrolments, NULL);
        for (size_t i = 0; r == 0 && i < enrolments.n; i++) {
                (void)buf_text(out, "\nenrolment");
                put(out, "hash", enrolments.items[i].hash);
                put(out, "label", enrolments.items[i].label);
                put_int(out, "minted", enrolments.items[i].minted_ms);
                put_int(out, "expires", enrolments.items[i].expires_ms);
        }
        return r;
}

static int put_environments(struct lessor_lease_store *store, struct lessor_arena *arena, struct buf *out)
{
        struct lessor_environment_list list;
        int r = lessor_environment_list(store, arena, &list, NULL);

        for (size_t i = 0; r == 0 && i < list.n; i++) {
                struct lessor_environment env;

                r = lessor_environment_resolve(store, list.items[i].env_hash, list.items[i].e3_version, arena,
                                               &env, NULL);
                if (r < 0)
                        return r;
                (void)buf_text(out, "\nenvironment");
                put(out, "hash", env.env_hash);
                put(out, "e3", env.e3_version);
                put(out, "image", env.base_image);
                put(out, "tier", env.base_tier);
                put(out, "key", env.manifest_key);
                put(out, "manifest", env.manifest);
                put_int(out, "layers", env.n_layers);
                put_int(out, "published", env.published_ms);
        }
        return r;
}

int lease_text(struct lessor_lease_store *store, struct buf *out)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_lease_stats stats;
        bool policy = false;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = put_leases(store, arena, out);
        if (r == 0)
                r = put_racks(store, arena, out);
        if (r == 0)
                r = put_environments(store, arena, out);
        if (r == 0)
                r = lessor_rack_policy(store, &policy, NULL);
        if (r == 0)
                r = lessor_lease_stats(store, &stats);
        if (r == 0) {
                (void)buf_text(out, "\nall");
                put_int(out, "policy", policy);
                put_int(out, "capabilities", (int64_t)stats.n_capabilities);
        }
        lessor_arena_free(arena);
        return r == 0 ? buf_failed(out) : r;
}
