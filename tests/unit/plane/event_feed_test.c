/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "plane/event_feed.h"

#define N_WRITERS 4
#define N_EACH    5000

static struct event_feed *feed;
static unsigned n_news;

static int setup(void **state)
{
        (void)state;
        feed = event_feed_new();
        assert_non_null(feed);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        event_feed_free(feed);
        return 0;
}

static void happen(enum lessor_lease_event_kind kind, const char *repo, const char *run)
{
        event_feed_happened(feed,
                            &(struct lessor_lease_event){.kind = kind,
                                                         .name = {lessor_slice_of(repo), LESSOR_SLICE("l")},
                                                         .run = run == NULL ? (struct lessor_slice){0}
                                                                            : lessor_slice_of(run)});
}

struct told {
        unsigned n;
        uint64_t missed;
        char types[2048]; /* "lease.claimed " … */
        struct buf last;
};

static void take(void *context, struct lessor_slice id, const char *type, struct lessor_slice json)
{
        struct told *told = context;

        if (id.p == NULL) {
                assert_string_equal(type, "gap");
                told->missed += strtoull(json.p + strlen("{\"missed\":"), NULL, 10);
                return;
        }
        if (told->n++ < 40)
                strcat(strcat(told->types, type), " ");
        buf_clear(&told->last);
        buf_slice(&told->last, json);
}

static struct told read_all(const struct event_filter *filter, uint64_t *at)
{
        struct told told = {0};

        while (event_feed_read(feed, filter, at, 7, take, &told))
                ;
        return told;
}

static void tells_what_happened_in_order(void **state)
{
        uint64_t at = 0;
        struct told told;

        (void)state;
        happen(LESSOR_EVENT_CLAIMABLE, "a", NULL);
        happen(LESSOR_EVENT_CLAIMED, "a", NULL);
        happen(LESSOR_EVENT_EXTENDED, "a", NULL);
        happen(LESSOR_EVENT_COMPLETED, "a", NULL);
        happen(LESSOR_EVENT_FORGOTTEN, "a", NULL);
        happen(LESSOR_EVENT_DISCARDED, "a", NULL);
        told = read_all(&(struct event_filter){0}, &at);
        assert_string_equal(told.types, "server.started lease.claimable lease.claimed lease.completed ");
        assert_int_equal(told.missed, 0);
        buf_done(&told.last);
        assert_int_equal(read_all(&(struct event_filter){0}, &at).n, 0);
}

static void event_has_what_belongs_to_it(void **state)
{
        const struct lessor_lease_event event = {.kind = LESSOR_EVENT_ATTEMPT_ENDED,
                                                 .name = {LESSOR_SLICE("r"), LESSOR_SLICE("t#i#1")},
                                                 .owner = LESSOR_SLICE(""),
                                                 .tier = LESSOR_SLICE("x"),
                                                 .rack_id = LESSOR_SLICE("k"),
                                                 .execution_id = LESSOR_SLICE("e"),
                                                 .claim_number = 2,
                                                 .cause = LESSOR_CAUSE_RECLAIMED,
                                                 .reason = LESSOR_SLICE("a \"b\"")};
        uint64_t at = event_feed_head(feed);
        struct told told;

        (void)state;
        event_feed_happened(feed, &event);
        told = read_all(&(struct event_filter){0}, &at);
        assert_non_null(strstr(told.last.p,
                               "\"type\":\"attempt.ended\",\"repo\":\"r\",\"lease\":\"t#i#1\",\"rack\":\"k\","
                               "\"owner\":\"\",\"tier\":\"x\",\"attempt\":\"e\",\"reason\":\"a \\\"b\\\"\","
                               "\"claimNumber\":2,\"cause\":\"reclaimed\"}"));
        buf_done(&told.last);
}

static void filters_hold_back_what_is_not_wanted(void **state)
{
        static const struct {
                struct event_filter filter;
                unsigned n;
        } cases[] = {
                {{.repo = {"a", 1}}, 3},
                {{.run = {"n", 1}}, 2},
                {{.repo = {"a", 1}, .run = {"n", 1}}, 1},
                {{.lease = {"l", 1}}, 4},
                {{.lease = {"m", 1}}, 0},
                {{.rack = {"k", 1}}, 0},
                {{.types = UINT32_C(1) << EVENT_LEASE_CLAIMED}, 2},
                {{.repo = {"a", 1}, .types = UINT32_C(1) << EVENT_LEASE_CLAIMED}, 1},
        };

        (void)state;
        happen(LESSOR_EVENT_CLAIMED, "a", "n");
        happen(LESSOR_EVENT_COMPLETED, "a", NULL);
        happen(LESSOR_EVENT_COMPLETED, "a", "o");
        happen(LESSOR_EVENT_CLAIMED, "b", "n");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint64_t at = 1; /* behind server.started, which everybody gets */
                struct told told = read_all(&cases[i].filter, &at);

                assert_int_equal(told.n, cases[i].n);
                assert_int_equal(at, 5);
                buf_done(&told.last);
        }
}

