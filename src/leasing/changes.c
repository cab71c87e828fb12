/* SPDX-License-Identifier: MIT */
/* What the engine tells a store: the records that changed, and what happened. */
#include <stdlib.h>

#include "leasing/engine_internal.h"

/* --- changes --- */

void note_change(struct lease_engine *e, struct change_node *node)
{
        /* A rack's change is more than when it was seen unless its caller says otherwise. */
        if (node->kind == RECORD_RACK)
                container_of(node, struct rack, change)->hard = true;
        if (node->queued)
                return;
        node->queued = true;
        node->next = NULL;
        node->previous = e->changes_end;
        if (e->changes_end == NULL)
                e->changes = node;
        else
                e->changes_end->next = node;
        e->changes_end = node;
        if (node->kind == RECORD_LEASE)
                lease_ref(container_of(node, struct lease, change));
        else if (node->kind == RECORD_RACK)
                container_of(node, struct rack, change)->refs++;
}

static void unlink_change(struct lease_engine *e, struct change_node *node)
{
        *(node->previous == NULL ? &e->changes : &node->previous->next) = node->next;
        *(node->next == NULL ? &e->changes_end : &node->next->previous) = node->previous;
        node->next = node->previous = NULL;
        node->queued = false;
}

void forget_change(struct lease_engine *e, struct change_node *node)
{
        if (node->queued)
                unlink_change(e, node);
}

static void lease_change_of(const struct lease_engine *e, struct lease *lease, struct lease_change *c)
{
        c->what = lease->removed ? LEASE_CHANGE_REMOVED : LEASE_CHANGE_PUT;
        c->seq = lease->seq;
        c->handle = lease;
        c->is_new = lease->is_new;
        c->result_changed = lease->result_changed;
        lease_borrow(e, lease, 0, &c->lease);
}

static void rack_change_of(const struct lease_engine *e, struct rack *rack, struct lease_change *c)
{
        c->what = rack->registered ? LEASE_CHANGE_RACK_PUT : LEASE_CHANGE_RACK_REMOVED;
        c->order = rack->order;
        c->soft = rack->registered && !rack->hard;
        c->held = rack;
        rack_borrow(e, rack, 0, &c->rack);
        c->n_rack_tiers = rack->n_tiers;
}

static void credential_change_of(struct change_node *node, struct lease_change *c)
{
        if (node->kind == RECORD_TOKEN) {
                const struct rack_token *t = container_of(node, struct rack_token, change);

                c->what = t->removed ? LEASE_CHANGE_TOKEN_REMOVED : LEASE_CHANGE_TOKEN_PUT;
                c->token = (struct rack_token_row){t->hash, t->rack->id, t->status, t->issued_ms,
                                                   t->grace_until_ms};
        } else {
                const struct enrolment *t = container_of(node, struct enrolment, change);

                c->what = t->removed ? LEASE_CHANGE_ENROLMENT_REMOVED : LEASE_CHANGE_ENROLMENT_PUT;
                c->enrolment =
                        (struct lessor_enrolment){t->hash, t->label->text, t->minted_ms, t->expiry.at_ms};
        }
}

static void part_change_of(struct change_node *node, struct lease_change *c)
{
        struct lease *lease;

        if (node->kind == RECORD_ATTEMPT) {
                const struct attempt *a = container_of(node, struct attempt, change);

                lease = a->lease;
                c->what = LEASE_CHANGE_ATTEMPT_PUT;
                attempt_borrow(a, &c->attempt.attempt);
                c->attempt.must_name = a->must_name;
        } else if (node->kind == RECORD_KEY) {
                const struct key *k = container_of(node, struct key, change);

                lease = k->lease;
                c->what = LEASE_CHANGE_KEY_PUT;
                c->key = (struct lease_key_row){lease->owner->text, k->text, k->left};
        } else if (node->kind == RECORD_TARGET) {
                const struct target *t = container_of(node, struct target, change);

                lease = t->lease;
                c->what = LEASE_CHANGE_TARGET_PUT;
                c->target = t->hash;
                c->order = t->order;
        } else {
                const struct capability *cap = container_of(node, struct capability, change);

                lease = cap->lease;
                c->what = cap->removed ? LEASE_CHANGE_CAPABILITY_REMOVED : LEASE_CHANGE_CAPABILITY_PUT;
                capability_borrow(cap, &c->capability);
        }
        c->seq = lease->seq;
        c->handle = lease;
}

