/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_OBJECT_LINK_H
#define LESSOR_OBJECT_LINK_H

#include "client/tree_pack.h"
#include "client/tree_unpack.h"
#include "lessor/control_link.h"

/*
 * Objects to and from a server's store, for commands: only what the repository lacks is sent, several at a
 * time, and what is interrupted goes on where it stopped. One thread at a time.
 */

/* How far it is. */
struct object_figures {
        int64_t n_objects; /* sent, or received */
        int64_t n_bytes;
        int64_t n_spared; /* objects that the repository had */
};

struct object_link_options {
        struct control_link *link; /* borrowed */
        const char *repo;          /* borrowed */
        struct lessor_stop *stop;  /* borrowed; may be NULL */
        /* Told as bytes move. May be NULL. */
        void (*moved)(void *context, const struct object_figures *figures);
        void *context;
};

/* --- To the server --- */

struct object_upload;

/* Copies the options. Returns 0 or LESSOR_E_NOMEM. */
int object_upload_new(const struct object_link_options *options, struct object_upload **ret_upload);

/* Forgets what is still on its way. Takes NULL, returns NULL. */
struct object_upload *object_upload_free(struct object_upload *upload);

DEFINE_CLEANUP(struct object_upload, object_upload_free)

/*
 * Takes an object, to be sent now or soon: the sink of tree_pack(), with the upload as context.
 *
 * Returns 0; LESSOR_E_REFUSED (the server refused one: object_upload_fail says it); LESSOR_E_MISMATCH (a file
 * changed while it was sent); LESSOR_E_LATER (the server was away for too long); LESSOR_E_CLOSED;
 * LESSOR_E_NOMEM.
 */
int object_upload_add(void *upload, const struct tree_object *object);

/* Waits until all of it is in the repository. Returns as object_upload_add. */
int object_upload_finish(struct object_upload *upload);

const struct object_figures *object_upload_figures(const struct object_upload *upload);

/* Says on stderr why one of the above failed. Returns the enum cli_exit that belongs to it. */
int object_upload_fail(const struct object_upload *upload, int error);

/* --- From the server --- */

/*
 * The size of an object, which is referenced by that; -1: it is not there. Says on stderr what went wrong.
 * Returns an enum cli_exit.
 */
int object_size(struct cli *cli, const char *repo, struct lessor_slice hash, int64_t *ret_size);

struct object_download {
        struct object_link_options options;
        struct object_figures figures;
        char *problem; /* the server's own words, after LESSOR_E_REFUSED; to be freed with free() */
};

/*
 * Brings an object: the source of tree_unpack(), with a `struct object_download` as context, all zero but for
 * its options. Returns 0; LESSOR_E_NOT_FOUND; LESSOR_E_REFUSED; LESSOR_E_LATER; LESSOR_E_CLOSED; what the
 * taker says; LESSOR_E_NOMEM.
 */
int object_download_tree(void *download, struct lessor_slice hash, int64_t size, struct tree_taker *taker);

/*
 * Brings an object, from byte `offset` on, to a function of the caller's, which returns 0 or the code with
 * which to end. Returns likewise.
 */
int object_download_bytes(struct object_download *download, struct lessor_slice hash, int64_t offset,
                          int (*take)(void *context, struct lessor_slice bytes), void *context);

#endif
