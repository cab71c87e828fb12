/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/macro.h"
#include "json_values.h"
#include "routing/directory/projection.h"

/*
 * ann owns two rosters and consents to three sites, one of them paused and one not registered; ben and cid
 * are in her rosters; dot owns a roster that ann is in.
 */
static const char world_json[] =
        "{'sites':["
        "{'siteId':'s2','site':{@2},'succeeds':[{'identity':{@9},'signature':'x'}],'retiringUntil':5000},"
        "{'siteId':'s1','site':{@1}},"
        "{'siteId':'s3','site':{@3}},"
        "{'siteId':'s1','site':{@4}},"
        "{'siteId':'bad','site':{'identity':'!','encryption':'e','encryptionSig':'s'}}],"
        "'consents':["
        "{'owner':'ann','siteId':'s2'},{'owner':'ann','siteId':'s1'},{'owner':'ann','siteId':'s3','paused':"
        "true},"
        "{'owner':'ann','siteId':'nowhere'},{'owner':'ann','siteId':'bad'},"
        "{'owner':'ann','siteId':'s1','paused':true},"
        "{'owner':'ben','siteId':'s1'},{'owner':'ben','siteId':'s2','paused':true},{'owner':'ben','siteId':'"
        "s3'},"
        "{'owner':'cid','siteId':'s2'},{'owner':'cid','siteId':'s1'},"
        "{'owner':'dot','siteId':'s1'},"
        "{'owner':'eve','siteId':'s1','paused':true},{'owner':'eve','siteId':'s1'}],"
        "'devices':["
        "{'owner':'ann','runnerId':'r1','device':{@11}},"
        "{'owner':'ann','runnerId':'r2','device':{@12},'revoked':true},"
        "{'owner':'ben','runnerId':'r3','device':{@11},'revoked':true},"
        "{'owner':'cid','runnerId':'r1','device':{@13},'revoked':true}],"
        "'rosters':["
        "{'id':'t1','owner':'ann','members':['ben','ann','ben']},"
        "{'id':'t2','owner':'dot','members':['ann']},"
        "{'id':'t3','owner':'ann','members':['cid','ben','nobody']}],"
        "'revoked':[{'owner':'cid','siteId':'s1'},{'owner':'cid','siteId':'s1'},{'owner':'zoe','siteId':'s9'}"
        "]}";

struct with_projection {
        struct world *w;
        struct projection *p;
};

static int setup(void **state)
{
        struct with_projection *t = calloc(1, sizeof(*t));
        void *w;

        assert_non_null(t);
        world_setup(&w);
        t->w = w;
        t->p = projection_of(t->w->arena, world_json);
        *state = t;
        return 0;
}

static int teardown(void **state)
{
        struct with_projection *t = *state;
        void *w = t->w;

        projection_unref(t->p);
        world_teardown(&w);
        free(t);
        return 0;
}

static void site_for_takes_the_first_record(void **state)
{
        struct with_projection *t = *state;
        const struct projection_site *s = projection_site(t->p, S("s1"));
        unsigned char expected[32];

        memset(expected, 1, sizeof(expected));
        assert_non_null(s);
        assert_text(s->site_id, "s1");
        assert_true(s->has_key);
        assert_memory_equal(s->key.bytes, expected, sizeof(expected));
        assert_true(lessor_slice_equal(s->key_id, key_id(t->w->arena, 1)));
        assert_null(projection_site(t->p, S("s")));
        assert_null(projection_site(t->p, S("")));
}

static void a_site_knows_its_retired_keys_until_the_window_ends(void **state)
{
        struct with_projection *t = *state;
        const struct projection_site *s = projection_site(t->p, S("s2"));

        assert_int_equal(s->n_succeeds, 1);
        assert_true(s->succeeds[0].has_key);
        assert_int_equal(s->succeeds[0].key.bytes[31], 9);
        assert_true(projection_site_retiring(s, 4999));
        assert_false(projection_site_retiring(s, 5000));
        assert_false(projection_site_retiring(projection_site(t->p, S("s1")), 1));
}

