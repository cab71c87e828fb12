/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/log.h"
#include "plane/rack_call.h"

/*
 * The lease poll (section 6.2). A poll looks when it comes, when something happens that may change what it
 * would find, and, should any such event ever be missed, once an interval. In between it is parked.
 */

/* In the request's arena. */
struct poll {
        struct rack_call *call;
        struct waiter *waiter;
        struct lessor_lease_claim claim;
        int64_t over_ms;     /* monotonic: when the window closes */
        int64_t interval_ms; /* to the next look */
        /* the claim that goes back should its answer reach nobody */
        struct lessor_lease_name granted;
        unsigned claim_number;
};

static void look(struct poll *poll);

/* --- Granted --- */

/* At once, instead of when the visibility ends; it spends no attempt. */
static void undelivered(struct http_request *http, void *context)
{
        const struct poll *poll = context;
        struct lessor_ticket ticket;
        int e;

        (void)http;
        e = lessor_lease_undeliver(poll->call->store, &poll->granted, poll->claim_number, &ticket);
        if (e < 0 && e != LESSOR_E_NOT_HELD && e != LESSOR_E_NOT_FOUND)
                log_warning("rack-grant-not-taken-back", LOG_TEXT("repo", poll->granted.repo),
                            LOG_TEXT("lease", poll->granted.lease_id), LOG_ERROR_CODE(e));
}

static void answer_grant(struct poll *poll, const struct lessor_lease *lease)
{
        struct rack_call *call = poll->call;
        struct rack_lease_grant out = {.repo = lease->name.repo,
                                       .workspace = lease->workspace,
                                       .lease_id = lease->name.lease_id,
                                       .tier = lease->tier,
                                       .compute_size = lease->compute_size,
                                       .event_json = lease->event,
                                       .visibility_deadline_ms = lease->deadline_ms,
                                       .attempt = lease->attempt};

        if (out.compute_size.p == NULL)
                out.compute_size = LESSOR_SLICE("serverless"); /* R039 */
        poll->granted = lease->name;
        poll->claim_number = lease->claim_number;
        http_on_undelivered(call->http, undelivered, poll);
        if (lessor_lease_now(call->store, &out.server_time_ms) < 0)
                out.server_time_ms = lease->claimed_ms;
        rack_answer(call, &out);
}

/* --- Not granted --- */

/* Whether no work of any tier is for this rack before something happens to the rack or the policy. */
static bool waits_for_itself(enum lessor_lease_bar bar)
{
        return bar == LESSOR_BAR_QUARANTINE || bar == LESSOR_BAR_DRAINING || bar == LESSOR_BAR_UNHEALTHY;
}

static void resumed(struct http_request *http, void *context)
{
        struct poll *poll = context;
        int64_t most_ms = poll->call->plane->options.poll_max_ms;

        /* Nothing happened: the safety net may be wider. It starts over with each request. */
        if (http_wait_over(http) && poll->interval_ms < most_ms)
                poll->interval_ms = poll->interval_ms > most_ms / 2 ? most_ms : 2 * poll->interval_ms;
        look(poll);
}

static void wait_on(struct poll *poll, enum lessor_lease_bar bar)
{
        const struct rack_options *options = &poll->call->plane->options;
        int64_t left_ms = poll->over_ms - clock_monotonic_ms();
        int64_t wait_ms = bar == LESSOR_BAR_QUARANTINE && options->policy_recheck_ms > 0
                                  ? options->policy_recheck_ms
                                  : poll->interval_ms;

        waiter_pass_by(poll->waiter, PLACE_TIER, waits_for_itself(bar));
        if (bar == LESSOR_BAR_NONE)
                waiter_drop(poll->waiter); /* somebody else had it */
        if (left_ms <= 0) {
                waiter_leave(poll->waiter);
                rack_answer_nothing(poll->call); /* R038 */
                return;
        }
        waiter_sleep(poll->waiter, wait_ms < left_ms ? wait_ms : left_ms, resumed, poll);
}

/* --- Looking --- */

static void refuse(struct rack_call *call, int error)
{
        if (error == LESSOR_E_NOT_FOUND)
                rack_refuse_gone(call); /* R012 */
        else if (error == LESSOR_E_AGENT_TOO_OLD)
                rack_refuse(call, RACK_TOO_OLD,
                            "this agent is too old to be given work: upgrade it to " LESSOR_AGENT_FLOOR
                            " or later");
        else
                rack_refuse_error(call, error == LESSOR_E_NOMEM ? LESSOR_E_UNAVAILABLE : error);
}

