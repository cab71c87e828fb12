/* SPDX-License-Identifier: MIT */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * Writes JSON the way JSON.stringify does (relay-protocol section 2): no spaces, only the escapes it uses.
 * Everything that is signed, measured or answered is written with these. `text` must be valid UTF-8.
 *
 * Each returns 0 or LESSOR_E_NOMEM; a failure also stays in the buffer (buf_failed), so that a writer of many
 * pieces checks once at its end.
 */

/* A string with its quotes and escapes. */
int json_write_text(struct buf *out, struct lessor_slice text);

/* Writes commas where they belong. One writer nests as deep as there are braces in the answer, at most 16. */
struct json_writer {
        struct buf *out;
        unsigned depth;
        bool has_item[16];
};

void json_writer_init(struct json_writer *w, struct buf *out);
void json_open_object(struct json_writer *w);
void json_close_object(struct json_writer *w);
void json_open_array(struct json_writer *w);
void json_close_array(struct json_writer *w);

/* The key of the next value, inside an object. A literal that needs no escaping, or any text. */
void json_key(struct json_writer *w, const char *key);
void json_key_text(struct json_writer *w, struct lessor_slice key);

void json_put_text(struct json_writer *w, struct lessor_slice value);
void json_put_cstr(struct json_writer *w, const char *value);
void json_put_int(struct json_writer *w, int64_t value);
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
/* A value that is JSON text already. */
void json_put_raw(struct json_writer *w, struct lessor_slice json);

/* Key and value in one, inside an object. An absent slice, or NULL, leaves the whole member out. */
void json_member_text(struct json_writer *w, const char *key, struct lessor_slice value);
void json_member_cstr(struct json_writer *w, const char *key, const char *value);
void json_member_int(struct json_writer *w, const char *key, int64_t value);
void json_member_bool(struct json_writer *w, const char *key, bool value);
void json_member_raw(struct json_writer *w, const char *key, struct lessor_slice json);

#endif
