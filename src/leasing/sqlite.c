/* SPDX-License-Identifier: MIT */
/*
 * The operations that have to do with long texts: a decision of the engine under the lock, and then, without
 * it, the bytes, which are in memory or on disk. The rest is in engine_store.c.
 */
#include "leasing/sqlite.h"

#include "base/log.h"
#include "base/macro.h"
#include "base/uuid.h"
#include "database/backup.h"
#include "leasing/sqlite_internal.h"

static struct lease_sqlite_store *store_of(struct lessor_lease_store *s)
{
        return container_of(s, struct lease_sqlite_store, store.base);
}

static int enter(struct lease_sqlite_store *s)
{
        return committer_enter(&s->committer);
}

int lease_sqlite_enter(struct engine_store *s)
{
        return enter(container_of(s, struct lease_sqlite_store, store));
}

int lease_sqlite_leave(struct engine_store *s, struct lessor_ticket *ticket, int result)
{
        return committer_leave(&container_of(s, struct lease_sqlite_store, store)->committer, ticket, result);
}

/* --- texts on their way out --- */

/* Where the long texts of a lease are at one instant. */
struct whereabouts {
        uint64_t seq;
        bool wanted[N_TEXT_KINDS];
        uint64_t bytes[N_TEXT_KINDS];
        struct held_text *held[N_TEXT_KINDS]; /* references; NULL: on disk */
};

/* Lock held. */
static void locate(const struct lease *lease, unsigned parts, struct whereabouts *ret_where)
{
        const struct kept *kept = lease_attachment(lease);

        *ret_where = (struct whereabouts){
                .seq = lease_seq(lease),
                .wanted = {[TEXT_EVENT] = (parts & LESSOR_WITH_EVENT) != 0,
                           [TEXT_RESULT] = (parts & LESSOR_WITH_RESULT) != 0 && kept->has_result},
        };
        for (unsigned i = 0; i < N_TEXT_KINDS; i++) {
                ret_where->bytes[i] = kept->bytes[i];
                if (ret_where->wanted[i] && kept->held[i] != NULL)
                        ret_where->held[i] = held_text_ref(kept->held[i]);
        }
}

static void whereabouts_done(struct whereabouts *w)
{
        for (unsigned i = 0; i < N_TEXT_KINDS; i++)
                w->held[i] = held_text_unref(w->held[i]);
}

/* Fetches them, and gives the references back. No lock. Returns as readers_text. */
static int fetch(struct lease_sqlite_store *s, struct whereabouts *w, struct lessor_arena *arena,
                 struct lessor_lease *ret_lease)
{
        struct lessor_slice *const texts[N_TEXT_KINDS] = {
                [TEXT_EVENT] = &ret_lease->event, [TEXT_RESULT] = &ret_lease->result};
        int r = 0;

        for (unsigned i = 0; r == 0 && i < N_TEXT_KINDS; i++) {
                if (!w->wanted[i])
                        continue;
                if (w->held[i] != NULL)
                        r = lessor_arena_copy(arena, (struct lessor_slice){w->held[i]->bytes, w->held[i]->n},
                                              texts[i]);
                else
                        r = readers_text(&s->readers, i, w->seq, w->bytes[i], arena, texts[i]);
        }
        whereabouts_done(w);
        if (r == 0)
                ret_lease->has_event = w->wanted[TEXT_EVENT];
        return r;
}

/*
 * A text that was promised is not there, or cannot be read. Either its lease was forgotten meanwhile, or the
 * file was damaged or meddled with.
 */
static int explain_missing(struct lease_sqlite_store *s, const struct lessor_lease_name *name, int error)
{
        bool is_there;
        int r;

        if (error != LESSOR_E_NOT_FOUND && error != LESSOR_E_CORRUPT)
                return error;
        r = enter(s);
        if (r < 0)
                return r;
        is_there = lease_engine_find_lease(s->store.engine, name) != NULL;
        (void)committer_part(&s->committer);
        if (!is_there)
                return LESSOR_E_NOT_FOUND;
        log_error("leasing-text-missing", LOG_CSTR("path", s->path), LOG_TEXT("lease", name->lease_id));
        return LESSOR_E_UNAVAILABLE;
}

