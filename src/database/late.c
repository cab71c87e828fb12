/* SPDX-License-Identifier: MIT */
#include "database/late.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/size.h"
#include "lessor/error.h"

int late_init(struct late_rows *rows, const unsigned char key[16])
{
        *rows = (struct late_rows){0};
        rows->end = &rows->first;
        return table_init(&rows->by_order, key);
}

void late_done(struct late_rows *rows)
{
        while (rows->first != NULL)
                late_drop_first(rows);
        table_done(&rows->by_order);
}

int late_note(struct late_rows *rows, uint64_t order, struct lessor_slice name)
{
        struct late_row *row;
        size_t size;

        if (table_first(&rows->by_order, order) != NULL)
                return 0;
        if (!size_add(sizeof(*row), name.n, &size))
                return LESSOR_E_NOMEM;
        row = malloc(size);
        if (row == NULL)
                return LESSOR_E_NOMEM;
        *row = (struct late_row){.order = order, .name = {(char *)(row + 1), name.n}};
        if (name.n > 0)
                memcpy(row + 1, name.p, name.n);
        table_add(&rows->by_order, &row->node, order);
        *rows->end = row;
        rows->end = &row->next;
        return 0;
}

void late_drop_first(struct late_rows *rows)
{
        struct late_row *row = rows->first;

        table_remove(&rows->by_order, &row->node);
        rows->first = row->next;
        if (rows->first == NULL)
                rows->end = &rows->first;
        free(row);
}
