/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/uuid.h"
#include "client/agent_rules.h"
#include "client/ask_table.h"
#include "client/site_client.h"
#include "crypto/key_id.h"

/*
 * One thread, three kinds of traffic: enqueues and seals, which are short and made one at a time, and two
 * reads that are under way all the while, `pending` and `results`. A relay that knows `wait` holds them; one
 * that does not is polled, quickly while there is something to expect.
 */

#define DEADLINE_DEFAULT_MS 3600000
#define REFRESH_MS          60000 /* how long an ask is silent before the relay is asked whether it still has it */
#define ENQUEUES_A_ROUND    16 /* so that a long queue does not keep devices waiting for their payloads */
#define POLL_FIRST_MS       50
#define POLL_LONGEST_MS     1000
#define TROUBLE_FIRST_MS    500
#define TROUBLE_LONGEST_MS  15000

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* One of the two reads. Instants are monotonic. */
struct reading {
        const char *endpoint;
        struct http_transfer *transfer; /* NULL: none is under way */
        int64_t started_ms;
        int64_t wait_ms;
        int64_t due_ms;
        unsigned idle;     /* answers in a row that brought nothing and were not held */
        unsigned troubles; /* failures in a row */
};

struct lessor_pump {
        struct lessor_site_client *client;
        struct lessor_pump_events events;
        void *context;
        struct ask_table asks;
        struct reading pending;
        struct reading results;
};

int lessor_pump_new(struct lessor_site_client *client, const struct lessor_pump_events *events, void *context,
                    struct lessor_pump **ret_pump)
{
        struct lessor_pump *pump = calloc(1, sizeof(*pump));

        if (pump == NULL)
                return LESSOR_E_NOMEM;
        pump->client = client;
        pump->events = *events;
        pump->context = context;
        pump->pending.endpoint = "pending";
        pump->results.endpoint = "results";
        *ret_pump = pump;
        return 0;
}

struct lessor_pump *lessor_pump_free(struct lessor_pump *pump)
{
        if (pump == NULL)
                return NULL;
        http_transfer_free(pump->pending.transfer);
        http_transfer_free(pump->results.transfer);
        ask_table_done(&pump->asks);
        free(pump);
        return NULL;
}

int lessor_pump_add(struct lessor_pump *pump, const struct lessor_ask *ask, struct lessor_slice *ret_job_id)
{
        char uuid[UUID_TEXT_LEN + 1];
        enum lessor_size_class size_class;
        struct lessor_ask filled = *ask;
        struct ask *added;
        int r;

        if (ask->owner.n == 0)
                return LESSOR_E_INVALID;
        r = lessor_payload_check(ask->kind, ask->payload, &size_class);
        if (r < 0)
                return r;
        if (filled.job_id.p == NULL) {
                uuid_v4(uuid);
                filled.job_id = lessor_slice_of(uuid);
        }
        if (filled.deadline_ms == 0)
                filled.deadline_ms = clock_now_ms(pump->client->caller.clock) + DEADLINE_DEFAULT_MS;
        r = ask_table_add(&pump->asks, &filled, size_class, &added);
        if (r == 0 && ret_job_id != NULL)
                *ret_job_id = added->stub.id;
        return r;
}

size_t lessor_pump_outstanding(const struct lessor_pump *pump)
{
        return pump->asks.n;
}

static void tell(struct lessor_pump *pump, const struct lessor_ask_progress *progress)
{
        if (pump->events.progress != NULL)
                pump->events.progress(pump->context, progress);
}

static void tell_later(struct lessor_pump *pump, struct lessor_slice job_id, int error)
{
        tell(pump, &(struct lessor_ask_progress){
                           .job_id = job_id,
                           .step = LESSOR_ASK_LATER,
                           .error = error,
                           .message = lessor_site_client_problem(pump->client),
                   });
}

/* The ask is over without an answer. */
static void give_up(struct lessor_pump *pump, struct ask *ask, int error, const char *message)
{
        ask_table_take(&pump->asks, ask);
        if (pump->events.failed != NULL)
                pump->events.failed(pump->context, ask->stub.id, error, message);
        ask_free(ask);
}

