/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "base/macro.h"
#include "plane/rack_data.h"

int rack_trouble(struct rack_call *call, struct rack_trouble *trouble, enum rack_refusal refusal,
                 const char *format, ...)
{
        _cleanup_(buf_done) struct buf sentence;
        struct lessor_slice copy = {0};
        va_list args;

        buf_init(&sentence);
        va_start(args, format);
        buf_vprintf(&sentence, format, args);
        va_end(args);
        if (buf_failed(&sentence) == 0)
                (void)lessor_arena_copy(call->arena, buf_view(&sentence), &copy);
        trouble->refusal = refusal;
        trouble->sentence = copy.p == NULL ? "it cannot be done" : copy.p;
        return LESSOR_E_REFUSED;
}

void rack_refuse_trouble(struct rack_call *call, const struct rack_trouble *trouble, int error)
{
        if (error == LESSOR_E_REFUSED && trouble->sentence != NULL)
                rack_refuse(call, trouble->refusal, "%s", trouble->sentence);
        else
                rack_refuse_error(call, error == LESSOR_E_NOMEM ? LESSOR_E_UNAVAILABLE : error);
}

struct lessor_object_stage rack_stage(const struct lessor_lease_name *name, unsigned claim_number,
                                      char room[RACK_CLAIM_TEXT])
{
        snprintf(room, RACK_CLAIM_TEXT, "%u", claim_number);
        return (struct lessor_object_stage){name->repo, name->lease_id, lessor_slice_of(room)};
}
