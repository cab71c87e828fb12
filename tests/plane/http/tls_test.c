/* SPDX-License-Identifier: MIT */
/* TLS, with certificates that the test makes for itself. */
#include "fixture.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "lessor/error.h"

static struct fixture *f;

static int setup(void **state)
{
        (void)state;
        f = fixture_new_unstarted();
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        fixture_free(f);
        return 0;
}

static void good(int r)
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
static void write_pair(unsigned char serial, const char *cert_path, const char *key_path)
{
        gnutls_x509_privkey_t key;
        gnutls_x509_crt_t cert;
        gnutls_datum_t pem;

        good(gnutls_x509_privkey_init(&key));
        good(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
        good(gnutls_x509_crt_init(&cert));
        good(gnutls_x509_crt_set_version(cert, 3));
        good(gnutls_x509_crt_set_serial(cert, &serial, 1));
        good(gnutls_x509_crt_set_activation_time(cert, time(NULL) - 60));
        good(gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600));
        good(gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, "here", 4));
        good(gnutls_x509_crt_set_key(cert, key));
        good(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0));
        if (cert_path != NULL) {
                good(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem));
                write_pem(cert_path, &pem);
        }
        if (key_path != NULL) {
                good(gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, 0, &pem));
                write_pem(key_path, &pem);
        }
        gnutls_x509_crt_deinit(cert);
        gnutls_x509_privkey_deinit(key);
}

struct tls_client {
        int fd;
        gnutls_session_t session;
        gnutls_certificate_credentials_t credentials;
};

/* Returns what the handshake returned. */
static int tls_connect(struct tls_client *c, const char *priorities)
{
        struct timeval wait = {.tv_sec = WAIT_MS / 1000};

        c->fd = client_connect(f);
        setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        good(gnutls_certificate_allocate_credentials(&c->credentials));
        good(gnutls_init(&c->session, GNUTLS_CLIENT));
        good(gnutls_priority_set_direct(c->session, priorities, NULL));
        good(gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->credentials));
        gnutls_transport_set_int(c->session, c->fd);
        return gnutls_handshake(c->session);
}

static void tls_close(struct tls_client *c)
{
        gnutls_deinit(c->session);
        gnutls_certificate_free_credentials(c->credentials);
        close(c->fd);
}

static unsigned char served_serial(struct tls_client *c)
{
        const gnutls_datum_t *raw = gnutls_certificate_get_peers(c->session, NULL);
        gnutls_x509_crt_t cert;
        unsigned char serial[32] = {0};
        size_t n = sizeof(serial);

        assert_non_null(raw);
        good(gnutls_x509_crt_init(&cert));
        good(gnutls_x509_crt_import(cert, raw, GNUTLS_X509_FMT_DER));
        good(gnutls_x509_crt_get_serial(cert, serial, &n));
        gnutls_x509_crt_deinit(cert);
        return serial[n - 1];
}

static void tls_expect(struct tls_client *c, const char *request, const char *end)
{
        char text[4096] = "";
        size_t n = 0;

        assert_int_equal(gnutls_record_send(c->session, request, strlen(request)), strlen(request));
        while (n < strlen(end) || strcmp(text + n - strlen(end), end) != 0) {
                ssize_t got = gnutls_record_recv(c->session, text + n, sizeof(text) - 1 - n);

                if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)
                        continue;
                assert_true(got > 0);
                n += (size_t)got;
                text[n] = '\0';
        }
}

static void start(void)
{
        struct http_options options;
        const char *problem = NULL;

        http_options_init(&options);
        options.no_access_log = true;
        options.header_ms = options.body_ms = 500;
        assert_int_equal(fixture_start(f, &options, true, true, &problem), 0);
}

#define WHO "GET /who HTTP/1.1\r\nHost: here\r\n\r\n"

static void requests_are_served_over_tls_1_3_and_1_2(void **state)
{
        static const char *const priorities[] = {"NORMAL", "NORMAL:-VERS-ALL:+VERS-TLS1.2"};

        (void)state;
        write_pair(1, f->cert_path, f->key_path);
        start();
        for (size_t i = 0; i < 2; i++) {
                struct tls_client c;

                good(tls_connect(&c, priorities[i]));
                tls_expect(&c, WHO, "address 127.0.0.1 https");
                tls_expect(&c, "GET /park?key=a&wait=10 HTTP/1.1\r\nHost: here\r\n\r\n", "over");
                tls_expect(&c, WHO, "address 127.0.0.1 https");
                tls_close(&c);
        }
        fixture_await_connections(f, 0);
}

