/* SPDX-License-Identifier: MIT */
#ifndef PLANE_RELAY_HOOKS_H
#define PLANE_RELAY_HOOKS_H

#include "base/clock.h"
#include "http/http.h"

/*
 * Doors for tests: POST /test/advance moves the clock, /test/project and /test/policy replace what the
 * control plane says. Built only with -Dtest_hooks=true (test_hooks.c); any other build has no_test_hooks.c
 * in its place, which has no routes and no clock.
 */
extern const struct http_route relay_hook_routes[]; /* ends with a row without handler; context: the relay */

/* The clock that LESSOR_TEST_NOW_MS sets, which moves only when told; NULL when it is not set. */
struct clock *test_clock(void);

/* Has `advanced` called whenever that clock was moved: what a timer would do. Before the server starts. */
void test_clock_followed_by(void (*advanced)(void *context), void *context);

#endif
