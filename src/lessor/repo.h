/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_REPO_H
#define LESSOR_REPO_H

#include "lessor/command.h"

/* The option of every command that works on one repository of objects, for the table of commands. */
#define REPO_OPTION                                                                                        \
        {                                                                                                  \
                "repo", "REPO", "the repository of objects (LESSOR_REPO; default)", COMPLETE_NOTHING, NULL \
        }

/* Which repository is meant: --repo, else LESSOR_REPO, else "default". Never NULL. */
const char *repo_of(const struct cli *cli);

#endif
