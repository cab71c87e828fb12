/* SPDX-License-Identifier: MIT */
#include "http/problem.h"

#include "base/buf.h"
#include "lessor/error.h"

int problem(struct lessor_arena *arena, const char **ret_problem, int code, const char *format, ...)
{
        struct lessor_slice copy = {NULL, 0};
        struct buf text;
        va_list args;

        buf_init(&text);
        va_start(args, format);
        buf_vprintf(&text, format, args);
        va_end(args);
        if (buf_failed(&text) < 0 || lessor_arena_copy(arena, buf_view(&text), &copy) < 0)
                copy = lessor_slice_of(lessor_error_text(code));
        buf_done(&text);
        *ret_problem = copy.p;
        return code;
}
