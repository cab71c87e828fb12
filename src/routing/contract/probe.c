/* SPDX-License-Identifier: MIT */
#include "routing/contract/probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/macro.h"

int probe_fail(struct lessor_contract_probe *p, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(p->text, p->cap, format, args);
        va_end(args);
        return PROBE_FAILED;
}

/* --- enqueue --- */

struct lessor_stub stub_of(const char *id, const char *owner)
{
        return (struct lessor_stub){
                .id = text_of(id),
                .kind = LESSOR_KIND_LLM_GENERATE,
                .owner = text_of(owner),
                .site = LESSOR_SLICE("KEY-ID-OF-THE-SITE"),
                .audience = LESSOR_AUDIENCE_PRIVATE,
                .size_class = LESSOR_SIZE_SMALL,
                .deadline_ms = 4102444800000,
        };
}

int put_stub(struct lessor_contract_probe *p, const char *site, const struct lessor_stub *stub)
{
        struct lessor_job job;

        return expect_code(p, "enqueue",
                           lessor_routing_enqueue(p->store, text_of(site), stub, p->arena, &job, NULL), 0);
}

int put(struct lessor_contract_probe *p, const char *site, const char *id, const char *owner)
{
        struct lessor_stub stub = stub_of(id, owner);

        return put_stub(p, site, &stub);
}

/* Cuts the next word off a list; false at its end. */
static bool next_word(struct lessor_slice *list, struct lessor_slice *ret_word)
{
        const char *space;

        if (list->n == 0)
                return false;
        space = memchr(list->p, ' ', list->n);
        *ret_word = (struct lessor_slice){list->p, space == NULL ? list->n : (size_t)(space - list->p)};
        list->p += ret_word->n;
        list->n -= ret_word->n;
        if (space != NULL) {
                list->p++;
                list->n--;
        }
        return true;
}

int put_all(struct lessor_contract_probe *p, const char *ids)
{
        struct lessor_slice list = text_of(ids), id;

        while (next_word(&list, &id)) {
                struct lessor_stub stub = stub_of("", ALICE);

                stub.id = id;
                TRY(put_stub(p, SITE, &stub));
        }
        return 0;
}

/* --- claim --- */

int claim(struct lessor_contract_probe *p, const struct ask *ask, struct lessor_job_list *ret_granted)
{
        struct lessor_route routes[ARRAY_SIZE(ask->routes) / 2] = {{text_of(SITE), text_of(ALICE)}};
        struct lessor_claim wire = {
                .runner_id = text_of(ask->runner),
                .owner = text_of(ask->owner == NULL ? ALICE : ask->owner),
                .device = {text_of(ask->runner), LESSOR_SLICE("encryption"), LESSOR_SLICE("signature")},
                .routes = routes,
                .n_routes = 1,
                .kinds = ask->kinds == 0 ? LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE) : ask->kinds,
                .max = ask->max == 0 ? 10 : ask->max,
                .lease_ms = ask->lease_ms == 0 ? LEASE_MS : ask->lease_ms,
        };

        if (ask->routes[0] != NULL) {
                wire.n_routes = 0;
                for (size_t i = 0; i + 1 < ARRAY_SIZE(ask->routes) && ask->routes[i] != NULL; i += 2)
                        routes[wire.n_routes++] =
                                (struct lessor_route){text_of(ask->routes[i]), text_of(ask->routes[i + 1])};
        }
        return expect_code(p, "claim", lessor_routing_claim(p->store, &wire, p->arena, ret_granted, NULL), 0);
}

int expect_ids(struct lessor_contract_probe *p, const char *what, const struct lessor_job *jobs, size_t n,
               const char *ids)
{
        struct lessor_slice list = text_of(ids), id;
        size_t i = 0;

        while (next_word(&list, &id)) {
                EXPECT(p, i < n, "%s: %.*s is missing (expected \"%s\", got %zu jobs)", what, (int)id.n, id.p,
                       ids, n);
                EXPECT(p, lessor_slice_equal(jobs[i].stub.id, id),
                       "%s: got %.*s where %.*s should be (of \"%s\")", what, (int)jobs[i].stub.id.n,
                       jobs[i].stub.id.p, (int)id.n, id.p, ids);
                i++;
        }
        EXPECT(p, i == n, "%s: got %zu jobs, expected \"%s\"", what, n, ids);
        return 0;
}

