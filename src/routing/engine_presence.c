/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/size.h"
#include "routing/engine_internal.h"

struct presence *presence_find(const struct engine *e, struct lessor_slice runner_id)
{
        uint64_t hash = table_hash(&e->presences, runner_id);

        for (struct table_node *n = table_first(&e->presences, hash); n != NULL; n = table_next(n)) {
                struct presence *p = container_of(n, struct presence, node);

                if (lessor_slice_equal(p->runner->id, runner_id))
                        return p;
        }
        return NULL;
}

/* Replaces what the device says of itself. Returns 0 or LESSOR_E_NOMEM. */
static int set_text(struct presence *p, const struct lessor_presence *from)
{
        size_t n;
        char *text;

        if (!size_add(from->capabilities.n, from->withheld.n, &n) || !size_add(n, 1, &n))
                return LESSOR_E_NOMEM;
        text = malloc(n);
        if (text == NULL)
                return LESSOR_E_NOMEM;
        if (from->capabilities.n > 0)
                memcpy(text, from->capabilities.p, from->capabilities.n);
        if (from->withheld.n > 0)
                memcpy(text + from->capabilities.n, from->withheld.p, from->withheld.n);
        free(p->text);
        p->text = text;
        p->capabilities = (struct lessor_slice){text, from->capabilities.n};
        p->withheld = (struct lessor_slice){text + from->capabilities.n, from->withheld.n};
        return 0;
}

static int add(struct engine *e, const struct lessor_presence *from, uint64_t order,
               struct presence **ret_presence)
{
        struct presence *p = calloc(1, sizeof(*p));

        if (p == NULL)
                return LESSOR_E_NOMEM;
        p->runner = runner_get(e, from->runner_id);
        p->owner = atom_get(e, from->owner);
        p->device = device_get(e, &from->device);
        if (p->runner == NULL || p->owner == NULL || p->device == NULL || set_text(p, from) < 0) {
                runner_unref(e, p->runner);
                atom_unref(e, p->owner);
                device_unref(e, p->device);
                free(p);
                return LESSOR_E_NOMEM;
        }
        p->change.is_presence = true;
        p->order_node.seq = order;
        table_add(&e->presences, &p->node, table_hash(&e->presences, p->runner->id));
        order_add(&e->everyone, &p->order_node);
        e->n_presences++;
        *ret_presence = p;
        return 0;
}

int engine_seen(struct engine *e, const struct lessor_presence *presence, int64_t now_ms)
{
        struct presence *p = presence_find(e, presence->runner_id);
        int r;

        if (p == NULL) {
                r = add(e, presence, e->next_presence, &p);
                if (r == 0)
                        e->next_presence++;
        } else {
                r = set_text(p, presence); /* its owner and keys stay what they were */
        }
        if (r < 0)
                return r;
        p->last_seen_ms = now_ms;
        change_note(e, &p->change);
        return 0;
}

static int render(const struct presence *p, struct lessor_arena *arena, struct lessor_presence *ret_presence)
{
        struct lessor_presence out = {
                .runner_id = p->runner->id,
                .owner = p->owner->text,
                .device = p->device->keys,
                .last_seen_ms = p->last_seen_ms,
                .capabilities = p->capabilities,
                .withheld = p->withheld,
        };
        struct lessor_slice *const texts[] = {
                &out.runner_id,
                &out.owner,
                &out.device.identity,
                &out.device.encryption,
                &out.device.encryption_sig,
                &out.capabilities,
                &out.withheld,
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                int r = lessor_arena_copy(arena, *texts[i], texts[i]);

                if (r < 0)
                        return r;
        }
        *ret_presence = out;
        return 0;
}

int engine_presence(const struct engine *e, struct lessor_slice runner_id, struct lessor_arena *arena,
                    struct lessor_presence *ret_presence)
{
        const struct presence *p = presence_find(e, runner_id);

        return p == NULL ? LESSOR_E_NOT_FOUND : render(p, arena, ret_presence);
}

int engine_everyone(const struct engine *e, struct lessor_arena *arena,
                    struct lessor_presence_list *ret_everyone)
{
        struct lessor_presence_list list = {lessor_arena_array(arena, e->n_presences, sizeof(*list.items)),
                                            0};
        const struct order_node *node;

        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        for (node = order_after(&e->everyone, 0); node != NULL; node = order_after(&e->everyone, node->seq)) {
                int r = render(container_of(node, struct presence, order_node), arena, &list.items[list.n++]);

                if (r < 0)
                        return r;
        }
        *ret_everyone = list;
        return 0;
}

int engine_restore_presence(struct engine *e, const struct lessor_presence *presence, uint64_t order)
{
        const struct order_node *there;
        struct presence *p;
        int r;

        if (order == 0)
                return LESSOR_E_INVALID;
        there = order_after(&e->everyone, order - 1);
        if (presence_find(e, presence->runner_id) != NULL || (there != NULL && there->seq == order))
                return LESSOR_E_EXISTS;
        r = add(e, presence, order, &p);
        if (r < 0)
                return r;
        p->last_seen_ms = presence->last_seen_ms;
        if (order >= e->next_presence)
                e->next_presence = order + 1;
        return 0;
}
