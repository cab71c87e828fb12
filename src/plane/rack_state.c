/* SPDX-License-Identifier: MIT */
#include "plane/rack_state.h"

#include "base/macro.h"

/* Longer than the longest wait of a poll, so that who polls has polled within it. */
#define POLLS_WITHIN_MS 45000

static const char *const names[] = {"new",         "unseen",    "awaiting-approval",
                                    "too-old",     "unhealthy", "draining",
                                    "not-polling", "busy",      "ready"};
const struct message_words rack_state_words = {names, ARRAY_SIZE(names)};

enum rack_state rack_state(const struct lessor_rack *rack, int64_t now_ms)
{
        bool polls = rack->last_poll_ms > 0 && now_ms - rack->last_poll_ms <= POLLS_WITHIN_MS;

        if (rack->last_poll_ms == 0 && rack->last_beat_ms == 0)
                return RACK_NEW;
        /* `fit` knows the healthy window, and is false for other reasons too. */
        if (!rack->fit && now_ms - rack->last_seen_ms > POLLS_WITHIN_MS)
                return RACK_UNSEEN;
        if (rack->pending)
                return RACK_AWAITING;
        if (lessor_agent_version_cmp(rack->agent_version, lessor_slice_of(LESSOR_AGENT_FLOOR)) < 0)
                return RACK_TOO_OLD;
        if (!rack->healthy)
                return RACK_UNHEALTHY;
        if (rack->draining)
                return RACK_DRAINING;
        if (!rack->fit)
                return RACK_UNSEEN;
        if (rack->capacity > 0 && (int64_t)rack->n_leases >= rack->capacity)
                return RACK_BUSY;
        return polls ? RACK_READY : RACK_NOT_POLLING;
}

const char *rack_state_name(const struct lessor_rack *rack, int64_t now_ms)
{
        return message_word(&rack_state_words, (int)rack_state(rack, now_ms));
}
