/* SPDX-License-Identifier: MIT */
/* Holds one of our lease stores to the public contract: lease_contract_test KIND. Prints TAP. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lease_store_kinds.h"
#include "lessor/lease_contract.h"

struct context {
        const struct lease_store_kind *kind;
        struct clock_manual clock;
        struct lessor_lease_options options;
        char directory[4096];
};

static int make(void *context, const struct lessor_lease_options *options,
                const struct lessor_lease_listener *listener, struct lessor_lease_store **ret_store)
{
        struct context *c = context;
        /* In memory where it can be: whether a disk keeps its word is for the fault tests. */
        const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

        clock_manual_init(&c->clock, 1760000000000);
        c->options = *options;
        if (snprintf(c->directory, sizeof(c->directory), "%s/lessor-contract-XXXXXX", tmp) >=
                    (int)sizeof(c->directory) ||
            mkdtemp(c->directory) == NULL)
                return LESSOR_E_IO;
        return c->kind->make(options, &c->clock.clock, listener, c->directory, ret_store);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
        (void)info, (void)type, (void)at;
        return remove(path);
}

static void done(void *context, struct lessor_lease_store *store)
{
        struct context *c = context;

        lessor_lease_store_free(store);
        nftw(c->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void advance(void *context, struct lessor_lease_store *store, int64_t by_ms)
{
        (void)store;
        clock_manual_advance(&((struct context *)context)->clock, by_ms);
}

static int reopen(void *context, const struct lessor_lease_listener *listener,
                  struct lessor_lease_store **store)
{
        struct context *c = context;

        *store = lessor_lease_store_free(*store);
        return c->kind->make(&c->options, &c->clock.clock, listener, c->directory, store);
}

int main(int argc, char **argv)
{
        static const char *const words[] = {"ok", "ok", "not ok"};
        struct context context = {.kind = argc == 2 ? lease_store_kind_named(argv[1]) : NULL};
        struct lessor_lease_contract_options options = {
                .context = &context, .make = make, .done = done, .advance = advance};
        const struct lessor_lease_contract_case *one;
        size_t n_failed = 0, n = 0;

        if (context.kind == NULL) {
                fputs("usage: lease_contract_test KIND\n", stderr);
                return 2;
        }
        if (context.kind->durable)
                options.reopen = reopen;
        for (; (one = lessor_lease_contract(n)) != NULL; n++) {
                char text[512] = "";
                enum lessor_lease_contract_verdict verdict =
                        lessor_lease_contract_run(one, &options, text, sizeof(text));
                bool skipped = verdict == LESSOR_LEASE_CONTRACT_SKIPPED;

                printf("%s %zu - %s [%s]%s%s\n", words[verdict], n + 1, one->name, one->rule,
                       skipped ? " # SKIP " : "", skipped ? text : "");
                if (verdict == LESSOR_LEASE_CONTRACT_FAILED) {
                        printf("# %s\n", text);
                        n_failed++;
                }
        }
        printf("1..%zu\n", n);
        return n_failed == 0 ? 0 : 1;
}
