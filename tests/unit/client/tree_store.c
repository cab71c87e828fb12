/* SPDX-License-Identifier: MIT */
#include "tree_store.h"

#include <unistd.h>

#include "check.h"

void tree_store_done(struct tree_store *store)
{
        for (size_t i = 0; i < store->n; i++)
                free(store->objects[i].bytes);
        free(store->objects);
        *store = (struct tree_store){0};
}

struct tree_store_object *tree_store_find(struct tree_store *store, const char *hash)
{
        for (size_t i = 0; i < store->n; i++)
                if (memcmp(store->objects[i].hash, hash, SHA256_HEX_LEN) == 0)
                        return &store->objects[i];
        return NULL;
}

struct tree_store_object *tree_store_add(struct tree_store *store, struct lessor_slice bytes)
{
        struct tree_store_object *object;

        if (store->n == store->cap) {
                store->cap = store->cap == 0 ? 64 : store->cap * 2;
                store->objects = realloc(store->objects, store->cap * sizeof(*store->objects));
                assert_non_null(store->objects);
        }
        object = &store->objects[store->n++];
        *object = (struct tree_store_object){.bytes = malloc(bytes.n + 1), .n = bytes.n};
        assert_non_null(object->bytes);
        if (bytes.n > 0)
                memcpy(object->bytes, bytes.p, bytes.n);
        sha256_hex_of(bytes, object->hash);
        return object;
}

static int keep(void *context, const struct tree_object *object)
{
        struct tree_store *store = context;
        struct tree_store_object *kept;
        char *bytes = malloc((size_t)object->size + 1);

        assert_non_null(bytes);
        assert_null(tree_store_find(store, object->hash.p));
        if (object->bytes.p != NULL) {
                assert_int_equal(object->bytes.n, object->size);
                memcpy(bytes, object->bytes.p, object->bytes.n);
        } else {
                assert_int_equal(pread(object->fd, bytes, (size_t)object->size + 1, 0), object->size);
        }
        kept = tree_store_add(store, (struct lessor_slice){bytes, (size_t)object->size});
        assert_memory_equal(kept->hash, object->hash.p, SHA256_HEX_LEN);
        kept->is_tree = object->is_tree;
        free(bytes);
        return 0;
}

static int give_file(const struct tree_store_object *object, struct tree_taker *taker)
{
        FILE *file = tmpfile();
        int r;

        assert_non_null(file);
        assert_int_equal(fwrite(object->bytes, 1, object->n, file), object->n);
        assert_int_equal(fflush(file), 0);
        r = tree_take_file(taker, fileno(file), true);
        fclose(file);
        return r;
}

static int give(void *context, struct lessor_slice hash, int64_t size, struct tree_taker *taker)
{
        struct tree_store *store = context;
        const struct tree_store_object *object = tree_store_find(store, hash.p);
        size_t half;
        int r;

        (void)size;
        store->n_asked++;
        if (object == NULL)
                return LESSOR_E_NOT_FOUND;
        if (store->by_file)
                return give_file(object, taker);
        half = object->n / 2;
        r = tree_take(taker, (struct lessor_slice){object->bytes, half});
        return r != 0 ? r : tree_take(taker, (struct lessor_slice){object->bytes + half, object->n - half});
}

static int expect(void *context, const struct tree_entry *entries, size_t n)
{
        struct tree_store *store = context;

        for (size_t i = 0; i < n; i++)
                store->n_expected += entries[i].type == TREE_FILE;
        return 0;
}

struct tree_sink tree_store_sink(struct tree_store *store)
{
        return (struct tree_sink){.context = store, .object = keep};
}

struct tree_source tree_store_source(struct tree_store *store)
{
        return (struct tree_source){.context = store, .object = give, .expect = expect};
}
