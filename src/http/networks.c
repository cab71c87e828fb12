/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <stdlib.h>

#include "http/internal.h"
#include "lessor/error.h"

#define V4_BITS 32u
#define V6_BITS 128u
/* An IPv4 address is looked at as IPv6 does: ::ffff:192.0.2.1. */
#define V4_AT 12u

static const unsigned char v4_prefix[V4_AT] = {[10] = 0xff, [11] = 0xff};

static int read_bits(const char *text, unsigned most, unsigned *ret_bits)
{
        unsigned bits = 0;

        if (*text == '\0')
                return LESSOR_E_INVALID;
        for (; *text != '\0'; text++) {
                if (*text < '0' || *text > '9')
                        return LESSOR_E_INVALID;
                bits = bits * 10 + (unsigned)(*text - '0');
                if (bits > most)
                        return LESSOR_E_INVALID;
        }
        *ret_bits = bits;
        return 0;
}

/* The bit at `i`, the highest of the first byte first. */
static unsigned bit(const unsigned char *bytes, unsigned i)
{
        return ((unsigned)bytes[i / 8] >> (7 - i % 8)) & 1u;
}

static int network_read(struct lessor_slice text, struct network *ret_network)
{
        struct network network = {.n_bits = V6_BITS};
        char address[INET6_ADDRSTRLEN + sizeof("/128")];
        unsigned before = 0, n_bits;
        char *slash;

        if (text.n == 0 || text.n >= sizeof(address) || memchr(text.p, '\0', text.n) != NULL)
                return LESSOR_E_INVALID;
        memcpy(address, text.p, text.n);
        address[text.n] = '\0';
        slash = strchr(address, '/');
        if (slash != NULL)
                *slash = '\0';
        if (inet_pton(AF_INET, address, network.address + V4_AT) == 1) {
                memcpy(network.address, v4_prefix, V4_AT);
                before = V6_BITS - V4_BITS;
        } else if (inet_pton(AF_INET6, address, network.address) != 1) {
                return LESSOR_E_INVALID;
        }
        if (slash != NULL) {
                if (read_bits(slash + 1, V6_BITS - before, &n_bits) < 0)
                        return LESSOR_E_INVALID;
                network.n_bits = before + n_bits;
        }
        /* 192.0.2.7/24 is more likely a slip than a way to write 192.0.2.0/24. */
        for (unsigned i = network.n_bits; i < V6_BITS; i++)
                if (bit(network.address, i) != 0)
                        return LESSOR_E_INVALID;
        *ret_network = network;
        return 0;
}

int networks_read(const char *text, struct network **ret_networks, size_t *ret_n)
{
        struct network *networks;
        size_t n = 1;

        for (const char *p = text; *p != '\0'; p++)
                n += *p == ',';
        networks = calloc(n, sizeof(*networks));
        if (networks == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++) {
                size_t len = strcspn(text, ",");

                if (network_read((struct lessor_slice){text, len}, &networks[i]) < 0) {
                        free(networks);
                        return LESSOR_E_INVALID;
                }
                text += len + 1;
        }
        *ret_networks = networks;
        *ret_n = n;
        return 0;
}

bool networks_have(const struct network *networks, size_t n, const struct connection *c)
{
        unsigned char address[V6_BITS / 8];

        if (c->peer.any.sa_family == AF_INET) {
                memcpy(address, v4_prefix, V4_AT);
                memcpy(address + V4_AT, &c->peer.v4.sin_addr, sizeof(address) - V4_AT);
        } else if (c->peer.any.sa_family == AF_INET6) {
                memcpy(address, &c->peer.v6.sin6_addr, sizeof(address));
        } else {
                return false;
        }
        for (size_t i = 0; i < n; i++) {
                unsigned k = 0;

                while (k < networks[i].n_bits && bit(address, k) == bit(networks[i].address, k))
                        k++;
                if (k == networks[i].n_bits)
                        return true;
        }
        return false;
}

int http_networks_check(const char *text)
{
        struct network *networks;
        size_t n;
        int r = networks_read(text, &networks, &n);

        if (r == 0)
                free(networks);
        return r;
}
