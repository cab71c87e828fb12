/* SPDX-License-Identifier: MIT */
#include "lessor/repo.h"

#include <stdlib.h>

const char *repo_of(const struct cli *cli)
{
        const char *repo = cli_option(cli, "repo");

        if (repo == NULL)
                repo = getenv("LESSOR_REPO");
        return repo == NULL || repo[0] == '\0' ? "default" : repo;
}
