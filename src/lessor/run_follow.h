/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RUN_FOLLOW_H
#define LESSOR_RUN_FOLLOW_H

#include "base/json_read.h"
#include "lessor/control_link.h"

/*
 * Follows one lease to its end as it happens: what its attempts write, live and byte by byte, and what
 * becomes of it. A server that is away for a while is waited for, and nothing is shown twice or left out.
 */
struct run_follow {
        struct control_link *link;
        struct lessor_stop *stop; /* may be NULL */
        int64_t number;           /* of the lease */
        bool show_logs;           /* what the command writes, on our stdout and stderr */
        bool quiet;               /* nothing of our own on stderr */
};

/*
 * arena      owns the answer
 * ret_root   of the last answer: `lease` and `attempts`
 *
 * Returns an enum cli_exit, having said what is wrong; CLI_EXIT_OK when the lease has ended, however that
 * was; CLI_EXIT_INTERRUPTED, silently, when the stop was raised.
 */
int run_follow(const struct run_follow *follow, struct lessor_arena *arena, const struct json **ret_root);

#endif
