/* SPDX-License-Identifier: MIT */
#include "http/file_answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/internal.h"

/* What is read at a time where the kernel cannot send by itself; four records of TLS. */
#define BLOCK 65536u

struct file_answer {
        int fd; /* -1 once it is MHD's */
        uint64_t offset;
        uint64_t length;
};

static void file_answer_done(void *object)
{
        struct file_answer *f = object;

        if (f->fd >= 0)
                close(f->fd);
        f->fd = -1;
}

/* The part of a file that is read by ourselves; freed by MHD. */
struct file_reader {
        struct connection *connection;
        int fd;
        uint64_t offset;
};

static ssize_t file_read_block(void *context, uint64_t at, char *to, size_t max)
{
        const struct file_reader *reader = context;
        ssize_t n = pread(reader->fd, to, max, (off_t)(reader->offset + at));

        if (n > 0)
                return n;
        connection_show_end(reader->connection); /* it has got shorter, or the disk fails */
        return MHD_CONTENT_READER_END_WITH_ERROR;
}

static void file_reader_free(void *context)
{
        struct file_reader *reader = context;

        close(reader->fd);
        free(reader);
}

/* MHD would read 4 kB at a time. */
static struct MHD_Response *response_by_reading(struct connection *c, struct file_answer *f)
{
        struct file_reader *reader = malloc(sizeof(*reader));
        struct MHD_Response *response;

        if (reader == NULL)
                return NULL;
        *reader = (struct file_reader){c, f->fd, f->offset};
        response = MHD_create_response_from_callback(f->length, BLOCK, file_read_block, reader,
                                                     file_reader_free);
        if (response == NULL)
                free(reader);
        return response;
}

static struct MHD_Response *file_response(struct request *r)
{
        struct file_answer *f = r->answer_object;
        struct MHD_Response *response;

        if (f->length == 0) /* the descriptor goes with the arena */
                return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
        if (r->connection->listener->tls)
                response = response_by_reading(r->connection, f);
        else
                response = MHD_create_response_from_fd_at_offset64(f->length, f->fd, f->offset);
        if (response != NULL)
                f->fd = -1;
        return response;
}

void http_answer_file(struct http_request *request, unsigned status, const char *content_type, int fd,
                      uint64_t offset, uint64_t length)
{
        struct request *r = request_of(request);
        struct file_answer *f = lessor_arena_alloc(request->arena, sizeof(*f));

        if (f != NULL)
                *f = (struct file_answer){fd, offset, length};
        if (f == NULL || lessor_arena_own(request->arena, f, file_answer_done) < 0) {
                close(fd);
                answer_refusal(r, 503, "out of memory");
                return;
        }
        if (r->answered)
                return;
        r->status = status;
        r->content_type = content_type;
        r->answer_response = file_response;
        r->answer_object = f;
        r->answer_bytes = length;
        r->answered = true;
}

static int range_header(struct http_request *request, uint64_t first, uint64_t length, uint64_t size)
{
        char text[80];

        snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, first + length - 1,
                 size);
        return http_answer_header(request, "Content-Range", text);
}

void http_answer_ranges(struct http_request *request, const char *content_type, int fd, uint64_t size,
                        const char *etag)
{
        uint64_t offset = 0, length = size;
        enum http_range range = http_range(request, size, etag, &offset, &length);
        char text[40];
        int e = http_answer_header(request, "Accept-Ranges", "bytes");

        if (e == 0 && etag != NULL)
                e = http_answer_header(request, "ETag", etag);
        if (e == 0 && range == HTTP_RANGE_PART)
                e = range_header(request, offset, length, size);
        if (e == 0 && range == HTTP_RANGE_NONE) {
                snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
                e = http_answer_header(request, "Content-Range", text);
        }
        if (e == 0 && range != HTTP_RANGE_NONE) {
                http_answer_file(request, range == HTTP_RANGE_PART ? 206 : 200, content_type, fd, offset,
                                 length);
                return;
        }
        close(fd);
        if (e < 0)
                answer_refusal(request_of(request), 503, "out of memory");
        else
                http_answer(request, 416, NULL, NULL);
}