/* An ask may come to nothing; these mean that nothing ever comes of any. */
static bool refuses_the_site(const struct lessor_pump *pump, int error)
{
        const struct relay_failure *failure = &pump->client->failure;

        return error == LESSOR_E_PERMISSION || error == LESSOR_E_NEWER || error == LESSOR_E_STALE ||
               (error == LESSOR_E_REFUSED && failure->status == 401);
}

static int64_t trouble_pause(const struct lessor_pump *pump, unsigned troubles)
{
        int64_t asked_ms = pump->client->failure.retry_after_ms;
        int64_t pause_ms = rules_backoff_ms(troubles, TROUBLE_FIRST_MS, TROUBLE_LONGEST_MS);

        return asked_ms > pause_ms ? asked_ms : pause_ms;
}

static int enqueue(struct lessor_pump *pump, struct ask *ask)
{
        enum lessor_job_state state;
        bool first = !ask->enqueued;
        int r = site_enqueue(pump->client, &ask->stub, &state);

        if (r == 0) {
                ask->enqueued = true;
                ask->troubles = 0;
                ask->due_ms = clock_monotonic_ms() + REFRESH_MS;
                if (first) {
                        pump->pending.idle = pump->results.idle = 0;
                        tell(pump, &(struct lessor_ask_progress){.job_id = ask->stub.id,
                                                                 .step = LESSOR_ASK_QUEUED});
                }
                return 0;
        }
        if (r == LESSOR_E_NOMEM || r == LESSOR_E_CLOSED)
                return r;
        if (refuses_the_site(pump, r))
                return LESSOR_E_REFUSED;
        /* A refusal of what the relay has accepted already says nothing about the job that it has. */
        if (r != LESSOR_E_LATER && first) {
                give_up(pump, ask, r == LESSOR_E_PROTOCOL ? r : LESSOR_E_REFUSED,
                        lessor_site_client_problem(pump->client));
                return 0;
        }
        ask->due_ms = clock_monotonic_ms() + trouble_pause(pump, ask->troubles++);
        if (first)
                tell_later(pump, ask->stub.id, r);
        return 0;
}

