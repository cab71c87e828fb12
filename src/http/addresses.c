/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "http/internal.h"

#define N_BUCKETS 4096u

struct address {
        struct address *next;
        uint64_t key;
        unsigned n; /* connections, never 0 */
};

struct address_table {
        struct address *buckets[N_BUCKETS];
};

struct address_table *address_table_new(void)
{
        return calloc(1, sizeof(struct address_table));
}

struct address_table *address_table_free(struct address_table *table)
{
        if (table == NULL)
                return NULL;
        for (size_t i = 0; i < N_BUCKETS; i++) {
                while (table->buckets[i] != NULL) {
                        struct address *a = table->buckets[i];

                        table->buckets[i] = a->next;
                        free(a);
                }
        }
        free(table);
        return NULL;
}

/*
 * Whom to count as one: an IPv4 address (also when it comes mapped into IPv6), or an IPv6 /64, since whoever
 * has one address of a /64 has all of them. False for loopback, which is a proxy or the owner of the machine,
 * and for Unix sockets.
 */
static bool address_key(const struct connection *c, uint64_t *ret_key)
{
        const struct in6_addr *six = &c->peer.v6.sin6_addr;
        uint32_t four;

        if (c->peer.any.sa_family == AF_INET) {
                four = ntohl(c->peer.v4.sin_addr.s_addr);
        } else if (c->peer.any.sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(six)) {
                return false;
        } else if (IN6_IS_ADDR_V4MAPPED(six)) {
                memcpy(&four, six->s6_addr + 12, sizeof(four));
                four = ntohl(four);
        } else {
                memcpy(ret_key, six->s6_addr, sizeof(*ret_key));
                return true;
        }
        *ret_key = four;
        return four >> 24 != 127;
}

static struct address **address_find(struct address_table *table, uint64_t key)
{
        uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
        struct address **a = &table->buckets[(hash >> 32) % N_BUCKETS];

        while (*a != NULL && (*a)->key != key)
                a = &(*a)->next;
        return a;
}

bool address_table_enter(struct address_table *table, struct connection *c, unsigned max)
{
        struct address **a;
        uint64_t key;

        c->counted = false;
        if (!address_key(c, &key))
                return true;
        a = address_find(table, key);
        if (*a == NULL) {
                *a = calloc(1, sizeof(**a));
                if (*a == NULL)
                        return false;
                (*a)->key = key;
        }
        if ((*a)->n >= max)
                return false;
        (*a)->n++;
        c->counted = true;
        return true;
}

void address_table_leave(struct address_table *table, struct connection *c)
{
        struct address **a, *empty;
        uint64_t key;

        if (!c->counted || !address_key(c, &key))
                return;
        c->counted = false;
        a = address_find(table, key);
        if (*a == NULL || --(*a)->n > 0)
                return;
        empty = *a;
        *a = empty->next;
        free(empty);
}