/* Steps 4a to 4e. */
static void look(struct poll *poll)
{
        struct rack_call *call = poll->call;
        struct lessor_lease_grant grant;
        struct lessor_ticket ticket = {0};
        int e;

        /* A dead poll claims nothing (section 20). R055 */
        if (http_draining(call->http) || http_peer_gone(call->http)) {
                waiter_leave(poll->waiter);
                rack_answer_nothing(call);
                return;
        }
        waiter_look(poll->waiter);
        e = lessor_lease_claim(call->store, &poll->claim, call->arena, &grant, &ticket);
        if (e < 0) {
                waiter_leave(poll->waiter);
                rack_call_rests_on(call, ticket);
                refuse(call, e);
                return;
        }
        if (!grant.granted) {
                wait_on(poll, grant.bar);
                return;
        }
        waiter_spend(poll->waiter, &(struct place){PLACE_TIER, .a = grant.lease.tier});
        waiter_leave(poll->waiter);
        rack_call_rests_on(call, ticket);
        answer_grant(poll, &grant.lease);
}

/* --- The request --- */

/* Copies what a parked poll needs, so that its message can go. Returns 0 or LESSOR_E_NOMEM. */
static int fill_claim(struct poll *poll, const struct rack_lease_request *in)
{
        struct rack_call *call = poll->call;
        struct lessor_slice *tiers = lessor_arena_array(call->arena, in->n_tiers, sizeof(*tiers));

        if (tiers == NULL || lessor_arena_copy(call->arena, in->boot_id, &poll->claim.boot_id) < 0)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < in->n_tiers; i++)
                if (lessor_arena_copy(call->arena, in->tiers[i], &tiers[i]) < 0)
                        return LESSOR_E_NOMEM;
        poll->claim.rack_id = call->caller.rack.rack_id;
        poll->claim.tiers = tiers;
        poll->claim.n_tiers = in->n_tiers;
        poll->claim.names_attempts = call->form == RACK_FORM_JSON;
        poll->claim.filter = call->plane->options.filter;
        return 0;
}

/* Where it stands: by each of its tiers, by its registration, and by what concerns every rack. */
static int enter(struct poll *poll)
{
        const struct lessor_lease_claim *claim = &poll->claim;
        struct place *places = lessor_arena_array(poll->call->arena, claim->n_tiers + 2, sizeof(*places));

        if (places == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < claim->n_tiers; i++)
                places[i] = (struct place){PLACE_TIER, .a = claim->tiers[i]};
        places[claim->n_tiers] = (struct place){PLACE_RACK, .a = claim->rack_id};
        places[claim->n_tiers + 1] = (struct place){PLACE_RACKS};
        return waiting_enter(poll->call->plane->waiting, poll->call->http, places, claim->n_tiers + 2,
                             &poll->waiter);
}

void rack_serve_lease(struct rack_call *call, const void *request)
{
        const struct rack_lease_request *in = request;
        struct poll *poll = lessor_arena_alloc(call->arena, sizeof(*poll));
        struct lessor_ticket ticket = {0};
        int e;

        if (poll == NULL) {
                refuse(call, LESSOR_E_NOMEM);
                return;
        }
        poll->call = call;
        poll->over_ms = clock_monotonic_ms() + call->plane->options.window_ms;
        poll->interval_ms = call->plane->options.poll_ms;
        e = fill_claim(poll, in);
        if (e == 0)
                e = lessor_rack_poll(call->store, poll->claim.rack_id, poll->claim.tiers, poll->claim.n_tiers,
                                     &ticket); /* R042: also when it is refused next */
        rack_call_rests_on(call, ticket);
        if (e == 0 &&
            lessor_agent_version_cmp(call->caller.rack.agent_version, LESSOR_SLICE(LESSOR_AGENT_FLOOR)) < 0)
                e = LESSOR_E_AGENT_TOO_OLD; /* R043, R044 */
        if (e == 0)
                e = enter(poll);
        if (e < 0) {
                refuse(call, e);
                return;
        }
        rack_call_forget_message(call);
        look(poll);
}
