/* SPDX-License-Identifier: MIT */
#include "plane/control_logs.h"

#include <stdio.h>

#include "base/limits.h"
#include "http/file_answer.h"
#include "plane/control_lease_json.h"
#include "plane/rack.h"

/*
 * What attempts wrote: whole or in parts. While it grows: control_follow.c.
 */

#define TEXT "text/plain; charset=utf-8"

static const char *const stream_names[] = {"stdout", "stderr"};
static const struct message_words stream_words = {stream_names, N_LOG_STREAMS};

static const char *const follow_names[] = {"0", "1"};
static const struct message_words follow_words = {follow_names, 2};

const char *log_stream_name(enum log_stream stream)
{
        return stream_names[stream];
}

/* --- Which attempt --- */

/* "3", or an execution id. */
static bool is_meant(const struct lessor_attempt *attempt, struct lessor_slice word)
{
        char number[16];

        if (word.p == NULL || lessor_slice_equal(word, attempt->execution_id))
                return true;
        snprintf(number, sizeof(number), "%u", attempt->number);
        return lessor_slice_equal(word, lessor_slice_of(number));
}

/* The newest that is meant. Returns 0; LESSOR_E_NOT_FOUND; what the store says. */
static int find_attempt(struct log_request *log, struct lessor_slice word)
{
        struct lessor_attempt_list attempts;
        struct lessor_ticket ticket = {0};
        int e = lessor_lease_attempts(log->leases, &log->lease, log->call->arena, &attempts, &ticket);

        control_rests_on(log->call, ticket);
        for (size_t i = e < 0 ? 0 : attempts.n; i > 0; i--) {
                if (attempts.items[i - 1].execution_id.p == NULL || !is_meant(&attempts.items[i - 1], word))
                        continue;
                log->attempt = attempts.items[i - 1];
                log->key.execution_id = log->attempt.execution_id;
                return 0;
        }
        return e < 0 ? e : LESSOR_E_NOT_FOUND;
}

static void refuse_attempt(struct control_call *call, const struct lessor_lease *lease,
                           struct lessor_slice word)
{
        if (lease->mode == LESSOR_LEASE_FUNCTION)
                control_refuse(call, 404, "not-found",
                               "a function keeps no log: its output is in its result");
        else if (word.p == NULL)
                control_refuse(call, 404, "not-found",
                               "no rack has taken that lease yet, so there is no log");
        else
                control_refuse(call, 404, "not-found", "that lease has no such attempt");
}

static bool find_log(struct log_request *log)
{
        struct control_call *call = log->call;
        struct lessor_slice word;
        struct lessor_lease lease;
        struct lessor_ticket ticket = {0};
        struct lease_ref ref;
        int e;

        log->leases = control_leases(call);
        if (log->leases == NULL || !control_query(call, "attempt", &word) ||
            !lease_ref_of_query(call, &ref) || !lease_ref_resolve(call, &ref, &log->lease))
                return false;
        log->logs = call->parts->rack->parts.logs;
        log->watch = call->parts->rack->parts.log_watch;
        e = lessor_lease_get(log->leases, &log->lease, 0, call->arena, &lease, &ticket);
        control_rests_on(call, ticket);
        if (e < 0) {
                lease_refuse(call, e, log->lease.lease_id);
                return false;
        }
        log->lease = lease.name; /* a copy, which lives as long as the call */
        log->key = (struct log_key){
                .repo = lease.name.repo, .task_hash = lease.task_hash, .inputs_hash = lease.inputs_hash};
        e = find_attempt(log, word);
        if (e == LESSOR_E_NOT_FOUND)
                refuse_attempt(call, &lease, word);
        else if (e < 0)
                lease_refuse(call, e, log->lease.lease_id);
        return e == 0;
}

/* --- Answers --- */

static bool put_headers(struct log_request *log)
{
        struct http_request *http = log->call->http;
        char id[80], number[16];
        int e;

        snprintf(id, sizeof(id), "%.*s", (int)log->key.execution_id.n, log->key.execution_id.p);
        snprintf(number, sizeof(number), "%u", log->attempt.number);
        e = http_answer_header(http, "Lessor-Attempt", id);
        if (e == 0)
                e = http_answer_header(http, "Lessor-Attempt-Number", number);
        if (e == 0)
                e = http_answer_header(http, "Lessor-Attempt-State",
                                       message_word(&attempt_state_words, (int)log->attempt.state));
        if (e == 0)
                e = http_answer_header(http, "Cache-Control", "no-store");
        if (e < 0)
                control_refuse_error(log->call, e, NULL, (struct lessor_slice){0});
        return e == 0;
}

