/* SPDX-License-Identifier: MIT */
#include "crypto/grant.h"

#include "base/json_write.h"
#include "base/macro.h"
#include "lessor/error.h"

int grant_statement(const struct lessor_grant *grant, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_array(&w);
        json_put_cstr(&w, "byollm/v1/grant");
        /* The fields, sorted by their names. */
        json_put_text(&w, grant->grant_id);
        json_put_int(&w, grant->issued_ms);
        json_put_text(&w, grant->job_id);
        json_put_text(&w, grant->kind);
        json_put_text(&w, grant->owner);
        json_put_text(&w, grant->purpose);
        json_put_text(&w, grant->service);
        json_put_text(&w, grant->site);
        json_put_text(&w, grant->user);
        json_close_array(&w);
        return buf_failed(out);
}

int grant_sign(struct lessor_grant *grant, const struct signing_key *control_plane,
               struct lessor_arena *arena)
{
        _cleanup_(buf_done) struct buf statement;
        _cleanup_(buf_done) struct buf signature;
        int r;

        buf_init(&statement);
        buf_init(&signature);
        r = grant_statement(grant, &statement);
        if (r < 0)
                return r;
        r = signing_key_sign_text(control_plane, buf_view(&statement), &signature);
        if (r < 0)
                return r;
        return lessor_arena_copy(arena, buf_view(&signature), &grant->signature);
}

int grant_verify(const struct lessor_grant *grant, const struct grant_check *check)
{
        _cleanup_(buf_done) struct buf statement;
        int64_t age_ms;
        int r;

        buf_init(&statement);
        if (!lessor_slice_equal(grant->owner, check->owner))
                return LESSOR_E_WRONG_OWNER;
        if (!lessor_slice_equal(grant->job_id, check->job_id))
                return LESSOR_E_WRONG_JOB;
        age_ms = check->now_ms - grant->issued_ms; /* both are at most 2^53, so this cannot wrap */
        if (age_ms < -GRANT_MAX_LEAD_MS)
                return LESSOR_E_FROM_THE_FUTURE;
        if (age_ms > GRANT_MAX_AGE_MS)
                return LESSOR_E_EXPIRED;
        r = grant_statement(grant, &statement);
        if (r < 0)
                return r;
        return identity_key_verify(check->control_plane, buf_view(&statement), grant->signature);
}
