/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

int lease_probe_fail(probe_t *p, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(p->text, p->cap, format, args);
        va_end(args);
        return PROBE_FAILED;
}

bool text_is(struct lessor_slice text, const char *expected)
{
        struct lessor_slice want = lessor_slice_of(expected);

        return (text.p == NULL) == (expected == NULL) && lessor_slice_equal(text, want);
}

struct lessor_slice name_of(probe_t *p, const char *what)
{
        struct lessor_slice name = {0};
        char text[128];
        int n = snprintf(text, sizeof(text), "%s-%u", what, ++p->n_names);

        lessor_arena_copy(p->arena, (struct lessor_slice){text, (size_t)n}, &name);
        return name;
}

struct lessor_slice hash_of(probe_t *p, unsigned number)
{
        struct lessor_slice hash = {0};
        char text[65];

        snprintf(text, sizeof(text), "%064x", number);
        lessor_arena_copy(p->arena, (struct lessor_slice){text, 64}, &hash);
        return hash;
}

static struct lessor_slice text_or(const char *text, const char *usual)
{
        return lessor_slice_of(text != NULL ? text : usual);
}

/* --- leases --- */

int submit_as(probe_t *p, const struct work *work, int code, struct lessor_lease *ret_lease,
              bool *ret_created)
{
        struct lessor_lease_submission from = {
                .repo = text_or(work->repo, REPO),
                .workspace = LESSOR_SLICE("workspace"),
                .task_name = LESSOR_SLICE("train"),
                .task_hash = work->task != NULL ? lessor_slice_of(work->task) : name_of(p, "task"),
                .inputs_hash = text_or(work->inputs, "inputs"),
                .tier = text_or(work->tier, TIER),
                .compute_size = lessor_slice_of(work->size),
                .floor = lessor_slice_of(work->floor),
                .run = lessor_slice_of(work->run),
                .owner = text_or(work->owner, ""),
                .mode = work->mode,
                .event_version = work->version == 0 ? LESSOR_EVENT_VERSION : work->version,
                .event = text_or(work->event, "{\"version\":2}"),
                .ttl_ms = work->ttl_ms,
                .attempt_limit = work->limit,
                .key = lessor_slice_of(work->key),
                .share = work->share,
        };
        int r = lessor_lease_create(p->store, &from, p->arena, ret_lease, ret_created, NULL);

        EXPECT(p, r == code, "create said %s instead of %s", lessor_error_name(r), lessor_error_name(code));
        return 0;
}

int submit(probe_t *p, const struct work *work, struct lessor_lease *ret_lease)
{
        return submit_as(p, work, 0, ret_lease, NULL);
}

int look(probe_t *p, const struct lessor_lease *lease, struct lessor_lease *ret_lease)
{
        struct lessor_lease_name name = lease->name; /* the two may be the same */

        EXPECT_CODE(p, lessor_lease_get(p->store, &name, LESSOR_WITH_RESULT, p->arena, ret_lease, NULL), 0);
        return 0;
}

int last_attempt(probe_t *p, const struct lessor_lease *lease, struct lessor_attempt *ret_attempt)
{
        struct lessor_attempt_list list;

        EXPECT_CODE(p, lessor_lease_attempts(p->store, &lease->name, p->arena, &list, NULL), 0);
        EXPECT(p, list.n > 0, "the lease has no attempt");
        *ret_attempt = list.items[list.n - 1];
        return 0;
}

int end_lease(probe_t *p, const struct lessor_lease *lease, enum lessor_lease_ending ending,
              struct lessor_lease *ret_lease)
{
        EXPECT_CODE(p,
                    lessor_lease_end(p->store, &lease->name, ending, (struct lessor_slice){0},
                                     LESSOR_SLICE("a test"), p->arena, ret_lease, NULL),
                    0);
        return 0;
}

int probe_sweep(probe_t *p)
{
        EXPECT_CODE(p, lessor_lease_sweep(p->store, NULL, NULL, NULL), 0);
        return 0;
}

int probe_advance(probe_t *p, int64_t by_ms)
{
        p->options->advance(p->options->context, p->store, by_ms);
        return 0;
}

int reopen(probe_t *p)
{
        EXPECT_CODE(p, p->options->reopen(p->options->context, &p->listener, &p->store), 0);
        return 0;
}

/* --- machines --- */

