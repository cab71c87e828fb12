/* SPDX-License-Identifier: MIT */
/* TLS, with certificates that the test makes for itself. */
#include "tls_client.h"

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

static unsigned char served_serial(struct tls_client *c)
{
        const gnutls_datum_t *raw = gnutls_certificate_get_peers(c->session, NULL);
        gnutls_x509_crt_t cert;
        unsigned char serial[32] = {0};
        size_t n = sizeof(serial);

        assert_non_null(raw);
        tls_good(gnutls_x509_crt_init(&cert));
        tls_good(gnutls_x509_crt_import(cert, raw, GNUTLS_X509_FMT_DER));
        tls_good(gnutls_x509_crt_get_serial(cert, serial, &n));
        gnutls_x509_crt_deinit(cert);
        return serial[n - 1];
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
        tls_write_pair(1, f->cert_path, f->key_path);
        start();
        for (size_t i = 0; i < 2; i++) {
                struct tls_client c;

                tls_good(tls_connect(f, &c, priorities[i]));
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
        tls_write_pair(1, f->cert_path, f->key_path);
        start();
        assert_true(tls_connect(f, &c, "NORMAL:-VERS-ALL:+VERS-TLS1.1:+VERS-TLS1.0:%COMPAT") < 0);
        tls_close(&c);
        fixture_await_connections(f, 0);
}

static void plain_unix_socket_stands_beside_tls(void **state)
{
        int fd;

        (void)state;
        tls_write_pair(1, f->cert_path, f->key_path);
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
        tls_write_pair(1, f->cert_path, f->key_path);
        start();
        tls_good(tls_connect(f, &c, "NORMAL"));
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
        tls_write_pair(1, f->cert_path, f->key_path);
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
        tls_write_pair(1, f->cert_path, f->key_path);
        start();
        tls_good(tls_connect(f, &before, "NORMAL"));
        assert_int_equal(served_serial(&before), 1);
        tls_write_pair(2, f->cert_path, f->key_path);
        assert_int_equal(http_server_reload_tls(f->server, f->arena, &problem), 0);
        tls_good(tls_connect(f, &after, "NORMAL"));
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
        tls_write_pair(1, f->cert_path, f->key_path);
        start();
        tls_write_pair(2, f->cert_path, NULL);
        assert_int_equal(http_server_reload_tls(f->server, f->arena, &problem), LESSOR_E_INVALID);
        assert_non_null(strstr(problem, f->cert_path));
        tls_good(tls_connect(f, &c, "NORMAL"));
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
        tls_write_pair(1, f->cert_path, NULL);
        expect_no_start(LESSOR_E_NOT_FOUND, f->key_path);
        tls_write_pair(2, NULL, f->key_path); /* not its key */
        expect_no_start(LESSOR_E_INVALID, f->key_path);
        tls_write_pair(1, f->cert_path, f->key_path);
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
