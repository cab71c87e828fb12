/* SPDX-License-Identifier: MIT */
#include "routing/directory/grant_author.h"

#include <stdio.h>

#include "base/uuid.h"
#include "crypto/grant.h"
#include "lessor/error.h"
#include "wire/relay_shapes.h"

#define GRANT_ID_PREFIX "grant_"

static int mint_grant_id(struct lessor_arena *arena, struct lessor_slice *ret_id)
{
        char text[sizeof(GRANT_ID_PREFIX) + UUID_TEXT_LEN] = GRANT_ID_PREFIX;

        uuid_v4(text + sizeof(GRANT_ID_PREFIX) - 1);
        return lessor_arena_copy(arena, lessor_slice_of(text), ret_id);
}

/* Copies, since a grant outlives the snapshot that the service is borrowed from. */
static int fill_grant(const struct policy_question *q, struct lessor_slice job_id,
                      struct lessor_slice site_key, struct lessor_slice service, int64_t now_ms,
                      struct lessor_arena *arena, struct lessor_grant *g)
{
        struct lessor_slice purpose = q->purpose.p == NULL ? POLICY_DEFAULT_PURPOSE : q->purpose;

        g->issued_ms = now_ms;
        g->kind = lessor_slice_of(message_word(&kind_words, (int)q->kind));
        if (mint_grant_id(arena, &g->grant_id) < 0 || lessor_arena_copy(arena, job_id, &g->job_id) < 0 ||
            lessor_arena_copy(arena, site_key, &g->site) < 0 ||
            lessor_arena_copy(arena, q->user, &g->user) < 0 ||
            lessor_arena_copy(arena, q->owner, &g->owner) < 0 ||
            lessor_arena_copy(arena, purpose, &g->purpose) < 0)
                return LESSOR_E_NOMEM;
        return lessor_arena_copy(arena, service, &g->service);
}

int grant_author_decide(const struct grant_author *author, const struct policy_question *question,
                        struct lessor_slice job_id, struct lessor_slice site_key, int64_t now_ms,
                        struct lessor_arena *arena, enum policy_decline *ret_decline,
                        struct lessor_grant *ret_grant)
{
        _cleanup_(policy_unrefp) struct policy *policy = NULL;
        _cleanup_(buf_done) struct buf statement;
        struct lessor_grant grant = {0};
        struct lessor_slice service;
        enum policy_decline decline;
        int r;

        buf_init(&statement);
        if (author->signer == NULL)
                return LESSOR_E_INVALID;
        policy = policy_cell_get(author->policy);
        decline = policy_decide(policy, question, &service);
        if (decline == POLICY_GRANTED) {
                r = fill_grant(question, job_id, site_key, service, now_ms, arena, &grant);
                if (r < 0 || (r = grant_statement(&grant, &statement)) < 0)
                        return r;
                r = signer_sign(author->signer, buf_view(&statement), arena, &grant.signature);
                if (r < 0)
                        return r;
                *ret_grant = grant;
        }
        *ret_decline = decline;
        return 0;
}
