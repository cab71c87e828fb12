/* SPDX-License-Identifier: MIT */
#ifndef TESTS_HTTP_TLS_CLIENT_H
#define TESTS_HTTP_TLS_CLIENT_H

#include <gnutls/gnutls.h>

#include "fixture.h"

/* A client that speaks TLS, and certificates for its server. Failures fail the test. */
struct tls_client {
        int fd;
        gnutls_session_t session;
        gnutls_certificate_credentials_t credentials;
};

/* Fails with GnuTLS's own words when r is negative. */
void tls_good(int r);
/* Writes a self-signed certificate with this serial number, and its key. A NULL path leaves that file as it
 * is. */
void tls_write_pair(unsigned char serial, const char *cert_path, const char *key_path);
/* Returns what the handshake returned. */
int tls_connect(struct fixture *f, struct tls_client *c, const char *priorities);
void tls_close(struct tls_client *c);
void tls_send(struct tls_client *c, const char *text);
/* Returns how much it is, 0 at the end. */
size_t tls_receive(struct tls_client *c, void *to, size_t n);
/* Sends, and reads until this has come. */
void tls_expect(struct tls_client *c, const char *request, const char *end);

#endif
