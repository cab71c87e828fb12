/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>

#include "http/internal.h"

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

static void who_counts_as_one(void **state)
{
        static const struct {
                const char *first;
                const char *second;
                bool refused; /* the second one, with room for one */
        } cases[] = {
                {"192.0.2.1", "192.0.2.1", true},
                {"192.0.2.1", "192.0.2.2", false},
                {"192.0.2.1", "::ffff:192.0.2.1", true},
                {"2001:db8::1", "2001:db8::2", true},
                {"2001:db8::1", "2001:db8:0:1::1", false},
                {"127.0.0.1", "127.0.0.1", false},
                {"127.1.2.3", "127.1.2.3", false},
                {"::1", "::1", false},
                {"::ffff:127.0.0.1", "::ffff:127.0.0.1", false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct address_table *table = address_table_new();
                struct connection first, second;

                assert_non_null(table);
                connection_from(&first, cases[i].first);
                connection_from(&second, cases[i].second);
                assert_true(address_table_enter(table, &first, 1));
                assert_int_equal(address_table_enter(table, &second, 1), !cases[i].refused);
                address_table_free(table);
        }
}

static void who_leaves_makes_room(void **state)
{
        struct address_table *table = address_table_new();
        struct connection c[3];

        (void)state;
        assert_non_null(table);
        for (size_t i = 0; i < 3; i++)
                connection_from(&c[i], "192.0.2.1");
        assert_true(address_table_enter(table, &c[0], 2));
        assert_true(address_table_enter(table, &c[1], 2));
        assert_false(address_table_enter(table, &c[2], 2));
        address_table_leave(table, &c[2]); /* was never counted, so frees nothing */
        assert_false(address_table_enter(table, &c[2], 2));
        address_table_leave(table, &c[0]);
        assert_true(address_table_enter(table, &c[2], 2));
        address_table_leave(table, &c[1]);
        address_table_leave(table, &c[2]);
        address_table_leave(table, &c[2]);
        assert_true(address_table_enter(table, &c[0], 1));
        address_table_free(table);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_counts_as_one),
                cmocka_unit_test(who_leaves_makes_room),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
