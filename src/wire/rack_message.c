/* SPDX-License-Identifier: MIT */
#include "wire/rack_message.h"

int rack_message_read_beast2(const struct beast2_type *type, struct lessor_slice body,
                             struct lessor_arena *arena, void *ret_message, const char **ret_problem)
{
        return beast2_read(type, body, NULL, arena, ret_message, ret_problem);
}

int rack_message_read_json(const struct beast2_type *type, struct lessor_slice body, unsigned flags,
                           struct lessor_arena *arena, void *ret_message, const char **ret_problem)
{
        struct json *value;
        int e;

        memset(ret_message, 0, type->size);
        e = json_read_unique(body, arena, &value, ret_problem);
        if (e < 0)
                return e;
        e = beast2_json_read(type, value, flags, arena, ret_message, ret_problem);
        if (e == LESSOR_E_NOMEM && ret_problem != NULL)
                *ret_problem = lessor_error_text(e);
        return e;
}

int rack_message_write_beast2(const struct beast2_type *type, const void *message, struct buf *out)
{
        return beast2_write(type, message, out);
}

int rack_message_write_json(const struct beast2_type *type, const void *message, struct buf *out)
{
        size_t start = out->n;
        struct json_writer w;
        int e;

        json_writer_init(&w, out);
        e = beast2_json_write(type, message, &w);
        if (e == 0)
                e = buf_failed(out);
        if (e < 0)
                out->n = start;
        return e;
}

int rack_success_write_beast2(const struct beast2_type *reply_type, const void *success, struct buf *out)
{
        return beast2_write_case(reply_type, RACK_OUTCOME_SUCCESS, success, out);
}

int rack_internal_write_beast2(const struct beast2_type *reply_type, struct lessor_slice message,
                               struct buf *out)
{
        struct rack_error error = {.kind = RACK_ERROR_INTERNAL, .only = {message}};

        return beast2_write_case(reply_type, RACK_OUTCOME_ERROR, &error, out);
}
