/* SPDX-License-Identifier: MIT */
#ifndef UNIT_CLIENT_TREE_STORE_H
#define UNIT_CLIENT_TREE_STORE_H

#include "client/tree_pack.h"
#include "client/tree_unpack.h"

/* Objects in memory, as a sink and as a source. */
struct tree_store_object {
        char hash[SHA256_HEX_LEN + 1];
        char *bytes;
        size_t n;
        bool is_tree;
};

struct tree_store {
        struct tree_store_object *objects;
        size_t n, cap;
        size_t n_asked;    /* objects that an unpacking has asked for */
        size_t n_expected; /* files that it was to expect */
        bool by_file;      /* give objects as files */
};

void tree_store_done(struct tree_store *store);
struct tree_store_object *tree_store_find(struct tree_store *store, const char *hash);
/* Keeps bytes as an object, whatever they are. */
struct tree_store_object *tree_store_add(struct tree_store *store, struct lessor_slice bytes);

struct tree_sink tree_store_sink(struct tree_store *store);
struct tree_source tree_store_source(struct tree_store *store);

#endif
