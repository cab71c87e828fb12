/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_RELAY_URL_H
#define LESSOR_RELAY_URL_H

#include "lessor/command.h"

/* Where the relay is: --relay, else LESSOR_RELAY, else this machine. */
const char *relay_url(const struct cli *cli);

#endif
