/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "crypto/succession.h"
#include "routing/directory/directory.h"

struct house {
        struct world *w;
        struct projection_cell projections;
        struct policy_cell policies;
        struct directory *d;
        const char *path;
};

static void open_house(struct house *h)
{
        struct buf problem;

        buf_init(&problem);
        if (directory_open(h->path, &h->projections, &h->policies, &h->d, &problem) < 0)
                fail_msg("%s", buf_view(&problem).p);
        buf_done(&problem);
}

static int house_setup(void **state)
{
        struct house *h = calloc(1, sizeof(*h));
        void *w;

        assert_non_null(h);
        world_setup(&w);
        h->w = w;
        h->path = ":memory:";
        projection_cell_init(&h->projections);
        policy_cell_init(&h->policies);
        open_house(h);
        *state = h;
        return 0;
}

static int house_teardown(void **state)
{
        struct house *h = *state;
        void *w = h->w;

        directory_free(h->d);
        projection_cell_done(&h->projections);
        policy_cell_done(&h->policies);
        world_teardown(&w);
        free(h);
        return 0;
}

/* Puts the tables into a file, from which reopen() has them again. */
static void move_to_file(struct house *h)
{
        directory_free(h->d);
        h->path = path_in(h->w, "lessor.db");
        open_house(h);
}

static void reopen(struct house *h)
{
        directory_free(h->d);
        open_house(h);
}

static const struct stored_keys *add_site(struct house *h, const char *site_id)
{
        const struct stored_keys *keys = fresh_keys(h->w->arena);

        assert_int_equal(directory_site_add(h->d, S(site_id), identity_of(keys), 7), 0);
        return keys;
}

static struct directory_device add_device(struct house *h, const char *owner)
{
        struct directory_device device;

        assert_int_equal(directory_device_add(h->d, S(owner), identity_of(fresh_keys(h->w->arena)),
                                              S("a laptop"), S("linux"), 9, h->w->arena, &device),
                         0);
        return device;
}

static enum projection_consent consent_now(struct house *h, const char *owner, const char *site_id)
{
        _cleanup_(projection_unrefp) struct projection *p = projection_cell_get(&h->projections);

        return projection_consent(p, S(owner), S(site_id));
}

static enum policy_satisfiable satisfiable_now(struct house *h, const char *site_id, const char *purpose)
{
        _cleanup_(policy_unrefp) struct policy *p = policy_cell_get(&h->policies);
        enum policy_satisfiable verdict;

        assert_int_equal(
                policy_satisfiable(p, S(site_id), S("ann"), S(purpose), LESSOR_KIND_LLM_GENERATE, &verdict),
                0);
        return verdict;
}

/* --- Sites --- */

static void a_registered_site_is_projected_at_once(void **state)
{
        struct house *h = *state;
        const struct stored_keys *keys = add_site(h, "s1");
        struct directory_site_list sites;
        _cleanup_(projection_unrefp) struct projection *p = NULL;

        add_site(h, "s2");
        p = projection_cell_get(&h->projections);
        assert_text(projection_site_for_key(p, signing_key_id(stored_keys_signing(keys)))->site_id, "s1");
        assert_int_equal(directory_sites(h->d, h->w->arena, &sites), 0);
        assert_int_equal(sites.n, 2);
        assert_text(sites.items[0].site_id, "s1");
        assert_true(lessor_slice_equal(sites.items[0].key_id, signing_key_id(stored_keys_signing(keys))));
        assert_int_equal(sites.items[0].created_ms, 7);
        assert_int_equal(sites.items[0].n_succeeds, 0);
        assert_false(sites.items[0].declares);
}

