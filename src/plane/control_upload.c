/* SPDX-License-Identifier: MIT */
#include "plane/control_upload.h"

#include "base/limits.h"
#include "http/upload.h"

/* Here and not in the handler, since making a repository waits for the disk. */
static int begin(struct control_upload *upload)
{
        return upload->writer != NULL ? 0
                                      : lessor_object_put(upload->store, upload->repo, upload->hash,
                                                          upload->size, &upload->writer);
}

static int write_bytes(void *context, struct lessor_slice bytes)
{
        struct control_upload *upload = context;
        int e = begin(upload);

        return e < 0 ? e : lessor_object_write(upload->writer, bytes);
}

static int finish(void *context)
{
        struct control_upload *upload = context;
        int e = begin(upload);

        return e < 0 ? e : lessor_object_finish(upload->writer, upload->result, &upload->written);
}

static void done(struct http_request *http, void *context)
{
        struct control_upload *upload = context;

        (void)http;
        upload->answer(upload->call, upload);
}

static void failed(struct http_request *http, void *context)
{
        struct control_upload *upload = context;

        control_refuse_error(upload->call, http_receive_error(http), upload->words, upload->hash);
}

static void end(void *context)
{
        struct control_upload *upload = context;

        upload->writer = lessor_object_writer_free(upload->writer);
        upload->result = lessor_arena_free(upload->result);
}

void control_upload_receive(struct control_call *call, struct control_upload *upload)
{
        const struct http_sink sink = {.write = write_bytes,
                                       .finish = finish,
                                       .done = done,
                                       .failed = failed,
                                       .context = upload,
                                       .limit = LIMIT_OBJECT_BYTES};

        upload->call = call;
        upload->size = http_body_length(call->http);
        upload->result = lessor_arena_new();
        if (upload->result == NULL || lessor_arena_own(call->arena, upload, end) < 0) {
                end(upload);
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        http_receive(call->http, &sink);
}
