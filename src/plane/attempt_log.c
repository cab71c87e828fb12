/* SPDX-License-Identifier: MIT */
#include "plane/attempt_log.h"

#include "base/macro.h"

const char *attempt_cause(enum lessor_cause cause)
{
        switch (cause) {
        case LESSOR_CAUSE_RECLAIMED:
                return "the lease lapsed and went to another rack";
        case LESSOR_CAUSE_LOST:
                return "the rack was lost";
        case LESSOR_CAUSE_SUPERSEDED:
                return "superseded";
        case LESSOR_CAUSE_CANCELLED:
                return "cancelled";
        case LESSOR_CAUSE_DEREGISTERED:
                return "the rack was removed";
        case LESSOR_CAUSE_UNDELIVERED:
                return "the rack never heard of it";
        case LESSOR_CAUSE_NONE:
                break;
        }
        return "ended";
}

int attempt_say(struct log_files *logs, struct log_watch *watch, const struct log_key *key,
                struct lessor_slice text)
{
        _cleanup_(buf_done) struct buf line;
        int e;

        buf_init(&line);
        buf_text(&line, "e3: ");
        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i];

                if (c == '\n' || c == '\r')
                        c = ' ';
                buf_char(&line, c);
        }
        e = buf_failed(&line);
        if (e == 0)
                e = log_files_say(logs, key, buf_view(&line));
        if (e == 0 && watch != NULL)
                log_watch_wake(watch, key->execution_id);
        return e;
}
