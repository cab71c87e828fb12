/* SPDX-License-Identifier: MIT */
#include "tls_client.h"

#include <gnutls/x509.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

void tls_good(int r)
{
        if (r < 0)
                fail_msg("%s", gnutls_strerror(r));
}

static void write_pem(const char *path, gnutls_datum_t *pem)
{
        assert_int_equal(file_replace(path, (struct lessor_slice){(const char *)pem->data, pem->size}, 0600),
                         0);
        gnutls_free(pem->data);
}

/* A self-signed certificate with this serial number, and its key. A NULL path leaves that file as it is. */
void tls_write_pair(unsigned char serial, const char *cert_path, const char *key_path)
{
        gnutls_x509_privkey_t key;
        gnutls_x509_crt_t cert;
        gnutls_datum_t pem;

        tls_good(gnutls_x509_privkey_init(&key));
        tls_good(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                              GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
        tls_good(gnutls_x509_crt_init(&cert));
        tls_good(gnutls_x509_crt_set_version(cert, 3));
        tls_good(gnutls_x509_crt_set_serial(cert, &serial, 1));
        tls_good(gnutls_x509_crt_set_activation_time(cert, time(NULL) - 60));
        tls_good(gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600));
        tls_good(gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, "here", 4));
        tls_good(gnutls_x509_crt_set_key(cert, key));
        tls_good(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0));
        if (cert_path != NULL) {
                tls_good(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem));
                write_pem(cert_path, &pem);
        }
        if (key_path != NULL) {
                tls_good(gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, 0, &pem));
                write_pem(key_path, &pem);
        }
        gnutls_x509_crt_deinit(cert);
        gnutls_x509_privkey_deinit(key);
}

/* Returns what the handshake returned. */
int tls_connect(struct fixture *f, struct tls_client *c, const char *priorities)
{
        struct timeval wait = {.tv_sec = WAIT_MS / 1000};

        c->fd = client_connect(f);
        setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        tls_good(gnutls_certificate_allocate_credentials(&c->credentials));
        tls_good(gnutls_init(&c->session, GNUTLS_CLIENT));
        tls_good(gnutls_priority_set_direct(c->session, priorities, NULL));
        tls_good(gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->credentials));
        gnutls_transport_set_int(c->session, c->fd);
        return gnutls_handshake(c->session);
}

void tls_close(struct tls_client *c)
{
        gnutls_deinit(c->session);
        gnutls_certificate_free_credentials(c->credentials);
        close(c->fd);
}

void tls_send(struct tls_client *c, const char *text)
{
        if (text[0] != '\0')
                assert_int_equal(gnutls_record_send(c->session, text, strlen(text)), strlen(text));
}

size_t tls_receive(struct tls_client *c, void *to, size_t n)
{
        ssize_t got;

        do {
                got = gnutls_record_recv(c->session, to, n);
        } while (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED);
        return got < 0 ? 0 : (size_t)got;
}

void tls_expect(struct tls_client *c, const char *request, const char *end)
{
        char text[4096] = "";
        size_t n = 0;

        tls_send(c, request);
        while (n < strlen(end) || strcmp(text + n - strlen(end), end) != 0) {
                ssize_t got = gnutls_record_recv(c->session, text + n, sizeof(text) - 1 - n);

                if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)
                        continue;
                assert_true(got > 0);
                n += (size_t)got;
                text[n] = '\0';
        }
}