/* Ends an operation on one lease: renders it, and fetches its texts. Lock held before, not after. */
static int answer(struct lease_sqlite_store *s, const struct lease *lease, unsigned parts,
                  struct lessor_arena *arena, struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        struct whereabouts where = {0};
        struct lessor_ticket own;
        int r = lease_render(s->store.engine, lease, clock_now_ms(s->store.clock), arena, ret_lease);

        if (r == 0)
                locate(lease, parts, &where);
        own = committer_part(&s->committer);
        if (r == 0)
                r = explain_missing(s, &ret_lease->name, fetch(s, &where, arena, ret_lease));
        return committer_wait(&s->committer, own, ticket, r);
}

/* --- texts on their way in --- */

static void held_text_unrefp(struct held_text **h)
{
        held_text_unref(*h);
}

static void kept_unrefp(struct kept **kept)
{
        if (*kept != NULL)
                kept_unref(*kept);
}

/* Room among the bytes that wait for the disk. Lock held. */
static int admit(const struct lease_sqlite_store *s, const struct held_text *text)
{
        /* A single one always passes, so that a small limit cannot lock out a large text for good. */
        if (s->n_held_bytes > 0 && s->n_held_bytes + text->n > s->options.max_held_bytes)
                return LESSOR_E_UNAVAILABLE;
        return 0;
}

static int sqlite_create(struct lessor_lease_store *base, const struct lessor_lease_submission *submission,
                         struct lessor_arena *arena, struct lessor_lease *ret_lease, bool *ret_created,
                         struct lessor_ticket *ticket)
{
        struct lease_sqlite_store *s = store_of(base);
        _cleanup_(held_text_unrefp) struct held_text *event = held_text_new(submission->event);
        _cleanup_(kept_unrefp) struct kept *kept = NULL;
        char uuid[UUID_TEXT_LEN + 1];
        bool created = false;
        struct lease *lease;
        int64_t now_ms;
        int r = event == NULL ? LESSOR_E_NOMEM : kept_new(s, &kept);

        if (r == 0)
                r = enter(s);
        if (r < 0)
                return r;
        now_ms = clock_now_ms(s->store.clock);
        uuid_v7(now_ms, uuid);
        r = admit(s, event);
        if (r == 0)
                r = lease_engine_create(s->store.engine, submission, now_ms,
                                        (struct lessor_slice){uuid, UUID_TEXT_LEN},
                                        !committer_is_low(&s->committer), arena, &lease, ret_lease, &created);
        if (r == 0 && created) {
                kept_hold(kept, TEXT_EVENT, TAKE(event));
                lease_attach(lease, TAKE(kept));
        }
        if (r == 0 && ret_created != NULL)
                *ret_created = created;
        return committer_leave(&s->committer, ticket, r);
}

static int sqlite_complete(struct lessor_lease_store *base, const struct lessor_lease_completion *completion,
                           struct lessor_arena *arena, enum lessor_completed *ret_how,
                           struct lessor_lease *ret_lease, struct lessor_ticket *ticket)
{
        struct lease_sqlite_store *s = store_of(base);
        _cleanup_(held_text_unrefp) struct held_text *result = held_text_new(completion->result);
        struct lease *lease;
        int64_t now_ms;
        int r = result == NULL ? LESSOR_E_NOMEM : enter(s);

        if (r < 0)
                return r;
        now_ms = clock_now_ms(s->store.clock);
        r = admit(s, result);
        if (r == 0)
                r = lease_engine_complete(s->store.engine, completion, now_ms, &lease, ret_how);
        if (r == 0 && *ret_how == LESSOR_COMPLETED_RECORDED) {
                struct kept *kept = lease_attachment(lease);

                kept->has_result = true;
                kept_hold(kept, TEXT_RESULT, TAKE(result));
        }
        if (r == 0 && lease != NULL && ret_lease != NULL)
                r = lease_render(s->store.engine, lease, now_ms, arena, ret_lease);
        return committer_leave(&s->committer, ticket, r);
}

/* --- looking --- */

static int sqlite_get(struct lessor_lease_store *base, const struct lessor_lease_name *name, unsigned parts,
                      struct lessor_arena *arena, struct lessor_lease *ret_lease,
                      struct lessor_ticket *ticket)
{
        struct lease_sqlite_store *s = store_of(base);
        struct lease *lease;
        int r = enter(s);

