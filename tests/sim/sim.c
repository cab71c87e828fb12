/* SPDX-License-Identifier: MIT */
/*
 * Random histories, lived through by the model and by every store at once.
 *
 * usage: sim [--seed N] [--seeds N] [--steps N] [--store KIND]...
 *
 * Without --seed the first seed is 1, so that a run is the same every time; --seeds says how many follow.
 */
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "world.h"

uint64_t world_roll(struct world *w, uint64_t n)
{
        uint64_t x;

        w->dice += UINT64_C(0x9e3779b97f4a7c15);
        x = w->dice;
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return (x ^ (x >> 31)) % n;
}

void world_fail(struct world *w, const struct world_store *s, const char *format, ...)
{
        va_list args;

        if (w->failed)
                return;
        w->failed = true;
        fprintf(stderr, "sim: %s: seed %llu, step %llu (%s): ", s == NULL ? "model" : s->kind->name,
                (unsigned long long)w->seed, (unsigned long long)w->step, w->at.op == NULL ? "-" : w->at.op);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fprintf(stderr, "\nsim: again: sim --seed %llu --steps %llu\n", (unsigned long long)w->seed,
                (unsigned long long)w->step + 1);
}

static void out_of_memory(void)
{
        fputs("sim: out of memory\n", stderr);
        exit(1);
}

struct lessor_slice world_name(struct world *w, const char *what, uint64_t number)
{
        char text[64];
        struct lessor_slice name;
        int n = snprintf(text, sizeof(text), "%s-%llu", what, (unsigned long long)number);

        if (lessor_arena_copy(w->arena, (struct lessor_slice){text, (size_t)n}, &name) < 0)
                out_of_memory();
        return name;
}

struct lessor_slice world_lease(struct world *w, const struct world_store *s, uint64_t lease)
{
        (void)w;
        return lease == 0 || lease > s->n_leases ? LESSOR_SLICE("no-such-lease")
                                                 : lessor_slice_of(s->leases[lease - 1]);
}

void world_note_lease(struct world *w, struct world_store *s, struct lessor_slice text)
{
        char **more = realloc(s->leases, (s->n_leases + 1) * sizeof(*more));
        char *copy = strndup(text.p, text.n);

        (void)w;
        if (more == NULL || copy == NULL)
                out_of_memory();
        s->leases = more;
        s->leases[s->n_leases++] = copy;
}

int64_t world_now(struct world *w)
{
        return clock_now_ms(&w->clock.clock);
}

int world_owner_of(int runner)
{
        return runner % MODEL_OWNERS;
}

/* --- the life of a world --- */

static void heard_churn(void *context, const struct lessor_churn *churn)
{
        struct world_store *s = context;

        s->n_churns++;
        s->churn_expiries += churn->expiries;
}

static void add_store(struct world *w, const struct store_kind *kind)
{
        struct world_store *s = &w->stores[w->n_stores++];
        struct lessor_routing_listener listener = {.context = s, .churn = heard_churn};
        const char *tmp = getenv("TMPDIR");
        int r;

        s->kind = kind;
        /* In memory where that is to be had: whether a disk keeps its word is for other tests to say. */
        if (tmp == NULL)
                tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        if (asprintf(&s->directory, "%s/lessor-sim-XXXXXX", tmp) < 0)
                out_of_memory();
        s->arenas[0] = lessor_arena_new();
        s->arenas[1] = lessor_arena_new();
        if (s->arenas[0] == NULL || s->arenas[1] == NULL)
                out_of_memory();
        r = mkdtemp(s->directory) == NULL ? LESSOR_E_IO
                                          : kind->make(&w->clock.clock, &listener, s->directory, &s->store);
        if (r < 0)
                world_fail(w, s, "the store cannot be made: %s", lessor_error_text(r));
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
        (void)info, (void)type, (void)at;
        return remove(path);
}

static void end_store(struct world *w, struct world_store *s)
{
        lessor_routing_store_free(s->store);
        /* Only now has a store with threads of its own told all. Notes of churn do not outlive a restart. */
        if (!s->restarted && (s->n_churns != w->n_churns || s->churn_expiries != w->churn_expiries))
                world_fail(w, s, "%u churn reports over %u expiries, model: %u over %u", s->n_churns,
                           s->churn_expiries, w->n_churns, w->churn_expiries);
        nftw(s->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        free(s->directory);
        for (size_t i = 0; i < s->n_leases; i++)
                free(s->leases[i]);
        free(s->leases);
        lessor_arena_free(s->arenas[0]);
        lessor_arena_free(s->arenas[1]);
}

static bool live(uint64_t seed, uint64_t n_steps, const struct store_kind *const *kinds, size_t n_kinds)
{
        struct world *w = calloc(1, sizeof(*w));
        bool failed;

        if (w == NULL)
                out_of_memory();
        w->seed = w->dice = seed;
        model_init(&w->model);
        clock_manual_init(&w->clock, 1760000000000);
        w->arena = lessor_arena_new();
        if (w->arena == NULL)
                out_of_memory();
        for (size_t i = 0; i < n_kinds; i++)
                add_store(w, kinds[i]);
        for (; w->step < n_steps && !w->failed; w->step++) {
                world_step(w);
                world_check(w);
                lessor_arena_clear(w->arena);
                model_pack(&w->model);
        }
        for (size_t i = 0; i < w->n_stores; i++)
                end_store(w, &w->stores[i]);
        lessor_arena_free(w->arena);
        failed = w->failed;
        free(w);
        return !failed;
}

static int usage(void)
{
        fputs("usage: sim [--seed N] [--seeds N] [--steps N] [--store KIND]...\n", stderr);
        return 2;
}

int main(int argc, char **argv)
{
        const struct store_kind *kinds[WORLD_STORES];
        size_t n_kinds = 0;
        uint64_t seed = 1, n_seeds = 1, n_steps = 2000;

        for (int i = 1; i < argc; i += 2) {
                uint64_t *number = strcmp(argv[i], "--seed") == 0    ? &seed
                                   : strcmp(argv[i], "--seeds") == 0 ? &n_seeds
                                   : strcmp(argv[i], "--steps") == 0 ? &n_steps
                                                                     : NULL;

                if (i + 1 == argc)
                        return usage();
                if (number != NULL)
                        *number = strtoull(argv[i + 1], NULL, 10);
                else if (strcmp(argv[i], "--store") == 0 && n_kinds < WORLD_STORES)
                        kinds[n_kinds++] = store_kind_named(argv[i + 1]);
                else
                        return usage();
                if (n_kinds > 0 && kinds[n_kinds - 1] == NULL)
                        return usage();
        }
        for (size_t i = 0; n_kinds < WORLD_STORES && i < n_store_kinds && argc > 0; i++) {
                bool named = false;

                for (int k = 1; k < argc; k++)
                        named = named || strcmp(argv[k], "--store") == 0;
                if (!named)
                        kinds[n_kinds++] = &store_kinds[i];
        }
        for (uint64_t i = 0; i < n_seeds; i++)
                if (!live(seed + i, n_steps, kinds, n_kinds))
                        return 1;
        printf("%llu histories of %llu steps\n", (unsigned long long)n_seeds, (unsigned long long)n_steps);
        return 0;
}
