/* SPDX-License-Identifier: MIT */
#include "routing/directory/projection_json.h"

#include "base/json_read.h"
#include "lessor/error.h"

static int read_document(struct lessor_slice text, const struct message_table *table,
                         struct lessor_arena *arena, void *ret_document, const char **ret_problem)
{
        struct json *value;
        int r = json_read_file_text(text, arena, &value, ret_problem);

        return r < 0 ? r : message_read(table, value, arena, ret_document, ret_problem);
}

static int with_problem(int r, const char **ret_problem)
{
        if (r == LESSOR_E_TOO_LARGE)
                *ret_problem = "it has too many records";
        return r;
}

int projection_from_json(struct lessor_slice text, struct lessor_arena *arena,
                         struct projection **ret_projection, const char **ret_problem)
{
        const char *ignored;
        const char **problem = ret_problem == NULL ? &ignored : ret_problem;
        struct relay_fixture fixture;
        int r;

        *problem = NULL;
        r = read_document(text, &relay_fixture_table, arena, &fixture, problem);
        return r < 0 ? r : with_problem(projection_new(&fixture, ret_projection), problem);
}

int policy_from_json(struct lessor_slice text, struct lessor_arena *arena, struct policy **ret_policy,
                     const char **ret_problem)
{
        const char *ignored;
        const char **problem = ret_problem == NULL ? &ignored : ret_problem;
        struct relay_policy document;
        int r;

        *problem = NULL;
        r = read_document(text, &relay_policy_table, arena, &document, problem);
        return r < 0 ? r : with_problem(policy_new(&document, ret_policy), problem);
}

int projection_to_json(const struct projection *p, struct buf *out)
{
        return message_append(&relay_fixture_table, projection_fixture(p), out);
}
