/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_INPUT_H
#define LESSOR_INPUT_H

#include "base/buf.h"
#include "lessor/command.h"

/* Reads a file, or stdin when `path` is "-". Says on stderr what went wrong. Returns an enum cli_exit. */
int input_read(struct cli *cli, const char *path, size_t limit, struct buf *out);

/* Prints a buffer and gives it back. Returns an enum cli_exit. */
int output_print(struct cli *cli, struct buf *text);

/* Asks a yes-or-no question on the terminal; anything but yes is no. Only if stdin is a terminal. */
bool input_is_terminal(void);
bool input_confirm(const char *question);

#endif
