/* SPDX-License-Identifier: MIT */
#include "plane/control_lease_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/macro.h"

static const char *const status_names[] = {"pending",   "claimed",  "completed", "superseded",
                                           "cancelled", "poisoned", "expired"};
const struct message_words lease_status_words = {status_names, ARRAY_SIZE(status_names)};

static const char *const view_names[] = {"pending",    "claimed",   "lost",     "completed",
                                         "superseded", "cancelled", "poisoned", "expired"};
const struct message_words lease_view_words = {view_names, ARRAY_SIZE(view_names)};

static const char *const mode_names[] = {"task", "unit", "function"};
const struct message_words lease_mode_words = {mode_names, ARRAY_SIZE(mode_names)};

static const char *const state_names[] = {"running", "success",     "failed",
                                          "error",   "interrupted", "cancelled"};
const struct message_words attempt_state_words = {state_names, ARRAY_SIZE(state_names)};

static const char *const cause_names[] = {"",          "reclaimed",    "lost",       "superseded",
                                          "cancelled", "deregistered", "undelivered"};
const struct message_words lease_cause_words = {cause_names, ARRAY_SIZE(cause_names)};

static const char *const verdict_names[N_VERDICTS] = {"success", "failed", "error", "cancelled"};
const struct message_words verdict_words = {verdict_names, N_VERDICTS};

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "there is no lease {}; `lessor lease ls` lists them, and those that ended are "
                             "forgotten after a while"},
        {LESSOR_E_TERMINAL, "lease {} is neither poisoned nor expired, so there is nothing to replay"},
        {0},
};

/* --- Answers --- */

int verdict_number(const struct lessor_verdict *verdict)
{
        if (verdict->cancelled) /* tested first, rack-protocol 10 */
                return 3;
        if (verdict->error)
                return 2;
        return verdict->success ? 0 : 1;
}

bool lease_has_ended(const struct lessor_lease *lease)
{
        return lease->status != LESSOR_LEASE_PENDING && lease->status != LESSOR_LEASE_CLAIMED;
}

void lease_version(const struct lessor_lease *lease, char ret_version[LEASE_VERSION_BYTES])
{
        snprintf(ret_version, LEASE_VERSION_BYTES, "%d.%d.%u.%u.%" PRId64 ".%" PRId64, (int)lease->status,
                 (int)lease->view, lease->claim_number, lease->attempts_spent, lease->deadline_ms,
                 lease->ended_ms);
}

static void put_instant(struct json_writer *w, const char *key, int64_t at_ms)
{
        if (at_ms > 0)
                json_member_int(w, key, at_ms);
}

/* Texts that may be empty and then say nothing. */
static void put_some(struct json_writer *w, const char *key, struct lessor_slice text)
{
        if (text.n > 0)
                json_member_text(w, key, text);
}

static void put_cause(struct json_writer *w, enum lessor_cause cause)
{
        if (cause != LESSOR_CAUSE_NONE)
                json_member_cstr(w, "cause", message_word(&lease_cause_words, (int)cause));
}

static void put_submitted(struct json_writer *w, const struct lessor_lease *lease)
{
        json_member_int(w, "number", (int64_t)lease->seq);
        json_member_text(w, "repo", lease->name.repo);
        json_member_text(w, "leaseId", lease->name.lease_id);
        put_some(w, "workspace", lease->workspace);
        put_some(w, "taskName", lease->task_name);
        put_some(w, "taskHash", lease->task_hash);
        put_some(w, "inputsHash", lease->inputs_hash);
        json_member_text(w, "tier", lease->tier);
        put_some(w, "computeSize", lease->compute_size);
        put_some(w, "e3Version", lease->floor);
        put_some(w, "environment", lease->environment);
        put_some(w, "run", lease->run);
        put_some(w, "owner", lease->owner);
        json_member_cstr(w, "mode", message_word(&lease_mode_words, (int)lease->mode));
}

static void put_verdict(struct json_writer *w, const struct lessor_verdict *verdict)
{
        json_key(w, "verdict");
        json_open_object(w);
        json_member_cstr(w, "state", message_word(&verdict_words, verdict_number(verdict)));
        put_some(w, "outputHash", verdict->output_hash);
        if (verdict->has_exit_code)
                json_member_int(w, "exitCode", verdict->exit_code);
        put_some(w, "error", verdict->message);
        if (verdict->has_peak_bytes)
                json_member_int(w, "peakBytes", verdict->peak_bytes);
        json_close_object(w);
}