static void site_id_for_key_knows_current_keys_only(void **state)
{
        struct with_projection *t = *state;

        assert_text(projection_site_for_key(t->p, key_id(t->w->arena, 2))->site_id, "s2");
        assert_null(projection_site_for_key(t->p, key_id(t->w->arena, 9)));
        assert_null(projection_site_for_key(t->p, key_id(t->w->arena, 4)));
        assert_null(projection_site_for_key(t->p, S("")));
}

static void device_for_takes_the_first_record(void **state)
{
        struct with_projection *t = *state;
        const struct projection_device *d = projection_device(t->p, S("r1"));

        assert_text(d->owner, "ann");
        assert_true(d->has_key);
        assert_int_equal(d->key.bytes[0], 11);
        assert_true(lessor_slice_equal(d->key_id, key_id(t->w->arena, 11)));
        assert_null(projection_device(t->p, S("r9")));
}

static void device_by_fingerprint_takes_the_exact_text(void **state)
{
        struct with_projection *t = *state;
        struct lessor_slice text = key_text(t->w->arena, 11);
        char padded[64];

        assert_text(projection_device_by_identity(t->p, text)->runner_id, "r1");
        /* The record is r1's second, but the first with this key. */
        assert_text(projection_device_by_identity(t->p, key_text(t->w->arena, 13))->owner, "cid");
        memcpy(padded, text.p, text.n);
        padded[text.n] = '=';
        assert_null(projection_device_by_identity(t->p, (struct lessor_slice){padded, text.n + 1}));
}

static void revoked_device_asks_the_record_of_that_runner(void **state)
{
        struct with_projection *t = *state;

        assert_false(projection_device_revoked(t->p, S("r1")));
        assert_true(projection_device_revoked(t->p, S("r2")));
        assert_true(projection_device_revoked(t->p, S("r3")));
        assert_false(projection_device_revoked(t->p, S("unknown")));
}

static void consents_are_per_pair(void **state)
{
        static const struct {
                const char *owner;
                const char *site;
                enum projection_consent consent;
        } cases[] = {
                {"ann", "s1", PROJECTION_CONSENT_LIVE},
                {"ann", "s3", PROJECTION_CONSENT_PAUSED},
                {"ann", "nowhere", PROJECTION_CONSENT_LIVE},
                {"ben", "s2", PROJECTION_CONSENT_PAUSED},
                {"cid", "s2", PROJECTION_CONSENT_LIVE},
                {"cid", "s1", PROJECTION_CONSENT_NONE}, /* revoked */
                {"cid", "s3", PROJECTION_CONSENT_NONE},
                {"dot", "s1", PROJECTION_CONSENT_LIVE},
                {"eve", "s1", PROJECTION_CONSENT_PAUSED}, /* of two the first */
                {"zoe", "s9", PROJECTION_CONSENT_NONE},
                {"an", "ns1", PROJECTION_CONSENT_NONE},
                {"s1", "ann", PROJECTION_CONSENT_NONE},
        };
        struct with_projection *t = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                enum projection_consent c = projection_consent(t->p, S(cases[i].owner), S(cases[i].site));

                if (c != cases[i].consent)
                        fail_msg("%s at %s: %d", cases[i].owner, cases[i].site, (int)c);
                assert_int_equal(projection_may_route(t->p, S(cases[i].owner), S(cases[i].site)),
                                 c == PROJECTION_CONSENT_LIVE);
        }
}

static void sites_for_pins_paused_ones_too(void **state)
{
        struct with_projection *t = *state;
        struct projection_pins pins = projection_sites_for(t->p, S("ann"));

        assert_int_equal(pins.n, 4);
        /* Identities are not verified on load: what is no key is pinned under the id that it has all the
         * same. */
        assert_text(pins.items[0].site->site_id, "bad");
        assert_false(pins.items[0].site->has_key);
        assert_text(pins.items[0].site->key_id, "BYOLLM-WERC-8GMR-ZGE1-96QV-YK49-JVXS");
        assert_text(pins.items[1].site->site_id, "s1");
        assert_false(pins.items[1].paused);
        assert_text(pins.items[2].site->site_id, "s2");
        assert_text(pins.items[3].site->site_id, "s3");
        assert_true(pins.items[3].paused);
        pins = projection_sites_for(t->p, S("cid"));
        assert_int_equal(pins.n, 1);
        assert_text(pins.items[0].site->site_id, "s2");
        assert_int_equal(projection_sites_for(t->p, S("nobody")).n, 0);
}

