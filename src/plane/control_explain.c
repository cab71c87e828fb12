/* SPDX-License-Identifier: MIT */
#include "base/buf.h"
#include "base/macro.h"
#include "plane/control_lease_json.h"
#include "plane/rack_state.h"

/* Why a lease is not placed, in words. */

static const char *const bar_names[] = {"none",  "status",     "spent",    "event",     "tier",
                                        "old",   "quarantine", "draining", "unhealthy", "unseen",
                                        "floor", "claimed",    "filter"};
static const struct message_words bar_words = {bar_names, ARRAY_SIZE(bar_names)};

/* What the racks that one thing bars have in common, for the summary: "2 racks " and this. */
static const char *const bar_sums[] = {
        [LESSOR_BAR_TIER] = "do not poll for its tier",
        [LESSOR_BAR_OLD] = ("run an agent older than " LESSOR_AGENT_FLOOR),
        [LESSOR_BAR_QUARANTINE] = "wait for their start to be approved",
        [LESSOR_BAR_DRAINING] = "are draining",
        [LESSOR_BAR_UNHEALTHY] = "say that they are not healthy",
        [LESSOR_BAR_UNSEEN] = "were not heard of lately",
        [LESSOR_BAR_FLOOR] = "bundle an e3 that is too old, or none",
        [LESSOR_BAR_CLAIMED] = "have claimed it before",
        [LESSOR_BAR_FILTER] = "are barred by this server's own filter",
};

static void put_tiers(struct buf *out, const struct lessor_rack *rack)
{
        for (size_t i = 0; i < rack->n_tiers; i++) {
                buf_text(out, i == 0 ? "" : ", ");
                buf_slice(out, rack->tiers[i]);
        }
        if (rack->n_tiers == 0)
                buf_text(out, "none");
}

static void say_tier(struct buf *out, const struct lessor_lease *lease, const struct lessor_rack *rack)
{
        buf_text(out, "it does not poll for tier ");
        buf_slice(out, lease->tier);
        buf_text(out, "; its tiers: ");
        put_tiers(out, rack);
}

static void say_version(struct buf *out, const struct lessor_lease *lease, const struct lessor_rack *rack)
{
        buf_text(out, "the lease needs e3 ");
        buf_slice(out, lease->floor);
        buf_text(out, " at least, and the agent is ");
        buf_slice(out, rack->agent_version);
}

/* Nothing bars it; but a rack has to ask, too. */
static void say_free(struct buf *out, const struct lessor_rack *rack, int64_t now_ms)
{
        switch (rack_state(rack, now_ms)) {
        case RACK_BUSY:
                buf_text(out, "nothing bars it, but it holds as many leases as it has room for");
                break;
        case RACK_NOT_POLLING:
                buf_text(out, "nothing bars it, but it has stopped to ask for work: look at its agent");
                break;
        case RACK_NEW:
                buf_text(out, "nothing bars it, but it has not asked for work yet");
                break;
        default:
                buf_text(out, "nothing bars it: it gets the lease when it asks next, unless others come "
                              "before");
        }
}

static void say_status(struct buf *out, const struct lessor_lease *lease)
{
        if (lease->status == LESSOR_LEASE_CLAIMED) {
                buf_text(out, "the lease is claimed by rack ");
                buf_slice(out, lease->claimed_by);
        } else if (lease->status == LESSOR_LEASE_PENDING) {
                buf_text(out, "the lease's time to live is over");
        } else {
                buf_printf(out, "the lease has ended: it is %s",
                           message_word(&lease_status_words, (int)lease->status));
        }
}

static void say_bar(struct buf *out, const struct lessor_lease *lease, const struct lessor_rack *rack,
                    enum lessor_lease_bar bar, int64_t now_ms)
{
        switch (bar) {
        case LESSOR_BAR_NONE:
                say_free(out, rack, now_ms);
                break;
        case LESSOR_BAR_STATUS:
                say_status(out, lease);
                break;
        case LESSOR_BAR_SPENT:
                buf_printf(out, "the lease has spent its %u attempts", lease->attempt_limit);
                break;
        case LESSOR_BAR_EVENT:
                buf_text(out, "the lease's event is not of version 2");
                break;
        case LESSOR_BAR_TIER:
                say_tier(out, lease, rack);
                break;
        case LESSOR_BAR_OLD:
                buf_text(out, "its agent is older than " LESSOR_AGENT_FLOOR ": ");
                buf_slice(out, rack->agent_version);
                break;
        case LESSOR_BAR_QUARANTINE:
                buf_text(out, "its start is not approved: `lessor rack approve` does that");
                break;
        case LESSOR_BAR_DRAINING:
                buf_text(out, "it is draining: `lessor rack undrain` ends that");
                break;
        case LESSOR_BAR_UNHEALTHY:
                buf_text(out, "it says that it is not healthy");
                break;
        case LESSOR_BAR_UNSEEN:
                buf_text(out, "it has not been heard of lately: its agent does not run, or cannot reach the "
                              "server");
                break;
        case LESSOR_BAR_FLOOR:
                say_version(out, lease, rack);
                break;
        case LESSOR_BAR_CLAIMED:
                buf_text(out, "it claimed the lease before and lost it, and could not be told from its "
                              "earlier self; it may after a restart, or if its agent names its attempts");
                break;
        case LESSOR_BAR_FILTER:
                buf_text(out, "this server grants it no such lease");
                break;
        }
}