int enroll(probe_t *p, const char *tiers, struct machine *ret_machine)
{
        struct machine m = {
                .boot = "boot-1", .version = "0.5.0+e3.1.0.85", .token = name_of(p, "rack-token")};
        struct lessor_slice enrolment = name_of(p, "enrolment");
        struct lessor_host_info host = {.label = LESSOR_SLICE("a machine"),
                                        .capacity = 2,
                                        .agent_version = lessor_slice_of(m.version)};
        struct lessor_rack rack;
        int64_t expires_ms;
        const char *at = tiers != NULL ? tiers : TIER;

        while (*at != '\0' && m.n_tiers < 8) {
                size_t n = strcspn(at, " ");

                m.tiers[m.n_tiers++] = (struct lessor_slice){at, n};
                at += n + (at[n] == ' ');
        }
        host.tiers = m.tiers;
        host.n_tiers = m.n_tiers;
        EXPECT_CODE(p,
                    lessor_rack_mint_enrolment(p->store, enrolment, LESSOR_SLICE("note"), 15 * MINUTE,
                                               &expires_ms, NULL),
                    0);
        EXPECT_CODE(p, lessor_rack_enroll(p->store, enrolment, &host, m.token, p->arena, &rack, NULL), 0);
        m.id = rack.rack_id;
        *ret_machine = m;
        return 0;
}

int beat(probe_t *p, const struct machine *m, struct lessor_rack_beaten *ret_beaten)
{
        struct lessor_rack_caller caller;
        struct lessor_rack_beaten beaten;
        struct lessor_rack_beat b = {
                .rack_id = m->id,
                .boot_id = lessor_slice_of(m->boot),
                .agent_version = lessor_slice_of(m->version),
                .healthy = true,
                .token_hash = m->token,
                .successor_hash = name_of(p, "successor"),
        };

        EXPECT_CODE(p, lessor_rack_authenticate(p->store, m->token, p->arena, &caller, NULL), 0);
        b.token_status = caller.status;
        EXPECT_CODE(p, lessor_rack_heartbeat(p->store, &b, p->arena, &beaten, NULL), 0);
        if (ret_beaten != NULL)
                *ret_beaten = beaten;
        return 0;
}

int join(probe_t *p, const char *tiers, struct machine *ret_machine)
{
        TRY(enroll(p, tiers, ret_machine));
        return beat(p, ret_machine, NULL);
}

int poll_again(probe_t *p, const struct machine *m)
{
        EXPECT_CODE(p, lessor_rack_poll(p->store, m->id, m->tiers, m->n_tiers, NULL), 0);
        return 0;
}

int probe_claim(probe_t *p, const struct machine *m, struct lessor_lease_grant *ret_grant)
{
        struct lessor_lease_claim c = {.rack_id = m->id,
                                       .boot_id = lessor_slice_of(m->boot),
                                       .tiers = m->tiers,
                                       .n_tiers = m->n_tiers,
                                       .names_attempts = m->names_attempts};

        TRY(poll_again(p, m));
        EXPECT_CODE(p, lessor_lease_claim(p->store, &c, p->arena, ret_grant, NULL), 0);
        return 0;
}

int probe_claim_gets(probe_t *p, const struct machine *m, const struct lessor_lease *lease,
                     struct lessor_lease_grant *ret_grant)
{
        struct lessor_lease_grant grant;

        TRY(probe_claim(p, m, &grant));
        EXPECT(p, grant.granted, "nothing was granted (bar %d)", (int)grant.bar);
        EXPECT(p, lessor_slice_equal(grant.lease.name.lease_id, lease->name.lease_id),
               "granted was %.*s instead of %.*s", (int)grant.lease.name.lease_id.n,
               grant.lease.name.lease_id.p, (int)lease->name.lease_id.n, lease->name.lease_id.p);
        if (ret_grant != NULL)
                *ret_grant = grant;
        return 0;
}

int probe_claim_gets_nothing(probe_t *p, const struct machine *m, enum lessor_lease_bar bar)
{
        struct lessor_lease_grant grant;

        TRY(probe_claim(p, m, &grant));
        EXPECT(p, !grant.granted, "a lease was granted");
        EXPECT(p, grant.bar == bar, "the bar is %d instead of %d", (int)grant.bar, (int)bar);
        return 0;
}

int held_task(probe_t *p, struct machine *ret_machine, struct lessor_lease_grant *ret_grant)
{
        struct lessor_lease lease;

        TRY(join(p, NULL, ret_machine));
        TRY(submit(p, &(struct work){0}, &lease));
        return probe_claim_gets(p, ret_machine, &lease, ret_grant);
}

struct lessor_lease_holder holder_of(const struct machine *m, const struct lessor_lease *lease)
{
        return (struct lessor_lease_holder){.name = lease->name, .rack_id = m->id};
}

