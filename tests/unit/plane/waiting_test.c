/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/macro.h"
#include "plane/waiting.h"

/* Requests that the test plays itself, in place of an HTTP server's. */
struct party {
        struct http_request http;
        struct waiter *waiter;
        http_handler *next; /* its continuation, while it is suspended */
        void *context;
        bool prepared, woken;
        bool deaf; /* wakes for another reason just now: http_resume() is too late */
        unsigned n_looks;
};

static struct party *party_of(struct http_request *http)
{
        return container_of(http, struct party, http);
}

void http_suspend_prepare(struct http_request *request)
{
        party_of(request)->prepared = true;
        party_of(request)->woken = false;
}

void http_suspend(struct http_request *request, int64_t wait_ms, http_handler *resumed, void *context)
{
        (void)wait_ms;
        party_of(request)->next = resumed;
        party_of(request)->context = context;
}

bool http_resume(struct http_request *request)
{
        struct party *p = party_of(request);

        if (p->deaf || !p->prepared || p->woken)
                return false;
        p->woken = true;
        return true;
}

#define N_PARTIES 4

struct scene {
        struct waiting *waiting;
        struct party parties[N_PARTIES];
};

static const struct place work = {PLACE_TIER, .a = {"py", 2}}, other = {PLACE_TIER, .a = {"c", 1}},
                          racks = {PLACE_RACKS};

static int set_up(void **state)
{
        struct scene *s = calloc(1, sizeof(*s));

        s->waiting = waiting_new();
        for (size_t i = 0; i < N_PARTIES; i++)
                s->parties[i].http.arena = lessor_arena_new();
        *state = s;
        return 0;
}

static void leave(struct party *p)
{
        p->http.arena = lessor_arena_free(p->http.arena);
}

static int tear_down(void **state)
{
        struct scene *s = *state;

        for (size_t i = 0; i < N_PARTIES; i++)
                leave(&s->parties[i]);
        assert_int_equal(waiting_count(s->waiting), 0);
        waiting_free(s->waiting);
        free(s);
        return 0;
}

static void looked(struct http_request *request, void *context)
{
        (void)request;
        ((struct party *)context)->n_looks++;
}

static void sleep_again(struct party *p)
{
        waiter_sleep(p->waiter, 1000, looked, p);
}

/* Comes, looks, finds nothing, and sleeps. */
static void come(struct scene *s, size_t i, const struct place *places, size_t n)
{
        struct party *p = &s->parties[i];

        assert_int_equal(waiting_enter(s->waiting, &p->http, places, n, &p->waiter), 0);
        waiter_look(p->waiter);
        sleep_again(p);
}

/* Its continuation runs, and it looks. */
static void run(struct party *p)
{
        http_handler *next = TAKE(p->next);

        assert_non_null(next);
        p->prepared = false;
        next(&p->http, p->context);
        waiter_look(p->waiter);
}

/* Who is woken and has not run, as bits. */
static unsigned woken(const struct scene *s)
{
        unsigned bits = 0;

        for (size_t i = 0; i < N_PARTIES; i++)
                if (s->parties[i].next != NULL && s->parties[i].woken)
                        bits |= 1u << i;
        return bits;
}

static void three_come(struct scene *s)
{
        for (size_t i = 0; i < 3; i++)
                come(s, i, &work, 1);
}

static void an_event_wakes_the_one_that_waits_longest(void **state)
{
        struct scene *s = *state;

        three_come(s);
        assert_int_equal(waiting_wake_one(s->waiting, &other), 0);
        assert_int_equal(waiting_wake_one(s->waiting, &work), 1);
        assert_int_equal(woken(s), 1);
        assert_int_equal(waiting_wake_one(s->waiting, &work), 1);
        assert_int_equal(woken(s), 3);
        assert_int_equal(waiting_wake_one(s->waiting, &work), 1);
        assert_int_equal(waiting_wake_one(s->waiting, &work), 0);
        assert_int_equal(woken(s), 7);
}

static void a_turn_goes_down_the_row_once(void **state)
{
        struct scene *s = *state;

        three_come(s);
        waiting_wake_one(s->waiting, &work);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(woken(s), 1u << i);
                run(&s->parties[i]);
                sleep_again(&s->parties[i]);
        }
        assert_int_equal(woken(s), 0);
        assert_int_equal(waiting_wake_one(s->waiting, &work), 1);
        assert_int_equal(woken(s), 1);
}

static void a_spent_turn_goes_no_further(void **state)
{
        struct scene *s = *state;

        three_come(s);
        waiting_wake_one(s->waiting, &work);
        run(&s->parties[0]);
        waiter_spend(s->parties[0].waiter, &work);
        waiter_leave(s->parties[0].waiter);
        assert_int_equal(woken(s), 0);
        waiting_wake_one(s->waiting, &work);
        run(&s->parties[1]);
        waiter_drop(s->parties[1].waiter);
        sleep_again(&s->parties[1]);
        assert_int_equal(woken(s), 0);
}

