/* SPDX-License-Identifier: MIT */
#include "store_kinds.h"

#include <string.h>

#include "base/macro.h"
#include "routing/memory.h"

static int make_memory(struct clock *clock, const struct lessor_routing_listener *listener,
                       const char *directory, struct lessor_routing_store **ret_store)
{
        (void)directory;
        return memory_store_new(clock, listener, ret_store);
}

const struct store_kind store_kinds[] = {
        {.name = "memory", .make = make_memory},
};
const size_t n_store_kinds = ARRAY_SIZE(store_kinds);

const struct store_kind *store_kind_named(const char *name)
{
        for (size_t i = 0; i < n_store_kinds; i++)
                if (strcmp(store_kinds[i].name, name) == 0)
                        return &store_kinds[i];
        return NULL;
}
