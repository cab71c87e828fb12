/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <stdio.h>

#include "base/macro.h"
#include "leasing/memory.h"
#include "lessor/lease_transfer.h"
#include "lessor/rack_registry.h"
#include "plane/collection.h"
#include "wire/rack_message.h"

#define SLICE(text)     LESSOR_SLICE(text)
#define ENROLMENT       SLICE("enrolment")
#define TOKEN           SLICE("token")
#define GRACE_MS        1000
#define PLACE_FOR_TEXTS 1024

/* Beside the world of objects a lease store, on the same clock, with one rack. */
static struct lessor_lease_store *leases;
static struct lessor_rack rack;

static int setup(void **state)
{
        const struct lessor_host_info host = {.agent_version = SLICE("1.0.0")};
        struct world *w;
        int64_t expires_ms;

        assert_int_equal(world_setup(state), 0);
        w = *state;
        assert_int_equal(lease_memory_store_new(NULL, &w->clock.clock, NULL, &leases), 0);
        assert_int_equal(lessor_rack_mint_enrolment(leases, ENROLMENT, SLICE(""), 1000, &expires_ms, NULL),
                         0);
        assert_int_equal(lessor_rack_enroll(leases, ENROLMENT, &host, TOKEN, w->arena, &rack, NULL), 0);
        return 0;
}

static int teardown(void **state)
{
        leases = lessor_lease_store_free(leases);
        return world_teardown(state);
}

static struct lessor_slice put(struct world *w, const char *repo, const char *text)
{
        assert_int_equal(world_put(w, repo, lessor_slice_of(text)), 0);
        return world_hash(w, lessor_slice_of(text));
}

static struct lessor_lease create(struct world *w, const char *closure)
{
        char text[PLACE_FOR_TEXTS];
        struct lessor_lease_submission submission = {.repo = SLICE("main"),
                                                     .workspace = SLICE("w"),
                                                     .task_name = SLICE("t"),
                                                     .task_hash = SLICE("task"),
                                                     .inputs_hash = SLICE("inputs"),
                                                     .tier = SLICE("c"),
                                                     .owner = SLICE(""),
                                                     .event_version = 2,
                                                     .attempt_limit = 1};
        struct lessor_lease lease;

        snprintf(text, sizeof(text), "{\"version\":2,\"runnerEvent\":{},\"closure\":{%s}}", closure);
        submission.event = lessor_slice_of(text);
        assert_int_equal(lessor_lease_create(leases, &submission, w->arena, &lease, NULL, NULL), 0);
        return lease;
}

static struct lessor_lease create_reading(struct world *w, struct lessor_slice hash)
{
        char closure[128];

        snprintf(closure, sizeof(closure), "\"hashes\":[\"%.*s\"]", (int)hash.n, hash.p);
        return create(w, closure);
}

static struct lessor_lease_holder claim(struct world *w)
{
        struct lessor_slice tier = SLICE("c");
        struct lessor_lease_grant grant;

        assert_int_equal(lessor_rack_poll(leases, rack.rack_id, &tier, 1, NULL), 0);
        assert_int_equal(lessor_lease_claim(leases,
                                            &(struct lessor_lease_claim){.rack_id = rack.rack_id,
                                                                         .boot_id = SLICE("boot"),
                                                                         .tiers = &tier,
                                                                         .n_tiers = 1},
                                            w->arena, &grant, NULL),
                         0);
        assert_true(grant.granted);
        return (struct lessor_lease_holder){.name = grant.lease.name, .rack_id = rack.rack_id};
}

/* When everything has got old. */
static struct lessor_object_collected collect(struct world *w, bool dry)
{
        struct lessor_object_collected collected;

        clock_manual_advance(&w->clock, GRACE_MS + 1);
        assert_int_equal(collection_run(w->store, leases, GRACE_MS, dry, &collected), 0);
        return collected;
}

static void what_an_open_lease_may_read_stays(void **state)
{
        struct world *w = *state;
        struct lessor_slice wanted = put(w, "main", "wanted"), garbage = put(w, "main", "garbage");
        struct lessor_slice elsewhere = put(w, "other", "wanted");
        struct lessor_lease lease = create_reading(w, wanted);
        struct lessor_lease ended;

        assert_int_equal(collect(w, true).n_removed, 2);
        assert_true(world_has(w, "main", garbage));
        assert_int_equal(collect(w, false).n_removed, 2);
        assert_true(world_has(w, "main", wanted));
        assert_false(world_has(w, "main", garbage));
        assert_false(world_has(w, "other", elsewhere));
        assert_int_equal(lessor_lease_end(leases, &lease.name, LESSOR_END_CANCEL, (struct lessor_slice){0},
                                          (struct lessor_slice){0}, w->arena, &ended, NULL),
                         0);
        collect(w, false);
        assert_false(world_has(w, "main", wanted));
}