static void refuse_log(struct control_call *call, int error)
{
        static const struct control_words words[] = {
                {LESSOR_E_INVALID, "that lease has no log: its task is not named by a hash"},
                {LESSOR_E_CORRUPT, "that log is damaged"},
                {0},
        };

        control_refuse_error(call, error, words, (struct lessor_slice){0});
}

static void answer_place(struct log_request *log, unsigned status, struct log_place *place)
{
        struct buf empty = {0};

        if (place->fd >= 0)
                http_answer_file(log->call->http, status, TEXT, place->fd, (uint64_t)place->at,
                                 (uint64_t)place->n);
        else
                http_answer(log->call->http, status, TEXT, &empty);
}

/* What of the log the request asks for. `length` is what there is now. False: nothing, 416. */
static bool wanted(struct log_request *log, int64_t length, int64_t *ret_from, int64_t *ret_max,
                   unsigned *ret_status)
{
        uint64_t from, n;

        *ret_from = log->offset[log->stream];
        *ret_max = INT64_MAX;
        *ret_status = 200;
        switch (http_range(log->call->http, (uint64_t)length, NULL, &from, &n)) {
        case HTTP_RANGE_PART:
                *ret_from = (int64_t)from;
                *ret_max = (int64_t)n;
                *ret_status = 206;
                return true;
        case HTTP_RANGE_NONE:
                return false;
        default:
                return true;
        }
}

static bool put_content_range(struct log_request *log, const struct log_place *place, int64_t from,
                              int64_t length)
{
        char text[80];
        int e;

        if (place->n > 0)
                snprintf(text, sizeof(text), "bytes %lld-%lld/%lld", (long long)from,
                         (long long)(from + place->n - 1), (long long)length);
        else
                snprintf(text, sizeof(text), "bytes */%lld", (long long)length);
        e = http_answer_header(log->call->http, "Content-Range", text);
        if (e < 0)
                control_refuse_error(log->call, e, NULL, (struct lessor_slice){0});
        return e == 0;
}

/* A part of which nothing is whole yet (the first bytes of a character) is none: 416. */
static void answer_part(struct log_request *log)
{
        bool ended = log->attempt.state != LESSOR_ATTEMPT_RUNNING;
        struct log_place place = {.fd = -1};
        struct log_window window;
        int64_t from, max;
        unsigned status;
        int e;

        e = log_files_locate(log->logs, &log->key, log->stream, 0, INT64_MAX, ended, &place, &window);
        object_io_close(&place.fd);
        if (e < 0) {
                refuse_log(log->call, e);
                return;
        }
        place = (struct log_place){.fd = -1};
        if (wanted(log, window.length, &from, &max, &status))
                e = log_files_locate(log->logs, &log->key, log->stream, from, max < 4 ? 4 : max, ended,
                                     &place, &window);
        else
                status = 416;
        if (e < 0) {
                refuse_log(log->call, e);
                return;
        }
        if (place.n > max)
                place.n = max;
        if (status == 206 && place.n == 0)
                status = 416;
        if (status == 200 || put_content_range(log, &place, from, window.length))
                answer_place(log, status, &place);
        else
                object_io_close(&place.fd);
}

static bool wants_events(struct http_request *http)
{
        struct lessor_slice accept = http_header(http, "accept");
        static const char wanted_type[] = "text/event-stream";

        return accept.n >= sizeof(wanted_type) - 1 &&
               memmem(accept.p, accept.n, wanted_type, sizeof(wanted_type) - 1) != NULL;
}

static bool read_query(struct log_request *log)
{
        struct lessor_slice stream, follow;
        int64_t offset;
        int number, follows;

        if (!control_query(log->call, "stream", &stream) || !control_query(log->call, "follow", &follow) ||
            !control_query_int(log->call, "offset", 0, INT64_C(1) << 53, 0, &offset))
                return false;
        number = stream.p == NULL ? (int)LOG_STDOUT : message_word_number(&stream_words, stream);
        follows = follow.p == NULL ? (int)wants_events(log->call->http)
                                   : message_word_number(&follow_words, follow);
        if (number < 0 || follows < 0) {
                control_refuse(log->call, 400, "invalid",
                               "a stream is stdout or stderr, and follow is 0 or 1");
                return false;
        }
        log->stream = (enum log_stream)number;
        log->one_stream = stream.p != NULL;
        log->follow = follows == 1;
        log->offset[log->stream] = offset;
        return true;
}

void control_log_get(struct control_call *call, const void *body)
{
        struct log_request *log = lessor_arena_alloc(call->arena, sizeof(*log));

        (void)body;
        if (log == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        log->call = call;
        if (!read_query(log) || !find_log(log) || !put_headers(log))
                return;
        if (wants_events(call->http))
                control_log_events(log);
        else if (log->follow)
                control_log_follow(log);
        else
                answer_part(log);
}
