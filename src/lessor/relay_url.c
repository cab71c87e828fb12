/* SPDX-License-Identifier: MIT */
#include "lessor/relay_url.h"

#include <stdlib.h>

#define RELAY_DEFAULT "http://127.0.0.1:5327"

const char *relay_url(const struct cli *cli)
{
        const char *url = cli_option(cli, "relay");

        if (url == NULL)
                url = getenv("LESSOR_RELAY");
        return url == NULL || url[0] == '\0' ? RELAY_DEFAULT : url;
}
