/* SPDX-License-Identifier: MIT */
#include "plane/relay_hooks.h"

const struct http_route relay_hook_routes[] = {{0}};

struct clock *test_clock(void)
{
        return NULL;
}

void test_clock_followed_by(void (*advanced)(void *context), void *context)
{
        (void)advanced;
        (void)context;
}
