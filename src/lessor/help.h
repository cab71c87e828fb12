/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_HELP_H
#define LESSOR_HELP_H

#include "base/buf.h"
#include "lessor/command.h"

/* The help at each level, from the table of commands. Each returns 0 or LESSOR_E_NOMEM. */
int help_program(struct buf *out);
int help_group(const char *group, struct buf *out);
int help_command(const struct cli_command *command, struct buf *out);

#endif
