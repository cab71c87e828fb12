/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"
#include "base/limits.h"
#include "base/macro.h"
#include "plane/control_lease_json.h"
#include "plane/control_watch.h"

/* Leases, from the host's side: looking at them, watching them, ending them. Creating: control_submit.c. */

#define LEASES_DEFAULT 100
#define LEASES_PAGE    512 /* looked at in one step when the answer is filtered here */

struct ending_body {
        struct lease_ref ref;
        struct lessor_slice key; /* absent: for everybody */
        struct lessor_slice reason;
};

struct name_body {
        struct lease_ref ref;
};

static const struct message_field cancel_fields[] = {
        LEASE_REF_FIELDS(struct ending_body),
        FIELD_TEXT1(struct ending_body, key, "key", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct ending_body, reason, "reason", .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_lease_cancel_body =
        MESSAGE_TABLE("LeaseCancel", struct ending_body, cancel_fields, .holds = lease_ref_holds);

static const struct message_field supersede_fields[] = {
        LEASE_REF_FIELDS(struct ending_body),
        FIELD_TEXT1(struct ending_body, reason, "reason", .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_lease_supersede_body =
        MESSAGE_TABLE("LeaseSupersede", struct ending_body, supersede_fields, .holds = lease_ref_holds);

static const struct message_field name_fields[] = {LEASE_REF_FIELDS(struct name_body)};
const struct message_table control_lease_name_body =
        MESSAGE_TABLE("LeaseName", struct name_body, name_fields, .holds = lease_ref_holds);

/* --- One --- */

static void answer_lease(struct control_call *call, const struct lessor_lease *lease)
{
        struct buf json = {0};
        struct json_writer w;

        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "lease");
        lease_put(&w, lease);
        json_close_object(&w);
        control_answer(call, &json);
}

/* A lease with its attempts. `changed`: 0 or 1; -1: the answer does not say. */
static void answer_whole(struct control_call *call, const struct lessor_lease *lease, int changed)
{
        struct lessor_lease_store *store = call->parts->rack->parts.store;
        struct lessor_attempt_list attempts;
        struct lessor_ticket ticket = {0};
        struct buf json = {0};
        struct json_writer w;
        int e = lessor_lease_attempts(store, &lease->name, call->arena, &attempts, &ticket);

        control_rests_on(call, ticket);
        if (e < 0) {
                lease_refuse(call, e, lease->name.lease_id);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        if (changed >= 0)
                json_member_bool(&w, "changed", changed == 1);
        json_key(&w, "lease");
        lease_put(&w, lease);
        lease_put_attempts(&w, &attempts);
        json_close_object(&w);
        control_answer(call, &json);
}

static void show(struct control_call *call, const struct lease_ref *ref)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_lease_name name;
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        int e;

        if (store == NULL || !lease_ref_resolve(call, ref, &name))
                return;
        e = lessor_lease_get(store, &name, LESSOR_WITH_EVENT | LESSOR_WITH_RESULT, call->arena, &lease,
                             &ticket);
        control_rests_on(call, ticket);
        if (e < 0)
                lease_refuse(call, e, name.lease_id);
        else
                answer_whole(call, &lease, -1);
}

void control_lease_find(struct control_call *call, const void *body)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_slice repo, task, inputs;
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        int e;

        (void)body;
        if (store == NULL || !control_query(call, "repo", &repo) || !control_query(call, "task", &task) ||
            !control_query(call, "inputs", &inputs))
                return;
        if (repo.p == NULL || inputs.p == NULL) {
                control_refuse(call, 400, "invalid", "name the work: ?repo=REPO&task=HASH&inputs=HASH");
                return;
        }
        e = lessor_lease_find(store, repo, task, inputs, LESSOR_WITH_EVENT | LESSOR_WITH_RESULT, call->arena,
                              &lease, &ticket);
        control_rests_on(call, ticket);
        if (e == LESSOR_E_NOT_FOUND)
                control_refuse(call, 404, "not-found",
                               "no lease of this task and these inputs waits, runs or is completed");
        else if (e < 0)
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
        else
                answer_whole(call, &lease, -1);
}

/* --- Many --- */

struct lease_filter {
        struct lessor_lease_query query;
        struct lessor_slice repo;  /* absent: any */
        struct lessor_slice owner; /* absent: any */
        int64_t limit;
};

/* "pending,claimed" */
static bool read_statuses(struct control_call *call, struct lessor_slice text, unsigned *ret_statuses)
{
        unsigned statuses = 0;

        while (text.n > 0) {
                size_t n = 0;
                int status;

                while (n < text.n && text.p[n] != ',')
                        n++;
                status = message_word_number(&lease_status_words, (struct lessor_slice){text.p, n});
                if (status < 0) {
                        control_refuse(call, 400, "invalid",
                                       "`status` is one or more, with commas, of: pending claimed completed "
                                       "superseded cancelled poisoned expired");
                        return false;
                }
                statuses |= 1u << status;
                n += n < text.n;
                text.p += n;
                text.n -= n;
        }
        *ret_statuses = statuses;
        return true;
}

/* False when the call was refused. */
static bool read_filter(struct control_call *call, struct lease_filter *ret_filter)
{
        struct lease_filter f = {0};
        struct lessor_slice status;
        int64_t after;

        if (!control_query(call, "run", &f.query.run) || !control_query(call, "rack", &f.query.rack_id) ||
            !control_query(call, "repo", &f.repo) || !control_query(call, "owner", &f.owner) ||
            !control_query(call, "status", &status) ||
            !control_query_int(call, "after", 0, INT64_C(1) << 53, 0, &after) ||
            !control_query_int(call, "limit", 1, LIMIT_CONTROL_LEASES, LEASES_DEFAULT, &f.limit) ||
            !read_statuses(call, status, &f.query.statuses))
                return false;
        f.query.after = (uint64_t)after;
        *ret_filter = f;
        return true;
}

static bool lease_matches(const struct lessor_lease *lease, const struct lease_filter *f)
{
        return (f->repo.p == NULL || lessor_slice_equal(lease->name.repo, f->repo)) &&
               (f->owner.p == NULL || lessor_slice_equal(lease->owner, f->owner));
}

/*
 * The store filters by run, rack and status only. With other filters up to LIMIT_CONTROL_LEASES leases are
 * looked at, and the answer says where to go on.
 */
static int put_matches(struct control_call *call, struct lessor_lease_store *store, struct lease_filter *f,
                       struct json_writer *w, bool *ret_more)
{
        bool filtered = f->repo.p != NULL || f->owner.p != NULL;
        int64_t n_put = 0, n_seen = 0;

        for (;;) {
                int64_t room = filtered ? LEASES_PAGE : f->limit - n_put;
                struct lessor_lease_query query = f->query;
                struct lessor_lease_list page;
                struct lessor_ticket ticket = {0};
                int e;

                query.max = (size_t)room + 1; /* one more, to know whether there is any */
                e = lessor_lease_list(store, &query, call->arena, &page, &ticket);
                control_rests_on(call, ticket);
                if (e < 0)
                        return e;
                for (size_t i = 0; i < page.n && i < (size_t)room; i++) {
                        if (n_put == f->limit || n_seen == LIMIT_CONTROL_LEASES) {
                                *ret_more = true;
                                return 0;
                        }
                        n_seen++;
                        f->query.after = page.items[i].seq;
                        if (lease_matches(&page.items[i], f)) {
                                lease_put(w, &page.items[i]);
                                n_put++;
                        }
                }
                *ret_more = page.n > (size_t)room;
                if (!*ret_more || !filtered)
                        return 0;
        }
}

static void list(struct control_call *call)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lease_filter filter;
        struct buf json = {0};
        struct json_writer w;
        bool more = false;
        int e;

        if (store == NULL || !read_filter(call, &filter))
                return;
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_key(&w, "leases");
        json_open_array(&w);
        e = put_matches(call, store, &filter, &w, &more);
        if (e < 0) {
                buf_done(&json);
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
                return;
        }
        json_close_array(&w);
        json_member_bool(&w, "more", more);
        if (more)
                json_member_int(&w, "next", (int64_t)filter.query.after);
        json_close_object(&w);
        control_answer(call, &json);
}

/* One that is named, or those that match. */
void control_lease_get(struct control_call *call, const void *body)
{
        struct lessor_slice lease, number;
        struct lease_ref ref;

        (void)body;
        if (!control_query(call, "lease", &lease) || !control_query(call, "number", &number))
                return;
        if (lease.p == NULL && number.p == NULL)
                list(call);
        else if (lease_ref_of_query(call, &ref))
                show(call, &ref);
}

/* --- Waiting --- */

static int watch_look(struct control_call *call, const void *subject, struct lessor_arena *arena,
                      struct lessor_slice after, bool until_end, bool *ret_changed)
{
        char version[LEASE_VERSION_BYTES];
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        int e = lessor_lease_get(call->parts->rack->parts.store, subject, 0, arena, &lease, &ticket);

        if (e < 0)
                return e;
        lease_version(&lease, version);
        if (until_end)
                *ret_changed = lease_has_ended(&lease);
        else
                *ret_changed = after.p == NULL || !lessor_slice_equal(after, lessor_slice_of(version));
        return 0;
}

static void watch_answer(struct control_call *call, const void *subject, bool changed)
{
        const struct lessor_lease_name *name = subject;
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        int e = lessor_lease_get(call->parts->rack->parts.store, name, LESSOR_WITH_RESULT, call->arena,
                                 &lease, &ticket);

        control_rests_on(call, ticket);
        if (e < 0)
                lease_refuse(call, e, name->lease_id);
        else
                answer_whole(call, &lease, changed);
}

static void watch_refuse(struct control_call *call, const void *subject, int error)
{
        const struct lessor_lease_name *name = subject;

        lease_refuse(call, error, name->lease_id);
}

void control_lease_watch(struct control_call *call, const void *body)
{
        static const struct watch_kind kind = {watch_look, watch_answer, watch_refuse};
        struct lessor_lease_name *name = lessor_arena_array(call->arena, 1, sizeof(*name));
        struct lease_ref ref;

        (void)body;
        if (name == NULL)
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
        else if (control_leases(call) != NULL && lease_ref_of_query(call, &ref) &&
                 lease_ref_resolve(call, &ref, name))
                control_watch_lease(call, &kind, name);
}

/* --- Ending --- */

static void end(struct control_call *call, const struct ending_body *in, enum lessor_lease_ending ending)
{
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_lease_name name;
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        int e;

        if (store == NULL || !lease_ref_resolve(call, &in->ref, &name))
                return;
        e = lessor_lease_end(store, &name, ending, in->key, in->reason, call->arena, &lease, &ticket);
        control_rests_on(call, ticket);
        if (e < 0)
                lease_refuse(call, e, name.lease_id);
        else
                answer_lease(call, &lease);
}

void control_lease_cancel(struct control_call *call, const void *body)
{
        end(call, body, LESSOR_END_CANCEL);
}

void control_lease_supersede(struct control_call *call, const void *body)
{
        end(call, body, LESSOR_END_SUPERSEDE);
}

void control_lease_replay(struct control_call *call, const void *body)
{
        const struct name_body *in = body;
        struct lessor_lease_store *store = control_leases(call);
        struct lessor_lease_name name;
        struct lessor_ticket ticket = {0};
        struct lessor_lease lease;
        int e;

        if (store == NULL || !lease_ref_resolve(call, &in->ref, &name))
                return;
        e = lessor_lease_replay(store, &name, call->arena, &lease, &ticket);
        control_rests_on(call, ticket);
        if (e < 0)
                lease_refuse(call, e, name.lease_id);
        else
                answer_lease(call, &lease);
}
