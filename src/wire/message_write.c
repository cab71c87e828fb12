/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "base/macro.h"
#include "wire/message.h"

static int enum_at(const struct message_field *f, const char *at)
{
        int number;

        memcpy(&number, at + f->offset, sizeof(number));
        return number;
}

static bool is_there(const struct message_field *f, const char *at)
{
        if (f->flags & MESSAGE_HAS)
                return *(const bool *)(at + f->has_offset);
        switch (f->type) {
        case MESSAGE_TEXT:
        case MESSAGE_URL:
        case MESSAGE_WORD:
                return ((const struct lessor_slice *)(const void *)(at + f->offset))->p != NULL;
        case MESSAGE_LIST:
        case MESSAGE_MAP:
                return *(void *const *)(const void *)(at + f->offset) != NULL;
        case MESSAGE_INT:
                return *(const int64_t *)(const void *)(at + f->offset) != 0;
        case MESSAGE_BOOL:
                return *(const bool *)(at + f->offset);
        case MESSAGE_LITERAL:
        case MESSAGE_ENUM:
        case MESSAGE_OBJECT:
                break;
        }
        return true;
}

static void write_value(const struct message_field *f, const char *at, struct json_writer *w);

static void write_items(const struct message_field *f, const char *at, struct json_writer *w)
{
        const char *items = *(char *const *)(const void *)(at + f->offset);
        size_t n = *(const size_t *)(const void *)(at + f->count_offset);

        if (f->type == MESSAGE_MAP)
                json_open_object(w);
        else
                json_open_array(w);
        for (size_t i = 0; i < n; i++) {
                const char *item = items + i * f->item_size;

                if (f->type == MESSAGE_MAP)
                        json_key_text(w, *(const struct lessor_slice *)(const void *)(item + f->key_offset));
                write_value(f->item, item, w);
        }
        if (f->type == MESSAGE_MAP)
                json_close_object(w);
        else
                json_close_array(w);
}

static void write_value(const struct message_field *f, const char *at, struct json_writer *w)
{
        switch (f->type) {
        case MESSAGE_TEXT:
        case MESSAGE_URL:
        case MESSAGE_WORD:
                json_put_text(w, *(const struct lessor_slice *)(const void *)(at + f->offset));
                break;
        case MESSAGE_LITERAL:
                json_put_cstr(w, f->literal);
                break;
        case MESSAGE_ENUM:
                json_put_cstr(w, message_word(f->words, enum_at(f, at)));
                break;
        case MESSAGE_INT:
                json_put_int(w, *(const int64_t *)(const void *)(at + f->offset));
                break;
        case MESSAGE_BOOL:
                json_put_bool(w, *(const bool *)(at + f->offset));
                break;
        case MESSAGE_OBJECT:
                message_write(f->table, at + f->offset, w);
                break;
        case MESSAGE_LIST:
        case MESSAGE_MAP:
                write_items(f, at, w);
                break;
        }
}

void message_write(const struct message_table *table, const void *message, struct json_writer *w)
{
        const char *at = message;
        unsigned form = ~0u;

        if (table->has_raw) {
                const struct lessor_slice *raw = (const void *)(at + table->raw_offset);

                if (raw->p != NULL) {
                        json_put_raw(w, *raw);
                        return;
                }
        }
        if (table->has_forms)
                form = 1u << (unsigned)enum_at(&table->fields[0], at);
        json_open_object(w);
        for (size_t i = 0; i < table->n_fields; i++) {
                const struct message_field *f = &table->fields[i];

                if (f->when != 0 && (f->when & form) == 0)
                        continue;
                if ((f->flags & (MESSAGE_OPTIONAL | MESSAGE_NULLABLE)) && !is_there(f, at)) {
                        if (f->flags & MESSAGE_NULLABLE) {
                                json_key(w, f->name);
                                json_put_null(w);
                        }
                        continue;
                }
                json_key(w, f->name);
                write_value(f, at, w);
        }
        json_close_object(w);
}

void message_write_list(const struct message_table *table, const void *items, size_t n, struct json_writer *w)
{
        const char *item = items;

        json_open_array(w);
        for (size_t i = 0; i < n; i++)
                message_write(table, item + i * table->size, w);
        json_close_array(w);
}

int message_append(const struct message_table *table, const void *message, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        message_write(table, message, &w);
        return buf_failed(out);
}
