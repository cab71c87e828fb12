/* SPDX-License-Identifier: MIT */
#ifndef LESSORD_SERVER_H
#define LESSORD_SERVER_H

#include "lessord/options.h"

/*
 * The server from its options: puts the rooms together, serves until SIGTERM or SIGINT, drains, and takes
 * everything down again. Prints `listening on URL` on stdout for each listener once it serves. SIGHUP reads
 * the certificate, the projection and the policy again.
 *
 * ret_problem  one sentence for stderr, on failure
 *
 * Returns 0 after an orderly end; otherwise why it could not start, or LESSOR_E_TIMEOUT when the drain cut
 * something off.
 */
int server_run(const struct options *options, struct buf *ret_problem);

/*
 * Everything that server_run checks before it listens, and nothing that lasts: files are read, keys and
 * certificates loaded, no data directory is made or locked.
 */
int server_check(const struct options *options, struct buf *ret_problem);

#endif