        if (r < 0)
                return r;
        lease = lease_engine_find_lease(s->store.engine, name);
        return lease == NULL ? committer_leave(&s->committer, ticket, LESSOR_E_NOT_FOUND)
                             : answer(s, lease, parts, arena, ret_lease, ticket);
}

static int sqlite_find(struct lessor_lease_store *base, struct lessor_slice repo,
                       struct lessor_slice task_hash, struct lessor_slice inputs_hash, unsigned parts,
                       struct lessor_arena *arena, struct lessor_lease *ret_lease,
                       struct lessor_ticket *ticket)
{
        struct lease_sqlite_store *s = store_of(base);
        struct lease *lease;
        int r = enter(s);

        if (r < 0)
                return r;
        r = lease_engine_find_task(s->store.engine, repo, task_hash, inputs_hash, &lease);
        return r < 0 ? committer_leave(&s->committer, ticket, r)
                     : answer(s, lease, parts, arena, ret_lease, ticket);
}

static int sqlite_hold(struct lessor_lease_store *base, const struct lessor_lease_holder *holder,
                       unsigned parts, struct lessor_arena *arena, struct lessor_lease *ret_lease,
                       struct lessor_ticket *ticket)
{
        struct lease_sqlite_store *s = store_of(base);
        struct lease *lease;
        int r = enter(s);

        if (r < 0)
                return r;
        r = lease_engine_hold(s->store.engine, holder, clock_now_ms(s->store.clock), &lease);
        return r < 0 ? committer_leave(&s->committer, ticket, r)
                     : answer(s, lease, parts, arena, ret_lease, ticket);
}

/* --- claiming --- */

/* The decision, and where the event of the lease granted is. */
static int decide_claim(struct lease_sqlite_store *s, const struct lessor_lease_claim *claim,
                        struct lessor_arena *arena, struct lessor_lease_grant *ret_grant,
                        struct whereabouts *ret_where, struct lessor_ticket *ret_ticket)
{
        char uuid[UUID_TEXT_LEN + 1];
        struct lease *lease;
        int64_t now_ms;
        int r = enter(s);

        if (r < 0)
                return r;
        now_ms = clock_now_ms(s->store.clock);
        uuid_v7(now_ms, uuid);
        r = lease_engine_claim(s->store.engine, claim, now_ms, (struct lessor_slice){uuid, UUID_TEXT_LEN},
                               arena, &lease, ret_grant);
        if (r == 0 && ret_grant->granted)
                locate(lease, LESSOR_WITH_EVENT, ret_where);
        *ret_ticket = committer_part(&s->committer);
        return r;
}

/*
 * A grant whose event cannot be had: nobody has heard of it, so it is taken back. One whose event is lost for
 * good would come first at the next claim again and keep everything behind it: it ends. Returns whether it
 * did.
 */
static bool drop_grant(struct lease_sqlite_store *s, const struct lessor_lease *lease, int error,
                       struct lessor_arena *arena)
{
        bool is_lost = error == LESSOR_E_NOT_FOUND || error == LESSOR_E_CORRUPT;
        struct lessor_lease ended;

        if (is_lost)
                log_error("leasing-text-missing", LOG_CSTR("path", s->path),
                          LOG_TEXT("lease", lease->name.lease_id));
        if (enter(s) < 0)
                return false; /* while the disk refuses, nothing is granted: it lapses */
        (void)lease_engine_undeliver(s->store.engine, &lease->name, lease->claim_number,
                                     clock_now_ms(s->store.clock));
        if (is_lost)
                is_lost = lease_engine_end(s->store.engine, &lease->name, LESSOR_END_CANCEL,
                                           (struct lessor_slice){0}, LESSOR_SLICE("its event cannot be read"),
                                           clock_now_ms(s->store.clock), arena, &ended) == 0;
        (void)committer_part(&s->committer);
        return is_lost;
}

static int sqlite_claim(struct lessor_lease_store *base, const struct lessor_lease_claim *claim,
                        struct lessor_arena *arena, struct lessor_lease_grant *ret_grant,
                        struct lessor_ticket *ticket)
{
        struct lease_sqlite_store *s = store_of(base);
        struct lessor_ticket own = {0};
        struct whereabouts where;
        int r, fetched;

