/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SUPPORT_STORE_TEXT_H
#define TESTS_SUPPORT_STORE_TEXT_H

#include "base/buf.h"
#include "lessor/routing_store.h"

/*
 * Everything that a store tells of its jobs and devices, results and payloads of running jobs included, as
 * one text: two stores hold the same exactly if their texts are equal. Of presences all but last_seen, which
 * a store may keep back for some seconds.
 *
 * Returns 0 or what the store answered.
 */
int store_text(struct lessor_routing_store *store, struct buf *out);

/* A new empty directory, in memory where that is to be had; NULL and a message on failure. From malloc. */
char *scratch_dir_new(const char *name);
/* Removes it with all that is in it, and frees it. */
void scratch_dir_free(char *dir);

/* Copies lessor.db and its log, as a crash at this moment would leave them, to a directory that is there. */
void copy_database(const char *from_dir, const char *to_dir);

#endif
