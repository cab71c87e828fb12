/* SPDX-License-Identifier: MIT */
#include "wire/relay_errors.h"

#include <assert.h>
#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "lessor/error.h"
#include "wire/relay_shapes.h"

struct refusal_row {
        unsigned status;
        const char *code;
        const char *message; /* NULL: none */
};

static const struct refusal_row rows[] = {
#define REFUSAL_ROW(name, status, code, message) [RELAY_REFUSAL_##name] = {status, code, message},
        RELAY_REFUSALS(REFUSAL_ROW)
#undef REFUSAL_ROW
};

unsigned relay_refusal_status(enum relay_refusal refusal)
{
        assert(refusal < RELAY_N_REFUSALS);
        return rows[refusal].status;
}

const char *relay_refusal_code(enum relay_refusal refusal)
{
        assert(refusal < RELAY_N_REFUSALS);
        return rows[refusal].code;
}

/* Appends the message with its places filled in. */
static void fill(const char *message, const struct relay_refusal_details *details, struct buf *out)
{
        static const char floor_place[] = "{floor}";

        for (;;) {
                const char *place = strchr(message, '{');

                if (place == NULL) {
                        buf_text(out, message);
                        return;
                }
                buf_append(out, message, (size_t)(place - message));
                if (strncmp(place, floor_place, sizeof(floor_place) - 1) == 0) {
                        buf_slice(out, details->floor);
                        message = place + sizeof(floor_place) - 1;
                } else {
                        buf_slice(out, details->subject);
                        message = place + 2;
                }
        }
}

/* The members that go with an error code, always and only with it. */
static void write_companions(struct json_writer *w, enum relay_refusal refusal,
                             const struct relay_refusal_details *details)
{
        switch (refusal) {
        case RELAY_REFUSAL_CLOCK_SKEW:
                json_member_int(w, "serverTime", details->server_time_ms);
                json_member_int(w, "maxSkewMs", LIMIT_CLOCK_SKEW_MS);
                break;
        case RELAY_REFUSAL_BELOW_FLOOR:
                json_member_text(w, "floor", details->floor);
                break;
        case RELAY_REFUSAL_NO_VERSION:
        case RELAY_REFUSAL_OLDER_VERSION:
        case RELAY_REFUSAL_NEWER_VERSION:
                json_key(w, "supported");
                json_open_array(w);
                json_put_cstr(w, RELAY_PROTOCOL_VERSION);
                json_close_array(w);
                json_member_cstr(w, "minimum", RELAY_PROTOCOL_VERSION);
                break;
        default:
                break;
        }
}

int relay_refusal_append(enum relay_refusal refusal, const struct relay_refusal_details *details,
                         struct buf *out)
{
        static const struct relay_refusal_details none;
        struct json_writer w;
        struct buf message;
        int e;

        assert(refusal < RELAY_N_REFUSALS);
        if (details == NULL)
                details = &none;
        buf_init(&message);
        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_cstr(&w, "error", rows[refusal].code);
        if (rows[refusal].message != NULL) {
                fill(rows[refusal].message, details, &message);
                json_member_text(&w, "message", buf_view(&message));
        }
        write_companions(&w, refusal, details);
        json_close_object(&w);
        e = buf_failed(&message);
        buf_done(&message);
        return e < 0 ? e : buf_failed(out);
}

enum relay_refusal relay_refusal_of_store(int error)
{
        switch (error) {
        case LESSOR_E_NOT_FOUND:
                return RELAY_REFUSAL_UNKNOWN_JOB;
        case LESSOR_E_NOT_HOLDER:
                return RELAY_REFUSAL_NOT_HOLDER;
        case LESSOR_E_STALE_LEASE:
                return RELAY_REFUSAL_STALE_LEASE;
        case LESSOR_E_NOT_READY:
                return RELAY_REFUSAL_NOT_READY;
        case LESSOR_E_TERMINAL:
                return RELAY_REFUSAL_FINISHED;
        case LESSOR_E_TOO_LATE:
                return RELAY_REFUSAL_NOT_AWAITING;
        case LESSOR_E_LOW_SPACE:
                return RELAY_REFUSAL_LOW_SPACE;
        case LESSOR_E_UNAVAILABLE:
                return RELAY_REFUSAL_UNAVAILABLE;
        default:
                return RELAY_REFUSAL_INTERNAL;
        }
}

/* Each companion is there with its code and with no other (relay-protocol 5). */
static bool error_answer_holds(const void *message)
{
        const struct relay_error_answer *a = message;
        bool skew = lessor_slice_equal(a->error, LESSOR_SLICE("clock-skew"));
        bool floor = lessor_slice_equal(a->error, LESSOR_SLICE("daemon-below-floor"));
        bool version = lessor_slice_equal(a->error, LESSOR_SLICE("unsupported-protocol-version"));

        return skew == (a->server_time_ms != 0 || a->max_skew_ms != 0) && floor == (a->floor.p != NULL) &&
               version == (a->supported != NULL || a->minimum.p != NULL);
}

static const struct message_field relay_error_answer_fields[] = {
        FIELD_TEXT1(struct relay_error_answer, error, "error"),
        FIELD_TEXT1(struct relay_error_answer, message, "message", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXTS(struct relay_error_answer, supported, n_supported, "supported", 0, INT64_MAX,
                    .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct relay_error_answer, minimum, "minimum", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct relay_error_answer, floor, "floor", .flags = MESSAGE_OPTIONAL),
        FIELD_INT(struct relay_error_answer, retry_after, "retryAfter", 0, INT64_MAX,
                  .flags = MESSAGE_OPTIONAL),
        FIELD_POSINT(struct relay_error_answer, server_time_ms, "serverTime", .flags = MESSAGE_OPTIONAL),
        FIELD_POSINT(struct relay_error_answer, max_skew_ms, "maxSkewMs", .flags = MESSAGE_OPTIONAL),
};
const struct message_table relay_error_answer_table = MESSAGE_TABLE(
        "WireError", struct relay_error_answer, relay_error_answer_fields, .holds = error_answer_holds);
