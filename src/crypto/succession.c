/* SPDX-License-Identifier: MIT */
#include "crypto/succession.h"

#include "base/limits.h"
#include "base/macro.h"
#include "crypto/public_identity.h"
#include "lessor/error.h"

int succession_statement(struct lessor_slice retired_key_id, struct lessor_slice next_key_id, struct buf *out)
{
        buf_text(out, "byollm/v1/site-succession:");
        buf_slice(out, retired_key_id);
        buf_char(out, ':');
        buf_slice(out, next_key_id);
        return buf_failed(out);
}

int succession_link_sign(const struct signing_key *retired, struct lessor_slice next_key_id,
                         struct lessor_arena *arena, struct lessor_succession_link *ret_link)
{
        const struct lessor_public_identity *identity = signing_key_identity(retired);
        _cleanup_(buf_done) struct buf statement;
        _cleanup_(buf_done) struct buf signature;
        struct lessor_succession_link link;
        int r;

        buf_init(&statement);
        buf_init(&signature);
        r = succession_statement(signing_key_id(retired), next_key_id, &statement);
        if (r < 0)
                return r;
        r = signing_key_sign_text(retired, buf_view(&statement), &signature);
        if (r < 0)
                return r;
        if (lessor_arena_copy(arena, identity->identity, &link.identity.identity) < 0 ||
            lessor_arena_copy(arena, identity->encryption, &link.identity.encryption) < 0 ||
            lessor_arena_copy(arena, identity->encryption_sig, &link.identity.encryption_sig) < 0 ||
            lessor_arena_copy(arena, buf_view(&signature), &link.signature) < 0)
                return LESSOR_E_NOMEM;
        *ret_link = link;
        return 0;
}

int succession_link_verify(const struct lessor_succession_link *link, struct lessor_slice next_key_id,
                           struct key_id *ret_retired)
{
        _cleanup_(buf_done) struct buf statement;
        struct identity_key key;
        struct key_id retired;
        int r;

        buf_init(&statement);
        r = public_identity_check(&link->identity, &key);
        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : LESSOR_E_BROKEN_LINK;
        key_id_of(&key, &retired);
        r = succession_statement(key_id_text(&retired), next_key_id, &statement);
        if (r < 0)
                return r;
        if (identity_key_verify(&key, buf_view(&statement), link->signature) < 0)
                return LESSOR_E_BROKEN_LINK;
        if (ret_retired != NULL)
                *ret_retired = retired;
        return 0;
}

static bool contains(const struct lessor_slice *texts, size_t n, struct lessor_slice text)
{
        for (size_t i = 0; i < n; i++) {
                if (lessor_slice_equal(texts[i], text))
                        return true;
        }
        return false;
}

int succession_walk(struct lessor_slice current, const struct lessor_succession_link *links, size_t n_links,
                    const struct lessor_slice *approved, size_t n_approved, struct lessor_arena *arena,
                    struct succession_path *ret_path)
{
        size_t room = n_links > LIMIT_SUCCESSION_LINKS ? 1 : n_links + 1;
        struct lessor_slice *ids = lessor_arena_array(arena, room, sizeof(*ids));
        size_t first = room - 1; /* the path grows towards its front */
        int verdict = LESSOR_E_UNKNOWN_ORIGIN;
        int r;

        if (ids == NULL)
                return LESSOR_E_NOMEM;
        ids[first] = current;
        if (n_links == 0)
                verdict = LESSOR_E_NO_CHAIN;
        if (n_links > LIMIT_SUCCESSION_LINKS)
                verdict = LESSOR_E_TOO_LONG;
        while (verdict == LESSOR_E_UNKNOWN_ORIGIN && first > 0) {
                struct key_id retired;

                r = succession_link_verify(&links[first - 1], ids[first], &retired);
                if (r == LESSOR_E_BROKEN_LINK) {
                        verdict = r;
                        break;
                }
                if (r < 0)
                        return r;
                r = lessor_arena_copy(arena, key_id_text(&retired), &ids[first - 1]);
                if (r < 0)
                        return r;
                first--;
                if (contains(approved, n_approved, ids[first]))
                        verdict = 0;
        }
        *ret_path = (struct succession_path){ids + first, room - first};
        return verdict;
}
