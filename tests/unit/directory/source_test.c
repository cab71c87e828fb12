/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "routing/directory/source.h"

#define ONE   "{'sites':[{'siteId':'one','site':{@1}}],'consents':[]}"
#define TWO   "{'sites':[{'siteId':'two','site':{@1}}],'consents':[]}"
#define WRONG "{'sites':[{'siteId':'two','site':{@1}}],'consents':[7]}"

static bool has_site(struct projection_cell *cell, const char *site)
{
        _cleanup_(projection_unrefp) struct projection *p = projection_cell_get(cell);

        return p != NULL && projection_site(p, S(site)) != NULL;
}

static void a_file_is_taken_whole_or_not_at_all(void **state)
{
        struct world *w = *state;
        _cleanup_(source_freep) struct source *s = NULL;
        const char *path = path_in(w, "projection.json");
        struct projection_cell cell;

        projection_cell_init(&cell);
        assert_int_equal(source_new_projection(path, &cell, &s), 0);
        assert_int_equal(source_reload(s), LESSOR_E_NOT_FOUND);
        write_file(path, json_of(w->arena, ONE));
        assert_int_equal(source_reload(s), 0);
        assert_true(has_site(&cell, "one"));
        write_file(path, json_of(w->arena, WRONG));
        assert_int_equal(source_reload(s), LESSOR_E_INVALID);
        assert_true(has_site(&cell, "one"));
        write_file(path, S("{"));
        assert_int_equal(source_reload(s), LESSOR_E_MALFORMED);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(source_reload(s), LESSOR_E_NOT_FOUND);
        assert_true(has_site(&cell, "one"));
        projection_cell_done(&cell);
}

static void a_check_reads_only_what_is_new(void **state)
{
        struct world *w = *state;
        _cleanup_(source_freep) struct source *s = NULL;
        const char *path = path_in(w, "projection.json");
        struct projection_cell cell;

        projection_cell_init(&cell);
        write_file(path, json_of(w->arena, ONE));
        assert_int_equal(source_new_projection(path, &cell, &s), 0);
        assert_int_equal(source_check(s), 1);
        assert_int_equal(source_check(s), 0);
        write_file(path, json_of(w->arena, ONE)); /* another file with the same text */
        assert_int_equal(source_check(s), 0);
        /* As large, and maybe within the same time stamp: it is seen all the same. */
        write_file(path, json_of(w->arena, TWO));
        assert_int_equal(source_check(s), 1);
        assert_true(has_site(&cell, "two"));
        assert_false(has_site(&cell, "one"));
        /* A bad one is told once. */
        write_file(path, json_of(w->arena, WRONG));
        assert_int_equal(source_check(s), LESSOR_E_INVALID);
        assert_int_equal(source_check(s), 0);
        assert_true(has_site(&cell, "two"));
        write_file(path, json_of(w->arena, ONE));
        assert_int_equal(source_check(s), 1);
        assert_true(has_site(&cell, "one"));
        projection_cell_done(&cell);
}

static void a_file_rewritten_in_place_is_seen(void **state)
{
        struct world *w = *state;
        _cleanup_(source_freep) struct source *s = NULL;
        const char *path = path_in(w, "projection.json");
        struct projection_cell cell;
        FILE *f;

        projection_cell_init(&cell);
        write_file(path, json_of(w->arena, ONE));
        assert_int_equal(source_new_projection(path, &cell, &s), 0);
        assert_int_equal(source_check(s), 1);
        f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(json_of(w->arena, TWO).p, f) >= 0);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(source_check(s), 1);
        assert_true(has_site(&cell, "two"));
        projection_cell_done(&cell);
}

static void a_file_that_vanished_and_came_back_is_taken(void **state)
{
        struct world *w = *state;
        _cleanup_(source_freep) struct source *s = NULL;
        const char *path = path_in(w, "projection.json");
        struct projection_cell cell;

        projection_cell_init(&cell);
        write_file(path, json_of(w->arena, ONE));
        assert_int_equal(source_new_projection(path, &cell, &s), 0);
        assert_int_equal(source_check(s), 1);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(source_check(s), LESSOR_E_NOT_FOUND);
        assert_int_equal(source_check(s), 0); /* told once */
        write_file(path, json_of(w->arena, TWO));
        assert_int_equal(source_check(s), 1);
        assert_true(has_site(&cell, "two"));
        projection_cell_done(&cell);
}

static void a_policy_file_works_alike(void **state)
{
        struct world *w = *state;
        _cleanup_(source_freep) struct source *s = NULL;
        _cleanup_(policy_unrefp) struct policy *p = NULL;
        const char *path = path_in(w, "policy.json");
        struct policy_cell cell;
        enum policy_satisfiable verdict;

        policy_cell_init(&cell);
        write_file(path, json_of(w->arena, "{'unavailable':false}"));
        assert_int_equal(source_new_policy(path, &cell, &s), 0);
        assert_int_equal(source_check(s), 1);
        write_file(path, json_of(w->arena, "{'unavailable':1}"));
        assert_int_equal(source_check(s), LESSOR_E_INVALID);
        p = policy_cell_get(&cell);
        assert_int_equal(policy_satisfiable(p, S("s"), S("u"), S(NULL), LESSOR_KIND_LLM_CHAT, &verdict), 0);
        assert_int_equal(verdict, POLICY_NOT_MAPPED);
        policy_cell_done(&cell);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
        const struct CMUnitTest tests[] = {
                CASE(a_file_is_taken_whole_or_not_at_all), CASE(a_check_reads_only_what_is_new),
                CASE(a_file_rewritten_in_place_is_seen),   CASE(a_file_that_vanished_and_came_back_is_taken),
                CASE(a_policy_file_works_alike),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
