/* SPDX-License-Identifier: MIT */
/* The index of published environments (rack-protocol section 12). */
#include <stdlib.h>

#include "base/size.h"
#include "leasing/engine_internal.h"

int environment_by_order(const struct sorted_node *a, const struct sorted_node *b)
{
        uint64_t x = container_of(a, struct environment, order_node)->order;
        uint64_t y = container_of(b, struct environment, order_node)->order;

        return (x > y) - (x < y);
}

static struct environment *find(const struct lease_engine *e, struct lessor_slice env_hash,
                                struct lessor_slice e3_version)
{
        uint64_t hash = table_hash_pair(&e->environments, env_hash, e3_version);

        for (struct table_node *n = table_first(&e->environments, hash); n != NULL; n = table_next(n)) {
                struct environment *env = container_of(n, struct environment, node);

                if (lessor_slice_equal(env->env_hash, env_hash) &&
                    lessor_slice_equal(env->e3_version, e3_version))
                        return env;
        }
        return NULL;
}

void environment_free(struct environment *env)
{
        free(env->texts);
        free(env);
}

/* Copies texts one behind the other into one block. */
static char *copy_texts(const struct lessor_slice *from, struct lessor_slice *const *to, size_t n)
{
        size_t bytes = 1;
        char *texts, *at;

        for (size_t i = 0; i < n; i++)
                if (!size_add(bytes, from[i].n, &bytes))
                        return NULL;
        texts = at = malloc(bytes);
        if (texts == NULL)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                if (from[i].n > 0)
                        memcpy(at, from[i].p, from[i].n);
                *to[i] = (struct lessor_slice){at, from[i].n};
                at += from[i].n;
        }
        return texts;
}

/* Its place is kept for one that is published again. */
static int set_texts(struct environment *env, const struct lessor_environment *from)
{
        const struct lessor_slice texts[] = {from->base_image, from->base_tier, from->manifest_key,
                                             from->manifest};
        struct lessor_slice *const to[] = {&env->base_image, &env->base_tier, &env->manifest_key,
                                           &env->manifest};
        char *copy = copy_texts(texts, to, ARRAY_SIZE(to));

        if (copy == NULL)
                return LESSOR_E_NOMEM;
        free(env->texts);
        env->texts = copy;
        env->n_layers = from->n_layers;
        env->published_ms = from->published_ms;
        return 0;
}

static bool order_is_behind(const struct sorted_node *node, const void *probe)
{
        return container_of(node, struct environment, order_node)->order >= *(const uint64_t *)probe;
}

int lease_engine_restore_environment(struct lease_engine *e, const struct lessor_environment *from,
                                     uint64_t order)
{
        const struct sorted_node *there = sorted_behind(&e->all_environments, &order, order_is_behind);
        struct environment *env;
        size_t bytes;
        char *text;

        if (order == 0 || order == UINT64_MAX)
                return LESSOR_E_INVALID;
        if (find(e, from->env_hash, from->e3_version) != NULL ||
            (there != NULL && container_of(there, struct environment, order_node)->order == order))
                return LESSOR_E_EXISTS;
        if (!size_add(sizeof(*env), from->env_hash.n, &bytes) || !size_add(bytes, from->e3_version.n, &bytes))
                return LESSOR_E_NOMEM;
        env = calloc(1, bytes);
        if (env == NULL)
                return LESSOR_E_NOMEM;
        if (set_texts(env, from) < 0) {
                free(env);
                return LESSOR_E_NOMEM;
        }
        text = (char *)(env + 1);
        if (from->env_hash.n > 0)
                memcpy(text, from->env_hash.p, from->env_hash.n);
        if (from->e3_version.n > 0)
                memcpy(text + from->env_hash.n, from->e3_version.p, from->e3_version.n);
        env->env_hash = (struct lessor_slice){text, from->env_hash.n};
        env->e3_version = (struct lessor_slice){text + from->env_hash.n, from->e3_version.n};
        env->change.kind = RECORD_ENVIRONMENT;
        env->order = order;
        if (order >= e->next_environment)
                e->next_environment = order + 1;
        table_add(&e->environments, &env->node,
                  table_hash_pair(&e->environments, env->env_hash, env->e3_version));
        sorted_add(&e->all_environments, &env->order_node, next_rank(e));
        e->n_environments++;
        return 0;
}

int lease_engine_publish(struct lease_engine *e, const struct lessor_environment *environment, int64_t now_ms)
{
        struct environment *env = find(e, environment->env_hash, environment->e3_version);
        struct lessor_environment from = *environment;
        int r;

        from.published_ms = now_ms;
        r = env != NULL ? set_texts(env, &from)
                        : lease_engine_restore_environment(e, &from, e->next_environment);
        if (r < 0)
                return r;
        note_change(e, &find(e, from.env_hash, from.e3_version)->change);
        return 0;
}

static int render(const struct environment *env, bool with_manifest, struct lessor_arena *arena,
                  struct lessor_environment *ret_environment)
{
        struct lessor_environment out = {
                .env_hash = env->env_hash,
                .e3_version = env->e3_version,
                .base_image = env->base_image,
                .base_tier = env->base_tier,
                .manifest_key = env->manifest_key,
                .n_layers = env->n_layers,
                .published_ms = env->published_ms,
        };
        struct lessor_slice *const texts[] = {&out.env_hash,  &out.e3_version,   &out.base_image,
                                              &out.base_tier, &out.manifest_key, &out.manifest};

        if (with_manifest)
                out.manifest = env->manifest;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                int r = lessor_arena_copy(arena, *texts[i], texts[i]);

                if (r < 0)
                        return r;
        }
        *ret_environment = out;
        return 0;
}

int lease_engine_resolve(const struct lease_engine *e, struct lessor_slice env_hash,
                         struct lessor_slice e3_version, struct lessor_arena *arena,
                         struct lessor_environment *ret_environment)
{
        const struct environment *env = find(e, env_hash, e3_version);

        return env == NULL ? LESSOR_E_NOT_FOUND : render(env, true, arena, ret_environment);
}

int lease_engine_environments(const struct lease_engine *e, struct lessor_arena *arena,
                              struct lessor_environment_list *ret_environments)
{
        struct lessor_environment_list list = {
                lessor_arena_array(arena, e->n_environments, sizeof(*list.items)), 0};
        const struct sorted *all = &e->all_environments;

        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        for (struct sorted_node *n = sorted_first(all); n != NULL; n = sorted_next(all, n)) {
                int r = render(container_of(n, struct environment, order_node), false, arena,
                               &list.items[list.n]);

                if (r < 0)
                        return r;
                list.n++;
        }
        *ret_environments = list;
        return 0;
}

int lease_engine_unpublish(struct lease_engine *e, struct lessor_slice env_hash,
                           struct lessor_slice e3_version)
{
        struct environment *env = find(e, env_hash, e3_version);

        if (env == NULL)
                return LESSOR_E_NOT_FOUND;
        table_remove(&e->environments, &env->node);
        sorted_remove(&e->all_environments, &env->order_node);
        e->n_environments--;
        env->removed = true;
        note_change(e, &env->change);
        return 0;
}