static void put_progress(struct json_writer *w, const struct lessor_lease *lease)
{
        char version[LEASE_VERSION_BYTES];

        json_member_cstr(w, "status", message_word(&lease_status_words, (int)lease->status));
        json_member_cstr(w, "view", message_word(&lease_view_words, (int)lease->view));
        json_member_bool(w, "held", lease->held);
        json_member_int(w, "createdAt", lease->created_ms);
        put_instant(w, "expiresAt", lease->expires_ms);
        put_some(w, "claimedBy", lease->claimed_by);
        put_instant(w, "claimedAt", lease->claimed_ms);
        put_instant(w, "deadlineAt", lease->deadline_ms);
        put_instant(w, "endedAt", lease->ended_ms);
        if (lease->claim_number > 0)
                json_member_int(w, "claimNumber", lease->claim_number);
        put_some(w, "attempt", lease->attempt);
        json_member_int(w, "attemptsSpent", lease->attempts_spent);
        if (lease->attempt_limit > 0)
                json_member_int(w, "attemptLimit", lease->attempt_limit);
        put_cause(w, lease->cause);
        if (lease->status == LESSOR_LEASE_COMPLETED)
                put_verdict(w, &lease->verdict);
        json_member_int(w, "targets", (int64_t)lease->n_targets);
        lease_version(lease, version);
        json_member_cstr(w, "version", version);
}

void lease_put(struct json_writer *w, const struct lessor_lease *lease)
{
        json_open_object(w);
        put_submitted(w, lease);
        put_progress(w, lease);
        json_member_raw(w, "event", lease->event);
        json_member_raw(w, "result", lease->result);
        json_close_object(w);
}

static void put_attempt(struct json_writer *w, const struct lessor_attempt *attempt)
{
        json_open_object(w);
        json_member_int(w, "number", attempt->number);
        put_some(w, "executionId", attempt->execution_id);
        json_member_text(w, "rackId", attempt->rack_id);
        json_member_text(w, "bootId", attempt->boot_id);
        json_member_int(w, "startedAt", attempt->started_ms);
        put_instant(w, "endedAt", attempt->ended_ms);
        json_member_cstr(w, "state", message_word(&attempt_state_words, (int)attempt->state));
        put_cause(w, attempt->cause);
        put_some(w, "reason", attempt->reason);
        put_some(w, "outputHash", attempt->output_hash);
        if (attempt->has_exit_code)
                json_member_int(w, "exitCode", attempt->exit_code);
        if (attempt->has_peak_bytes)
                json_member_int(w, "peakBytes", attempt->peak_bytes);
        json_member_bool(w, "counts", attempt->counts);
        json_close_object(w);
}

void lease_put_attempts(struct json_writer *w, const struct lessor_attempt_list *attempts)
{
        json_key(w, "attempts");
        json_open_array(w);
        for (size_t i = 0; i < attempts->n; i++)
                put_attempt(w, &attempts->items[i]);
        json_close_array(w);
}

/* --- Requests --- */

bool lease_ref_holds(const void *body)
{
        const struct lease_ref *ref = body;
        bool named = ref->repo.p != NULL && ref->lease_id.p != NULL;
        bool half = (ref->repo.p != NULL) != (ref->lease_id.p != NULL);

        return !half && named != (ref->number > 0);
}

bool lease_ref_of_query(struct control_call *call, struct lease_ref *ret_ref)
{
        struct lease_ref ref = {0};

        if (!control_query(call, "repo", &ref.repo) || !control_query(call, "lease", &ref.lease_id) ||
            !control_query_int(call, "number", 1, INT64_C(1) << 53, 0, &ref.number))
                return false;
        if (!lease_ref_holds(&ref)) {
                control_refuse(call, 400, "invalid", "name the lease: ?repo=REPO&lease=LEASE, or ?number=N");
                return false;
        }
        *ret_ref = ref;
        return true;
}

static void refuse_number(struct control_call *call, int error, int64_t number)
{
        char text[32];

        snprintf(text, sizeof(text), "%" PRId64, number);
        control_refuse_error(call, error, words, lessor_slice_of(text));
}

bool lease_ref_resolve(struct control_call *call, const struct lease_ref *ref,
                       struct lessor_lease_name *ret_name)
{
        struct lessor_lease_query query = {.after = (uint64_t)(ref->number - 1), .max = 1};
        struct lessor_lease_store *store;
        struct lessor_lease_list found;
        struct lessor_ticket ticket = {0};
        int e;

        if (ref->number == 0) {
                *ret_name = (struct lessor_lease_name){ref->repo, ref->lease_id};
                return true;
        }
        store = control_leases(call);
        if (store == NULL)
                return false;
        e = lessor_lease_list(store, &query, call->arena, &found, &ticket);
        if (e == 0 && (found.n == 0 || found.items[0].seq != (uint64_t)ref->number))
                e = LESSOR_E_NOT_FOUND;
        control_rests_on(call, ticket);
        if (e < 0) {
                refuse_number(call, e, ref->number);
                return false;
        }
        *ret_name = found.items[0].name;
        return true;
}

void lease_refuse(struct control_call *call, int error, struct lessor_slice lease_id)
{
        control_refuse_error(call, error, words, lease_id);
}
