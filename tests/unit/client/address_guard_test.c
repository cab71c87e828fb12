/* SPDX-License-Identifier: MIT */
#include "client/address_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/macro.h"
#include "check.h"

static bool forbidden(const char *text)
{
        struct sockaddr_in in = {.sin_family = AF_INET};
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

        if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
                return address_is_forbidden((const struct sockaddr *)&in);
        assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
        return address_is_forbidden((const struct sockaddr *)&in6);
}

static void link_local_and_metadata_addresses_are_forbidden(void **state)
{
        static const char *const addresses[] = {
                "169.254.0.0",
                "169.254.169.254",
                "169.254.255.255",
                "100.100.100.200",
                "fe80::1",
                "febf:ffff::1",
                "fd00:ec2::254",
                "::ffff:169.254.169.254",
                "::169.254.169.254",
                "64:ff9b::169.254.169.254",
                "::ffff:100.100.100.200",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
                if (!forbidden(addresses[i]))
                        fail_msg("%s is not forbidden", addresses[i]);
}

static void every_other_address_is_allowed(void **state)
{
        static const char *const addresses[] = {
                "127.0.0.1",       "10.0.0.1", "192.168.1.1", "169.253.255.255", "169.255.0.0",
                "100.100.100.201", "::1",      "fec0::1",     "fd00:ec2::253",   "::ffff:127.0.0.1",
                "2606:4700::1111",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
                if (forbidden(addresses[i]))
                        fail_msg("%s is forbidden", addresses[i]);
}

static void metadata_names_are_forbidden_however_they_are_written(void **state)
{
        (void)state;
        assert_true(host_is_forbidden("metadata.google.internal"));
        assert_true(host_is_forbidden("Metadata.Google.Internal."));
        assert_true(host_is_forbidden("metadata"));
        assert_false(host_is_forbidden("metadata.example"));
        assert_false(host_is_forbidden("localhost"));
        assert_false(host_is_forbidden(""));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(link_local_and_metadata_addresses_are_forbidden),
                cmocka_unit_test(every_other_address_is_allowed),
                cmocka_unit_test(metadata_names_are_forbidden_however_they_are_written),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
