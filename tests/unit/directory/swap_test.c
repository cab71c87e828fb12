/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/macro.h"
#include "routing/directory/projection.h"

#define N_READERS 3
#define N_SWAPS   400

struct shared {
        struct projection_cell cell;
        atomic_bool over;
        atomic_long n_read[2]; /* of each kind of snapshot */
        atomic_long n_torn;
};

/* In one snapshot ann may route to `one` and ben is her member; in the other to `two`, and nobody is. */
static const char *const kinds[] = {
        "{'sites':[{'siteId':'one','site':{@1}}],'consents':[{'owner':'ann','siteId':'one'},"
        "{'owner':'ben','siteId':'one'}],'rosters':[{'id':'t','owner':'ann','members':['ben']}]}",
        "{'sites':[{'siteId':'two','site':{@2}}],'consents':[{'owner':'ann','siteId':'two'}]}",
};

static void read_once(struct shared *s)
{
        _cleanup_(projection_unrefp) struct projection *p = projection_cell_get(&s->cell);
        struct projection_routes routes = {0};
        bool one = projection_site(p, S("one")) != NULL;
        bool whole;

        whole = projection_routes(p, S("ann"), &routes) == 0 && routes.n == (one ? 2u : 1u) &&
                projection_may_route(p, S("ann"), S(one ? "one" : "two")) &&
                !projection_may_route(p, S("ann"), S(one ? "two" : "one")) &&
                lessor_slice_equal(routes.items[0].site_id, S(one ? "one" : "two")) &&
                projection_sites_for(p, S("ann")).n == 1;
        if (!whole)
                atomic_fetch_add(&s->n_torn, 1);
        atomic_fetch_add(&s->n_read[one ? 0 : 1], 1);
}

static void *reader(void *context)
{
        struct shared *s = context;

        while (!atomic_load(&s->over))
                read_once(s);
        return NULL;
}

static void readers_see_one_snapshot_or_the_other(void **state)
{
        struct world *w = *state;
        struct shared s = {0};
        pthread_t threads[N_READERS];

        projection_cell_init(&s.cell);
        assert_null(projection_cell_get(&s.cell));
        projection_cell_put(&s.cell, projection_of(w->arena, kinds[0]));
        for (size_t i = 0; i < N_READERS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, reader, &s), 0);
        /* At least so many swaps, and on until the readers have met both. */
        for (int i = 1; i < N_SWAPS || atomic_load(&s.n_read[0]) == 0 || atomic_load(&s.n_read[1]) == 0; i++)
                projection_cell_put(&s.cell, projection_of(w->arena, kinds[i % 2]));
        atomic_store(&s.over, true);
        for (size_t i = 0; i < N_READERS; i++)
                pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&s.n_torn), 0);
        projection_cell_done(&s.cell);
}

/* A request that began before a swap ends with what it began with. */
static void a_reference_outlives_the_swap(void **state)
{
        struct world *w = *state;
        _cleanup_(projection_unrefp) struct projection *held = NULL;
        struct projection_cell cell;

        projection_cell_init(&cell);
        projection_cell_put(&cell, projection_of(w->arena, kinds[0]));
        held = projection_cell_get(&cell);
        projection_cell_put(&cell, projection_of(w->arena, kinds[1]));
        projection_cell_done(&cell);
        assert_non_null(projection_site(held, S("one")));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(readers_see_one_snapshot_or_the_other, world_setup,
                                                world_teardown),
                cmocka_unit_test_setup_teardown(a_reference_outlives_the_swap, world_setup, world_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
