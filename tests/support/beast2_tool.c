/* SPDX-License-Identifier: MIT */

/*
 * Answers each line `TypeName hex` on stdin with the rendering of the value, a space and the message encoded
 * anew in hex; or with `error: ` and why not. One line for one line, flushed, so that a program can talk to
 * it.
 */

#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/macro.h"
#include "beast2_values.h"
#include "wire/rack_message.h"

static int answer_value(const struct beast2_type *type, const void *value, struct buf *out,
                        const char **ret_problem)
{
        _cleanup_(buf_done) struct buf bytes = {0};
        int e = beast2_render(type, value, out);

        if (e == 0)
                e = beast2_write(type, value, &bytes);
        if (e == 0)
                e = buf_char(out, ' ');
        if (e == 0)
                e = hex_append(out, bytes.p, bytes.n);
        if (e < 0)
                *ret_problem = lessor_error_text(e);
        return e;
}

static int answer_message(struct lessor_slice name, struct lessor_slice hex, struct lessor_arena *arena,
                          struct buf *out, const char **ret_problem)
{
        const struct beast2_type *type = beast2_type_of(name, arena);
        char *bytes = lessor_arena_alloc(arena, hex.n / 2);
        void *value;
        int e;

        *ret_problem = "there is no such type";
        if (type == NULL)
                return LESSOR_E_INVALID;
        *ret_problem = "the hex is not valid";
        if (bytes == NULL || hex.n % 2 != 0 || !hex_read(hex, bytes, hex.n / 2))
                return LESSOR_E_INVALID;
        *ret_problem = lessor_error_text(LESSOR_E_NOMEM);
        value = lessor_arena_alloc(arena, type->size);
        if (value == NULL)
                return LESSOR_E_NOMEM;
        e = beast2_read(type, (struct lessor_slice){bytes, hex.n / 2}, NULL, arena, value, ret_problem);
        return e < 0 ? e : answer_value(type, value, out, ret_problem);
}

static void answer_line(struct lessor_slice line, struct lessor_arena *arena)
{
        _cleanup_(buf_done) struct buf out = {0};
        const char *space = memchr(line.p, ' ', line.n);
        struct lessor_slice name = line, hex = {"", 0};
        const char *problem;

        if (space != NULL) {
                name.n = (size_t)(space - line.p);
                hex = (struct lessor_slice){space + 1, line.n - name.n - 1};
        }
        if (answer_message(name, hex, arena, &out, &problem) < 0) {
                printf("error: %s\n", problem);
        } else {
                fwrite(out.p, 1, out.n, stdout);
                putchar('\n');
        }
        fflush(stdout);
}

int main(void)
{
        struct lessor_arena *arena = lessor_arena_new();
        char *line = NULL;
        size_t cap = 0;
        ssize_t n;

        if (arena == NULL)
                return EXIT_FAILURE;
        while ((n = getline(&line, &cap, stdin)) >= 0) {
                while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
                        n--;
                answer_line((struct lessor_slice){line, (size_t)n}, arena);
                lessor_arena_clear(arena);
        }
        free(line);
        lessor_arena_free(arena);
        return ferror(stdin) || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
