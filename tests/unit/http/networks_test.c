/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>

#include "http/internal.h"
#include "lessor/error.h"

static void connection_from(struct connection *c, const char *address)
{
        memset(c, 0, sizeof(*c));
        if (strchr(address, ':') != NULL) {
                c->peer.v6.sin6_family = AF_INET6;
                assert_int_equal(inet_pton(AF_INET6, address, &c->peer.v6.sin6_addr), 1);
        } else {
                c->peer.v4.sin_family = AF_INET;
                assert_int_equal(inet_pton(AF_INET, address, &c->peer.v4.sin_addr), 1);
        }
}

static void who_is_in_which_network(void **state)
{
        static const struct {
                const char *networks;
                const char *peer;
                bool in;
        } cases[] = {
                {"192.0.2.7", "192.0.2.7", true},
                {"192.0.2.7", "192.0.2.6", false},
                {"192.0.2.7", "::ffff:192.0.2.7", true}, /* as a socket for both families tells it */
                {"192.0.2.0/24", "192.0.2.255", true},
                {"192.0.2.0/24", "192.0.3.0", false},
                {"192.0.2.128/25", "192.0.2.127", false},
                {"192.0.2.128/25", "192.0.2.128", true},
                {"0.0.0.0/0", "203.0.113.9", true},
                {"0.0.0.0/0", "2001:db8::1", false},
                {"::/0", "2001:db8::1", true},
                {"::/0", "203.0.113.9", true},
                {"2001:db8::/33", "2001:db8:7fff::1", true},
                {"2001:db8::/33", "2001:db8:8000::1", false},
                {"2001:db8::1/128,192.0.2.0/30", "192.0.2.3", true},
                {"2001:db8::1/128,192.0.2.0/30", "192.0.2.4", false},
                {"2001:db8::1/128,192.0.2.0/30", "2001:db8::1", true},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct network *networks;
                struct connection c;
                size_t n;

                connection_from(&c, cases[i].peer);
                assert_int_equal(networks_read(cases[i].networks, &networks, &n), 0);
                if (networks_have(networks, n, &c) != cases[i].in)
                        fail_msg("%s in %s", cases[i].peer, cases[i].networks);
                free(networks);
        }
}

static void unix_sockets_are_in_no_network(void **state)
{
        struct connection c = {.peer.any.sa_family = AF_UNIX};
        struct network *networks;
        size_t n;

        (void)state;
        assert_int_equal(networks_read("::/0", &networks, &n), 0);
        assert_false(networks_have(networks, n, &c));
        free(networks);
}

static void what_is_no_network_is_refused(void **state)
{
        static const char *const texts[] = {
                "",
                ",",
                "192.0.2.1,",
                " 192.0.2.1",
                "192.0.2.1 ",
                "192.0.2",
                "192.0.2.256",
                "192.0.2.0/",
                "192.0.2.0/33",
                "192.0.2.0/-1",
                "192.0.2.0/ 24",
                "192.0.2.0/24/24",
                "192.0.2.0/4294967320",
                "192.0.2.1/24",  /* bits beyond the 24 */
                "2001:db8::/16", /* likewise */
                "2001:db8::/129",
                "[2001:db8::1]",
                "relay.example",
                "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/128",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                if (http_networks_check(texts[i]) != LESSOR_E_INVALID)
                        fail_msg("\"%s\" was taken", texts[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_is_in_which_network),
                cmocka_unit_test(unix_sockets_are_in_no_network),
                cmocka_unit_test(what_is_no_network_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