static void a_turn_that_was_spent_elsewhere_is_passed_on(void **state)
{
        struct scene *s = *state;
        const struct place both[] = {work, other};

        come(s, 0, both, 2);
        come(s, 1, &other, 1);
        come(s, 2, &work, 1);
        waiting_wake_one(s->waiting, &work);
        run(&s->parties[0]);
        waiter_spend(s->parties[0].waiter, &other);
        assert_int_equal(woken(s), 4);
}

static void who_leaves_passes_its_turn_on(void **state)
{
        struct scene *s = *state;

        three_come(s);
        waiting_wake_one(s->waiting, &work);
        leave(&s->parties[0]);
        s->parties[0].next = NULL;
        assert_int_equal(woken(s), 2);
        run(&s->parties[1]);
        waiter_leave(s->parties[1].waiter);
        assert_int_equal(woken(s), 4);
        assert_int_equal(waiting_count(s->waiting), 1);
}

static void who_wakes_by_itself_is_passed_by(void **state)
{
        struct scene *s = *state;

        three_come(s);
        s->parties[0].deaf = true;
        assert_int_equal(waiting_wake_one(s->waiting, &work), 1);
        assert_int_equal(woken(s), 2);
        run(&s->parties[0]); /* its time was over, and it looks in any case */
        sleep_again(&s->parties[0]);
        assert_int_equal(woken(s), 2);
}

static void what_happens_while_one_looks_is_not_slept_through(void **state)
{
        struct scene *s = *state;
        struct party *p = &s->parties[0];

        assert_int_equal(waiting_enter(s->waiting, &p->http, &work, 1, &p->waiter), 0);
        waiter_look(p->waiter);
        assert_int_equal(waiting_wake_one(s->waiting, &work), 0);
        sleep_again(p);
        assert_int_equal(woken(s), 1);
        run(p);
        sleep_again(p);
        assert_int_equal(woken(s), 0);
        assert_int_equal(waiting_wake_all(s->waiting, &racks), 0);
        assert_int_equal(p->n_looks, 1);
}

static void a_waiter_can_be_passed_by_for_a_while(void **state)
{
        struct scene *s = *state;
        const struct place both[] = {work, racks};

        come(s, 0, both, 2);
        come(s, 1, both, 2);
        waiting_wake_one(s->waiting, &work);
        run(&s->parties[0]);
        waiter_pass_by(s->parties[0].waiter, PLACE_TIER, true);
        sleep_again(&s->parties[0]);
        assert_int_equal(woken(s), 2); /* the turn went on */
        run(&s->parties[1]);
        waiter_spend(s->parties[1].waiter, &work);
        sleep_again(&s->parties[1]);
        waiting_wake_one(s->waiting, &work);
        assert_int_equal(woken(s), 2);
        assert_int_equal(waiting_wake_all(s->waiting, &racks), 1); /* the other is awake */
        assert_int_equal(woken(s), 3);
        run(&s->parties[0]);
        waiter_pass_by(s->parties[0].waiter, PLACE_TIER, false);
        sleep_again(&s->parties[0]);
        waiting_wake_one(s->waiting, &work);
        assert_int_equal(woken(s), 3);
}

static void an_event_for_all_wakes_all(void **state)
{
        struct scene *s = *state;
        const struct place places[] = {work, racks, work};

        for (size_t i = 0; i < N_PARTIES; i++)
                come(s, i, places, 3);
        assert_int_equal(waiting_count(s->waiting), N_PARTIES);
        assert_int_equal(waiting_wake_all(s->waiting, &racks), N_PARTIES);
        for (size_t i = 0; i < N_PARTIES; i++) {
                run(&s->parties[i]);
                sleep_again(&s->parties[i]);
        }
        assert_int_equal(woken(s), 0);
}

static void places_are_told_apart_by_both_texts_and_kind(void **state)
{
        struct scene *s = *state;
        const struct place lease = {PLACE_LEASE, {"re", 2}, {"po", 2}};

        come(s, 0, &lease, 1);
        assert_int_equal(waiting_wake_all(s->waiting, &(struct place){PLACE_LEASE, {"rep", 3}, {"o", 1}}), 0);
        assert_int_equal(waiting_wake_all(s->waiting, &(struct place){PLACE_RACK, {"re", 2}, {"po", 2}}), 0);
        assert_int_equal(waiting_wake_all(s->waiting, &lease), 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(an_event_wakes_the_one_that_waits_longest),
                CASE(a_turn_goes_down_the_row_once),
                CASE(a_spent_turn_goes_no_further),
                CASE(a_turn_that_was_spent_elsewhere_is_passed_on),
                CASE(who_leaves_passes_its_turn_on),
                CASE(who_wakes_by_itself_is_passed_by),
                CASE(what_happens_while_one_looks_is_not_slept_through),
                CASE(a_waiter_can_be_passed_by_for_a_while),
                CASE(an_event_for_all_wakes_all),
                CASE(places_are_told_apart_by_both_texts_and_kind),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
