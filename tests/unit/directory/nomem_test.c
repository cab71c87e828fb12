/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <stdlib.h>

#include "base/json_read.h"
#include "base/macro.h"
#include "routing/directory/projection.h"
#include "wire/relay_documents.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);

/* The allocation that fails, counted down; -1 for none. Everything after it succeeds again. */
static long countdown = -1;
static bool has_failed;

static bool fails(void)
{
        if (countdown < 0 || countdown-- > 0)
                return false;
        has_failed = true;
        return true;
}

void *__wrap_malloc(size_t n)
{
        return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t size)
{
        return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t n)
{
        return fails() ? NULL : __real_realloc(p, n);
}

static struct relay_fixture fixture;
static struct relay_policy document;

static int make_projection(void)
{
        _cleanup_(projection_unrefp) struct projection *p = NULL;
        struct projection_routes routes;
        int r = projection_new(&fixture, &p);

        if (r < 0)
                return r;
        r = projection_routes(p, S("ann"), &routes);
        if (r == 0)
                assert_int_equal(routes.n, 1000);
        return r;
}

static int make_policy(void)
{
        _cleanup_(policy_unrefp) struct policy *p = NULL;

        return policy_new(&document, &p);
}

/* Reads before anything fails: that reading copes is for the rooms below to show. */
static void read_document(struct world *w, const struct message_table *table, struct buf *text,
                          void *ret_document)
{
        struct json *value;

        assert_int_equal(buf_failed(text), 0);
        assert_int_equal(json_read_file_text(json_of(w->arena, text->p), w->arena, &value, NULL), 0);
        assert_int_equal(message_read(table, value, w->arena, ret_document, NULL), 0);
        buf_done(text);
}

/* Runs `work` with its first allocation failing, then its second, and so on until it needs no more. */
static void fail_each(int (*work)(void))
{
        long step = 0;

        for (;; step++) {
                int r;

                has_failed = false;
                countdown = step;
                r = work();
                countdown = -1;
                if (!has_failed)
                        break;
                if (r != LESSOR_E_NOMEM)
                        fail_msg("allocation %ld failed, and the answer was %d", step, r);
        }
        assert_int_equal(work(), 0);
        assert_true(step > 3);
}

/* Large enough for the snapshots to need several blocks of their own. */
static void a_projection_that_does_not_fit_leaves_nothing(void **state)
{
        struct world *w = *state;
        struct buf text;

        buf_init(&text);
        (void)buf_text(&text, "{'sites':[");
        for (int i = 0; i < 1000; i++)
                (void)buf_printf(&text, "%s{'siteId':'site-%d','site':{@%d}}", i == 0 ? "" : ",", i, i % 250);
        (void)buf_text(&text, "],'consents':[");
        for (int i = 0; i < 1000; i++)
                (void)buf_printf(&text, "%s{'owner':'ann','siteId':'site-%d'}", i == 0 ? "" : ",", i);
        (void)buf_text(&text, "],'rosters':[{'id':'r','owner':'ann','members':['ben']}]}");
        read_document(w, &relay_fixture_table, &text, &fixture);
        fail_each(make_projection);
}

static void a_policy_that_does_not_fit_leaves_nothing(void **state)
{
        struct world *w = *state;
        struct buf text;

        buf_init(&text);
        (void)buf_text(&text, "{'consents':[");
        for (int i = 0; i < 1000; i++)
                (void)buf_printf(&text,
                                 "%s{'siteId':'site-%d','user':'u','mappings':[{'purpose':'p',"
                                 "'kind':'llm.chat','service':'s'}]}",
                                 i == 0 ? "" : ",", i);
        (void)buf_text(&text,
                       "],'members':[{'owner':'a','user':'b'}],'declares':{'s':['p']},'advertising':[]}");
        read_document(w, &relay_policy_table, &text, &document);
        fail_each(make_policy);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_projection_that_does_not_fit_leaves_nothing, world_setup,
                                                world_teardown),
                cmocka_unit_test_setup_teardown(a_policy_that_does_not_fit_leaves_nothing, world_setup,
                                                world_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