static void sites_are_sorted_by_utf16_unit(void **state)
{
        struct with_projection *t = *state;
        _cleanup_(projection_unrefp) struct projection *p = projection_of(
                t->w->arena, "{'sites':[{'siteId':'\xef\xbd\x9e','site':{@1}},"
                             "{'siteId':'\xf0\x9f\x98\x80','site':{@2}},{'siteId':'z','site':{@3}}],"
                             "'consents':[{'owner':'a','siteId':'\xef\xbd\x9e'},"
                             "{'owner':'a','siteId':'\xf0\x9f\x98\x80'},{'owner':'a','siteId':'z'}]}");
        struct projection_pins pins = projection_sites_for(p, S("a"));

        assert_int_equal(pins.n, 3);
        assert_text(pins.items[0].site->site_id, "z");
        assert_text(pins.items[1].site->site_id, "\xf0\x9f\x98\x80");
        assert_text(pins.items[2].site->site_id, "\xef\xbd\x9e");
}

static void assert_runnable(struct with_projection *t, const char *owner, const char *const *expected,
                            size_t n)
{
        struct lessor_slice *owners;
        size_t n_owners;

        assert_int_equal(projection_owners_runnable(t->p, S(owner), t->w->arena, &owners, &n_owners), 0);
        assert_int_equal(n_owners, n);
        for (size_t i = 0; i < n; i++)
                assert_text(owners[i], expected[i]);
}

static void owners_runnable_are_the_members_of_rosters_one_owns(void **state)
{
        struct with_projection *t = *state;

        assert_runnable(t, "ann", (const char *[]){"ann", "ben", "cid", "nobody"}, 4);
        assert_runnable(t, "dot", (const char *[]){"dot", "ann"}, 2);
        assert_runnable(t, "ben", (const char *[]){"ben"}, 1);
        assert_runnable(t, "stranger", (const char *[]){"stranger"}, 1);
}

static void routes_need_both_owners_consent(void **state)
{
        static const struct {
                const char *owner;
                const char *routes; /* site/owner, sorted */
        } cases[] = {
                {"ann", "bad/ann s1/ann s1/ben s2/ann s2/cid "}, /* s3: she has paused it, s2/ben: he has */
                {"ben", "s1/ben s3/ben "},
                {"cid", "s2/cid "},
                {"dot", "s1/ann s1/dot "},
                {"eve", ""},
                {"nobody", ""},
        };
        struct with_projection *t = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct projection_routes routes;
                struct projection_routes again;
                struct buf text;

                assert_int_equal(projection_routes(t->p, S(cases[i].owner), &routes), 0);
                assert_int_equal(projection_routes(t->p, S(cases[i].owner), &again), 0);
                assert_ptr_equal(routes.items, again.items); /* found once */
                buf_init(&text);
                for (size_t j = 0; j < routes.n; j++)
                        (void)buf_printf(&text, "%.*s/%.*s ", (int)routes.items[j].site_id.n,
                                         routes.items[j].site_id.p, (int)routes.items[j].owner.n,
                                         routes.items[j].owner.p);
                assert_text(buf_view(&text), cases[i].routes);
                buf_done(&text);
        }
}

/* An id may hold anything that JSON can say. */
static void ids_with_nul_are_told_apart(void **state)
{
        struct with_projection *t = *state;
        _cleanup_(projection_unrefp) struct projection *p =
                projection_of(t->w->arena, "{'sites':[{'siteId':'a\\u0000b','site':{@1}}],'consents':[]}");

        assert_non_null(projection_site(p, (struct lessor_slice){"a\0b", 3}));
        assert_null(projection_site(p, S("a")));
}

static void what_is_exported_reads_the_same(void **state)
{
        struct with_projection *t = *state;
        _cleanup_(projection_unrefp) struct projection *again = NULL;
        struct buf once;
        struct buf twice;
        const char *problem;

        buf_init(&once);
        buf_init(&twice);
        assert_int_equal(projection_to_json(t->p, &once), 0);
        assert_int_equal(projection_from_json(buf_view(&once), t->w->arena, &again, &problem), 0);
        assert_int_equal(projection_to_json(again, &twice), 0);
        assert_true(once.n > 1000);
        assert_true(lessor_slice_equal(buf_view(&once), buf_view(&twice)));
        buf_done(&once);
        buf_done(&twice);
}

