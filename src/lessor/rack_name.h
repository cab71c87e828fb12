/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RACK_NAME_H
#define LESSOR_RACK_NAME_H

#include "base/json_read.h"
#include "lessor/command.h"

/*
 * Finds the rack that a person means: by its id, its label, or the beginning of its id. Returns an enum
 * cli_exit, having said when there is none or more than one.
 *
 * ret_rack  as GET /racks has it, in the run's arena
 */
int rack_resolve(struct cli *cli, const char *name, const struct json **ret_rack);

#endif
