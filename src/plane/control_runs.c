/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/macro.h"
#include "plane/control_lease_json.h"
#include "plane/control_watch.h"

/*
 * Runs: leases that belong together. A run has no record of its own; it is what its leases say, and is there
 * as long as one of them is.
 */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

#define RUN_PAGE 1024 /* leases looked at in one step */

struct run_body {
        struct lessor_slice run;
        struct lessor_slice reason;
};

static const struct message_field run_fields[] = {
        FIELD_TEXT1(struct run_body, run, "run"),
        FIELD_TEXT1(struct run_body, reason, "reason", .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_run_body = MESSAGE_TABLE("RunCancel", struct run_body, run_fields);

static const struct control_words words[] = {
        {LESSOR_E_NOT_FOUND, "no lease belongs to run {}; leases that ended are forgotten after a while"},
        {0},
};

struct run {
        struct lessor_slice name;
        int64_t statuses[LESSOR_N_LEASE_STATUSES];
        int64_t verdicts[N_VERDICTS];
        int64_t n;
        int64_t n_claims; /* of all leases */
        int64_t created_ms;
        int64_t ended_ms; /* of the last that has ended */
};

static bool run_has_ended(const struct run *run)
{
        return run->statuses[LESSOR_LEASE_PENDING] + run->statuses[LESSOR_LEASE_CLAIMED] == 0;
}

static void count(struct run *run, const struct lessor_lease *lease)
{
        run->n++;
        run->statuses[lease->status]++;
        run->n_claims += lease->claim_number;
        if (run->created_ms == 0)
                run->created_ms = lease->created_ms;
        if (lease->ended_ms > run->ended_ms)
                run->ended_ms = lease->ended_ms;
        if (lease->status == LESSOR_LEASE_COMPLETED)
                run->verdicts[verdict_number(&lease->verdict)]++;
}

/* Counts the leases of a run, page by page. Returns 0; LESSOR_E_NOT_FOUND (there are none); what the store
 * says. */
static int add_up(struct lessor_lease_store *store, struct lessor_slice name, struct run *ret_run,
                  struct lessor_ticket *ticket)
{
        struct lessor_lease_query query = {.run = name, .max = RUN_PAGE};
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct run run = {.name = name};
        struct lessor_lease_list page;
        int e;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        do {
                lessor_arena_clear(arena);
                e = lessor_lease_list(store, &query, arena, &page, ticket);
                if (e < 0)
                        return e;
                for (size_t i = 0; i < page.n; i++)
                        count(&run, &page.items[i]);
                if (page.n > 0)
                        query.after = page.items[page.n - 1].seq;
        } while (page.n == RUN_PAGE);
        if (run.n == 0)
                return LESSOR_E_NOT_FOUND;
        *ret_run = run;
        return 0;
}

/* --- Answers --- */

#define RUN_VERSION_BYTES 128
static void run_version(const struct run *run, char ret_version[RUN_VERSION_BYTES])
{
        snprintf(ret_version, RUN_VERSION_BYTES,
                 "%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64, run->n,
                 run->n_claims, run->statuses[LESSOR_LEASE_PENDING], run->statuses[LESSOR_LEASE_CLAIMED],
                 run->statuses[LESSOR_LEASE_COMPLETED], run->ended_ms);
}

static void put_run(struct json_writer *w, const struct run *run)
{
        char version[RUN_VERSION_BYTES];

        json_open_object(w);
        json_member_text(w, "run", run->name);
        json_member_int(w, "leases", run->n);
        json_key(w, "statuses");
        json_open_object(w);
        for (int i = 0; i < LESSOR_N_LEASE_STATUSES; i++)
                json_member_int(w, message_word(&lease_status_words, i), run->statuses[i]);
        json_close_object(w);
        json_key(w, "verdicts");
        json_open_object(w);
        for (int i = 0; i < N_VERDICTS; i++)
                json_member_int(w, message_word(&verdict_words, i), run->verdicts[i]);
        json_close_object(w);
        json_member_bool(w, "ended", run_has_ended(run));
        json_member_int(w, "createdAt", run->created_ms);
        if (run_has_ended(run))
                json_member_int(w, "endedAt", run->ended_ms);
        run_version(run, version);
        json_member_cstr(w, "version", version);
        json_close_object(w);
}

/* `changed`: 0 or 1; -1: the answer does not say. */
static void answer_run(struct control_call *call, struct lessor_slice name, int changed)
{
        struct lessor_ticket ticket = {0};
        struct buf json = {0};
        struct json_writer w;
        struct run run;
        int e = add_up(call->parts->rack->parts.store, name, &run, &ticket);

        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, name);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        if (changed >= 0)
                json_member_bool(&w, "changed", changed == 1);
        json_key(&w, "run");
        put_run(&w, &run);
        json_close_object(&w);
        control_answer(call, &json);
}

/* --- All of them --- */

/* Runs by name, in the order in which their names sort. */
struct run_list {
        struct run *items;
        size_t n;
};

static int by_run(const void *a, const void *b)
{
        const struct lessor_lease *x = a, *y = b;
        int c = lessor_slice_cmp(x->run, y->run);

        if (c != 0)
                return c;
        return x->seq < y->seq ? -1 : 1;
}

static int by_age(const void *a, const void *b)
{
        const struct run *x = a, *y = b;

        if (x->created_ms != y->created_ms)
                return x->created_ms < y->created_ms ? -1 : 1;
        return lessor_slice_cmp(x->name, y->name);
}

/* Groups leases by their run, and sorts them for that; those without one are left out. */
static int group(struct lessor_arena *arena, struct lessor_lease_list *leases, struct run_list *ret_runs)
{
        struct run *runs = lessor_arena_array(arena, leases->n, sizeof(*runs));
        size_t n = 0;

        if (runs == NULL)
                return LESSOR_E_NOMEM;
        if (leases->n > 0)
                qsort(leases->items, leases->n, sizeof(*leases->items), by_run);
        for (size_t i = 0; i < leases->n; i++) {
                const struct lessor_lease *lease = &leases->items[i];

                if (lease->run.n == 0)
                        continue;
                if (n == 0 || !lessor_slice_equal(runs[n - 1].name, lease->run))
                        runs[n++].name = lease->run;
                count(&runs[n - 1], lease);
        }
        if (n > 0)
                qsort(runs, n, sizeof(*runs), by_age);
        *ret_runs = (struct run_list){runs, n};
        return 0;
}

static void list(struct control_call *call)
{
        const struct lessor_lease_query query = {.max = LIMIT_CONTROL_LEASES + 1};
        struct lessor_ticket ticket = {0};
        struct lessor_lease_list leases;
        struct run_list runs = {0};
        struct buf json = {0};
        struct json_writer w;
        bool more;
        int e = lessor_lease_list(call->parts->rack->parts.store, &query, call->arena, &leases, &ticket);

        control_rests_on(call, ticket);
        more = e == 0 && leases.n > LIMIT_CONTROL_LEASES;
        if (more)
                leases.n = LIMIT_CONTROL_LEASES;
        if (e == 0)
                e = group(call->arena, &leases, &runs);
        if (e < 0) {
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "runs");
        json_open_array(&w);
        for (size_t i = 0; i < runs.n; i++)
                put_run(&w, &runs.items[i]);
        json_close_array(&w);
        json_member_bool(&w, "more", more);
        json_close_object(&w);
        control_answer(call, &json);
}

/* --- Endpoints --- */

void control_run_get(struct control_call *call, const void *body)
{
        struct lessor_slice run;

        (void)body;
        if (control_leases(call) == NULL || !control_query(call, "run", &run))
                return;
        if (run.p == NULL)
                list(call);
        else
                answer_run(call, run, -1);
}

/* With `until_end` one lease that has not ended is enough to wait on, however many there are. */
static int watch_look(struct control_call *call, const void *subject, struct lessor_arena *arena,
                      struct lessor_slice after, bool until_end, bool *ret_changed)
{
        const struct lessor_slice *name = subject;
        struct lessor_lease_store *store = call->parts->rack->parts.store;
        struct lessor_lease_query query = {
                .run = *name, .statuses = 1u << LESSOR_LEASE_PENDING | 1u << LESSOR_LEASE_CLAIMED, .max = 1};
        char version[RUN_VERSION_BYTES];
        struct lessor_ticket ticket = {0};
        struct lessor_lease_list open;
        struct run run;
        int e;

        if (until_end) {
                e = lessor_lease_list(store, &query, arena, &open, &ticket);
                if (e == 0)
                        *ret_changed = open.n == 0; /* a run that there is not is for answer_run to say */
                return e;
        }
        e = add_up(store, *name, &run, &ticket);
        if (e < 0)
                return e;
        run_version(&run, version);
        *ret_changed = after.p == NULL || !lessor_slice_equal(after, lessor_slice_of(version));
        return 0;
}

static void watch_answer(struct control_call *call, const void *subject, bool changed)
{
        const struct lessor_slice *name = subject;

        answer_run(call, *name, changed);
}

static void watch_refuse(struct control_call *call, const void *subject, int error)
{
        const struct lessor_slice *name = subject;

        control_refuse_error(call, error, words, *name);
}

void control_run_watch(struct control_call *call, const void *body)
{
        static const struct watch_kind kind = {watch_look, watch_answer, watch_refuse};
        struct lessor_slice *run = lessor_arena_array(call->arena, 1, sizeof(*run));

        (void)body;
        if (run == NULL)
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
        else if (control_leases(call) == NULL || !control_query(call, "run", run))
                return;
        else if (run->p == NULL)
                control_refuse(call, 400, "invalid", "name the run: ?run=RUN");
        else
                control_watch_run(call, &kind, run);
}

void control_run_cancel(struct control_call *call, const void *body)
{
        const struct run_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0};
        struct buf json = {0};
        size_t n;
        int e;

        if (store == NULL)
                return;
        e = lessor_lease_cancel_run(store, in->run, in->reason, &n, &ticket);
        control_rests_on(call, ticket);
        if (e < 0) {
                control_refuse_error(call, e, words, in->run);
                return;
        }
        buf_printf(&json, "{\"ok\":true,\"cancelled\":%zu}", n);
        control_answer(call, &json);
}