static void a_long_closure_stays_with_its_list(void **state)
{
        struct world *w = *state;
        struct lessor_slice wanted = put(w, "main", "wanted");
        struct rack_closure_list list = {&wanted, 1};
        struct lessor_slice object;
        char closure[160];
        struct buf bytes;

        buf_init(&bytes);
        assert_int_equal(rack_message_write_beast2(&rack_closure_list_type, &list, &bytes), 0);
        assert_int_equal(world_put(w, "main", buf_view(&bytes)), 0);
        object = world_hash(w, buf_view(&bytes));
        buf_done(&bytes);
        snprintf(closure, sizeof(closure), "\"object\":\"%.*s\",\"count\":1", (int)object.n, object.p);
        create(w, closure);
        assert_int_equal(collect(w, false).n_removed, 0);
        assert_true(world_has(w, "main", wanted));
        assert_true(world_has(w, "main", object));
}

static void targets_stay_while_the_lease_is_open_and_outputs_afterwards(void **state)
{
        struct world *w = *state;
        struct lessor_slice partial = put(w, "main", "partial"), output = put(w, "main", "output");
        struct lessor_transfer_output outputs[] = {
                {.object = {partial, 7}, .stored = true, .stored_size = 7},
                {.object = {output, 6}, .stored = true, .stored_size = 6},
        };
        struct lessor_lease_completion completion = {.verdict = {.success = true, .output_hash = output},
                                                     .result = SLICE("{}")};
        struct lessor_transfer_request request = {.outputs = outputs, .n_outputs = ARRAY_SIZE(outputs)};
        struct lessor_transfer_answer answer;
        enum lessor_completed how;

        create(w, "\"hashes\":[]");
        completion.holder = request.holder = claim(w);
        assert_int_equal(lessor_lease_transfer(leases, &request, w->arena, &answer, NULL), 0);
        collect(w, false);
        assert_true(world_has(w, "main", partial));
        assert_true(world_has(w, "main", output));
        assert_int_equal(lessor_lease_complete(leases, &completion, w->arena, &how, NULL, NULL), 0);
        assert_int_equal(how, LESSOR_COMPLETED_RECORDED);
        collect(w, false);
        assert_false(world_has(w, "main", partial));
        assert_true(world_has(w, "main", output));
}

static void layers_of_published_environments_stay(void **state)
{
        struct world *w = *state;
        struct lessor_slice layer = put(w, RACK_LAYER_REPO, "layer"), old = put(w, RACK_LAYER_REPO, "old");
        struct lessor_environment environment = {.env_hash = layer,
                                                 .e3_version = SLICE("1.0.0"),
                                                 .base_image = SLICE("base"),
                                                 .base_tier = SLICE("c"),
                                                 .manifest_key = SLICE("key"),
                                                 .n_layers = 1};
        char manifest[PLACE_FOR_TEXTS];

        snprintf(manifest, sizeof(manifest),
                 "{\"envHash\":\"%.64s\",\"e3Version\":\"1.0.0\",\"baseImage\":\"base\",\"baseTier\":\"c\","
                 "\"layers\":[{\"digest\":\"sha256:%.64s\",\"sizeBytes\":5,\"mediaType\":\"\"}]}",
                 layer.p, layer.p);
        environment.manifest = lessor_slice_of(manifest);
        assert_int_equal(lessor_environment_publish(leases, &environment, NULL), 0);
        collect(w, false);
        assert_true(world_has(w, RACK_LAYER_REPO, layer));
        assert_false(world_has(w, RACK_LAYER_REPO, old));
}

/* More than are asked for at a time. */
static void the_roots_of_all_leases_are_told(void **state)
{
        struct world *w = *state;
        struct lessor_slice last = {0};

        for (int i = 0; i < 600; i++)
                create(w, "\"hashes\":[]");
        last = put(w, "main", "last");
        create_reading(w, last);
        assert_int_equal(collect(w, false).n_removed, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(what_an_open_lease_may_read_stays),
                TEST(a_long_closure_stays_with_its_list),
                TEST(targets_stay_while_the_lease_is_open_and_outputs_afterwards),
                TEST(layers_of_published_environments_stay),
                TEST(the_roots_of_all_leases_are_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