int probe_complete(probe_t *p, const struct machine *m, const struct lessor_lease *lease,
                   enum lessor_completed expected)
{
        struct lessor_lease_completion c = {
                .holder = holder_of(m, lease),
                .verdict = {.success = true, .output_hash = LESSOR_SLICE("output")},
                .result = LESSOR_SLICE("{\"status\":\"success\"}"),
        };
        enum lessor_completed how;

        EXPECT_CODE(p, lessor_lease_complete(p->store, &c, p->arena, &how, NULL, NULL), 0);
        EXPECT(p, how == expected, "completion was %d instead of %d", (int)how, (int)expected);
        return 0;
}

int stops(probe_t *p, const struct machine *m, const struct lessor_lease *lease, bool *ret_stop)
{
        struct lessor_index_list list;

        EXPECT_CODE(p, lessor_lease_must_stop(p->store, m->id, &lease->name, 1, p->arena, &list, NULL), 0);
        *ret_stop = list.n == 1;
        return 0;
}

/* --- listening --- */

static void copy_out(char *to, size_t cap, struct lessor_slice from)
{
        size_t n = from.n < cap - 1 ? from.n : cap - 1;

        if (n > 0)
                memcpy(to, from.p, n);
        to[n] = '\0';
}

static void happened(void *context, const struct lessor_lease_event *event)
{
        probe_t *p = context;

        pthread_mutex_lock(&p->lock);
        p->n_events[event->kind]++;
        if (event->kind == LESSOR_EVENT_DISCARDED)
                copy_out(p->receipt, sizeof(p->receipt), event->receipt);
        if (event->kind == LESSOR_EVENT_ATTEMPT_ENDED) {
                copy_out(p->execution_id, sizeof(p->execution_id), event->execution_id);
                p->cause = event->cause;
        }
        pthread_cond_broadcast(&p->heard);
        pthread_mutex_unlock(&p->lock);
}

int probe_hear(probe_t *p, enum lessor_lease_event_kind kind, unsigned n)
{
        struct timespec until;
        unsigned heard;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 5;
        pthread_mutex_lock(&p->lock);
        while (p->n_events[kind] < n && r == 0)
                r = pthread_cond_timedwait(&p->heard, &p->lock, &until);
        heard = p->n_events[kind];
        pthread_mutex_unlock(&p->lock);
        EXPECT(p, heard == n, "heard %u events of kind %d instead of %u", heard, (int)kind, n);
        return 0;
}

/* --- running --- */

enum lessor_lease_contract_verdict
lessor_lease_contract_run(const struct lessor_lease_contract_case *contract_case,
                          const struct lessor_lease_contract_options *options, char *text, size_t cap)
{
        probe_t p = {.options = options, .lease_options = LESSOR_LEASE_OPTIONS, .text = text, .cap = cap};
        int r;

        if (((contract_case->needs & NEEDS_ADVANCE) != 0 && options->advance == NULL) ||
            ((contract_case->needs & NEEDS_REOPEN) != 0 && options->reopen == NULL)) {
                snprintf(text, cap, "the store cannot do what this case needs");
                return LESSOR_LEASE_CONTRACT_SKIPPED;
        }
        p.listener = (struct lessor_lease_listener){&p, happened};
        pthread_mutex_init(&p.lock, NULL);
        pthread_cond_init(&p.heard, NULL);
        p.arena = lessor_arena_new();
        r = p.arena == NULL ? lease_probe_fail(&p, "out of memory") : 0;
        if (r == 0 && options->make(options->context, &p.lease_options, &p.listener, &p.store) != 0)
                r = lease_probe_fail(&p, "the store cannot be made");
        if (r == 0)
                r = contract_case->run(&p);
        if (p.store != NULL) {
                if (options->done != NULL)
                        options->done(options->context, p.store);
                else
                        lessor_lease_store_free(p.store);
        }
        lessor_arena_free(p.arena);
        pthread_cond_destroy(&p.heard);
        pthread_mutex_destroy(&p.lock);
        return r == 0 ? LESSOR_LEASE_CONTRACT_PASSED : LESSOR_LEASE_CONTRACT_FAILED;
}

const struct lessor_lease_contract_case *lessor_lease_contract(size_t i)
{
        const struct {
                const struct lessor_lease_contract_case *cases;
                size_t n;
        } groups[] = {{lease_cases, n_lease_cases},
                      {claim_cases, n_claim_cases},
                      {rack_cases, n_rack_cases},
                      {transfer_cases, n_transfer_cases}};

        for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
                if (i < groups[g].n)
                        return &groups[g].cases[i];
                i -= groups[g].n;
        }
        return NULL;
}
