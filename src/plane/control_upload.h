/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_UPLOAD_H
#define PLANE_CONTROL_UPLOAD_H

#include "lessor/object_store.h"
#include "plane/control_call.h"

/* Bodies of the control API that become objects while they come. */
struct control_upload {
        struct lessor_object_store *store;
        struct lessor_slice repo;
        struct lessor_slice hash; /* absent: whatever it is */
        void (*answer)(struct control_call *call, const struct control_upload *upload);
        const struct control_words *words; /* for a refusal */
        struct lessor_object_written written;

        /* Its own: */
        struct control_call *call;
        int64_t size; /* -1: nobody has said */
        struct lessor_object_writer *writer;
        struct lessor_arena *result; /* of `written` */
};

/* Receives the body, of an endpoint that is streamed. `upload` is in the call's arena. */
void control_upload_receive(struct control_call *call, struct control_upload *upload);

/* The object store. NULL when the call was refused: this server has none. */
struct lessor_object_store *control_objects(struct control_call *call);

/* False when the call was refused: that is no name of a repository. */
bool control_repo_valid(struct control_call *call, struct lessor_slice repo);

#endif