struct sums {
        size_t n[ARRAY_SIZE(bar_sums)]; /* racks, by what bars them */
        size_t n_ready;                 /* that nothing bars and that have room and ask */
        size_t n_racks;
};

/* What the whole comes to, in a sentence or two. */
static void say_summary(struct buf *out, const struct lessor_lease *lease, const struct sums *sums)
{
        const char *between = ": ";

        if (sums->n_racks == 0 && !lease_has_ended(lease)) {
                buf_text(out, "there are no racks: `lessor rack token` mints a token for one to join with");
        } else if (sums->n_racks == 0 || sums->n[LESSOR_BAR_STATUS] > 0) {
                say_status(out, lease);
        } else if (sums->n[LESSOR_BAR_SPENT] > 0) {
                buf_text(out, "it has spent its attempts");
        } else if (sums->n[LESSOR_BAR_EVENT] > 0) {
                buf_text(out, "its event is not of version 2, which no rack is given");
        } else if (sums->n_ready > 0) {
                buf_printf(out, "%zu of %zu racks may have it, and will when they ask next", sums->n_ready,
                           sums->n_racks);
        } else {
                buf_text(out, "no rack has room for it now");
                if (sums->n[LESSOR_BAR_NONE] > 0) {
                        buf_printf(out, ": %zu may have it and are busy or do not ask",
                                   sums->n[LESSOR_BAR_NONE]);
                        between = ", ";
                }
                for (size_t bar = 0; bar < ARRAY_SIZE(bar_sums); bar++)
                        if (sums->n[bar] > 0 && bar_sums[bar] != NULL) {
                                buf_printf(out, "%s%zu %s", between, sums->n[bar], bar_sums[bar]);
                                between = ", ";
                        }
        }
}

static const struct lessor_rack *rack_of(const struct lessor_rack_list *racks, struct lessor_slice id)
{
        for (size_t i = 0; i < racks->n; i++)
                if (lessor_slice_equal(racks->items[i].rack_id, id))
                        return &racks->items[i];
        return NULL;
}

static void put_rack(struct json_writer *w, const struct lessor_lease *lease, const struct lessor_rack *rack,
                     enum lessor_lease_bar bar, int64_t now_ms)
{
        _cleanup_(buf_done) struct buf reason = {0};

        say_bar(&reason, lease, rack, bar, now_ms);
        json_open_object(w);
        json_member_text(w, "rackId", rack->rack_id);
        json_member_text(w, "label", rack->label);
        json_member_cstr(w, "bar", message_word(&bar_words, (int)bar));
        json_member_text(w, "reason", buf_view(&reason));
        json_close_object(w);
}

static void answer(struct control_call *call, const struct lessor_lease *lease,
                   const struct lessor_rack_list *racks, const struct lessor_lease_why_list *why,
                   int64_t now_ms)
{
        _cleanup_(buf_done) struct buf summary = {0};
        struct sums sums = {0};
        struct buf json = {0};
        struct json_writer w;

        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "lease");
        lease_put(&w, lease);
        json_key(&w, "racks");
        json_open_array(&w);
        for (size_t i = 0; i < why->n; i++) {
                const struct lessor_rack *rack = rack_of(racks, why->items[i].rack_id);

                if (rack == NULL)
                        continue; /* gone between the two questions */
                sums.n_racks++;
                sums.n[why->items[i].bar]++;
                sums.n_ready +=
                        why->items[i].bar == LESSOR_BAR_NONE && rack_state(rack, now_ms) == RACK_READY;
                put_rack(&w, lease, rack, why->items[i].bar, now_ms);
        }
        json_close_array(&w);
        say_summary(&summary, lease, &sums);
        json_member_text(&w, "summary", buf_view(&summary));
        json_close_object(&w);
        control_answer(call, &json);
}

void control_lease_explain(struct control_call *call, const void *body)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_ticket ticket = {0}; /* the last one covers those before */
        struct lessor_lease_why_list why = {0};
        struct lessor_rack_list racks = {0};
        struct lessor_lease_name name;
        struct lessor_lease lease;
        struct lease_ref ref;
        int64_t now_ms = 0;
        int e;

        (void)body;
        if (store == NULL || !lease_ref_of_query(call, &ref) || !lease_ref_resolve(call, &ref, &name))
                return;
        e = lessor_lease_get(store, &name, 0, call->arena, &lease, &ticket);
        if (e == 0)
                e = lessor_rack_list(store, call->arena, &racks, &ticket);
        if (e == 0)
                e = lessor_lease_explain(store, &name, call->arena, &why, &ticket);
        if (e == 0)
                e = lessor_lease_now(store, &now_ms);
        control_rests_on(call, ticket);
        if (e < 0)
                lease_refuse(call, e, name.lease_id);
        else
                answer(call, &lease, &racks, &why, now_ms);
}