static void a_site_needs_an_id_and_keys_of_its_own(void **state)
{
        struct house *h = *state;
        const struct stored_keys *keys = add_site(h, "s1");
        struct lessor_public_identity mixed = *identity_of(keys);
        char long_id[LIMIT_ID_BYTES + 1];

        memset(long_id, 'x', sizeof(long_id));
        assert_int_equal(directory_site_add(h->d, S("s2"), identity_of(keys), 1), LESSOR_E_EXISTS);
        assert_int_equal(directory_site_add(h->d, S("s1"), identity_of(fresh_keys(h->w->arena)), 1),
                         LESSOR_E_EXISTS);
        mixed.encryption = identity_of(fresh_keys(h->w->arena))->encryption;
        assert_int_equal(directory_site_add(h->d, S("s3"), &mixed, 1), LESSOR_E_BAD_SIGNATURE);
        assert_int_equal(directory_site_add(h->d, S(""), identity_of(keys), 1), LESSOR_E_INVALID);
        assert_int_equal(directory_site_add(h->d, S("a\nb"), identity_of(keys), 1), LESSOR_E_INVALID);
        assert_int_equal(directory_site_add(h->d, S("\xff"), identity_of(keys), 1), LESSOR_E_INVALID);
        assert_int_equal(directory_site_add(h->d, (struct lessor_slice){"a\0b", 3}, identity_of(keys), 1),
                         LESSOR_E_INVALID);
        assert_int_equal(directory_site_add(h->d, (struct lessor_slice){long_id, sizeof(long_id)},
                                            identity_of(keys), 1),
                         LESSOR_E_TOO_LARGE);
}

static void a_removed_site_takes_what_hangs_on_it_along(void **state)
{
        struct house *h = *state;
        struct directory_consent_list consents;

        add_site(h, "s1");
        add_site(h, "s2");
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s1"), NULL, 0, 1), 0);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s2"), NULL, 0, 1), 0);
        assert_int_equal(directory_route_revoke(h->d, S("ben"), S("s1"), 1), 0);
        assert_int_equal(directory_site_declare(h->d, S("s1"), (struct lessor_slice[]){S("p")}, 1), 0);
        assert_int_equal(directory_site_remove(h->d, S("s1")), 0);
        assert_int_equal(directory_site_remove(h->d, S("s1")), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_int_equal(consents.n, 1);
        assert_text(consents.items[0].site_id, "s2");
        add_site(h, "s1"); /* anew, and nobody has consented to it */
        assert_int_equal(consent_now(h, "ann", "s1"), PROJECTION_CONSENT_NONE);
        assert_int_equal(satisfiable_now(h, "s1", "q"), POLICY_NOT_MAPPED); /* nothing is declared */
}

/* Signs the link from `old` to `next` and rotates. */
static int rotate(struct house *h, const char *site_id, const struct stored_keys *old,
                  const struct stored_keys *next, int64_t until_ms)
{
        struct lessor_succession_link link;

        assert_int_equal(succession_link_sign(stored_keys_signing(old),
                                              signing_key_id(stored_keys_signing(next)), h->w->arena, &link),
                         0);
        return directory_site_rotate(h->d, S(site_id), identity_of(next), link.signature, until_ms);
}

static void a_rotated_site_names_its_predecessors_oldest_first(void **state)
{
        struct house *h = *state;
        const struct stored_keys *keys[3] = {add_site(h, "s"), fresh_keys(h->w->arena),
                                             fresh_keys(h->w->arena)};
        _cleanup_(projection_unrefp) struct projection *p = NULL;
        const struct projection_site *s;
        struct lessor_succession_link links[2];
        struct succession_path walked;
        struct lessor_slice origin = signing_key_id(stored_keys_signing(keys[0]));

        add_site(h, "later"); /* its children come after */
        assert_int_equal(rotate(h, "s", keys[0], keys[1], 100), 0);
        assert_int_equal(rotate(h, "s", keys[1], keys[2], 200), 0);
        p = projection_cell_get(&h->projections);
        s = projection_site(p, S("s"));
        assert_true(lessor_slice_equal(s->key_id, signing_key_id(stored_keys_signing(keys[2]))));
        assert_int_equal(s->n_succeeds, 2);
        assert_true(projection_site_retiring(s, 199));
        assert_false(projection_site_retiring(s, 200));
        for (size_t i = 0; i < 2; i++)
                links[i] = *s->succeeds[i].record;
        assert_int_equal(succession_walk(s->key_id, links, 2, &origin, 1, h->w->arena, &walked), 0);
        assert_int_equal(walked.n, 3);
}

