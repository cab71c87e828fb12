/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/utf8.h"
#include "crypto/key_id.h"
#include "routing/directory/projection.h"

/*
 * Random projections, small and full of duplicates, against section 9 spelled out as loops over the records.
 * LESSOR_TEST_SEED replays one; the seed of a failure is printed.
 */

#define N_NAMES   5
#define N_WORLDS  400
#define N_RECORDS 8

static uint64_t random_state;
static uint64_t failing_seed; /* of the world at hand; 0 once all have passed */

static unsigned pick(unsigned n)
{
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        return (unsigned)(random_state >> 33) % n;
}

/* --- The model --- */

static const struct fixture_site *model_site(const struct relay_fixture *f, struct lessor_slice id)
{
        for (size_t i = 0; i < f->n_sites; i++) {
                if (lessor_slice_equal(f->sites[i].site_id, id))
                        return &f->sites[i];
        }
        return NULL;
}

static enum projection_consent model_consent(const struct relay_fixture *f, struct lessor_slice owner,
                                             struct lessor_slice site)
{
        for (size_t i = 0; i < f->n_revoked; i++) {
                if (lessor_slice_equal(f->revoked[i].owner, owner) &&
                    lessor_slice_equal(f->revoked[i].site_id, site))
                        return PROJECTION_CONSENT_NONE;
        }
        for (size_t i = 0; i < f->n_consents; i++) {
                const struct fixture_consent *c = &f->consents[i];

                if (lessor_slice_equal(c->owner, owner) && lessor_slice_equal(c->site_id, site))
                        return c->paused ? PROJECTION_CONSENT_PAUSED : PROJECTION_CONSENT_LIVE;
        }
        return PROJECTION_CONSENT_NONE;
}

static bool model_runnable(const struct relay_fixture *f, struct lessor_slice by, struct lessor_slice owner)
{
        for (size_t i = 0; i < f->n_rosters; i++) {
                const struct fixture_roster *r = &f->rosters[i];

                for (size_t j = 0; lessor_slice_equal(r->owner, by) && j < r->n_members; j++) {
                        if (lessor_slice_equal(r->members[j], owner))
                                return true;
                }
        }
        return lessor_slice_equal(by, owner);
}

static bool model_route(const struct relay_fixture *f, struct lessor_slice by, struct lessor_slice site,
                        struct lessor_slice owner)
{
        return model_site(f, site) != NULL && model_runnable(f, by, owner) &&
               model_consent(f, by, site) == PROJECTION_CONSENT_LIVE &&
               model_consent(f, owner, site) == PROJECTION_CONSENT_LIVE;
}

/* --- Random worlds --- */

struct names {
        struct lessor_slice owners[N_NAMES];
        struct lessor_slice sites[N_NAMES];
        struct lessor_slice runners[N_NAMES];
        struct lessor_public_identity keys[N_NAMES];
};

static void make_names(struct lessor_arena *arena, struct names *n)
{
        static const char *const owners[N_NAMES] = {"a", "ab", "b", "abc", "c"};
        static const char *const sites[N_NAMES] = {"c", "bc", "\xef\xbd\x9e", "\xf0\x9f\x98\x80", "z"};
        static const char *const runners[N_NAMES] = {"r1", "r2", "r3", "r4", "r5"};

        for (int i = 0; i < N_NAMES; i++) {
                n->owners[i] = S(owners[i]);
                n->sites[i] = S(sites[i]);
                n->runners[i] = S(runners[i]);
                n->keys[i] = (struct lessor_public_identity){
                        .identity = key_text(arena, i + 1), .encryption = S("e"), .encryption_sig = S("s")};
        }
}

static void make_fixture(struct lessor_arena *arena, const struct names *n, struct relay_fixture *f)
{
        f->n_sites = pick(N_RECORDS);
        f->n_consents = pick(3 * N_RECORDS);
        f->n_devices = pick(N_RECORDS);
        f->n_rosters = pick(4);
        f->n_revoked = pick(4);
        f->sites = lessor_arena_array(arena, f->n_sites, sizeof(*f->sites));
        f->consents = lessor_arena_array(arena, f->n_consents, sizeof(*f->consents));
        f->devices = lessor_arena_array(arena, f->n_devices, sizeof(*f->devices));
        f->rosters = lessor_arena_array(arena, f->n_rosters, sizeof(*f->rosters));
        f->revoked = lessor_arena_array(arena, f->n_revoked, sizeof(*f->revoked));
        for (size_t i = 0; i < f->n_sites; i++)
                f->sites[i] = (struct fixture_site){.site_id = n->sites[pick(N_NAMES)],
                                                    .site = n->keys[pick(N_NAMES)]};
        for (size_t i = 0; i < f->n_consents; i++)
                f->consents[i] = (struct fixture_consent){.owner = n->owners[pick(N_NAMES)],
                                                          .site_id = n->sites[pick(N_NAMES)],
                                                          .paused = pick(4) == 0};
        for (size_t i = 0; i < f->n_devices; i++)
                f->devices[i] = (struct fixture_device){.owner = n->owners[pick(N_NAMES)],
                                                        .runner_id = n->runners[pick(N_NAMES)],
                                                        .device = n->keys[pick(N_NAMES)],
                                                        .revoked = pick(3) == 0};
        for (size_t i = 0; i < f->n_rosters; i++) {
                struct fixture_roster *r = &f->rosters[i];

                *r = (struct fixture_roster){
                        .id = S("t"), .owner = n->owners[pick(N_NAMES)], .n_members = pick(4)};
                r->members = lessor_arena_array(arena, r->n_members, sizeof(*r->members));
                for (size_t j = 0; j < r->n_members; j++)
                        r->members[j] = n->owners[pick(N_NAMES)];
        }
        for (size_t i = 0; i < f->n_revoked; i++)
                f->revoked[i] = (struct fixture_revocation){.owner = n->owners[pick(N_NAMES)],
                                                            .site_id = n->sites[pick(N_NAMES)]};
}

