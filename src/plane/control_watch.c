/* SPDX-License-Identifier: MIT */
#include "plane/control_watch.h"

#include <sodium.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/macro.h"
#include "plane/control_lease_json.h"

/*
 * Long polls: whoever waits is parked under the name of a lease or a run, and the store's own word that
 * something happened to it wakes them. Names are hashed, since they may be long and waking must not need
 * memory.
 */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

#define KEY_BYTES 17 /* what kind of name, and its hash */

struct watch {
        struct control_call *call;
        const struct watch_kind *kind;
        void *subject;
        struct lessor_slice after; /* absent: answer at once */
        bool until_end;
        int64_t deadline_ms; /* monotonic */
        char key[KEY_BYTES];
};

/* A repository's name has no NUL, so no two names make one key. */
static void make_key(char kind, struct lessor_slice a, struct lessor_slice b, char ret_key[KEY_BYTES])
{
        crypto_generichash_state state;

        ret_key[0] = kind;
        crypto_generichash_init(&state, NULL, 0, KEY_BYTES - 1);
        crypto_generichash_update(&state, (const unsigned char *)a.p, a.n);
        crypto_generichash_update(&state, (const unsigned char *)"", 1);
        crypto_generichash_update(&state, (const unsigned char *)b.p, b.n);
        crypto_generichash_final(&state, (unsigned char *)ret_key + 1, KEY_BYTES - 1);
}

static void happened(void *context, const struct lessor_lease_event *event)
{
        struct parking_lot *watchers = context;
        char key[KEY_BYTES];

        if (event->name.lease_id.p == NULL)
                return;
        make_key('l', event->name.repo, event->name.lease_id, key);
        parking_wake(watchers, (struct lessor_slice){key, KEY_BYTES});
        if (event->run.p == NULL)
                return;
        make_key('r', event->run, LESSOR_SLICE(""), key);
        parking_wake(watchers, (struct lessor_slice){key, KEY_BYTES});
}

int control_watch_open(struct control *control)
{
        control->watchers = parking_lot_new();
        if (control->watchers == NULL)
                return LESSOR_E_NOMEM;
        return rack_events_add(control->parts.rack->parts.events, happened, control->watchers);
}

static void resume(struct http_request *http, void *context);

/*
 * Looks, and answers or waits. Every look has memory of its own, so that a watch that is woken a thousand
 * times holds no more than one that is not.
 */
static void look(struct watch *w, bool over)
{
        struct parking_lot *watchers = w->call->control->watchers;
        struct lessor_slice key = {w->key, KEY_BYTES};
        uint64_t generation = parking_generation(watchers, key);
        int64_t left_ms = w->deadline_ms - clock_monotonic_ms();
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        bool changed = false;
        int e = LESSOR_E_NOMEM;

        if (arena != NULL)
                e = w->kind->look(w->call, w->subject, arena, w->after, w->until_end, &changed);
        if (e < 0)
                w->kind->refuse(w->call, w->subject, e);
        else if (changed || over || left_ms <= 0)
                w->kind->answer(w->call, w->subject, changed);
        else
                parking_wait(watchers, w->call->http, key, generation, left_ms, resume, w);
}

static void resume(struct http_request *http, void *context)
{
        look(context, http_wait_over(http));
}

/* False when the call was refused. */
static bool read_terms(struct control_call *call, struct watch *w)
{
        struct lessor_slice until;
        int64_t wait_ms;

        if (!control_query(call, "after", &w->after) || !control_query(call, "until", &until) ||
            !control_query_int(call, "wait", 0, LIMIT_HELD_WAIT_MS, LIMIT_HELD_WAIT_MS, &wait_ms))
                return false;
        if (until.p != NULL && !lessor_slice_equal(until, LESSOR_SLICE("end")) &&
            !lessor_slice_equal(until, LESSOR_SLICE("change"))) {
                control_refuse(call, 400, "invalid", "`until` is `change` or `end`");
                return false;
        }
        w->until_end = until.p != NULL && lessor_slice_equal(until, LESSOR_SLICE("end"));
        w->deadline_ms = clock_monotonic_ms() + wait_ms;
        return true;
}

static void watch(struct control_call *call, const struct watch_kind *kind, void *subject, char key_kind,
                  struct lessor_slice a, struct lessor_slice b)
{
        struct watch *w = lessor_arena_array(call->arena, 1, sizeof(*w));

        if (w == NULL) {
                control_refuse_error(call, LESSOR_E_NOMEM, NULL, (struct lessor_slice){0});
                return;
        }
        w->call = call;
        w->kind = kind;
        w->subject = subject;
        make_key(key_kind, a, b, w->key);
        if (read_terms(call, w))
                look(w, false);
}

void control_watch_lease(struct control_call *call, const struct watch_kind *kind,
                         struct lessor_lease_name *name)
{
        watch(call, kind, name, 'l', name->repo, name->lease_id);
}

void control_watch_run(struct control_call *call, const struct watch_kind *kind, struct lessor_slice *run)
{
        watch(call, kind, run, 'r', *run, LESSOR_SLICE(""));
}