static void a_rotation_must_be_signed_by_the_current_key(void **state)
{
        struct house *h = *state;
        const struct stored_keys *first = add_site(h, "s");
        const struct stored_keys *second = fresh_keys(h->w->arena);
        const struct stored_keys *other = add_site(h, "other");

        assert_int_equal(rotate(h, "s", second, second, 100), LESSOR_E_BROKEN_LINK);
        assert_int_equal(rotate(h, "s", first, other, 100), LESSOR_E_EXISTS);
        assert_int_equal(rotate(h, "s", first, first, 100), LESSOR_E_EXISTS);
        assert_int_equal(rotate(h, "nowhere", first, second, 100), LESSOR_E_NOT_FOUND);
        assert_int_equal(rotate(h, "s", first, second, -1), LESSOR_E_INVALID);
        assert_int_equal(rotate(h, "s", first, second, 0), 0);
        /* A retired key stays its site's. */
        assert_int_equal(rotate(h, "s", second, first, 100), LESSOR_E_EXISTS);
        assert_int_equal(directory_site_add(h->d, S("third"), identity_of(first), 1), LESSOR_E_EXISTS);
}

static void a_full_chain_drops_its_oldest_link(void **state)
{
        struct house *h = *state;
        const struct stored_keys *last = add_site(h, "s");
        struct lessor_slice second_key = {0};
        struct directory_site_list sites;

        for (int i = 0; i < LIMIT_SUCCESSION_LINKS + 1; i++) {
                const struct stored_keys *next = fresh_keys(h->w->arena);

                assert_int_equal(rotate(h, "s", last, next, 0), 0);
                last = next;
                if (i == 0)
                        second_key = identity_of(next)->identity;
        }
        assert_int_equal(directory_sites(h->d, h->w->arena, &sites), 0);
        assert_int_equal(sites.items[0].n_succeeds, LIMIT_SUCCESSION_LINKS);
        assert_true(lessor_slice_equal(sites.items[0].succeeds[0].identity.identity, second_key));
}

static void a_site_may_say_which_purposes_it_has(void **state)
{
        struct house *h = *state;
        struct directory_site_list sites;

        add_site(h, "s");
        assert_int_equal(satisfiable_now(h, "s", "b"), POLICY_NOT_MAPPED);
        assert_int_equal(
                directory_site_declare(h->d, S("s"), (struct lessor_slice[]){S("b"), S("a"), S("b")}, 3), 0);
        assert_int_equal(satisfiable_now(h, "s", "b"), POLICY_NOT_MAPPED);
        assert_int_equal(satisfiable_now(h, "s", "c"), POLICY_NOT_DECLARED);
        assert_int_equal(directory_sites(h->d, h->w->arena, &sites), 0);
        assert_int_equal(sites.items[0].n_purposes, 2);
        assert_text(sites.items[0].purposes[0], "b");
        assert_int_equal(directory_site_declare(h->d, S("s"), NULL, 0), 0);
        assert_int_equal(satisfiable_now(h, "s", "b"), POLICY_NOT_DECLARED);
        assert_int_equal(directory_site_undeclare(h->d, S("s")), 0);
        assert_int_equal(satisfiable_now(h, "s", "c"), POLICY_NOT_MAPPED);
        assert_int_equal(directory_site_declare(h->d, S("x"), NULL, 0), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_site_undeclare(h->d, S("x")), LESSOR_E_NOT_FOUND);
}

/* --- Consents and mappings --- */

static void consents_pause_resume_and_end(void **state)
{
        struct house *h = *state;

        add_site(h, "s");
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("x"), NULL, 0, 1), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 1), LESSOR_E_EXISTS);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_LIVE);
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), true), 0);
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), true), 0);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_PAUSED);
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), false), 0);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_LIVE);
        assert_int_equal(directory_consent_pause(h->d, S("ben"), S("s"), true), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_consent_remove(h->d, S("ann"), S("s")), 0);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_NONE);
        assert_int_equal(directory_consent_remove(h->d, S("ann"), S("s")), LESSOR_E_NOT_FOUND);
}

