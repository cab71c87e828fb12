/* SPDX-License-Identifier: MIT */
#include "client/grant_log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/macro.h"
#include "client/append_file.h"
#include "lessor/arena.h"
#include "lessor/error.h"

#define COMPACT_BYTES 1048576 /* lapsed lines are worth rewriting the file for */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)
DEFINE_CLEANUP(struct grant_log, grant_log_close)

struct used_grant {
        char *id;
        size_t id_len;
        int64_t until_ms;
};

struct grant_log {
        pthread_mutex_t mutex; /* guards the rest */
        char *path;
        int fd;
        size_t n_bytes; /* of the file */
        struct used_grant *used;
        size_t n_used;
        size_t cap;
};

struct grant_log *grant_log_close(struct grant_log *log)
{
        if (log == NULL)
                return NULL;
        if (log->fd >= 0)
                close(log->fd);
        for (size_t i = 0; i < log->n_used; i++)
                free(log->used[i].id);
        free(log->used);
        free(log->path);
        pthread_mutex_destroy(&log->mutex);
        free(log);
        return NULL;
}

static int remember(struct grant_log *log, struct lessor_slice id, int64_t until_ms)
{
        char *copy;

        if (log->n_used == log->cap) {
                size_t cap = log->cap == 0 ? 64 : log->cap * 2;
                struct used_grant *grown = reallocarray(log->used, cap, sizeof(*grown));

                if (grown == NULL)
                        return LESSOR_E_NOMEM;
                log->used = grown;
                log->cap = cap;
        }
        copy = malloc(id.n + 1);
        if (copy == NULL)
                return LESSOR_E_NOMEM;
        memcpy(copy, id.p, id.n);
        log->used[log->n_used++] = (struct used_grant){copy, id.n, until_ms};
        return 0;
}

static void forget_lapsed(struct grant_log *log, int64_t now_ms)
{
        size_t kept = 0;

        for (size_t i = 0; i < log->n_used; i++) {
                if (log->used[i].until_ms < now_ms)
                        free(log->used[i].id);
                else
                        log->used[kept++] = log->used[i];
        }
        log->n_used = kept;
}

static bool is_used(const struct grant_log *log, struct lessor_slice id)
{
        for (size_t i = 0; i < log->n_used; i++)
                if (log->used[i].id_len == id.n && memcmp(log->used[i].id, id.p, id.n) == 0)
                        return true;
        return false;
}

static int put_line(struct buf *out, struct lessor_slice id, int64_t until_ms)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_text(&w, "grantId", id);
        json_member_int(&w, "until", until_ms);
        json_close_object(&w);
        return buf_char(out, '\n') < 0 ? LESSOR_E_NOMEM : buf_failed(out);
}

static int read_line(struct grant_log *log, struct lessor_slice line, struct lessor_arena *arena)
{
        const struct json *id;
        int64_t until_ms;
        struct json *value;
        int r = json_read(line, arena, &value);

        if (r == LESSOR_E_NOMEM)
                return r;
        if (r < 0)
                return LESSOR_E_CORRUPT;
        id = json_member_named(value, "grantId");
        if (!json_is(id, JSON_STRING) || !json_int(json_member_named(value, "until"), &until_ms))
                return LESSOR_E_CORRUPT;
        return remember(log, json_text(id), until_ms);
}

/* A last line without its end was never reported as written: whatever it was for did not run. */
static int read_lines(struct grant_log *log, struct lessor_slice text)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        for (const char *end; text.n > 0 && (end = memchr(text.p, '\n', text.n)) != NULL;) {
                size_t n = (size_t)(end - text.p);
                int r = read_line(log, (struct lessor_slice){text.p, n}, arena);

                if (r < 0)
                        return r;
                lessor_arena_clear(arena);
                text.p += n + 1;
                text.n -= n + 1;
        }
        return 0;
}

/* Writes what is still remembered into a new file, and goes on with that. */
static int rewrite(struct grant_log *log)
{
        _cleanup_(buf_done) struct buf text;
        int fd, r = 0;

        buf_init(&text);
        for (size_t i = 0; r == 0 && i < log->n_used; i++)
                r = put_line(&text, (struct lessor_slice){log->used[i].id, log->used[i].id_len},
                             log->used[i].until_ms);
        if (r == 0)
                r = file_replace(log->path, buf_view(&text), 0600);
        if (r < 0)
                return r;
        fd = append_open(log->path);
        if (fd < 0)
                return fd;
        if (log->fd >= 0)
                close(log->fd);
        log->fd = fd;
        log->n_bytes = text.n;
        return 0;
}

int grant_log_open(const char *path, int64_t now_ms, struct grant_log **ret_log)
{
        _cleanup_(grant_log_closep) struct grant_log *log = calloc(1, sizeof(*log));
        _cleanup_(buf_done) struct buf text;
        mode_t mode = 0600;
        int r;

        buf_init(&text);
        if (log == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_init(&log->mutex, NULL);
        log->fd = -1;
        log->path = strdup(path);
        if (log->path == NULL)
                return LESSOR_E_NOMEM;
        r = file_read_private(path, LIMIT_FILE_BYTES, &text, &mode);
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                return r;
        if ((mode & 077) != 0)
                return LESSOR_E_PERMISSION;
        r = read_lines(log, buf_view(&text));
        if (r < 0)
                return r;
        forget_lapsed(log, now_ms);
        r = rewrite(log);
        if (r < 0)
                return r;
        *ret_log = TAKE(log);
        return 0;
}

static int use(struct grant_log *log, struct lessor_slice grant_id, int64_t until_ms, int64_t now_ms)
{
        _cleanup_(buf_done) struct buf line;
        int r;

        buf_init(&line);
        forget_lapsed(log, now_ms);
        if (is_used(log, grant_id))
                return LESSOR_E_EXISTS;
        /* In memory first: should the disk fail half-way, the id counts as used all the same. */
        r = remember(log, grant_id, until_ms);
        if (r < 0)
                return r;
        if (log->n_bytes > COMPACT_BYTES)
                return rewrite(log);
        r = put_line(&line, grant_id, until_ms);
        if (r == 0)
                r = append_line(log->fd, buf_view(&line));
        if (r == 0 && fdatasync(log->fd) < 0)
                r = LESSOR_E_IO;
        if (r == 0)
                log->n_bytes += line.n;
        return r;
}

int grant_log_use(struct grant_log *log, struct lessor_slice grant_id, int64_t until_ms, int64_t now_ms)
{
        int r;

        pthread_mutex_lock(&log->mutex);
        r = use(log, grant_id, until_ms, now_ms);
        pthread_mutex_unlock(&log->mutex);
        return r;
}