        for (;;) {
                r = decide_claim(s, claim, arena, ret_grant, &where, &own);
                if (r < 0 || !ret_grant->granted)
                        break;
                fetched = fetch(s, &where, arena, &ret_grant->lease);
                if (fetched == 0)
                        break;
                if (!drop_grant(s, &ret_grant->lease, fetched, arena)) {
                        r = fetched == LESSOR_E_NOMEM ? LESSOR_E_NOMEM : LESSOR_E_UNAVAILABLE;
                        break;
                }
        }
        return committer_wait(&s->committer, own, ticket, r);
}

static int sqlite_candidates(struct lessor_lease_store *base, const struct lessor_lease_claim *claim,
                             size_t max, struct lessor_arena *arena, struct lessor_lease_list *ret_leases,
                             struct lessor_ticket *ticket)
{
        struct lease_sqlite_store *s = store_of(base);
        struct whereabouts *where = NULL;
        struct lessor_ticket own;
        struct lease **leases;
        size_t n = 0;
        int r = enter(s);

        if (r < 0)
                return r;
        r = lease_engine_candidates(s->store.engine, claim, max, clock_now_ms(s->store.clock), arena, &leases,
                                    ret_leases);
        if (r == 0) {
                where = lessor_arena_array(arena, ret_leases->n, sizeof(*where));
                r = where == NULL ? LESSOR_E_NOMEM : 0;
        }
        for (size_t i = 0; r == 0 && i < ret_leases->n; i++)
                locate(leases[i], LESSOR_WITH_EVENT, &where[i]);
        own = committer_part(&s->committer);
        if (r < 0 || where == NULL)
                return committer_wait(&s->committer, own, ticket, r);
        for (size_t i = 0; i < ret_leases->n; i++) {
                struct lessor_lease candidate = ret_leases->items[i];
                int fetched = r < 0 ? r : fetch(s, &where[i], arena, &candidate);

                if (fetched == 0)
                        ret_leases->items[n++] = candidate;
                else if (fetched != LESSOR_E_NOT_FOUND && fetched != LESSOR_E_CORRUPT)
                        r = fetched; /* else a claim will find out */
                whereabouts_done(&where[i]);
        }
        ret_leases->n = n;
        return committer_wait(&s->committer, own, ticket, r);
}

/* --- the store itself --- */

static int sqlite_stats(struct lessor_lease_store *base, struct lessor_lease_stats *ret_stats)
{
        struct lease_sqlite_store *s = store_of(base);

        (void)pthread_mutex_lock(&s->committer.lock);
        lease_engine_stats(s->store.engine, ret_stats);
        ret_stats->n_set_aside = s->n_set_aside;
        (void)pthread_mutex_unlock(&s->committer.lock);
        return 0;
}

static int sqlite_when_durable(struct lessor_lease_store *base, struct lessor_ticket ticket,
                               void (*told)(void *context, int result), void *context)
{
        return committer_when_durable(&store_of(base)->committer, ticket, told, context);
}

static int sqlite_check(struct lessor_lease_store *base)
{
        struct lease_sqlite_store *s = store_of(base);
        int r = enter(s);

        if (r < 0)
                return r;
        s->check_wanted = true;
        r = committer_leave(&s->committer, NULL, 0);
        if (r == 0 && committer_is_low(&s->committer))
                r = LESSOR_E_LOW_SPACE;
        return r;
}

static int sqlite_backup(struct lessor_lease_store *base, const char *path)
{
        const struct lease_sqlite_store *s = store_of(base);

        return sqlite_db_backup(s->path, s->options.vfs, path);
}

static struct lessor_lease_store *sqlite_free(struct lessor_lease_store *base)
{
        return lease_sqlite_free(store_of(base));
}

const struct lessor_lease_store_ops lease_sqlite_ops = {
        ENGINE_STORE_OPS,      .create = sqlite_create,
        .get = sqlite_get,     .find = sqlite_find,
        .claim = sqlite_claim, .candidates = sqlite_candidates,
        .hold = sqlite_hold,   .complete = sqlite_complete,
        .stats = sqlite_stats, .when_durable = sqlite_when_durable,
        .check = sqlite_check, .backup = sqlite_backup,
        .free = sqlite_free,
};
