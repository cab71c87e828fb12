/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LEASE_NAME_H
#define LESSOR_LEASE_NAME_H

#include "base/json_write.h"
#include "lessor/command.h"

/*
 * How a command line names a lease: by its number, or by its repository and id. What those commands' `args`
 * say is LEASE_NAME, with 1 to 2 of them. Each of these returns an enum cli_exit, and has said what is wrong.
 */
#define LEASE_NAME "NUMBER | REPO LEASE"

/* Adds it to a query. */
int lease_name_query(struct cli *cli, struct buf *path);

/* Puts the members that name it into an open object. */
int lease_name_put(struct cli *cli, struct json_writer *w);

/* Names it to people, in a sentence: "lease 7". In the arena; never NULL. */
const char *lease_name_text(struct cli *cli);

#endif
