/* SPDX-License-Identifier: MIT */
#include "client/address_guard.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"

static bool ipv4_is_forbidden(const uint8_t a[4])
{
        static const uint8_t alibaba[4] = {100, 100, 100, 200};

        return (a[0] == 169 && a[1] == 254) || memcmp(a, alibaba, 4) == 0;
}

static bool ipv6_is_forbidden(const uint8_t a[16])
{
        static const uint8_t aws[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54};
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
        static const uint8_t compatible[12] = {0};
        static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};

        if (a[0] == 0xfe && (a[1] & 0xc0) == 0x80)
                return true;
        if (memcmp(a, aws, 16) == 0)
                return true;
        if (memcmp(a, mapped, 12) == 0 || memcmp(a, compatible, 12) == 0 || memcmp(a, nat64, 12) == 0)
                return ipv4_is_forbidden(a + 12);
        return false;
}

bool address_is_forbidden(const struct sockaddr *address)
{
        struct sockaddr_in in;
        struct sockaddr_in6 in6;

        switch (address->sa_family) {
        case AF_INET:
                memcpy(&in, address, sizeof(in));
                return ipv4_is_forbidden((const uint8_t *)&in.sin_addr);
        case AF_INET6:
                memcpy(&in6, address, sizeof(in6));
                return ipv6_is_forbidden(in6.sin6_addr.s6_addr);
        default:
                return true;
        }
}

bool host_is_forbidden(const char *host)
{
        static const char *const names[] = {"metadata.google.internal", "metadata.goog", "metadata"};
        size_t n = strlen(host);

        while (n > 0 && host[n - 1] == '.')
                n--;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strlen(names[i]) == n && strncasecmp(host, names[i], n) == 0)
                        return true;
        return false;
}
