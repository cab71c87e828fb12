/* SPDX-License-Identifier: MIT */
#ifndef PLANE_REDIRECT_H
#define PLANE_REDIRECT_H

#include "http/http.h"

/*
 * The routes of a plain HTTP door beside one with TLS: GET and HEAD are led to https on its standard port, by
 * the name that the client used; everything else is refused with 403, so that no client gets used to sending
 * in the clear what TLS should carry. They need no context.
 */
extern const struct http_route redirect_routes[];

#endif