static void environment_change_of(struct change_node *node, struct lease_change *c)
{
        const struct environment *env = container_of(node, struct environment, change);

        c->what = env->removed ? LEASE_CHANGE_ENVIRONMENT_REMOVED : LEASE_CHANGE_ENVIRONMENT_PUT;
        c->order = env->order;
        c->environment = (struct lessor_environment){
                .env_hash = env->env_hash,
                .e3_version = env->e3_version,
                .base_image = env->base_image,
                .base_tier = env->base_tier,
                .manifest_key = env->manifest_key,
                .manifest = env->manifest,
                .n_layers = env->n_layers,
                .published_ms = env->published_ms,
        };
}

bool lease_engine_change(const struct lease_engine *e, struct lease_change *ret_change)
{
        struct change_node *node = e->changes;

        if (node == NULL)
                return false;
        *ret_change = (struct lease_change){0};
        switch (node->kind) {
        case RECORD_LEASE:
                lease_change_of(e, container_of(node, struct lease, change), ret_change);
                break;
        case RECORD_RACK:
                rack_change_of(e, container_of(node, struct rack, change), ret_change);
                break;
        case RECORD_TOKEN:
        case RECORD_ENROLMENT:
                credential_change_of(node, ret_change);
                break;
        case RECORD_ATTEMPT:
        case RECORD_KEY:
        case RECORD_TARGET:
        case RECORD_CAPABILITY:
                part_change_of(node, ret_change);
                break;
        case RECORD_ENVIRONMENT:
                environment_change_of(node, ret_change);
                break;
        case RECORD_POLICY:
                ret_change->what = LEASE_CHANGE_POLICY_PUT;
                ret_change->require_start_approval = e->require_start_approval;
                break;
        case RECORD_TURN:
                ret_change->what = LEASE_CHANGE_TURN_PUT;
                ret_change->turn = e->turn->text;
                break;
        }
        return true;
}

struct lessor_slice lease_change_tier(const struct lease_change *change, size_t i)
{
        return ((const struct rack *)change->held)->tiers[i]->text;
}

bool lease_engine_change_drop(struct lease_engine *e)
{
        struct change_node *node = e->changes;

        if (node == NULL)
                return false;
        unlink_change(e, node);
        if (node->kind == RECORD_LEASE) {
                struct lease *lease = container_of(node, struct lease, change);

                lease->is_new = lease->result_changed = false;
                lease_unref(e, lease);
        } else if (node->kind == RECORD_RACK) {
                struct rack *rack = container_of(node, struct rack, change);

                rack->hard = false;
                rack_unref(e, rack);
        } else if (node->kind == RECORD_TOKEN) {
                struct rack_token *t = container_of(node, struct rack_token, change);

                if (t->removed) {
                        rack_unref(e, t->rack);
                        free(t);
                }
        } else if (node->kind == RECORD_ENROLMENT) {
                struct enrolment *t = container_of(node, struct enrolment, change);

                if (t->removed)
                        enrolment_free(e, t);
        } else if (node->kind == RECORD_ENVIRONMENT) {
                struct environment *env = container_of(node, struct environment, change);

                if (env->removed)
                        environment_free(env);
        } else if (node->kind == RECORD_CAPABILITY) {
                capability_free(e, container_of(node, struct capability, change));
        }
        return true;
}

/* --- events --- */

static struct lease *lease_of_event(const struct event_node *node)
{
        return node->kind == RECORD_LEASE ? container_of(node, struct lease, event)
                                          : container_of(node, struct attempt, event)->lease;
}

void note_event(struct lease_engine *e, struct event_node *node, enum lessor_lease_event_kind kind)
{
        node->bits |= 1u << kind;
        if (node->queued)
                return;
        node->queued = true;
        node->next = NULL;
        *e->events_end = node;
        e->events_end = &node->next;
        if (node->kind == RECORD_LEASE || node->kind == RECORD_ATTEMPT)
                lease_ref(lease_of_event(node));
        else if (node->kind == RECORD_RACK)
                container_of(node, struct rack, event)->refs++;
}

