/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "http/internal.h"
#include "lessor/error.h"

static bool move(struct connection *c, int from, int to)
{
        return atomic_compare_exchange_strong(&c->suspension, &from, to);
}

/* Prepared may become asleep between the two looks, hence the third. */
static bool wake_from(struct connection *c, int prepared, int asleep, int why)
{
        if (!move(c, asleep, why)) {
                if (move(c, prepared, why))
                        return true;
                if (!move(c, asleep, why))
                        return false;
        }
        worker_resume(c); /* it cannot end before: MHD does not touch what is suspended */
        return true;
}

bool connection_wake(struct connection *c, enum suspension why)
{
        if (wake_from(c, SUSPENSION_WAIT_PREPARED, SUSPENSION_WAIT, (int)why))
                return true;
        return why == SUSPENSION_ABORT && wake_from(c, SUSPENSION_HOLD_PREPARED, SUSPENSION_HOLD, (int)why);
}

/* Ends a prepared suspension without sleeping. Returns how it was woken meanwhile, or SUSPENSION_NONE. */
static enum suspension stay_awake(struct connection *c)
{
        int was = atomic_exchange(&c->suspension, SUSPENSION_NONE);

        return was < SUSPENSION_WOKEN ? SUSPENSION_NONE : (enum suspension)was;
}

static void sleep_now(struct connection *c, int prepared, int asleep)
{
        MHD_suspend_connection(c->mhd);
        c->asleep = true;
        if (!move(c, prepared, asleep))
                worker_resume(c); /* woken since */
}

void connection_job_prepare(struct connection *c)
{
        atomic_store(&c->suspension, SUSPENSION_JOB_PREPARED);
}

void connection_job_forget(struct connection *c)
{
        stay_awake(c);
}

void connection_job_sleep(struct connection *c)
{
        c->on_job = true;
        c->worker->n_jobs++;
        sleep_now(c, SUSPENSION_JOB_PREPARED, SUSPENSION_JOB);
}

void connection_job_over(struct connection *c)
{
        wake_from(c, SUSPENSION_JOB_PREPARED, SUSPENSION_JOB, SUSPENSION_WOKEN);
}

static void continue_with(struct request *r, enum suspension why)
{
        r->phase = PHASE_RUN;
        r->wait_over = why != SUSPENSION_WOKEN;
        r->gone |= why == SUSPENSION_GONE;
}

static void failed_without_text(struct http_request *request, void *context)
{
        (void)context;
        answer_error(request_of(request), 503, "what this answer rests on could not be written");
}

/* The answer cannot be given. Whoever rendered it says so in its own words. */
static void take_back(struct request *r)
{
        answer_drop(r);
        r->next = r->failed != NULL ? r->failed : failed_without_text;
        r->next_context = r->when_context;
        r->phase = PHASE_RUN;
}

static void told(void *context, int result)
{
        struct connection *c = context;

        atomic_store(&c->held_result, result);
        wake_from(c, SUSPENSION_HOLD_PREPARED, SUSPENSION_HOLD, SUSPENSION_WOKEN);
}

enum verdict { VERDICT_KNOWN, VERDICT_ASLEEP, VERDICT_ABORT };

/*
 * Asks whether the answer may go. When that is known, the answer stands or has been taken back, and the next
 * run makes another.
 */
static enum verdict hold(struct request *r)
{
        struct connection *c = r->connection;
        http_when *when = r->when;
        int result;

        r->when = NULL;
        atomic_store(&c->held_result, 0);
        atomic_store(&c->suspension, SUSPENSION_HOLD_PREPARED);
        result = when(r->when_context, told, c);
        if (result == 0 && atomic_load(&c->suspension) == SUSPENSION_HOLD_PREPARED) {
                r->phase = PHASE_HOLD;
                sleep_now(c, SUSPENSION_HOLD_PREPARED, SUSPENSION_HOLD);
                return VERDICT_ASLEEP;
        }
        if (stay_awake(c) == SUSPENSION_ABORT)
                return VERDICT_ABORT;
        if (result < 0)
                atomic_store(&c->held_result, result);
        if (atomic_load(&c->held_result) != 0)
                take_back(r);
        return VERDICT_KNOWN;
}