static void a_revoked_route_stays_on_record_until_consented_anew(void **state)
{
        struct house *h = *state;
        struct directory_consent_list consents;

        add_site(h, "s");
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), true), 0);
        assert_int_equal(directory_route_revoke(h->d, S("ann"), S("s"), 2), 0);
        assert_int_equal(directory_route_revoke(h->d, S("ann"), S("s"), 3), 0);
        assert_int_equal(directory_route_revoke(h->d, S("ben"), S("s"), 4), 0);
        assert_int_equal(directory_route_revoke(h->d, S("ben"), S("x"), 4), LESSOR_E_NOT_FOUND);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_NONE);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_int_equal(consents.n, 2);
        assert_true(consents.items[0].given && consents.items[0].revoked && consents.items[0].paused);
        assert_true(!consents.items[1].given && consents.items[1].revoked);
        assert_text(consents.items[1].owner, "ben");
        assert_int_equal(consents.items[1].created_ms, 4);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 5), 0);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_LIVE);
        assert_int_equal(directory_consent_remove(h->d, S("ben"), S("s")), 0);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_int_equal(consents.n, 1);
        assert_false(consents.items[0].revoked);
}

static void a_consent_comes_with_its_mappings_or_not_at_all(void **state)
{
        struct house *h = *state;
        struct directory_consent_list consents;
        const struct policy_mapping old[] = {{.kind = LESSOR_KIND_LLM_CHAT, .service = {"old", 3}}};
        const struct policy_mapping twice[] = {{.kind = LESSOR_KIND_LLM_CHAT, .service = {"new", 3}},
                                               {.kind = LESSOR_KIND_LLM_CHAT, .service = {"new", 3}}};
        const struct policy_mapping bad[] = {{.kind = LESSOR_KIND_LLM_CHAT, .service = {"fine", 4}},
                                             {.kind = LESSOR_KIND_LLM_CHAT, .service = {"", 0}}};

        add_site(h, "s");
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), bad, 2, 1), LESSOR_E_INVALID);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_NONE);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), old, 1, 1), 0);
        assert_int_equal(directory_route_revoke(h->d, S("ann"), S("s"), 2), 0);
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), true), LESSOR_E_REFUSED);
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), false), LESSOR_E_REFUSED);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), bad, 2, 3), LESSOR_E_INVALID);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_true(consents.n == 1 && consents.items[0].revoked && consents.items[0].n_mappings == 1);
        assert_text(consents.items[0].mappings[0].service, "old");
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), twice, 2, 4), 0);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_LIVE);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_true(consents.n == 1 && consents.items[0].n_mappings == 1);
        assert_text(consents.items[0].mappings[0].service, "new");
}