static int enqueue_due(struct lessor_pump *pump)
{
        int64_t now_ms = clock_monotonic_ms();
        size_t left = ENQUEUES_A_ROUND;
        struct ask *next;

        for (struct ask *ask = pump->asks.oldest; ask != NULL && left > 0; ask = next) {
                int r;

                next = ask->next;
                if (ask->due_ms > now_ms)
                        continue;
                left--;
                r = enqueue(pump, ask);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void expire(struct lessor_pump *pump)
{
        int64_t now_ms = clock_now_ms(pump->client->caller.clock);
        struct ask *next;

        for (struct ask *ask = pump->asks.oldest; ask != NULL; ask = next) {
                next = ask->next;
                if (ask->stub.deadline_ms <= now_ms)
                        give_up(pump, ask, LESSOR_E_EXPIRED, "nobody answered before the deadline");
        }
}

/* Hands one device its payload. `ret_moved`: something came of it. */
static int serve(struct lessor_pump *pump, struct ask *ask, const struct lessor_pending *pending,
                 bool *ret_moved)
{
        struct key_id device = {{0}};
        struct lessor_ask_progress progress = {
                .job_id = ask->stub.id,
                .runner_id = pending->runner_id,
                .lease_id = pending->lease_id,
        };
        int r;

        if (lessor_slice_equal(ask->lease_id, pending->lease_id))
                return 0; /* sealed a moment ago: the answer was on its way already */
        if (key_id_of_text(pending->device.identity, &device) == 0)
                progress.device_key_id = key_id_text(&device);
        if (!ask_may_go_to(ask, key_id_text(&device))) {
                progress.step = LESSOR_ASK_LATER;
                progress.error = LESSOR_E_PERMISSION;
                progress.message = "a device that was not asked for holds the job, and gets nothing";
                tell(pump, &progress);
                return 0;
        }
        progress.step = LESSOR_ASK_CLAIMED;
        tell(pump, &progress);
        r = site_seal(pump->client, pending, ask->payload, ask->stub.deadline_ms);
        switch (r) {
        case 0:
                *ret_moved = true;
                pump->results.idle = 0;
                ask->due_ms = clock_monotonic_ms() + REFRESH_MS;
                progress.step = LESSOR_ASK_SEALED;
                tell(pump, &progress);
                return ask_note_sealed(ask, pending->lease_id, progress.device_key_id);
        case LESSOR_E_NOMEM:
        case LESSOR_E_CLOSED:
                return r;
        case LESSOR_E_TOO_LATE: /* claimed, and lost again: it will be offered to somebody else */
                return 0;
        case LESSOR_E_NOT_FOUND: /* the relay has forgotten it */
                ask->due_ms = 0;
                return 0;
        case LESSOR_E_LATER:
        case LESSOR_E_PROTOCOL:
        case LESSOR_E_BAD_SIGNATURE: /* nothing is sealed to this device, but another may come */
                tell_later(pump, ask->stub.id, r);
                return 0;
        default:
                if (refuses_the_site(pump, r))
                        return LESSOR_E_REFUSED;
                give_up(pump, ask, r == LESSOR_E_TOO_LARGE ? r : LESSOR_E_REFUSED,
                        lessor_site_client_problem(pump->client));
                return 0;
        }
}

static int take_pending(struct lessor_pump *pump, const struct http_transfer *transfer, bool *ret_moved)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_pending_list list;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = site_pending_read(pump->client, transfer, arena, &list);
        for (size_t i = 0; r == 0 && i < list.n; i++) {
                struct ask *ask = ask_table_find(&pump->asks, list.items[i].job_id);

                if (ask != NULL)
                        r = serve(pump, ask, &list.items[i], ret_moved);
        }
        return r;
}

/* True if the relay may forget the result. */
static bool deliver(struct lessor_pump *pump, struct ask *ask, const struct lessor_answer *answer)
{
        bool stored = false;

        ask_table_take(&pump->asks, ask);
        if (pump->events.answered != NULL)
                stored = pump->events.answered(pump->context, answer);
        ask_free(ask);
        return stored;
}

static int take_results(struct lessor_pump *pump, const struct http_transfer *transfer, bool *ret_moved)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_site_result_list list;
        struct lessor_answer answer;
        struct lessor_slice *stored;
        size_t n_stored = 0;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = site_results_read(pump->client, transfer, arena, &list);
        if (r < 0)
                return r;
        stored = lessor_arena_array(arena, list.n, sizeof(*stored));
        if (stored == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < list.n; i++) {
                struct ask *ask = ask_table_find(&pump->asks, list.items[i].job_id);

                if (ask == NULL)
                        continue; /* answered before, or asked by another process of this site */
                r = lessor_site_open(pump->client, &list.items[i], arena, &answer);
                if (r == LESSOR_E_NOMEM)
                        return r;
                *ret_moved = true;
                /* Nobody can have read the payload whom it was not sealed to. */
                if (r == 0 && answer.disposition == LESSOR_DISPOSITION_OK &&
                    !ask_may_come_from(ask, answer.device_key_id))
                        r = LESSOR_E_NOT_FOR_US;
                if (r < 0)
                        give_up(pump, ask, r, lessor_error_text(r));
                else if (deliver(pump, ask, &answer))
                        stored[n_stored++] = answer.job_id;
        }
        if (n_stored == 0)
                return 0;
        /* Not acknowledged, the results come again and are dropped: no reason to stop. */
        r = lessor_site_ack(pump->client, stored, n_stored);
        return r == LESSOR_E_NOMEM || r == LESSOR_E_CLOSED ? r : 0;
}

static int start_reading(struct lessor_pump *pump, struct reading *reading, int64_t left_ms)
{
        int64_t now_ms = clock_monotonic_ms();

        if (reading->transfer != NULL || reading->due_ms > now_ms)
                return 0;
        reading->started_ms = now_ms;
        reading->wait_ms = left_ms < LIMIT_HELD_WAIT_MS ? left_ms : LIMIT_HELD_WAIT_MS;
        return relay_get_start(&pump->client->caller, reading->endpoint, reading->wait_ms,
                               &reading->transfer);
}

