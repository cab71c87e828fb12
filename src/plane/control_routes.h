/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_ROUTES_H
#define PLANE_CONTROL_ROUTES_H

#include "plane/control_call.h"

extern const struct control_endpoint control_endpoints[];
extern const size_t control_n_endpoints;

#endif