/* --- The comparison --- */

static void check_devices(const struct projection *p, const struct relay_fixture *f, const struct names *n)
{
        for (int i = 0; i < N_NAMES; i++) {
                const struct fixture_device *by_runner = NULL;
                const struct fixture_device *by_key = NULL;
                const struct projection_device *d = projection_device(p, n->runners[i]);
                const struct projection_device *k = projection_device_by_identity(p, n->keys[i].identity);

                for (size_t j = f->n_devices; j-- > 0;) {
                        if (lessor_slice_equal(f->devices[j].runner_id, n->runners[i]))
                                by_runner = &f->devices[j];
                        if (lessor_slice_equal(f->devices[j].device.identity, n->keys[i].identity))
                                by_key = &f->devices[j];
                }
                assert_int_equal(d != NULL, by_runner != NULL);
                assert_int_equal(k != NULL, by_key != NULL);
                if (d != NULL)
                        assert_true(lessor_slice_equal(d->owner, by_runner->owner));
                if (k != NULL)
                        assert_true(lessor_slice_equal(k->runner_id, by_key->runner_id));
                assert_int_equal(projection_device_revoked(p, n->runners[i]),
                                 by_runner != NULL && by_runner->revoked);
        }
}

static void check_pins(const struct projection *p, const struct relay_fixture *f, const struct names *n,
                       struct lessor_slice owner)
{
        struct projection_pins pins = projection_sites_for(p, owner);
        size_t expected = 0;

        for (int i = 0; i < N_NAMES; i++)
                expected += model_site(f, n->sites[i]) != NULL &&
                            model_consent(f, owner, n->sites[i]) != PROJECTION_CONSENT_NONE;
        assert_int_equal(pins.n, expected);
        for (size_t i = 0; i < pins.n; i++) {
                struct lessor_slice site_id = pins.items[i].site->site_id;

                assert_int_equal(pins.items[i].paused,
                                 model_consent(f, owner, site_id) == PROJECTION_CONSENT_PAUSED);
                if (i > 0)
                        assert_true(utf8_utf16_cmp(pins.items[i - 1].site->site_id, site_id) < 0);
        }
}

static void check_routes(const struct projection *p, const struct relay_fixture *f, const struct names *n,
                         struct lessor_slice by)
{
        struct projection_routes routes;
        size_t expected = 0;

        for (int i = 0; i < N_NAMES; i++) {
                for (int j = 0; j < N_NAMES; j++)
                        expected += model_route(f, by, n->sites[i], n->owners[j]);
        }
        assert_int_equal(projection_routes(p, by, &routes), 0);
        assert_int_equal(routes.n, expected);
        for (size_t i = 0; i < routes.n; i++) {
                assert_true(model_route(f, by, routes.items[i].site_id, routes.items[i].owner));
                if (i > 0) {
                        int order = lessor_slice_cmp(routes.items[i - 1].site_id, routes.items[i].site_id);

                        if (order == 0)
                                order = lessor_slice_cmp(routes.items[i - 1].owner, routes.items[i].owner);
                        assert_true(order < 0);
                }
        }
}

static void check_world(struct lessor_arena *arena)
{
        _cleanup_(projection_unrefp) struct projection *p = NULL;
        struct relay_fixture f = {0};
        struct names n;

        make_names(arena, &n);
        make_fixture(arena, &n, &f);
        assert_int_equal(projection_new(&f, &p), 0);
        check_devices(p, &f, &n);
        for (int i = 0; i < N_NAMES; i++) {
                const struct projection_site *s = projection_site(p, n.sites[i]);
                const struct fixture_site *expected = model_site(&f, n.sites[i]);

                assert_int_equal(s != NULL, expected != NULL);
                if (s != NULL)
                        assert_true(lessor_slice_equal(s->record->site.identity, expected->site.identity));
                check_pins(p, &f, &n, n.owners[i]);
                check_routes(p, &f, &n, n.owners[i]);
                for (int j = 0; j < N_NAMES; j++)
                        assert_int_equal(projection_consent(p, n.owners[i], n.sites[j]),
                                         model_consent(&f, n.owners[i], n.sites[j]));
        }
}

static void random_projections_answer_as_the_loops_do(void **state)
{
        struct world *w = *state;
        const char *given = getenv("LESSOR_TEST_SEED");
        uint64_t first = given == NULL ? 1 : strtoull(given, NULL, 10);

        for (uint64_t seed = first; seed < first + (given == NULL ? N_WORLDS : 1); seed++) {
                random_state = seed;
                failing_seed = seed;
                lessor_arena_clear(w->arena);
                check_world(w->arena);
        }
        failing_seed = 0;
}

static int teardown(void **state)
{
        if (failing_seed != 0)
                print_error("replay with LESSOR_TEST_SEED=%llu\n", (unsigned long long)failing_seed);
        return world_teardown(state);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(random_projections_answer_as_the_loops_do, world_setup,
                                                teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
