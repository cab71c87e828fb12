/* SPDX-License-Identifier: MIT */
/* Holds one of our stores to the public contract: routing_contract_test KIND. Prints TAP. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lessor/routing_contract.h"
#include "store_kinds.h"

struct context {
        const struct store_kind *kind;
        struct clock_manual clock;
        char directory[4096];
};

static int make(void *context, const struct lessor_routing_listener *listener,
                struct lessor_routing_store **ret_store)
{
        struct context *c = context;
        /* In memory where it can be: whether a disk keeps its word is for the fault tests. */
        const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

        clock_manual_init(&c->clock, 1760000000000);
        if (snprintf(c->directory, sizeof(c->directory), "%s/lessor-contract-XXXXXX", tmp) >=
                    (int)sizeof(c->directory) ||
            mkdtemp(c->directory) == NULL)
                return LESSOR_E_IO;
        return c->kind->make(&c->clock.clock, listener, c->directory, ret_store);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
        (void)info, (void)type, (void)at;
        return remove(path);
}

static void done(void *context, struct lessor_routing_store *store)
{
        struct context *c = context;

        lessor_routing_store_free(store);
        nftw(c->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void advance(void *context, struct lessor_routing_store *store, int64_t by_ms)
{
        (void)store;
        clock_manual_advance(&((struct context *)context)->clock, by_ms);
}

static int reopen(void *context, const struct lessor_routing_listener *listener,
                  struct lessor_routing_store **store)
{
        struct context *c = context;

        *store = lessor_routing_store_free(*store);
        return c->kind->make(&c->clock.clock, listener, c->directory, store);
}

static int write_raw_stub(void *context, struct lessor_routing_store **store, struct lessor_slice site_id,
                          struct lessor_slice job_id, struct lessor_slice raw)
{
        struct context *c = context;

        return c->kind->write_raw_stub(store, &c->clock.clock, c->directory, site_id, job_id, raw);
}

int main(int argc, char **argv)
{
        static const char *const words[] = {"ok", "ok", "not ok"};
        struct context context = {.kind = argc == 2 ? store_kind_named(argv[1]) : NULL};
        struct lessor_contract_options options = {
                .context = &context, .make = make, .done = done, .advance = advance};
        const struct lessor_contract_case *cases;
        size_t n, n_failed = 0;

        if (context.kind == NULL) {
                fputs("usage: routing_contract_test KIND\n", stderr);
                return 2;
        }
        if (context.kind->durable)
                options.reopen = reopen;
        if (context.kind->write_raw_stub != NULL)
                options.write_raw_stub = write_raw_stub;
        cases = lessor_routing_contract(&n);
        printf("1..%zu\n", n);
        for (size_t i = 0; i < n; i++) {
                char text[512];
                enum lessor_contract_verdict verdict =
                        lessor_routing_contract_run(&cases[i], &options, text, sizeof(text));

                printf("%s %zu - %s [%s]%s%s\n", words[verdict], i + 1, cases[i].name, cases[i].rule,
                       verdict == LESSOR_CONTRACT_SKIPPED ? " # SKIP " : "",
                       verdict == LESSOR_CONTRACT_SKIPPED ? text : "");
                if (verdict == LESSOR_CONTRACT_FAILED) {
                        printf("# %s\n", text);
                        n_failed++;
                }
        }
        return n_failed == 0 ? 0 : 1;
}
