/* SPDX-License-Identifier: MIT */
#include "base/file.h"
#include "plane/control_call.h"
#include "routing/directory/projection_json.h"

/* The projection as a whole: who may route to whom. */

void control_projection_get(struct control_call *call, const void *body)
{
        const struct projection *projection = control_projection(call);
        struct buf json = {0};

        (void)body;
        if (projection == NULL)
                return;
        projection_to_json(projection, &json);
        control_answer(call, &json);
}

/*
 * Writes the file that the projection comes from, then reads it, so that there is one truth and it outlives
 * the server. With the built-in tables there is another truth already, and this is refused.
 */
void control_projection_put(struct control_call *call, const void *body)
{
        static const struct control_words words[] = {
                {LESSOR_E_PERMISSION, "the server may not write {}"},
                {LESSOR_E_IO, "the server could not write {}"},
                {LESSOR_E_NOT_FOUND, "the directory of {} is gone"},
                {0},
        };
        const char *path = call->parts->projection_file, *problem = NULL;
        struct projection *checked;
        int e;

        (void)body;
        if (path == NULL) {
                control_refuse(call, 409, "comes-from-tables",
                               "the projection comes from the built-in tables: edit those, or start lessord "
                               "with --projection FILE and put whole projections");
                return;
        }
        e = projection_from_json(call->http->body, call->arena, &checked, &problem);
        if (e == LESSOR_E_MALFORMED || e == LESSOR_E_INVALID || e == LESSOR_E_TOO_LARGE) {
                control_refuse(call, 400, lessor_error_name(e), "no projection: %s",
                               problem == NULL ? lessor_error_text(e) : problem);
                return;
        }
        if (e == 0) {
                projection_unref(checked);
                e = file_replace(path, call->http->body, 0600);
        }
        if (e == 0)
                e = source_reload(call->parts->projection_source);
        control_done(call, e, words, lessor_slice_of(path));
}