static void mappings_decide_and_the_first_counts(void **state)
{
        static const struct lessor_device_capability both[] = {
                {.kind = LESSOR_KIND_LLM_GENERATE, .service = {"one", 3}, .offer_scope = LESSOR_OFFER_TEAM},
                {.kind = LESSOR_KIND_LLM_GENERATE, .service = {"two", 3}, .offer_scope = LESSOR_OFFER_TEAM},
        };
        struct house *h = *state;
        struct policy_mapping one = {.kind = LESSOR_KIND_LLM_GENERATE, .service = S("one")};
        struct policy_mapping two = {
                .kind = LESSOR_KIND_LLM_GENERATE, .service = S("two"), .purpose = S("default")};
        struct policy_question q = {.site_id = S("s"),
                                    .user = S("ann"),
                                    .owner = S("ann"),
                                    .kind = LESSOR_KIND_LLM_GENERATE,
                                    .capabilities = both,
                                    .n_capabilities = 2};
        struct directory_consent_list consents;
        struct lessor_slice service;
        struct policy *p;

        add_site(h, "s");
        assert_int_equal(directory_mapping_add(h->d, S("ann"), S("s"), &one), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_consent_add(h->d, S("ben"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(satisfiable_now(h, "s", NULL), POLICY_NOT_MAPPED);
        assert_int_equal(directory_mapping_add(h->d, S("ann"), S("s"), &one), 0);
        assert_int_equal(directory_mapping_add(h->d, S("ann"), S("s"), &one), LESSOR_E_EXISTS);
        assert_int_equal(directory_mapping_add(h->d, S("ann"), S("s"), &two), 0);
        two.owner = S("ben");
        assert_int_equal(directory_mapping_add(h->d, S("ben"), S("s"), &two), 0);
        assert_int_equal(satisfiable_now(h, "s", NULL), POLICY_SATISFIABLE);
        p = policy_cell_get(&h->policies);
        assert_int_equal(policy_decide(p, &q, &service), POLICY_GRANTED);
        assert_text(service, "one");
        policy_unref(p);
        assert_int_equal(directory_mapping_remove(h->d, S("ann"), S("s"), &one), 0);
        assert_int_equal(directory_mapping_remove(h->d, S("ann"), S("s"), &one), LESSOR_E_NOT_FOUND);
        p = policy_cell_get(&h->policies);
        assert_int_equal(policy_decide(p, &q, &service), POLICY_GRANTED);
        assert_text(service, "two");
        policy_unref(p);
        assert_int_equal(directory_consents(h->d, S("ann"), h->w->arena, &consents), 0);
        assert_int_equal(consents.n, 1);
        assert_int_equal(consents.items[0].n_mappings, 1);
        assert_text(consents.items[0].mappings[0].service, "two");
        assert_null(consents.items[0].mappings[0].owner.p);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_text(consents.items[0].mappings[0].owner, "ben");
        assert_text(consents.items[1].mappings[0].service, "two");
        assert_int_equal(directory_route_revoke(h->d, S("ann"), S("s"), 2), 0);
        p = policy_cell_get(&h->policies);
        assert_int_equal(policy_decide(p, &q, &service), POLICY_NOT_CONSENTED);
        policy_unref(p);
}

/* --- Devices --- */

static void an_approved_device_gets_a_runner_id(void **state)
{
        struct house *h = *state;
        struct directory_device device = add_device(h, "ann");
        struct directory_device again;
        struct directory_device_list devices;
        _cleanup_(projection_unrefp) struct projection *p = projection_cell_get(&h->projections);

        assert_memory_equal(device.runner_id.p, "runner_", 7);
        assert_int_equal(device.runner_id.n, 7 + 36);
        assert_text(projection_device_by_identity(p, device.device.identity)->owner, "ann");
        assert_int_equal(directory_device_add(h->d, S("ann"), &device.device, S("other"), S("linux"), 11,
                                              h->w->arena, &again),
                         0);
        assert_true(lessor_slice_equal(again.runner_id, device.runner_id));
        assert_text(again.label, "a laptop");
        assert_int_equal(directory_device_add(h->d, S("ben"), &device.device, S(NULL), S(NULL), 11,
                                              h->w->arena, &again),
                         LESSOR_E_EXISTS);
        assert_int_equal(directory_devices(h->d, h->w->arena, &devices), 0);
        assert_int_equal(devices.n, 1);
        assert_text(devices.items[0].platform, "linux");
        assert_int_equal(devices.items[0].created_ms, 9);
}

static void a_revoked_device_stays_revoked(void **state)
{
        struct house *h = *state;
        struct directory_device device = add_device(h, "ann");
        struct directory_device again;
        struct directory_device_list devices;
        struct projection *p;

        assert_int_equal(directory_device_revoke(h->d, device.runner_id), 0);
        assert_int_equal(directory_device_revoke(h->d, device.runner_id), 0);
        assert_int_equal(directory_device_revoke(h->d, S("nobody")), LESSOR_E_NOT_FOUND);
        p = projection_cell_get(&h->projections);
        assert_true(projection_device_revoked(p, device.runner_id));
        projection_unref(p);
        assert_int_equal(directory_device_add(h->d, S("ann"), &device.device, S(NULL), S(NULL), 11,
                                              h->w->arena, &again),
                         LESSOR_E_EXISTS);
        /* Off the list, its runner id is refused all the same, and its keys may start anew. */
        assert_int_equal(directory_device_remove(h->d, device.runner_id), 0);
        assert_int_equal(directory_device_remove(h->d, device.runner_id), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_devices(h->d, h->w->arena, &devices), 0);
        assert_int_equal(devices.n, 0);
        p = projection_cell_get(&h->projections);
        assert_true(projection_device_revoked(p, device.runner_id));
        assert_null(projection_device_by_identity(p, device.device.identity));
        projection_unref(p);
        assert_int_equal(directory_device_add(h->d, S("ben"), &device.device, S(NULL), S(NULL), 11,
                                              h->w->arena, &again),
                         0);
        p = projection_cell_get(&h->projections);
        assert_true(projection_device_revoked(p, device.runner_id));
        assert_false(projection_device_revoked(p, again.runner_id));
        assert_text(projection_device_by_identity(p, device.device.identity)->owner, "ben");
        projection_unref(p);
}

/* --- Rosters --- */

static void a_roster_lets_its_owner_run_its_members_work(void **state)
{
        struct house *h = *state;
        struct directory_roster_list rosters;
        struct projection_routes routes;
        struct projection *p;

        add_site(h, "s");
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_consent_add(h->d, S("ben"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_roster_add(h->d, S("first"), S("cid"), 3), 0);
        assert_int_equal(directory_roster_add(h->d, S("team"), S("ann"), 3), 0);
        assert_int_equal(directory_roster_add(h->d, S("team"), S("ben"), 3), LESSOR_E_EXISTS);
        assert_int_equal(directory_member_add(h->d, S("team"), S("ben")), 0);
        assert_int_equal(directory_member_add(h->d, S("team"), S("ben")), LESSOR_E_EXISTS);
        assert_int_equal(directory_member_add(h->d, S("none"), S("ben")), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_member_add(h->d, S("team"), S("abe")), 0);
        p = projection_cell_get(&h->projections);
        assert_int_equal(projection_routes(p, S("ann"), &routes), 0);
        assert_int_equal(routes.n, 2);
        projection_unref(p);
        assert_int_equal(directory_rosters(h->d, h->w->arena, &rosters), 0);
        assert_int_equal(rosters.n, 2);
        assert_int_equal(rosters.items[0].n_members, 0);
        assert_int_equal(rosters.items[1].n_members, 2);
        assert_text(rosters.items[1].members[0], "ben");
        assert_int_equal(directory_member_remove(h->d, S("team"), S("ben")), 0);
        assert_int_equal(directory_member_remove(h->d, S("team"), S("ben")), LESSOR_E_NOT_FOUND);
        p = projection_cell_get(&h->projections);
        assert_int_equal(projection_routes(p, S("ann"), &routes), 0);
        assert_int_equal(routes.n, 1);
        projection_unref(p);
        assert_int_equal(directory_roster_remove(h->d, S("team")), 0);
        assert_int_equal(directory_roster_remove(h->d, S("team")), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_roster_add(h->d, S("team"), S("ann"), 3), 0);
        assert_int_equal(directory_rosters(h->d, h->w->arena, &rosters), 0);
        assert_int_equal(rosters.items[1].n_members, 0);
}

/* --- The file --- */

static struct lessor_slice export_now(struct house *h)
{
        _cleanup_(projection_unrefp) struct projection *p = projection_cell_get(&h->projections);
        struct lessor_slice kept;
        struct buf text;

        buf_init(&text);
        assert_int_equal(projection_to_json(p, &text), 0);
        assert_int_equal(lessor_arena_copy(h->w->arena, buf_view(&text), &kept), 0);
        buf_done(&text);
        return kept;
}

static void what_was_changed_is_there_after_a_restart(void **state)
{
        struct house *h = *state;
        const struct stored_keys *keys;
        struct directory_device device;
        struct policy_mapping mapping = {.kind = LESSOR_KIND_LLM_GENERATE, .service = S("x")};
        struct lessor_slice before;

        move_to_file(h);
        keys = add_site(h, "s");
        add_site(h, "s2");
        assert_int_equal(rotate(h, "s", keys, fresh_keys(h->w->arena), 100), 0);
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_mapping_add(h->d, S("ann"), S("s"), &mapping), 0);
        assert_int_equal(directory_route_revoke(h->d, S("ann"), S("s2"), 1), 0);
        device = add_device(h, "ann");
        assert_int_equal(directory_device_revoke(h->d, device.runner_id), 0);
        assert_int_equal(directory_roster_add(h->d, S("team"), S("ann"), 3), 0);
        assert_int_equal(directory_member_add(h->d, S("team"), S("ben")), 0);
        before = export_now(h);
        reopen(h);
        assert_true(lessor_slice_equal(export_now(h), before));
        assert_int_equal(satisfiable_now(h, "s", NULL), POLICY_SATISFIABLE);
}

/* Runs SQL on the file from outside. */
static void meddle(struct house *h, const char *sql)
{
        sqlite3 *db;

        assert_int_equal(sqlite3_open(h->path, &db), SQLITE_OK);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
                fail_msg("%s", sqlite3_errmsg(db));
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void tables_of_a_newer_version_are_refused(void **state)
{
        struct house *h = *state;
        struct directory *d = NULL;
        struct buf problem;

        move_to_file(h);
        meddle(h, "UPDATE lessor_schema SET version = version + 1 WHERE part = 'directory'");
        buf_init(&problem);
        assert_int_equal(directory_open(h->path, NULL, NULL, &d, &problem), LESSOR_E_NEWER);
        assert_non_null(strstr(buf_view(&problem).p, "newer"));
        assert_null(d);
        buf_done(&problem);
}

/* A change that cannot be projected is not made: the tables and the snapshot never part. */
static void a_change_that_cannot_be_projected_is_undone(void **state)
{
        struct house *h = *state;
        struct directory_consent_list consents;

        move_to_file(h);
        add_site(h, "s");
        assert_int_equal(directory_consent_add(h->d, S("ann"), S("s"), NULL, 0, 1), 0);
        meddle(h, "INSERT INTO directory_mapping(owner, site_id, purpose, kind, service, service_owner)"
                  " VALUES('ann', 's', 'p', 'a kind of tomorrow', 'x', '')");
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), true), LESSOR_E_CORRUPT);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_LIVE);
        meddle(h, "DELETE FROM directory_mapping");
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_false(consents.items[0].paused);
        assert_int_equal(directory_consent_pause(h->d, S("ann"), S("s"), true),
                         0); /* nothing is left locked */
}