int claim_gets(struct lessor_contract_probe *p, const struct ask *ask, const char *ids,
               struct lessor_job_list *ret_granted)
{
        struct lessor_job_list granted;

        TRY(claim(p, ask, &granted));
        TRY(expect_ids(p, "claim", granted.items, granted.n, ids));
        if (ret_granted != NULL)
                *ret_granted = granted;
        return 0;
}

int bring_to(struct lessor_contract_probe *p, const char *id, enum lessor_job_state state,
             struct lessor_lease_ref *ret_lease)
{
        struct lessor_job_list granted;
        struct lessor_slice payload;
        bool duplicate;

        TRY(put(p, SITE, id, ALICE));
        if (state == LESSOR_JOB_QUEUED)
                return 0;
        TRY(claim_gets(p, &(struct ask){.runner = R1}, id, &granted));
        *ret_lease = lease_ref(id, granted.items[0].lease_id);
        if (state == LESSOR_JOB_AWAITING)
                return 0;
        TRY(expect_code(p, "seal", seal(p, SITE, id, "{\"payload\":1}"), 0));
        if (state == LESSOR_JOB_READY)
                return 0;
        TRY(expect_code(p, "take_payload", fetch(p, R1, *ret_lease, &payload), 0));
        if (state == LESSOR_JOB_RUNNING)
                return 0;
        return expect_code(p, "complete", complete(p, R1, *ret_lease, "{\"result\":1}", &duplicate), 0);
}

/* --- looking --- */

int get(struct lessor_contract_probe *p, const char *site, const char *id, struct lessor_job *ret_job)
{
        return expect_code(p, "job",
                           lessor_routing_job(p->store, text_of(site), text_of(id), p->arena, ret_job, NULL),
                           0);
}

bool exists(struct lessor_contract_probe *p, const char *site, const char *id)
{
        struct lessor_job job;

        return lessor_routing_job(p->store, text_of(site), text_of(id), p->arena, &job, NULL) == 0;
}

int state_is(struct lessor_contract_probe *p, const char *site, const char *id, enum lessor_job_state state)
{
        struct lessor_job job;

        TRY(get(p, site, id, &job));
        EXPECT(p, job.state == state, "%s is in state %d, expected %d", id, (int)job.state, (int)state);
        return 0;
}

int expect_code(struct lessor_contract_probe *p, const char *what, int got, int want)
{
        EXPECT(p, got == want, "%s answers %s, expected %s", what, lessor_error_name(got),
               lessor_error_name(want));
        return 0;
}

/* --- doing --- */

int seal(struct lessor_contract_probe *p, const char *site, const char *id, const char *payload)
{
        struct lessor_envelope envelope = {text_of(payload)};
        enum lessor_job_state was;

        return lessor_routing_seal(p->store, text_of(site), text_of(id), &envelope, &was, NULL);
}

int fetch(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease,
          struct lessor_slice *ret_payload)
{
        struct lessor_envelope envelope;
        int r = lessor_routing_take_payload(p->store, text_of(runner), &lease, p->arena, &envelope, NULL);

        if (r == 0)
                *ret_payload = envelope.json;
        return r;
}

int complete(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease,
             const char *result, bool *ret_duplicate)
{
        struct lessor_envelope envelope = {text_of(result)};

        return lessor_routing_complete(p->store, text_of(runner), &lease, &envelope, LESSOR_DISPOSITION_OK,
                                       ret_duplicate, NULL);
}

int release(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease, bool refused,
            int64_t retry_after_ms, size_t *ret_n)
{
        struct lessor_release wire = {
                .runner_id = text_of(runner),
                .leases = &lease,
                .n_leases = 1,
                .refused = refused,
                .retry_after_ms = retry_after_ms,
        };
        struct lessor_lease_ref_list released;

        TRY(expect_code(p, "release_leases",
                        lessor_routing_release_leases(p->store, &wire, p->arena, &released, NULL), 0));
        *ret_n = released.n;
        return 0;
}

int renew(struct lessor_contract_probe *p, const char *runner, struct lessor_lease_ref lease,
          int64_t lease_ms, bool *ret_renewed)
{
        struct lessor_renewal_list list;

        TRY(expect_code(p, "renew_leases",
                        lessor_routing_renew_leases(p->store, text_of(runner), &lease, 1, lease_ms, p->arena,
                                                    &list, NULL),
                        0));
        EXPECT(p, list.n_renewed + list.n_lost == 1,
               "renew_leases of one lease names %zu renewed and %zu lost", list.n_renewed, list.n_lost);
        *ret_renewed = list.n_renewed == 1;
        return 0;
}