static void older_versions_are_refused(void **state)
{
        struct tls_client c;

        (void)state;
        write_pair(1, f->cert_path, f->key_path);
        start();
        assert_true(tls_connect(&c, "NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.0:%COMPAT") < 0);
        tls_close(&c);
        fixture_await_connections(f, 0);
}

static void plain_unix_socket_stands_beside_tls(void **state)
{
        int fd;

        (void)state;
        write_pair(1, f->cert_path, f->key_path);
        start();
        fd = client_connect_unix(f);
        assert_int_equal(client_ask(fd, WHO).status, 200);
        close(fd);
}

/* GnuTLS writes nothing any more once reading was shut, so there is no 408 here. */
static void slow_body_is_cut_off(void **state)
{
        static const char request[] = "POST /echo HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\nhello";
        struct tls_client c;
        char byte;
        ssize_t got;

        (void)state;
        write_pair(1, f->cert_path, f->key_path);
        start();
        good(tls_connect(&c, "NORMAL"));
        assert_int_equal(gnutls_record_send(c.session, request, sizeof(request) - 1), sizeof(request) - 1);
        do {
                got = gnutls_record_recv(c.session, &byte, 1);
        } while (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED);
        assert_true(got == 0 || got == GNUTLS_E_PREMATURE_TERMINATION || got == GNUTLS_E_PULL_ERROR);
        fixture_await_connections(f, 0);
        assert_int_equal(fixture_stats(f).timed_out, 1);
        tls_close(&c);
}

static void handshake_that_stops_is_cut_off(void **state)
{
        int fd;

        (void)state;
        write_pair(1, f->cert_path, f->key_path);
        start();
        fd = client_connect(f);
        client_send_bytes(fd, "\x16\x03\x01", 3);
        client_expect_closed(fd);
        close(fd);
}

static void reload_serves_the_new_certificate_and_keeps_connections(void **state)
{
        struct tls_client before, after;
        const char *problem = NULL;

        (void)state;
        write_pair(1, f->cert_path, f->key_path);
        start();
        good(tls_connect(&before, "NORMAL"));
        assert_int_equal(served_serial(&before), 1);
        write_pair(2, f->cert_path, f->key_path);
        assert_int_equal(http_server_reload_tls(f->server, f->arena, &problem), 0);
        good(tls_connect(&after, "NORMAL"));
        assert_int_equal(served_serial(&after), 2);
        tls_expect(&before, WHO, "https");
        tls_expect(&after, WHO, "https");
        tls_close(&before);
        tls_close(&after);
}

static void failed_reload_keeps_the_old_certificate(void **state)
{
        struct tls_client c;
        const char *problem = NULL;

        (void)state;
        write_pair(1, f->cert_path, f->key_path);
        start();
        write_pair(2, f->cert_path, NULL);
        assert_int_equal(http_server_reload_tls(f->server, f->arena, &problem), LESSOR_E_INVALID);
        assert_non_null(strstr(problem, f->cert_path));
        good(tls_connect(&c, "NORMAL"));
        assert_int_equal(served_serial(&c), 1);
        tls_close(&c);
}

static void expect_no_start(int code, const char *named)
{
        struct http_options options;
        const char *problem = NULL;

        http_options_init(&options);
        assert_int_equal(fixture_start(f, &options, false, true, &problem), code);
        assert_null(f->server);
        assert_non_null(strstr(problem, named));
}

static void unusable_certificates_are_refused_at_start(void **state)
{
        (void)state;
        expect_no_start(LESSOR_E_NOT_FOUND, f->cert_path);
        write_pair(1, f->cert_path, NULL);
        expect_no_start(LESSOR_E_NOT_FOUND, f->key_path);
        write_pair(2, NULL, f->key_path); /* not its key */
        expect_no_start(LESSOR_E_INVALID, f->key_path);
        write_pair(1, f->cert_path, f->key_path);
        assert_int_equal(chmod(f->key_path, 0644), 0);
        expect_no_start(LESSOR_E_PERMISSION, f->key_path);
        assert_int_equal(chmod(f->key_path, 0600), 0);
        assert_int_equal(file_replace(f->cert_path, LESSOR_SLICE("no certificate"), 0600), 0);
        expect_no_start(LESSOR_E_INVALID, f->cert_path);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(requests_are_served_over_tls_1_3_and_1_2),
                CASE(older_versions_are_refused),
                CASE(plain_unix_socket_stands_beside_tls),
                CASE(slow_body_is_cut_off),
                CASE(handshake_that_stops_is_cut_off),
                CASE(reload_serves_the_new_certificate_and_keeps_connections),
                CASE(failed_reload_keeps_the_old_certificate),
                CASE(unusable_certificates_are_refused_at_start),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