/* Parks the request; false when its continuation is due at once. */
static bool park(struct request *r)
{
        struct http_server *server = r->server;
        struct connection *c = r->connection;
        bool draining = atomic_load(&server->draining);

        /* Left before there was anything to wake. Whoever leaves from here on finds us prepared. */
        if (atomic_load(&c->left)) {
                stay_awake(c);
                continue_with(r, SUSPENSION_GONE);
                return false;
        }
        if (!draining && r->wait_ms != 0 && atomic_load(&c->suspension) == SUSPENSION_WAIT_PREPARED) {
                r->phase = PHASE_WAIT;
                if (r->wait_ms > 0)
                        keeper_time(server->keeper, c, r->wait_ms);
                move_gauge(&c->worker->n_parked, 1);
                sleep_now(c, SUSPENSION_WAIT_PREPARED, SUSPENSION_WAIT);
                return true;
        }
        if (draining && r->wait_over) { /* it waits again and again */
                stay_awake(c);
                answer_error(r, 503, "the server is stopping");
                return false;
        }
        if (stay_awake(c) == SUSPENSION_WOKEN)
                continue_with(r, SUSPENSION_WOKEN);
        else
                continue_with(r, SUSPENSION_TIME);
        return false;
}

/* Waits for the job that the run has asked for. */
static void park_on_job(struct request *r)
{
        r->phase = PHASE_JOB;
        connection_job_prepare(r->connection);
        offload_start(r, false);
        connection_job_sleep(r->connection);
}

/* A run has neither answered nor suspended. True when there is something to run, or to answer, now. */
static bool go_on(struct request *r)
{
        if (r->early)
                return admission_next(r);
        answer_error(r, 500, "the request was not answered");
        return true;
}

enum MHD_Result request_run(struct request *r)
{
        for (;;) {
                http_handler *next = r->next;
                enum verdict verdict = VERDICT_KNOWN;

                r->next = NULL;
                r->prepared = r->suspend_asked = false;
                if (next != NULL && !r->answered)
                        next(&r->public, r->next_context);
                if (atomic_load(&r->server->aborting) || (r->gone && !r->answered))
                        return MHD_NO;
                if (!r->answered && r->offload != NULL) {
                        park_on_job(r);
                        return MHD_YES;
                }
                if (!r->answered && r->suspend_asked) {
                        if (park(r))
                                return MHD_YES;
                        continue;
                }
                if (r->prepared)
                        stay_awake(r->connection);
                if (!r->answered) {
                        if (go_on(r))
                                continue;
                        return request_has_body(r) ? MHD_YES : upload_whole(r);
                }
                if (r->when != NULL && !r->gone)
                        verdict = hold(r);
                if (verdict == VERDICT_ASLEEP)
                        return MHD_YES;
                if (verdict == VERDICT_ABORT)
                        return MHD_NO;
                if (r->answered)
                        return answer_queue(r);
        }
}

static void wait_ended(struct request *r)
{
        move_gauge(&r->connection->worker->n_parked, -1);
        if (r->wait_ms > 0)
                keeper_forget(r->server->keeper, r->connection);
}

enum MHD_Result request_woken(struct request *r)
{
        struct connection *c = r->connection;
        enum suspension why;

        if (r->phase == PHASE_WAIT)
                wait_ended(r);
        why = stay_awake(c);
        if (why == SUSPENSION_ABORT) {
                r->phase = PHASE_RUN; /* its wait is over, and counted */
                return MHD_NO;
        }
        if (r->phase == PHASE_WAIT) {
                continue_with(r, why);
                return request_run(r);
        }
        if (r->phase == PHASE_JOB) {
                r->phase = PHASE_RUN;
                r->wait_over = false;
                return request_run(r);
        }
        if (atomic_load(&c->held_result) == 0)
                return answer_queue(r);
        take_back(r);
        return request_run(r);
}

