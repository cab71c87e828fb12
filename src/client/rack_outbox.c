/* SPDX-License-Identifier: MIT */
#include "client/rack_outbox.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/macro.h"
#include "base/uuid.h"
#include "wire/message.h"

#define ITEM_VERSION 1
#define SUFFIX       ".json"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct document {
        int64_t version;
        struct rack_outbox_item item;
};

static const struct message_field document_fields[] = {
        FIELD_INT(struct document, version, "version", 1, ITEM_VERSION),
        FIELD_TEXT1(struct document, item.rack_id, "rackId"),
        FIELD_TEXT(struct document, item.repo, "repo", 0, INT64_MAX),
        FIELD_TEXT(struct document, item.lease_id, "leaseId", 0, INT64_MAX),
        FIELD_TEXT1(struct document, item.attempt, "attempt", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT(struct document, item.task_name, "taskName", 0, INT64_MAX),
        FIELD_TEXT1(struct document, item.result, "result"),
};
static const struct message_table document_table = MESSAGE_TABLE("Result", struct document, document_fields);

int rack_outbox_make(const char *dir)
{
        if (mkdir(dir, 0700) == 0 || errno == EEXIST)
                return 0;
        return errno == EACCES || errno == EPERM || errno == EROFS ? LESSOR_E_PERMISSION : LESSOR_E_IO;
}

int rack_outbox_put(const char *dir, const struct rack_outbox_item *item, char **ret_path)
{
        struct document document = {.version = ITEM_VERSION, .item = *item};
        _cleanup_(buf_done) struct buf text = {0};
        char id[UUID_TEXT_LEN + 1], *path;
        int r = message_append(&document_table, &document, &text);

        if (r < 0)
                return r;
        buf_char(&text, '\n');
        uuid_v7(clock_now_ms(clock_wall()), id); /* in order of time */
        if (buf_failed(&text) < 0 || asprintf(&path, "%s/%s" SUFFIX, dir, id) < 0)
                return LESSOR_E_NOMEM;
        r = file_create(path, buf_view(&text), 0600);
        if (r < 0)
                free(path);
        else
                *ret_path = path;
        return r;
}

void rack_outbox_remove(const char *path)
{
        unlink(path);
}

static int is_item(const struct dirent *entry)
{
        size_t n = strlen(entry->d_name);

        return n == UUID_TEXT_LEN + sizeof(SUFFIX) - 1 && strcmp(entry->d_name + UUID_TEXT_LEN, SUFFIX) == 0;
}

static int read_item(const char *path, struct lessor_arena *arena, struct document *ret_document)
{
        _cleanup_(buf_done) struct buf text = {0};
        struct json *value;
        int r = file_read(path, LIMIT_FILE_BYTES, &text);

        if (r == 0)
                r = json_read_file_text(buf_view(&text), arena, &value, NULL);
        return r < 0 ? r : message_read(&document_table, value, arena, ret_document, NULL);
}

static int one(const char *dir, const char *name,
               int (*each)(void *context, char *path, struct lessor_arena *arena,
                           const struct rack_outbox_item *item),
               void *context, size_t *n_unreadable)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct document document;
        char *path;
        int r;

        if (arena == NULL || asprintf(&path, "%s/%s", dir, name) < 0)
                return LESSOR_E_NOMEM;
        r = read_item(path, arena, &document);
        if (r == 0)
                return each(context, path, TAKE(arena), &document.item);
        free(path);
        if (r == LESSOR_E_NOMEM)
                return r;
        (*n_unreadable)++;
        return 0;
}

int rack_outbox_each(const char *dir,
                     int (*each)(void *context, char *path, struct lessor_arena *arena,
                                 const struct rack_outbox_item *item),
                     void *context, size_t *ret_n_unreadable)
{
        struct dirent **names = NULL;
        int n = scandir(dir, &names, is_item, alphasort), r = 0;

        *ret_n_unreadable = 0;
        if (n < 0)
                return errno == ENOMEM ? LESSOR_E_NOMEM : LESSOR_E_IO;
        for (int i = 0; i < n; i++) {
                if (r == 0)
                        r = one(dir, names[i]->d_name, each, context, ret_n_unreadable);
                free(names[i]);
        }
        free(names);
        return r;
}
