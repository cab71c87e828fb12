/* SPDX-License-Identifier: MIT */
#ifndef CLIENT_ADDRESS_GUARD_H
#define CLIENT_ADDRESS_GUARD_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Addresses that a model server never has and that are dangerous to ask: link-local ones (169.254/16,
 * fe80::/10), where clouds serve instance credentials, and the metadata services that live elsewhere. Also in
 * their spellings as IPv4 inside IPv6 (mapped, compatible, NAT64). Judges what a name resolved to, right
 * before connecting, so a name that resolves differently the second time gains nothing. Pure.
 */
bool address_is_forbidden(const struct sockaddr *address);

/* The same for a host name that only metadata services have. Letter case and a final dot do not matter. Pure.
 */
bool host_is_forbidden(const char *host);

#endif
