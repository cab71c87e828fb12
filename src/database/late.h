/* SPDX-License-Identifier: MIT */
#ifndef DATABASE_LATE_H
#define DATABASE_LATE_H

#include <stdbool.h>

#include "base/table.h"

/*
 * Rows whose change need not be written at once: which ones, oldest change first, each once. What they hold
 * is looked up when they are written. The owner's lock guards it.
 */
struct late_row {
        struct table_node node; /* by order */
        struct late_row *next;
        uint64_t order;
        struct lessor_slice name; /* the bytes follow the struct */
};

struct late_rows {
        struct table by_order;
        struct late_row *first, **end;
};

/* Returns 0 or LESSOR_E_NOMEM. */
int late_init(struct late_rows *rows, const unsigned char key[16]);
/* Also on a zeroed struct. */
void late_done(struct late_rows *rows);

/* Notes a row, by its number and a copy of its name. Returns 0 or LESSOR_E_NOMEM. */
int late_note(struct late_rows *rows, uint64_t order, struct lessor_slice name);
void late_drop_first(struct late_rows *rows);

#endif
