/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "client/agent_rules.h"
#include "crypto/stored_keys.h"
#include "crypto/succession.h"

#define NOW  1767225600000
#define WEEK 604800000

/* A site that changes its key twice. */
struct world {
        struct lessor_arena *arena;
        struct stored_keys *keys[3];
        struct pinned_site named[3];
        struct lessor_succession_link links[2]; /* oldest first */
        struct site_changes changes;
};

static int set_up(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        w->arena = lessor_arena_new();
        for (size_t i = 0; i < 3; i++) {
                const struct signing_key *signing;

                assert_int_equal(stored_keys_generate(NOW, &w->keys[i]), 0);
                signing = stored_keys_signing(w->keys[i]);
                w->named[i] = (struct pinned_site){signing_key_id(signing), *signing_key_identity(signing)};
        }
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(succession_link_sign(stored_keys_signing(w->keys[i]), w->named[i + 1].key_id,
                                                      w->arena, &w->links[i]),
                                 0);
        *state = w;
        return 0;
}

static int tear_down(void **state)
{
        struct world *w = *state;

        for (size_t i = 0; i < 3; i++)
                stored_keys_free(w->keys[i]);
        lessor_arena_free(w->arena);
        free(w);
        return 0;
}

/* Applies one named site, or none when i is -1, with the chain that leads to it. */
static void apply(struct world *w, int i, const struct site_succession *succession, int64_t now_ms)
{
        struct site_changes before = w->changes;

        assert_int_equal(rules_apply_sites(before.sites, before.n_sites, i < 0 ? NULL : &w->named[i],
                                           i < 0 ? 0 : 1, succession, succession == NULL ? 0 : 1, now_ms,
                                           w->arena, &w->changes),
                         0);
}

static bool served(const struct world *w, size_t i, int64_t now_ms)
{
        const struct known_site *site =
                known_site_find(w->changes.sites, w->changes.n_sites, w->named[i].key_id);

        return site != NULL && known_site_is_served(site, now_ms);
}

static void a_new_site_is_pinned_and_stays_known(void **state)
{
        struct world *w = *state;

        apply(w, 0, NULL, NOW);
        assert_true(w->changes.changed);
        assert_int_equal(w->changes.n_notes, 1);
        assert_int_equal(w->changes.notes[0].type, SITE_PINNED);
        assert_true(served(w, 0, NOW));
        apply(w, 0, NULL, NOW);
        assert_false(w->changes.changed);
        assert_int_equal(w->changes.n_notes, 0);
        apply(w, -1, NULL, NOW);
        assert_true(w->changes.changed);
        assert_int_equal(w->changes.notes[0].type, SITE_WITHDRAWN);
        assert_false(served(w, 0, NOW));
        assert_int_equal(w->changes.n_sites, 1);
}

static void a_successor_is_pinned_beside_its_predecessor(void **state)
{
        struct world *w = *state;
        struct site_succession succession = {
                .key_id = w->named[2].key_id, .succeeds = w->links, .n_succeeds = 2};

        apply(w, 0, NULL, NOW);
        apply(w, 2, &succession, NOW);
        assert_int_equal(w->changes.n_sites, 2);
        assert_int_equal(w->changes.notes[0].type, SITE_ROTATED);
        assert_true(lessor_slice_equal(w->changes.notes[0].from, w->named[0].key_id));
        assert_true(served(w, 2, NOW));
        assert_true(served(w, 0, NOW + WEEK - 1));
        assert_false(served(w, 0, NOW + WEEK));
}

static void the_retirement_window_is_never_longer_than_proposed(void **state)
{
        struct world *w = *state;
        struct site_succession succession = {.key_id = w->named[1].key_id,
                                             .succeeds = w->links,
                                             .n_succeeds = 1,
                                             .retiring_until_ms = NOW + 1000};

        apply(w, 0, NULL, NOW);
        apply(w, 1, &succession, NOW);
        assert_true(served(w, 0, NOW + 999));
        assert_false(served(w, 0, NOW + 1000));
}

