/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RUN_OUTPUTS_H
#define LESSOR_RUN_OUTPUTS_H

#include "lessor/object_link.h"
#include "lessor/run_spec.h"

/*
 * What a run put out, brought back. Outputs are received and checked in a hidden directory beside where they
 * belong, and only then get their names, so that nobody sees half a file and nothing that was there is lost
 * when it fails.
 */

/*
 * Says on stderr if an output's place is taken, unless `replace`: before the work is done for nothing.
 * Returns an enum cli_exit.
 */
int run_outputs_check(struct cli *cli, const struct run_spec *spec, bool replace);

/*
 * Brings them.
 *
 * options    link, repo and stop
 * hash       of the tree that the task put out
 * replace    what is in the way is removed
 * ret_unpacked  how much it was
 *
 * Returns an enum cli_exit, having said what is wrong.
 */
int run_outputs_fetch(struct cli *cli, const struct run_spec *spec, const struct object_link_options *options,
                      struct lessor_slice hash, bool replace, struct tree_unpacked *ret_unpacked);

#endif
