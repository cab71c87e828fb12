/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_ARGS_H
#define LESSOR_ARGS_H

#include <stdint.h>

#include "base/buf.h"
#include "lessor/command.h"

/*
 * Reads the command line by a table of commands. Options may stand anywhere, `--name value` or
 * `--name=value`;
 * `--` ends them. `-h` is --help, `-f` --follow.
 *
 * commands     borrowed; cli_commands, but for tests
 * cli          arena is set; the rest is filled in. `command` is the one named, also on failure, when there
 *              is one. With `help` nothing else is checked
 * ret_problem  on LESSOR_E_INVALID a clause for people
 *
 * Returns 0, LESSOR_E_INVALID or LESSOR_E_NOMEM.
 */
int args_read(const struct cli_command *commands, size_t n_commands, int argc, char *const *argv,
              struct cli *cli, struct buf *ret_problem);

/* The words of a command line that name a group but no command, such as `lessor site`: the group, or NULL. */
const char *args_group(const struct cli_command *commands, size_t n_commands, const char *word);

/*
 * A span of time with its unit: "90s", "10m", "1h", "7d", "500ms". Returns 0 or LESSOR_E_INVALID (also for
 * more than 365 days).
 */
int args_duration(const char *text, int64_t *ret_ms);

/*
 * An amount of bytes: "4096", "512K", "10M", "2G", "1T" (also "KiB" and so on), each 1024 of the one before.
 * Returns 0 or LESSOR_E_INVALID (also for more than 2^53).
 */
int args_bytes(const char *text, int64_t *ret_bytes);

/* A whole number within bounds. Returns 0 or LESSOR_E_INVALID. */
int args_number(const char *text, int64_t min, int64_t max, int64_t *ret_number);

#endif
