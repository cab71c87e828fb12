/* SPDX-License-Identifier: MIT */
#ifndef DIRECTORY_SIGNER_SOCKET_H
#define DIRECTORY_SIGNER_SOCKET_H

#include <stdint.h>

#include "base/buf.h"

/*
 * The asking side of the signer's line protocol (docs/signer.md): one JSON object a line, one answer a
 * question, over connections that are kept for the next question. Thread-safe; each question has a connection
 * of its own meanwhile. Errors as signer.h has them. What comes back is not verified here.
 */
struct signer_socket;

/* Connects to nothing yet. LESSOR_E_INVALID when the path does not fit into a socket address. */
int signer_socket_new(const char *path, int64_t timeout_ms, struct signer_socket **ret_socket);
/* Takes NULL, returns NULL. */
struct signer_socket *signer_socket_free(struct signer_socket *s);

/* Appends the signer's public key, as it spells it. */
int signer_socket_public(struct signer_socket *s, struct buf *ret_public);

/* Appends the signature of a statement, as the signer spells it. */
int signer_socket_sign(struct signer_socket *s, struct lessor_slice statement, struct buf *ret_signature);

#endif
