/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/limits.h"
#include "base/macro.h"
#include "plane/rack_call.h"

/*
 * The cancellation watch (section 6.8), which reads and changes nothing. Like a poll it looks when it comes,
 * when something happens to one of its leases or to its rack, and once an interval.
 */

/* In the request's arena. */
struct watch {
        struct rack_call *call;
        struct waiter *waiter;
        struct rack_lease_ref *refs;
        const struct lessor_lease_name *names; /* the same */
        size_t n;
        int64_t over_ms; /* monotonic */
};

static void look(struct watch *watch);

static void arena_freep(struct lessor_arena **arena)
{
        lessor_arena_free(*arena);
}

/* Finds what must stop, in an arena of its own, since it may be asked often. */
static int find_stops(struct watch *watch, struct lessor_arena *arena, struct lessor_index_list *ret_stop)
{
        struct rack_call *call = watch->call;
        struct lessor_ticket ticket = {0};
        struct lessor_rack rack;
        int e;

        e = lessor_rack_get(call->store, call->caller.rack.rack_id, arena, &rack, &ticket);
        if (e == 0)
                e = lessor_lease_must_stop(call->store, call->caller.rack.rack_id, watch->names, watch->n,
                                           arena, ret_stop, &ticket);
        rack_call_rests_on(call, ticket);
        return e;
}

static void answer(struct watch *watch, const struct lessor_index_list *stop)
{
        struct rack_watch_response out = {.n_stop = stop->n};

        if (watch->waiter != NULL)
                waiter_leave(watch->waiter);
        if (rack_call_pick(watch->call, watch->refs, stop, &out.stop) < 0)
                rack_refuse_error(watch->call, LESSOR_E_UNAVAILABLE);
        else
                rack_answer(watch->call, &out);
}

static void resumed(struct http_request *http, void *context)
{
        (void)http;
        look(context);
}

static void look(struct watch *watch)
{
        struct rack_call *call = watch->call;
        _cleanup_(arena_freep) struct lessor_arena *arena = lessor_arena_new();
        int64_t left_ms = watch->over_ms - clock_monotonic_ms();
        int64_t wait_ms = call->plane->options.watch_poll_ms;
        struct lessor_index_list stop = {0};
        int e;

        if (watch->waiter != NULL)
                waiter_look(watch->waiter);
        e = arena == NULL ? LESSOR_E_UNAVAILABLE : find_stops(watch, arena, &stop);
        if (e == LESSOR_E_NOT_FOUND)
                rack_refuse_gone(call);
        else if (e < 0)
                rack_refuse_error(call, e == LESSOR_E_NOMEM ? LESSOR_E_UNAVAILABLE : e);
        else if (stop.n > 0 || left_ms <= 0 || watch->waiter == NULL || http_draining(call->http))
                answer(watch, &stop); /* R126, R127 */
        else
                waiter_sleep(watch->waiter, wait_ms < left_ms ? wait_ms : left_ms, resumed, watch);
}

/* Copies the refs, so that the message can go. */
static int copy_refs(struct watch *watch, const struct rack_watch_request *in)
{
        struct lessor_arena *arena = watch->call->arena;
        struct lessor_lease_name *names;

        watch->refs = lessor_arena_array(arena, in->n_leases, sizeof(*watch->refs));
        if (watch->refs == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < in->n_leases; i++)
                if (lessor_arena_copy(arena, in->leases[i].repo, &watch->refs[i].repo) < 0 ||
                    lessor_arena_copy(arena, in->leases[i].lease_id, &watch->refs[i].lease_id) < 0)
                        return LESSOR_E_NOMEM;
        watch->n = in->n_leases;
        if (rack_call_names(watch->call, watch->refs, watch->n, &names) < 0)
                return LESSOR_E_NOMEM;
        watch->names = names;
        return 0;
}

static int enter(struct watch *watch)
{
        struct rack_call *call = watch->call;
        struct place *places = lessor_arena_array(call->arena, watch->n + 1, sizeof(*places));

        if (places == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < watch->n; i++)
                places[i] = (struct place){PLACE_LEASE, watch->refs[i].repo, watch->refs[i].lease_id};
        places[watch->n] = (struct place){PLACE_RACK, .a = call->caller.rack.rack_id};
        return waiting_enter(call->plane->waiting, call->http, places, watch->n + 1, &watch->waiter);
}

void rack_serve_watch(struct rack_call *call, const void *request)
{
        const struct rack_watch_request *in = request;
        struct watch *watch = lessor_arena_alloc(call->arena, sizeof(*watch));
        int e = 0;

        if (in->n_leases > LIMIT_RACK_WATCHED) {
                rack_refuse(call, RACK_BAD_REQUEST, "a watch takes at most %d leases", LIMIT_RACK_WATCHED);
                return;
        }
        if (watch == NULL) {
                rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
                return;
        }
        watch->call = call;
        watch->over_ms = clock_monotonic_ms() + call->plane->options.watch_window_ms;
        if (in->n_leases > 0) { /* without, it is answered at once */
                e = copy_refs(watch, in);
                if (e == 0)
                        e = enter(watch);
        }
        if (e < 0) {
                rack_refuse_error(call, LESSOR_E_UNAVAILABLE);
                return;
        }
        rack_call_forget_message(call);
        look(watch);
}