void request_orphaned(struct request *r)
{
        enum suspension why;
        bool waited = r->phase == PHASE_WAIT;

        if (waited)
                wait_ended(r);
        why = stay_awake(r->connection);
        r->gone = true;
        r->wait_over = true;
        r->phase = PHASE_RUN;
        if (waited && why != SUSPENSION_ABORT && r->next != NULL)
                r->next(&r->public, r->next_context);
}

/*
 * MHD (0.9.75) closes a connection whose answer's reader ends or fails, but gives up its socket only when it
 * hears of it again, which may be never: one that was suspended is in no epoll set. Being resumed is such a
 * hearing.
 */
void connection_show_end(struct connection *c)
{
        MHD_suspend_connection(c->mhd);
        c->asleep = true;
        worker_resume(c);
}

void stream_prepare(struct request *r)
{
        atomic_store(&r->connection->suspension, SUSPENSION_WAIT_PREPARED);
}

void stream_forget(struct request *r)
{
        stay_awake(r->connection);
}

bool stream_park(struct request *r, int64_t wait_ms)
{
        struct connection *c = r->connection;

        if (atomic_load(&c->left) || atomic_load(&r->server->draining) ||
            atomic_load(&c->suspension) != SUSPENSION_WAIT_PREPARED) {
                r->gone = stay_awake(c) == SUSPENSION_GONE || atomic_load(&c->left);
                return false;
        }
        r->phase = PHASE_STREAM;
        r->wait_ms = wait_ms == 0 ? 1 : wait_ms;
        if (wait_ms >= 0)
                keeper_time(r->server->keeper, c, r->wait_ms);
        move_gauge(&c->worker->n_parked, 1);
        sleep_now(c, SUSPENSION_WAIT_PREPARED, SUSPENSION_WAIT);
        return true;
}

enum suspension stream_unpark(struct request *r)
{
        enum suspension why;

        wait_ended(r);
        why = stay_awake(r->connection);
        r->phase = PHASE_ANSWERED;
        r->gone |= why == SUSPENSION_GONE;
        return why;
}

void http_suspend_prepare(struct http_request *request)
{
        struct request *r = request_of(request);

        if (r->prepared)
                return;
        r->prepared = true;
        atomic_store(&r->connection->suspension, SUSPENSION_WAIT_PREPARED);
}

void http_suspend(struct http_request *request, int64_t wait_ms, http_handler *resumed, void *context)
{
        struct request *r = request_of(request);

        http_suspend_prepare(request);
        r->suspend_asked = true;
        r->wait_ms = wait_ms;
        r->next = resumed;
        r->next_context = context;
}

bool http_resume(struct http_request *request)
{
        return connection_wake(request_of(request)->connection, SUSPENSION_WOKEN);
}

void http_abort(struct http_request *request)
{
        struct request *r = request_of(request);

        atomic_store(&r->connection->aborted, true);
        connection_abort(r->server, r->connection);
}

void http_deadline(struct http_request *request, int64_t within_ms)
{
        request_of(request)->deadline_ms = clock_monotonic_ms() + (within_ms > 0 ? within_ms : 1);
}

bool http_wait_over(struct http_request *request)
{
        return request_of(request)->wait_over;
}

void http_answer_after(struct http_request *request, http_when *when, http_handler *failed, void *context)
{
        struct request *r = request_of(request);

        r->when = when;
        r->failed = failed;
        r->when_context = context;
}

int http_held_result(struct http_request *request)
{
        return atomic_load(&request_of(request)->connection->held_result);
}

bool http_draining(struct http_request *request)
{
        struct request *r = request_of(request);

        return r->gone || atomic_load(&r->server->draining);
}
