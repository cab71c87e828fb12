/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_LIST_H
#define LESSOR_LIST_H

#include <stdint.h>

#include "base/json_read.h"
#include "lessor/command.h"
#include "lessor/output.h"

/* A command that shows a list of the server's as a table, or as the server's own JSON. */
struct list {
        const char *path;   /* of the control API, with its query */
        const char *member; /* of the answer: the array */
        const char *const *titles;
        size_t n_titles;
        const char *none; /* what stands on stderr instead of an empty table */
        const char *more; /* what stands there when the server has more; NULL: nothing */
        /* Puts the cells of one row. */
        void (*row)(struct output_table *t, const struct json *item, int64_t now_ms);
};

/* Returns an enum cli_exit. */
int list_show(struct cli *cli, const struct list *list);

/* Cells that many lists have. A dash stands for what is not there. */
void list_when(struct output_table *t, int64_t at_ms, int64_t now_ms, enum output_colour colour);
void list_number(struct output_table *t, int64_t number, enum output_colour colour);
void list_text(struct output_table *t, const struct json *item, const char *key);

#endif
