/* SPDX-License-Identifier: MIT */
#include "lease_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "lessor/rack_registry.h"

#define DAY_MS INT64_C(86400000)

struct lease_world {
        struct lessor_arena *arena;
        struct lessor_slice event, result;
};

/* An object with one long text in it. */
static int make_text(struct lease_world *world, size_t n, struct lessor_slice *ret_text)
{
        char *text = lessor_arena_alloc(world->arena, n < 16 ? 16 : n);

        if (text == NULL)
                return LESSOR_E_NOMEM;
        memset(text, 'x', n);
        memcpy(text, "{\"text\":\"", 9);
        memcpy(text + n - 2, "\"}", 2);
        *ret_text = (struct lessor_slice){text, n};
        return 0;
}

int lease_world_new(size_t event_bytes, size_t result_bytes, struct lease_world **ret_world)
{
        _cleanup_(lease_world_freep) struct lease_world *world = calloc(1, sizeof(*world));
        int e;

        if (world == NULL)
                return LESSOR_E_NOMEM;
        world->arena = lessor_arena_new();
        if (world->arena == NULL)
                return LESSOR_E_NOMEM;
        e = make_text(world, event_bytes, &world->event);
        if (e == 0)
                e = make_text(world, result_bytes, &world->result);
        if (e == 0)
                *ret_world = TAKE(world);
        return e;
}

struct lease_world *lease_world_free(struct lease_world *world)
{
        if (world == NULL)
                return NULL;
        lessor_arena_free(world->arena);
        free(world);
        return NULL;
}

struct lessor_lease_submission lease_world_submission(const struct lease_world *world)
{
        return (struct lessor_lease_submission){.repo = LESSOR_SLICE("work"),
                                                .workspace = LESSOR_SLICE("main"),
                                                .task_name = LESSOR_SLICE("train"),
                                                .task_hash = LEASE_WORLD_HASH,
                                                .inputs_hash = LEASE_WORLD_HASH,
                                                .tier = LESSOR_SLICE("cpu"),
                                                .owner = LESSOR_SLICE("team"),
                                                .event_version = LESSOR_EVENT_VERSION,
                                                .event = world->event};
}

struct lessor_slice lease_world_result(const struct lease_world *world)
{
        return world->result;
}

int lease_world_rack(const struct lease_world *world, struct lessor_lease_store *store, unsigned number,
                     struct lessor_slice *ret_rack_id)
{
        const struct lessor_slice tier = LESSOR_SLICE("cpu");
        const struct lessor_host_info host = {.label = LESSOR_SLICE("machine"),
                                              .tiers = &tier,
                                              .n_tiers = 1,
                                              .capacity = 4,
                                              .agent_version = LESSOR_SLICE("0.5.0+e3.1.0.85")};
        struct lessor_rack_beat beat = {.boot_id = LEASE_WORLD_BOOT,
                                        .agent_version = host.agent_version,
                                        .healthy = true,
                                        .successor_hash = LESSOR_SLICE("successor")};
        struct lessor_rack_beaten beaten;
        struct lessor_rack rack;
        struct lessor_slice hash;
        int64_t expires_ms;
        char text[64];
        int e;

        hash = (struct lessor_slice){text, (size_t)snprintf(text, sizeof(text), "token-%u", number)};
        e = lessor_rack_mint_enrolment(store, hash, LESSOR_SLICE(""), DAY_MS, &expires_ms, NULL);
        if (e == 0)
                e = lessor_rack_enroll(store, hash, &host, hash, world->arena, &rack, NULL);
        if (e < 0)
                return e;
        beat.rack_id = rack.rack_id;
        beat.token_hash = hash;
        e = lessor_rack_heartbeat(store, &beat, world->arena, &beaten, NULL);
        if (e == 0)
                *ret_rack_id = rack.rack_id;
        return e;
}