static void overtaken_reader_learns_how_much_it_missed(void **state)
{
        uint64_t at = event_feed_head(feed), fresh = 0;
        struct told told;

        (void)state;
        for (int i = 0; i < LIMIT_EVENTS + 100; i++)
                happen(LESSOR_EVENT_CLAIMED, "a", NULL);
        told = read_all(&(struct event_filter){0}, &at);
        assert_int_equal(told.missed, 100);
        assert_int_equal(told.n, LIMIT_EVENTS);
        buf_done(&told.last);
        told = read_all(&(struct event_filter){0}, &fresh); /* who was never there has missed nothing */
        assert_int_equal(told.missed, 0);
        assert_int_equal(told.n, LIMIT_EVENTS);
        buf_done(&told.last);
}

static void ids_are_places_in_this_feed_only(void **state)
{
        char id[EVENT_ID_LEN + 1];
        uint64_t seq = 77;

        (void)state;
        happen(LESSOR_EVENT_CLAIMED, "a", NULL);
        event_feed_id(feed, 2, id);
        assert_true(event_feed_find(feed, lessor_slice_of(id), &seq));
        assert_int_equal(seq, 2);
        assert_true(event_feed_find(feed, LESSOR_SLICE("oldest"), &seq));
        assert_int_equal(seq, 0);
        id[0] = id[0] == '0' ? '1' : '0';
        assert_false(event_feed_find(feed, lessor_slice_of(id), &seq));
        assert_false(event_feed_find(feed, LESSOR_SLICE(""), &seq));
        assert_false(event_feed_find(feed, LESSOR_SLICE("2"), &seq));
        event_feed_id(feed, UINT64_MAX, id);
        assert_false(event_feed_find(feed, lessor_slice_of(id), &seq));
        event_feed_id(feed, 2, id);
        strcat(id, "x");
        assert_false(event_feed_find(feed, lessor_slice_of(id), &seq));
        seq = 900; /* which nobody has been told of */
        assert_int_equal(read_all(&(struct event_filter){0}, &seq).n, 0);
        assert_int_equal(seq, 2);
}

static void types_have_names_and_numbers(void **state)
{
        (void)state;
        for (int i = 0; i < N_EVENT_TYPES; i++)
                assert_int_equal(event_type_number(lessor_slice_of(event_type_name((enum event_type)i))), i);
        assert_int_equal(event_type_number(LESSOR_SLICE("lease")), -1);
}

static void news(void *context)
{
        __atomic_add_fetch((unsigned *)context, 1, __ATOMIC_RELAXED);
}

static void *write_many(void *context)
{
        for (int i = 0; i < N_EACH; i++)
                happen(LESSOR_EVENT_CLAIMED, context, NULL);
        return NULL;
}

/* Writers and a reader at once: each event is told once or counted as missed. */
static void nothing_is_told_twice_or_lost(void **state)
{
        pthread_t threads[N_WRITERS];
        uint64_t at = event_feed_head(feed), n = 0, missed = 0;

        (void)state;
        event_feed_listen(feed, news, &n_news);
        for (size_t i = 0; i < N_WRITERS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)"a"), 0);
        while (n + missed < (uint64_t)N_WRITERS * N_EACH) {
                struct told told = read_all(&(struct event_filter){0}, &at);

                n += told.n;
                missed += told.missed;
                buf_done(&told.last);
        }
        for (size_t i = 0; i < N_WRITERS; i++)
                pthread_join(threads[i], NULL);
        assert_int_equal(n + missed, N_WRITERS * N_EACH);
        assert_int_equal(read_all(&(struct event_filter){0}, &at).n, 0);
        assert_int_equal(n_news, N_WRITERS * N_EACH);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(tells_what_happened_in_order),         CASE(event_has_what_belongs_to_it),
                CASE(filters_hold_back_what_is_not_wanted), CASE(overtaken_reader_learns_how_much_it_missed),
                CASE(ids_are_places_in_this_feed_only),     CASE(types_have_names_and_numbers),
                CASE(nothing_is_told_twice_or_lost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