static bool is_done(const struct reading *reading)
{
        return reading->transfer != NULL && http_transfer_done(reading->transfer);
}

/* When to read again: at once after news or a held answer, else later each time. */
static int finish_reading(struct lessor_pump *pump, struct reading *reading)
{
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = NULL;
        int64_t held_ms = clock_monotonic_ms() - reading->started_ms;
        bool moved = false;
        int r;

        if (!is_done(reading))
                return 0;
        transfer = TAKE(reading->transfer);
        r = reading == &pump->pending ? take_pending(pump, transfer, &moved)
                                      : take_results(pump, transfer, &moved);
        if (r == LESSOR_E_NOMEM || r == LESSOR_E_CLOSED)
                return r;
        if (r < 0 && r != LESSOR_E_LATER && r != LESSOR_E_PROTOCOL && r != LESSOR_E_TOO_LARGE)
                return LESSOR_E_REFUSED;
        if (r < 0) {
                reading->due_ms = clock_monotonic_ms() + trouble_pause(pump, reading->troubles++);
                tell_later(pump, (struct lessor_slice){NULL, 0}, r);
                return 0;
        }
        reading->troubles = 0;
        if (moved || (reading->wait_ms > 0 && held_ms >= reading->wait_ms / 2)) {
                reading->idle = 0;
                reading->due_ms = 0;
        } else {
                reading->due_ms = clock_monotonic_ms() +
                                  rules_backoff_ms(reading->idle++, POLL_FIRST_MS, POLL_LONGEST_MS);
        }
        return 0;
}

static int64_t sooner(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

/* How long nothing needs doing unless an answer comes. */
static int64_t next_due_ms(const struct lessor_pump *pump, int64_t left_ms)
{
        int64_t now_ms = clock_monotonic_ms();
        int64_t wall_ms = clock_now_ms(pump->client->caller.clock);

        if (pump->pending.transfer == NULL)
                left_ms = sooner(left_ms, pump->pending.due_ms - now_ms);
        if (pump->results.transfer == NULL)
                left_ms = sooner(left_ms, pump->results.due_ms - now_ms);
        for (const struct ask *ask = pump->asks.oldest; ask != NULL; ask = ask->next) {
                left_ms = sooner(left_ms, ask->due_ms - now_ms);
                left_ms = sooner(left_ms, ask->stub.deadline_ms - wall_ms);
        }
        return left_ms < 0 ? 0 : left_ms;
}

static int round_trip(struct lessor_pump *pump, int64_t left_ms)
{
        int r;

        expire(pump);
        r = enqueue_due(pump);
        if (r == 0 && pump->asks.n > 0)
                r = start_reading(pump, &pump->pending, left_ms);
        if (r == 0 && pump->asks.n > 0)
                r = start_reading(pump, &pump->results, left_ms);
        if (r < 0 || pump->asks.n == 0)
                return r;
        /* An answer may have come while something else was waited for; nothing would wake us for it again. */
        if (!is_done(&pump->pending) && !is_done(&pump->results))
                r = http_client_wait(pump->client->http, pump->client->caller.stop,
                                     next_due_ms(pump, left_ms));
        if (r < 0 && r != LESSOR_E_TIMEOUT)
                return r;
        r = finish_reading(pump, &pump->results);
        return r < 0 ? r : finish_reading(pump, &pump->pending);
}

int lessor_pump_run(struct lessor_pump *pump, int64_t for_ms)
{
        int64_t started_ms = clock_monotonic_ms();
        int r = 0;

        while (r == 0 && pump->asks.n > 0) {
                int64_t left_ms = for_ms < 0 ? INT32_MAX : for_ms - (clock_monotonic_ms() - started_ms);

                if (left_ms <= 0)
                        r = LESSOR_E_TIMEOUT;
                else
                        r = round_trip(pump, left_ms);
        }
        /* An answer that nobody waits for would be stale by the next run. */
        pump->pending.transfer = http_transfer_free(pump->pending.transfer);
        pump->results.transfer = http_transfer_free(pump->results.transfer);
        return r;
}