static void a_proposed_window_is_cut_to_a_week(void **state)
{
        struct world *w = *state;
        struct site_succession succession = {.key_id = w->named[1].key_id,
                                             .succeeds = w->links,
                                             .n_succeeds = 1,
                                             .retiring_until_ms = NOW + 2 * (int64_t)WEEK};

        apply(w, 0, NULL, NOW);
        apply(w, 1, &succession, NOW);
        assert_false(served(w, 0, NOW + WEEK));
}

static void a_broken_chain_refuses_the_site(void **state)
{
        struct world *w = *state;
        struct site_succession succession = {
                .key_id = w->named[2].key_id, .succeeds = w->links, .n_succeeds = 2};

        apply(w, 0, NULL, NOW);
        w->links[1].signature = w->links[0].signature;
        apply(w, 2, &succession, NOW);
        assert_false(served(w, 2, NOW));
        assert_int_equal(w->changes.notes[0].type, SITE_REFUSED);
        assert_int_equal(w->changes.n_sites, 1);
}

static void a_chain_to_nobody_we_know_pins_a_new_site(void **state)
{
        struct world *w = *state;
        struct site_succession succession = {
                .key_id = w->named[1].key_id, .succeeds = w->links, .n_succeeds = 1};

        apply(w, 1, &succession, NOW);
        assert_int_equal(w->changes.notes[0].type, SITE_PINNED);
        assert_true(served(w, 1, NOW));
}

static void identities_that_do_not_hold_are_refused(void **state)
{
        struct world *w = *state;
        struct lessor_slice own_id = w->named[0].key_id;
        struct lessor_slice own_sig = w->named[0].identity.encryption_sig;

        w->named[0].key_id = w->named[1].key_id;
        apply(w, 0, NULL, NOW);
        assert_int_equal(w->changes.notes[0].type, SITE_REFUSED);
        assert_int_equal(w->changes.n_sites, 0);
        w->named[0].key_id = own_id;
        w->named[0].identity.encryption_sig = w->named[1].identity.encryption_sig;
        apply(w, 0, NULL, NOW);
        assert_int_equal(w->changes.notes[0].type, SITE_REFUSED);
        w->named[0].identity.encryption_sig = own_sig;
        apply(w, 0, NULL, NOW);
        assert_int_equal(w->changes.n_sites, 1);
}

static void a_known_site_keeps_the_keys_that_were_pinned(void **state)
{
        struct world *w = *state;
        struct lessor_slice pinned = w->named[0].identity.encryption;
        struct lessor_slice other = w->named[1].identity.encryption;
        struct buf statement, signature;

        apply(w, 0, NULL, NOW);
        /* The same identity vouches for another encryption key: consistent, and yet not what was pinned. */
        buf_init(&statement);
        buf_init(&signature);
        buf_text(&statement, "byollm/v1/encryption-key:");
        buf_slice(&statement, other);
        assert_int_equal(
                signing_key_sign_text(stored_keys_signing(w->keys[0]), buf_view(&statement), &signature), 0);
        w->named[0].identity.encryption = other;
        w->named[0].identity.encryption_sig = buf_view(&signature);
        apply(w, 0, NULL, NOW);
        assert_int_equal(w->changes.notes[0].type, SITE_REFUSED);
        assert_true(lessor_slice_equal(w->changes.sites[0].identity.encryption, pinned));
        assert_false(served(w, 0, NOW));
        buf_done(&statement);
        buf_done(&signature);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                CASE(a_new_site_is_pinned_and_stays_known),
                CASE(a_successor_is_pinned_beside_its_predecessor),
                CASE(the_retirement_window_is_never_longer_than_proposed),
                CASE(a_proposed_window_is_cut_to_a_week),
                CASE(a_broken_chain_refuses_the_site),
                CASE(a_chain_to_nobody_we_know_pins_a_new_site),
                CASE(identities_that_do_not_hold_are_refused),
                CASE(a_known_site_keeps_the_keys_that_were_pinned),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
