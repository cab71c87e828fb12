/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RACK_HERE_H
#define LESSOR_RACK_HERE_H

#include <stdbool.h>
#include <stdio.h>

#include "lessor/command.h"
#include "lessor/rack_agent.h"

/* What the commands that make this machine a rack share. `lessor rack ls` and the like are about others. */

/* The rack's directory: --dir, LESSOR_RACK, or ./lessor-rack. */
const char *rack_here_dir(const struct cli *cli);

/* The values of an option that may come more than once, in the run's arena. Returns 0 or LESSOR_E_NOMEM. */
int rack_here_list(const struct cli *cli, const char *name, const char *const **ret_values, size_t *ret_n);

/* Tells the events of an agent: a line each; how a transfer goes on only on a terminal, in a line that stays.
 */
struct rack_narrator {
        bool json;
        bool colour;
        bool live;
        bool open; /* such a line stands there */
};

void rack_narrator_init(struct rack_narrator *n, bool json);

/* As lessor_rack_agent_new wants it: `context` is a narrator. */
void rack_narrate(void *context, const struct lessor_rack_event *event);

#endif