static void a_bad_fixture_is_refused_entirely_and_says_where(void **state)
{
        static const struct {
                const char *json;
                int error;
                const char *where;
        } cases[] = {
                {"", LESSOR_E_MALFORMED, ""},
                {"{'consents':[]", LESSOR_E_MALFORMED, "line"},
                {"{'consents':[],'consents':[]}", LESSOR_E_MALFORMED, ""},
                {"[]", LESSOR_E_INVALID, ""},
                {"{}", LESSOR_E_INVALID, "consents"},
                {"{'consents':[{'owner':'a'}]}", LESSOR_E_INVALID, "consents[0]"},
                {"{'consents':[{'owner':'a','siteId':''}]}", LESSOR_E_INVALID, "consents[0].siteId"},
                {"{'consents':[{'owner':'a','siteId':'b','paused':null}]}", LESSOR_E_INVALID,
                 "consents[0].paused"},
                {"{'consents':[],'devices':[{'owner':'a','runnerId':'b','device':{@1},'revoked':1}]}",
                 LESSOR_E_INVALID, "devices[0].revoked"},
                {"{'consents':[],'sites':[{'siteId':'a','site':{@1},'retiringUntil':0}]}", LESSOR_E_INVALID,
                 "sites[0].retiringUntil"},
                {"{'consents':[],'rosters':[{'id':'a','owner':'b','members':['']}]}", LESSOR_E_INVALID,
                 "rosters[0].members[0]"},
                {"{'consents':[],'extra':[]}", LESSOR_E_INVALID, "extra"},
        };
        struct with_projection *t = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct projection *p = NULL;
                const char *problem = NULL;
                int r = projection_from_json(json_of(t->w->arena, cases[i].json), t->w->arena, &p, &problem);

                if (r != cases[i].error || problem == NULL || strstr(problem, cases[i].where) == NULL)
                        fail_msg("%s: %d %s", cases[i].json, r, problem);
                assert_null(p);
        }
}

static void every_recorded_fixture_is_taken(void **state)
{
        struct with_projection *t = *state;
        const struct json *document = json_load("relay-http.json", t->w->arena);
        size_t n = 0;

        json_each (fixture, json_member_named(document, "fixtures")) {
                const char *name = fixture->key.p;
                struct projection *p;
                const char *problem;

                if (projection_from_json(json_spelled(fixture, t->w->arena), t->w->arena, &p, &problem) < 0)
                        fail_msg("%s: %s", name, problem);
                if (strcmp(name, "basic") == 0) {
                        assert_int_equal(projection_sites_for(p, S("alice")).n, 2);
                        assert_text(projection_sites_for(p, S("alice")).items[0].site->site_id, "site_a");
                        assert_text(projection_site_for_key(p, S("BYOLLM-HQAB-8V6S-1T9T-HZ1W-KSDJ-57WC"))
                                            ->site_id,
                                    "site_a");
                }
                projection_unref(p);
                n++;
        }
        assert_true(n >= 10);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(site_for_takes_the_first_record),
                CASE(a_site_knows_its_retired_keys_until_the_window_ends),
                CASE(site_id_for_key_knows_current_keys_only),
                CASE(device_for_takes_the_first_record),
                CASE(device_by_fingerprint_takes_the_exact_text),
                CASE(revoked_device_asks_the_record_of_that_runner),
                CASE(consents_are_per_pair),
                CASE(sites_for_pins_paused_ones_too),
                CASE(sites_are_sorted_by_utf16_unit),
                CASE(owners_runnable_are_the_members_of_rosters_one_owns),
                CASE(routes_need_both_owners_consent),
                CASE(ids_with_nul_are_told_apart),
                CASE(what_is_exported_reads_the_same),
                CASE(a_bad_fixture_is_refused_entirely_and_says_where),
                CASE(every_recorded_fixture_is_taken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