static void name_lease(const struct lease *lease, const struct attempt *a, struct lessor_lease_event *ev)
{
        ev->name = (struct lessor_lease_name){lease->repo->text, lease->id};
        ev->tier = lease->lane->of_tier->scope->tier->text;
        ev->run = lease->run == NULL ? (struct lessor_slice){0} : lease->run->name;
        ev->owner = lease->owner->text;
        ev->task_hash = (struct lessor_slice){lease->id.p, lease->task_len};
        ev->inputs_hash = (struct lessor_slice){lease->id.p + lease->task_len + 1,
                                                lease->task->prefix.n - lease->task_len - 1};
        ev->cause = lease->cause;
        if (a == NULL)
                return;
        ev->execution_id = a->execution_id;
        ev->claim_number = a->number;
        ev->rack_id = a->rack->id;
}

/* A forgotten lease names each of its attempts that may have logs. True when that was the last. */
static bool tell_forgotten(struct lease *lease, struct lessor_lease_event *ev)
{
        const struct attempt *a = NULL;

        while (lease->n_told < lease->n_attempts && a == NULL) {
                a = lease->attempts[lease->n_told++];
                if (a->execution_id.p == NULL)
                        a = NULL;
        }
        name_lease(lease, a, ev);
        while (lease->n_told < lease->n_attempts && lease->attempts[lease->n_told]->execution_id.p == NULL)
                lease->n_told++;
        return lease->n_told == lease->n_attempts;
}

static void tell_attempt(const struct attempt *a, struct lessor_lease_event *ev)
{
        name_lease(a->lease, a, ev);
        ev->cause = a->cause;
        ev->reason = word_text(a->reason);
}

/* The lowest bit of a node, and whether it is done with. */
static enum lessor_lease_event_kind next_kind(struct event_node *node)
{
        unsigned bit = (unsigned)__builtin_ctz(node->bits);

        node->bits &= ~(1u << bit);
        return bit;
}

bool lease_engine_has_event(const struct lease_engine *e)
{
        return e->events != NULL;
}

bool lease_engine_event_take(struct lease_engine *e, struct lease_engine_event *ret_event)
{
        struct event_node *node = e->events;
        struct lessor_lease_event *ev = &ret_event->event;

        if (node == NULL)
                return false;
        *ret_event = (struct lease_engine_event){.held_as = (int)node->kind};
        ev->kind = next_kind(node);
        if (node->kind == RECORD_LEASE) {
                struct lease *lease = container_of(node, struct lease, event);

                ret_event->held = lease;
                lease_ref(lease);
                if (ev->kind != LESSOR_EVENT_FORGOTTEN)
                        name_lease(lease, lease->current, ev);
                else if (!tell_forgotten(lease, ev))
                        node->bits |= 1u << LESSOR_EVENT_FORGOTTEN;
        } else if (node->kind == RECORD_ATTEMPT) {
                struct attempt *a = container_of(node, struct attempt, event);

                ret_event->held = a->lease;
                lease_ref(a->lease);
                tell_attempt(a, ev);
        } else if (node->kind == RECORD_RACK) {
                struct rack *rack = container_of(node, struct rack, event);

                ret_event->held = rack;
                rack->refs++;
                ev->rack_id = rack->id;
                ev->gone = !rack->registered;
        } else if (node->kind == RECORD_CAPABILITY) {
                struct capability *c = container_of(node, struct capability, event);

                ret_event->held = c;
                name_lease(c->lease, NULL, ev);
                ev->claim_number = c->claim_number;
                ev->receipt = c->receipt->text;
        }
        if (node->bits != 0)
                return true;
        e->events = node->next;
        if (e->events == NULL)
                e->events_end = &e->events;
        if (node->kind == RECORD_CAPABILITY)
                return true; /* stays `queued`, and so alive, until it is done with */
        node->queued = false;
        if (node->kind == RECORD_LEASE || node->kind == RECORD_ATTEMPT)
                lease_unref(e, lease_of_event(node));
        else if (node->kind == RECORD_RACK)
                rack_unref(e, container_of(node, struct rack, event));
        return true;
}

void lease_engine_event_done(struct lease_engine *e, struct lease_engine_event *event)
{
        if (event->held_as == RECORD_LEASE || event->held_as == RECORD_ATTEMPT) {
                lease_unref(e, event->held);
        } else if (event->held_as == RECORD_RACK) {
                rack_unref(e, event->held);
        } else if (event->held_as == RECORD_CAPABILITY) {
                struct capability *c = event->held;

                c->event.queued = false;
                capability_free(e, c);
        }
        *event = (struct lease_engine_event){0};
}
