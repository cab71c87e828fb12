/* SPDX-License-Identifier: MIT */
/*
 * Jobs whose rows cannot be read, because another version wrote them or somebody edited them. The engine
 * never hears of them, so nobody is ever offered one; here they can be asked for, as queued jobs, and
 * withdrawn. Their rows stay as they are until their deadline, if that much could be read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/size.h"
#include "routing/sqlite_internal.h"

int asides_init(struct asides *a, const unsigned char key[ENGINE_HASH_KEY_BYTES])
{
        *a = (struct asides){.due_ms = INT64_MAX};
        a->arena = lessor_arena_new();
        if (a->arena == NULL)
                return LESSOR_E_NOMEM;
        return table_init(&a->by_id, key);
}

void asides_done(struct asides *a)
{
        table_done(&a->by_id);
        free(a->items);
        a->arena = lessor_arena_free(a->arena);
}

static int job_copy(const struct lessor_job *from, struct lessor_arena *arena, struct lessor_job *ret_job)
{
        const struct lessor_slice *in[] = {&from->site_id, &from->stub.id, &from->stub.owner,
                                           &from->stub.site, &from->stub.purpose};
        struct lessor_job job = *from;
        struct lessor_slice *out[] = {&job.site_id, &job.stub.id, &job.stub.owner, &job.stub.site,
                                      &job.stub.purpose};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(in); i++)
                r = lessor_arena_copy(arena, *in[i], out[i]);
        if (r == 0)
                *ret_job = job;
        return r;
}

static int make_room(struct asides *a)
{
        size_t cap = a->cap == 0 ? 16 : a->cap;
        size_t bytes;
        struct aside **items;

        if (a->n < a->cap)
                return 0;
        if (a->cap != 0 && !size_mul(cap, 2, &cap))
                return LESSOR_E_NOMEM;
        if (!size_mul(cap, sizeof(struct aside *), &bytes))
                return LESSOR_E_NOMEM;
        items = realloc(a->items, bytes);
        if (items == NULL)
                return LESSOR_E_NOMEM;
        a->items = items;
        a->cap = cap;
        return 0;
}

int asides_add(struct asides *a, uint64_t seq, const struct lessor_job *job, int64_t deadline_ms)
{
        struct aside *aside;
        int r = make_room(a);

        if (r < 0)
                return r;
        aside = lessor_arena_alloc(a->arena, sizeof(*aside));
        if (aside == NULL)
                return LESSOR_E_NOMEM;
        r = job_copy(job, a->arena, &aside->job);
        if (r < 0)
                return r;
        aside->seq = seq;
        aside->deadline_ms = deadline_ms;
        table_add(&a->by_id, &aside->node, table_hash_pair(&a->by_id, job->site_id, job->stub.id));
        a->items[a->n++] = aside;
        a->n_there++;
        if (deadline_ms < a->due_ms)
                a->due_ms = deadline_ms;
        return 0;
}

struct aside *asides_find(const struct asides *a, struct lessor_slice site_id, struct lessor_slice job_id)
{
        if (a->n_there == 0)
                return NULL;
        for (struct table_node *n = table_first(&a->by_id, table_hash_pair(&a->by_id, site_id, job_id));
             n != NULL; n = table_next(n)) {
                struct aside *aside = container_of(n, struct aside, node);

                if (!aside->removed && lessor_slice_equal(aside->job.site_id, site_id) &&
                    lessor_slice_equal(aside->job.stub.id, job_id))
                        return aside;
        }
        return NULL;
}

int aside_render(const struct aside *aside, struct lessor_arena *arena, struct lessor_job *ret_job)
{
        return job_copy(&aside->job, arena, ret_job);
}

static void mark_dirty(struct asides *a, struct aside *aside)
{
        if (aside->dirty)
                return;
        aside->dirty = true;
        aside->dirty_next = a->dirty;
        a->dirty = aside;
}

void asides_cancel(struct asides *a, struct aside *aside)
{
        if (aside->job.cancelled)
                return;
        aside->job.cancelled = true;
        aside->cancel_unwritten = true;
        mark_dirty(a, aside);
}

void asides_expire(struct asides *a, int64_t now_ms)
{
        if (now_ms < a->due_ms)
                return;
        a->due_ms = INT64_MAX;
        for (size_t i = 0; i < a->n; i++) {
                struct aside *aside = a->items[i];

                if (aside->removed)
                        continue;
                if (aside->deadline_ms > now_ms) {
                        if (aside->deadline_ms < a->due_ms)
                                a->due_ms = aside->deadline_ms;
                        continue;
                }
                aside->removed = aside->remove_unwritten = true;
                a->n_there--;
                mark_dirty(a, aside);
        }
}

int asides_merge(const struct asides *a, const struct lessor_slice *site_id, size_t max,
                 struct lessor_arena *arena, struct lessor_job_list *list)
{
        struct lessor_job *items;
        size_t n = 0, at = 0, room;

        if (a->n_there == 0)
                return 0;
        if (!size_add(list->n, a->n_there, &room))
                return LESSOR_E_NOMEM;
        items = lessor_arena_array(arena, room, sizeof(*items));
        if (items == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < a->n && n < max; i++) {
                const struct aside *aside = a->items[i];
                int r;

                if (aside->removed || (site_id != NULL && !lessor_slice_equal(aside->job.site_id, *site_id)))
                        continue;
                while (at < list->n && n < max && list->items[at].enqueued_ms <= aside->job.enqueued_ms)
                        items[n++] = list->items[at++];
                if (n == max)
                        break;
                r = aside_render(aside, arena, &items[n++]);
                if (r < 0)
                        return r;
        }
        while (at < list->n && n < max)
                items[n++] = list->items[at++];
        *list = (struct lessor_job_list){.items = items, .n = n};
        return 0;
}