static void tables_may_be_kept_while_others_decide(void **state)
{
        struct house *h = *state;
        struct directory *d;
        struct buf problem;

        buf_init(&problem);
        assert_int_equal(directory_open(":memory:", NULL, NULL, &d, &problem), 0);
        assert_int_equal(directory_site_add(d, S("s"), identity_of(fresh_keys(h->w->arena)), 1), 0);
        directory_free(d);
        buf_done(&problem);
}

/* --- Batches --- */

struct batch {
        struct house *h;
        int end_with;
};

static int change_three(struct directory *d, void *context)
{
        struct batch *b = context;

        assert_int_equal(directory_consent_add(d, S("ann"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_consent_add(d, S("ann"), S("nowhere"), NULL, 0, 1), LESSOR_E_NOT_FOUND);
        assert_int_equal(directory_consent_add(d, S("ben"), S("s"), NULL, 0, 1), 0);
        assert_int_equal(directory_consent_add(d, S("ben"), S("s"), NULL, 0, 1), LESSOR_E_EXISTS);
        assert_int_equal(consent_now(b->h, "ann", "s"), PROJECTION_CONSENT_NONE); /* not yet */
        return b->end_with;
}

static void a_batch_is_one_change(void **state)
{
        struct house *h = *state;
        struct batch b = {.h = h, .end_with = LESSOR_E_REFUSED};
        struct directory_consent_list consents;

        add_site(h, "s");
        assert_int_equal(directory_batch(h->d, change_three, &b), LESSOR_E_REFUSED);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_int_equal(consents.n, 0);
        b.end_with = 0;
        assert_int_equal(directory_batch(h->d, change_three, &b), 0);
        assert_int_equal(consent_now(h, "ann", "s"), PROJECTION_CONSENT_LIVE);
        assert_int_equal(consent_now(h, "ben", "s"), PROJECTION_CONSENT_LIVE);
        assert_int_equal(directory_consents(h->d, S(NULL), h->w->arena, &consents), 0);
        assert_int_equal(consents.n, 2);
}

/* --- Threads --- */

#define N_CHANGERS 3
#define N_CHANGES  20

struct changer {
        struct house *h;
        int number;
        const char *problem;
        pthread_t thread;
};

static void *change_much(void *context)
{
        struct changer *c = context;
        char member[32];

        for (int i = 0; i < N_CHANGES; i++) {
                struct projection *p;

                (void)snprintf(member, sizeof(member), "m-%d-%d", c->number, i);
                if (directory_member_add(c->h->d, S("team"), S(member)) < 0)
                        c->problem = "not added";
                p = projection_cell_get(&c->h->projections);
                /* Its own change is there when the call returns, whoever else changes what. */
                if (projection_fixture(p)->rosters[0].n_members < (size_t)i + 1)
                        c->problem = "not projected";
                projection_unref(p);
        }
        return NULL;
}

static void changes_from_many_threads_all_count(void **state)
{
        struct house *h = *state;
        struct changer changers[N_CHANGERS];
        struct directory_roster_list rosters;
        struct projection *p;

        assert_int_equal(directory_roster_add(h->d, S("team"), S("ann"), 3), 0);
        for (int i = 0; i < N_CHANGERS; i++) {
                changers[i] = (struct changer){.h = h, .number = i};
                assert_int_equal(pthread_create(&changers[i].thread, NULL, change_much, &changers[i]), 0);
        }
        for (int i = 0; i < N_CHANGERS; i++) {
                pthread_join(changers[i].thread, NULL);
                assert_null(changers[i].problem);
        }
        assert_int_equal(directory_rosters(h->d, h->w->arena, &rosters), 0);
        assert_int_equal(rosters.items[0].n_members, N_CHANGERS * N_CHANGES);
        p = projection_cell_get(&h->projections);
        assert_int_equal(projection_fixture(p)->rosters[0].n_members, N_CHANGERS * N_CHANGES);
        projection_unref(p);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, house_setup, house_teardown)
        const struct CMUnitTest tests[] = {
                CASE(a_registered_site_is_projected_at_once),
                CASE(a_site_needs_an_id_and_keys_of_its_own),
                CASE(a_removed_site_takes_what_hangs_on_it_along),
                CASE(a_rotated_site_names_its_predecessors_oldest_first),
                CASE(a_rotation_must_be_signed_by_the_current_key),
                CASE(a_full_chain_drops_its_oldest_link),
                CASE(a_site_may_say_which_purposes_it_has),
                CASE(consents_pause_resume_and_end),
                CASE(a_revoked_route_stays_on_record_until_consented_anew),
                CASE(a_consent_comes_with_its_mappings_or_not_at_all),
                CASE(mappings_decide_and_the_first_counts),
                CASE(an_approved_device_gets_a_runner_id),
                CASE(a_revoked_device_stays_revoked),
                CASE(a_roster_lets_its_owner_run_its_members_work),
                CASE(what_was_changed_is_there_after_a_restart),
                CASE(tables_of_a_newer_version_are_refused),
                CASE(a_change_that_cannot_be_projected_is_undone),
                CASE(tables_may_be_kept_while_others_decide),
                CASE(a_batch_is_one_change),
                CASE(changes_from_many_threads_all_count),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
