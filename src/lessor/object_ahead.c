/* SPDX-License-Identifier: MIT */
#include "lessor/object_ahead.h"

#include <stdlib.h>
#include <string.h>

#include "lessor/control_client.h"

#define AHEAD    16     /* objects that are on their way, or wait for their turn */
#define SMALL    262144 /* bytes of one that is held in memory */
#define STALL_MS 60000
#define WAIT_MS  60000

struct expected {
        char hash[SHA256_HEX_LEN + 1];
        int64_t size;
};

struct early {
        char hash[SHA256_HEX_LEN + 1];
        struct http_transfer *transfer;
};

struct object_ahead {
        struct object_download *download;
        struct expected *expected; /* what will be asked for, in that order */
        size_t n_expected, next;
        struct early early[AHEAD]; /* the one whose turn is next first */
        size_t n_early;
};

int object_ahead_new(struct object_download *download, struct object_ahead **ret_ahead)
{
        struct object_ahead *a = calloc(1, sizeof(*a));

        if (a == NULL)
                return LESSOR_E_NOMEM;
        a->download = download;
        *ret_ahead = a;
        return 0;
}

static void forget(struct object_ahead *a)
{
        for (size_t i = 0; i < a->n_early; i++)
                http_transfer_free(a->early[i].transfer);
        free(a->expected);
        a->expected = NULL;
        a->n_early = a->n_expected = a->next = 0;
}

struct object_ahead *object_ahead_free(struct object_ahead *a)
{
        if (a == NULL)
                return NULL;
        forget(a);
        free(a);
        return NULL;
}

static int start_one(struct object_ahead *a, const struct expected *expected)
{
        const struct object_link_options *options = &a->download->options;
        struct early *early = &a->early[a->n_early];
        _cleanup_(buf_done) struct buf path = {0};
        struct http_request request = {.method = "GET", .stall_ms = STALL_MS, .max_answer_bytes = SMALL};
        int r;

        buf_text(&path, "/objects");
        control_query(&path, "repo", options->repo);
        control_query(&path, "hash", expected->hash);
        if (buf_failed(&path) < 0)
                return LESSOR_E_NOMEM;
        request.url = path.p;
        memcpy(early->hash, expected->hash, sizeof(early->hash));
        r = control_link_start(options->link, &request, &early->transfer);
        if (r == 0)
                a->n_early++;
        return r;
}

/* Up to the next large one, whose turn has to come first. */
static int start_more(struct object_ahead *a)
{
        int r = 0;

        while (r == 0 && a->n_early < AHEAD && a->next < a->n_expected && a->expected[a->next].size <= SMALL)
                r = start_one(a, &a->expected[a->next++]);
        return r;
}

static int expect(void *context, const struct tree_entry *entries, size_t n)
{
        struct object_ahead *a = context;

        forget(a);
        a->expected = calloc(n == 0 ? 1 : n, sizeof(*a->expected));
        if (a->expected == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < n; i++) {
                struct expected *expected = &a->expected[a->n_expected];

                if (entries[i].type != TREE_FILE)
                        continue;
                memcpy(expected->hash, entries[i].hash.p, SHA256_HEX_LEN);
                expected->size = entries[i].size;
                a->n_expected++;
        }
        return 0;
}

static int wait_for(const struct object_ahead *a, const struct http_transfer *transfer)
{
        const struct object_link_options *options = &a->download->options;
        int r = 0;

        while (r == 0 && !http_transfer_done(transfer)) {
                r = http_client_wait(control_link_http(options->link), options->stop, WAIT_MS);
                if (r == LESSOR_E_TIMEOUT)
                        r = 0;
        }
        return r;
}

/* Hands the first one on. `ret_given` is false if it has to be fetched by itself. */
static int give_first(struct object_ahead *a, struct tree_taker *taker, bool *ret_given)
{
        _cleanup_(http_transfer_freep) struct http_transfer *transfer = a->early[0].transfer;
        struct object_figures *figures = &a->download->figures;
        int r;

        a->n_early--;
        memmove(a->early, a->early + 1, a->n_early * sizeof(a->early[0]));
        r = wait_for(a, transfer);
        if (r < 0)
                return r;
        *ret_given = http_transfer_error(transfer) == 0 && http_transfer_status(transfer) == 200;
        if (!*ret_given)
                return 0;
        figures->n_objects++;
        figures->n_bytes += (int64_t)http_transfer_body(transfer).n;
        if (a->download->options.moved != NULL)
                a->download->options.moved(a->download->options.context, figures);
        return tree_take(taker, http_transfer_body(transfer));
}

static bool is_next(const char *hash, struct lessor_slice wanted)
{
        return wanted.n == SHA256_HEX_LEN && memcmp(hash, wanted.p, SHA256_HEX_LEN) == 0;
}

static int bring(void *context, struct lessor_slice hash, int64_t size, struct tree_taker *taker)
{
        struct object_ahead *a = context;
        bool given = false;
        int r = start_more(a);

        if (r == 0 && a->n_early > 0 && is_next(a->early[0].hash, hash))
                r = give_first(a, taker, &given);
        else if (r == 0 && a->next < a->n_expected && is_next(a->expected[a->next].hash, hash))
                a->next++;
        return r != 0 || given ? r : object_download_tree(a->download, hash, size, taker);
}

struct tree_source object_ahead_source(struct object_ahead *a)
{
        return (struct tree_source){.context = a, .object = bring, .expect = expect};
}