void advance(struct lessor_contract_probe *p, int64_t by_ms)
{
        p->options->advance(p->options->context, p->store, by_ms);
}

int sweep(struct lessor_contract_probe *p, struct lessor_swept *ret_swept)
{
        return expect_code(p, "sweep", lessor_routing_sweep(p->store, p->arena, ret_swept, NULL), 0);
}

int now(struct lessor_contract_probe *p, int64_t *ret_now_ms)
{
        return expect_code(p, "now", lessor_routing_now(p->store, ret_now_ms), 0);
}

/* --- running --- */

/* How long a store may take to tell its listener. */
#define HEAR_SECONDS 10

static void hear_of(struct lessor_contract_probe *p, unsigned *counter)
{
        pthread_mutex_lock(&p->lock);
        *counter += 1;
        pthread_cond_broadcast(&p->heard);
        pthread_mutex_unlock(&p->lock);
}

static void heard_churn(void *context, const struct lessor_churn *churn)
{
        struct lessor_contract_probe *p = context;

        pthread_mutex_lock(&p->lock);
        p->churn_expiries = churn->expiries;
        pthread_mutex_unlock(&p->lock);
        hear_of(p, &p->n_churns);
}

static void heard_awaiting(void *context, struct lessor_slice site_id)
{
        struct lessor_contract_probe *p = context;

        (void)site_id;
        hear_of(p, &p->n_awaiting);
}

static void heard_finished(void *context, struct lessor_slice site_id)
{
        struct lessor_contract_probe *p = context;

        (void)site_id;
        hear_of(p, &p->n_finished);
}

int hear(struct lessor_contract_probe *p, const char *what, const unsigned *counter, unsigned number)
{
        struct timespec until;
        unsigned heard;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += HEAR_SECONDS;
        pthread_mutex_lock(&p->lock);
        while (*counter < number && r == 0)
                r = pthread_cond_timedwait(&p->heard, &p->lock, &until);
        heard = *counter;
        pthread_mutex_unlock(&p->lock);
        EXPECT(p, heard == number, "the listener heard of %s %u times, expected %u", what, heard, number);
        return 0;
}

static const char *what_is_missing(unsigned needs, const struct lessor_contract_options *options)
{
        if ((needs & LESSOR_CONTRACT_NEEDS_ADVANCE) != 0 && options->advance == NULL)
                return "skipped: it needs `advance`, to move the store's clock";
        if ((needs & LESSOR_CONTRACT_NEEDS_REOPEN) != 0 && options->reopen == NULL)
                return "skipped: it needs `reopen`, of a store that keeps things";
        if ((needs & LESSOR_CONTRACT_NEEDS_RAW_STUB) != 0 && options->write_raw_stub == NULL)
                return "skipped: it needs `write_raw_stub`, of a store that serialises";
        return NULL;
}

enum lessor_contract_verdict lessor_routing_contract_run(const struct lessor_contract_case *contract_case,
                                                         const struct lessor_contract_options *options,
                                                         char *text, size_t cap)
{
        struct lessor_contract_probe p = {
                .options = options,
                .text = text,
                .cap = cap,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .heard = PTHREAD_COND_INITIALIZER,
        };
        const char *missing = what_is_missing(contract_case->needs, options);
        int r;

        if (cap > 0)
                text[0] = '\0';
        if (missing != NULL) {
                snprintf(text, cap, "%s", missing);
                return LESSOR_CONTRACT_SKIPPED;
        }
        p.listener = (struct lessor_routing_listener){
                .context = &p,
                .awaiting = heard_awaiting,
                .finished = heard_finished,
                .churn = heard_churn,
        };
        p.arena = lessor_arena_new();
        r = p.arena == NULL ? LESSOR_E_NOMEM : options->make(options->context, &p.listener, &p.store);
        if (r < 0) {
                snprintf(text, cap, "the store cannot be made: %s", lessor_error_text(r));
        } else {
                r = contract_case->run(&p);
                if (options->done != NULL)
                        options->done(options->context, p.store);
                else
                        lessor_routing_store_free(p.store);
        }
        lessor_arena_free(p.arena);
        return r == 0 ? LESSOR_CONTRACT_PASSED : LESSOR_CONTRACT_FAILED;
}
