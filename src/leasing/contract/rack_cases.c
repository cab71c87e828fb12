/* SPDX-License-Identifier: MIT */
/* Enrolment, tokens, boots, the registry and environments. */
#include "probe.h"

static int an_enrolment_token_is_used_once(probe_t *p)
{
        struct lessor_host_info host = {.label = LESSOR_SLICE("l"), .agent_version = LESSOR_SLICE("0.5.0")};
        struct lessor_slice token = LESSOR_SLICE("token");
        struct lessor_enrolment_list list;
        struct lessor_rack rack;
        int64_t expires_ms;

        EXPECT_CODE(
                p,
                lessor_rack_mint_enrolment(p->store, token, LESSOR_SLICE("note"), MINUTE, &expires_ms, NULL),
                0);
        EXPECT_CODE(p, lessor_rack_enrolments(p->store, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 1 && text_is(list.items[0].label, "note"), "it is not listed");
        EXPECT_CODE(p, lessor_rack_enroll(p->store, token, &host, LESSOR_SLICE("r1"), p->arena, &rack, NULL),
                    0);
        EXPECT(p,
               rack.rack_id.n == 36 && rack.healthy && rack.last_boot.p == NULL &&
                       rack.approved_boot.p == NULL,
               "the registration is wrong"); /* R001 */
        EXPECT_CODE(p, lessor_rack_enroll(p->store, token, &host, LESSOR_SLICE("r2"), p->arena, &rack, NULL),
                    LESSOR_E_NOT_FOUND); /* R002 */
        EXPECT_CODE(p, lessor_rack_enrolments(p->store, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 0, "a used one is listed");
        EXPECT_CODE(p, lessor_rack_mint_enrolment(p->store, token, LESSOR_SLICE(""), 0, &expires_ms, NULL),
                    LESSOR_E_INVALID);
        return 0;
}

#define N_RACERS 4

struct enroller {
        probe_t *p;
        unsigned number;
        int result;
};

static void *enroll_in_thread(void *context)
{
        struct enroller *e = context;
        struct lessor_host_info host = {.label = LESSOR_SLICE("l"), .agent_version = LESSOR_SLICE("0.5.0")};
        struct lessor_arena *arena = lessor_arena_new();
        const char names[N_RACERS][3] = {"r0", "r1", "r2", "r3"};
        struct lessor_rack rack;

        e->result = arena == NULL ? LESSOR_E_NOMEM
                                  : lessor_rack_enroll(e->p->store, LESSOR_SLICE("token"), &host,
                                                       lessor_slice_of(names[e->number]), arena, &rack, NULL);
        lessor_arena_free(arena);
        return NULL;
}

static int of_concurrent_exchanges_one_wins(probe_t *p)
{
        struct enroller racers[N_RACERS];
        pthread_t threads[N_RACERS];
        struct lessor_rack_list list;
        unsigned n = 0;
        int64_t expires_ms;

        EXPECT_CODE(p,
                    lessor_rack_mint_enrolment(p->store, LESSOR_SLICE("token"), LESSOR_SLICE(""), MINUTE,
                                               &expires_ms, NULL),
                    0);
        for (unsigned i = 0; i < N_RACERS; i++) {
                racers[i] = (struct enroller){p, i, 0};
                EXPECT(p, pthread_create(&threads[i], NULL, enroll_in_thread, &racers[i]) == 0, "no thread");
        }
        for (unsigned i = 0; i < N_RACERS; i++) {
                pthread_join(threads[i], NULL);
                n += racers[i].result == 0;
        }
        EXPECT_CODE(p, lessor_rack_list(p->store, p->arena, &list, NULL), 0);
        EXPECT(p, n == 1 && list.n == 1, "%u exchanges won", n); /* R003 */
        return 0;
}

static int an_enrolment_token_ends(probe_t *p)
{
        struct lessor_host_info host = {.label = LESSOR_SLICE("l"), .agent_version = LESSOR_SLICE("0.5.0")};
        struct lessor_slice token = LESSOR_SLICE("token"), other = LESSOR_SLICE("other");
        struct lessor_rack rack;
        int64_t expires_ms;

        EXPECT_CODE(p, lessor_rack_mint_enrolment(p->store, token, token, MINUTE, &expires_ms, NULL), 0);
        EXPECT_CODE(p, lessor_rack_mint_enrolment(p->store, token, token, MINUTE, &expires_ms, NULL),
                    LESSOR_E_EXISTS);
        EXPECT_CODE(p, lessor_rack_mint_enrolment(p->store, other, other, MINUTE, &expires_ms, NULL), 0);
        EXPECT_CODE(p, lessor_rack_revoke_enrolment(p->store, other, NULL), 0);
        EXPECT_CODE(p, lessor_rack_revoke_enrolment(p->store, other, NULL), LESSOR_E_NOT_FOUND);
        TRY(probe_advance(p, MINUTE));
        EXPECT_CODE(p, lessor_rack_enroll(p->store, token, &host, LESSOR_SLICE("r"), p->arena, &rack, NULL),
                    LESSOR_E_NOT_FOUND); /* R004 */
        return 0;
}

static int only_known_tokens_authenticate(probe_t *p)
{
        struct lessor_rack_caller caller;
        struct machine m;
        int64_t expires_ms;

        TRY(enroll(p, NULL, &m));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, m.token, p->arena, &caller, NULL), 0);
        EXPECT(p, lessor_slice_equal(caller.rack.rack_id, m.id) && caller.status == LESSOR_TOKEN_CURRENT,
               "it is somebody else");
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, LESSOR_SLICE("no"), p->arena, &caller, NULL),
                    LESSOR_E_NOT_FOUND); /* R009 */
        EXPECT_CODE(p,
                    lessor_rack_mint_enrolment(p->store, LESSOR_SLICE("e"), LESSOR_SLICE(""), MINUTE,
                                               &expires_ms, NULL),
                    0);
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, LESSOR_SLICE("e"), p->arena, &caller, NULL),
                    LESSOR_E_NOT_FOUND); /* R010 */
        return 0;
}

/* A beat that offers `successor`. */
static int beat_offering(probe_t *p, const struct machine *m, struct lessor_slice successor,
                         bool *ret_offered)
{
        struct lessor_rack_caller caller;
        struct lessor_rack_beaten beaten = {0};
        struct lessor_rack_beat b = {.rack_id = m->id,
                                     .boot_id = lessor_slice_of(m->boot),
                                     .agent_version = lessor_slice_of(m->version),
                                     .healthy = true,
                                     .token_hash = m->token,
                                     .successor_hash = successor};

        EXPECT_CODE(p, lessor_rack_authenticate(p->store, m->token, p->arena, &caller, NULL), 0);
        b.token_status = caller.status;
        EXPECT_CODE(p, lessor_rack_heartbeat(p->store, &b, p->arena, &beaten, NULL), 0);
        *ret_offered = beaten.offered;
        return 0;
}

static int tokens_rotate(probe_t *p)
{
        struct lessor_slice first = LESSOR_SLICE("s1"), second = LESSOR_SLICE("s2"),
                            third = LESSOR_SLICE("s3");
        struct lessor_rack_caller caller;
        struct machine old, new;
        bool offered = false;

        TRY(join(p, NULL, &old));
        TRY(probe_advance(p, 24 * HOUR));
        TRY(beat_offering(p, &old, first, &offered));
        EXPECT(p, !offered, "an offer at exactly 24 h"); /* R020 */
        TRY(probe_advance(p, 1));
        TRY(beat_offering(p, &old, first, &offered));
        EXPECT(p, offered, "no offer past 24 h"); /* R021 */
        TRY(probe_advance(p, HOUR));
        TRY(beat_offering(p, &old, second, &offered));
        EXPECT(p, !offered, "another offer within the hour"); /* R025 */
        TRY(probe_advance(p, 1));
        TRY(beat_offering(p, &old, second, &offered));
        EXPECT(p, offered, "no fresh offer after the hour"); /* R026 */
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, first, p->arena, &caller, NULL),
                    LESSOR_E_NOT_FOUND);
        TRY(probe_advance(p, 100 * HOUR));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, old.token, p->arena, &caller, NULL), 0); /* R022 */
        new = old;
        new.token = second;
        TRY(beat_offering(p, &new, third, &offered));                  /* R023 */
        EXPECT(p, !offered, "the beat that promotes was offered one"); /* R028 */
        TRY(beat_offering(p, &old, third, &offered));
        EXPECT(p, !offered, "a token in grace was offered one"); /* R027 */
        TRY(probe_advance(p, 15 * MINUTE - 1));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, old.token, p->arena, &caller, NULL), 0);
        EXPECT(p, caller.status == LESSOR_TOKEN_GRACE, "it is not in grace");
        TRY(probe_advance(p, 1));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, old.token, p->arena, &caller, NULL),
                    LESSOR_E_NOT_FOUND); /* R024 */
        TRY(probe_sweep(p));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, second, p->arena, &caller, NULL), 0);
        /* Its age counts from the offer, not from the promotion: it is old enough already. */
        TRY(beat_offering(p, &new, third, &offered));
        EXPECT(p, offered, "a promoted token keeps its age");
        return 0;
}

static int a_further_rotation_lengthens_no_grace(probe_t *p)
{
        struct lessor_slice second = LESSOR_SLICE("s2"), third = LESSOR_SLICE("s3");
        struct lessor_rack_caller caller;
        struct machine old, new;
        bool offered = false;

        TRY(join(p, NULL, &old));
        TRY(probe_advance(p, 24 * HOUR + 1));
        TRY(beat_offering(p, &old, second, &offered));
        TRY(probe_advance(p, 24 * HOUR + 1));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, second, p->arena, &caller, NULL), 0);
        new = old;
        new.token = second;
        TRY(probe_advance(p, 10 * MINUTE));
        TRY(beat_offering(p, &new, third, &offered));
        EXPECT(p, offered, "no offer");
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, third, p->arena, &caller, NULL), 0);
        TRY(probe_advance(p, 5 * MINUTE));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, old.token, p->arena, &caller, NULL),
                    LESSOR_E_NOT_FOUND); /* R029 */
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, second, p->arena, &caller, NULL), 0);
        return 0;
}

static int of_simultaneous_beats_one_is_offered_a_token(probe_t *p)
{
        struct lessor_rack_beaten first, second;
        struct lessor_rack_beat b;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(probe_advance(p, 24 * HOUR + 1));
        b = (struct lessor_rack_beat){.rack_id = m.id,
                                      .boot_id = LESSOR_SLICE("boot-1"),
                                      .agent_version = LESSOR_SLICE("0.5.0"),
                                      .healthy = true,
                                      .token_hash = m.token,
                                      .token_status = LESSOR_TOKEN_CURRENT,
                                      .successor_hash = LESSOR_SLICE("s1")};
        EXPECT_CODE(p, lessor_rack_heartbeat(p->store, &b, p->arena, &first, NULL), 0);
        b.successor_hash = LESSOR_SLICE("s2");
        EXPECT_CODE(p, lessor_rack_heartbeat(p->store, &b, p->arena, &second, NULL), 0);
        EXPECT(p, first.offered && !second.offered, "not exactly one was offered"); /* section 20 */
        return 0;
}

static int deregistration_revokes_everything(probe_t *p)
{
        struct lessor_rack_caller caller;
        struct lessor_lease_grant grant;
        struct lessor_rack_beaten beaten;
        struct lessor_rack_beat b = {.boot_id = LESSOR_SLICE("b"), .agent_version = LESSOR_SLICE("0.5.0")};
        struct lessor_lease now;
        struct lessor_lease_claim c;
        struct lessor_rack rack;
        struct machine m;
        size_t n;

        TRY(held_task(p, &m, &grant));
        EXPECT_CODE(p, lessor_rack_deregister(p->store, m.id, &n, NULL), 0);
        EXPECT(p, n == 1, "%zu leases were superseded", n);
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, m.token, p->arena, &caller, NULL),
                    LESSOR_E_NOT_FOUND); /* R011 */
        c = (struct lessor_lease_claim){.rack_id = m.id, .boot_id = LESSOR_SLICE("boot-1")};
        EXPECT_CODE(p, lessor_lease_claim(p->store, &c, p->arena, &grant, NULL),
                    LESSOR_E_NOT_FOUND); /* R012 */
        b.rack_id = m.id;
        EXPECT_CODE(p, lessor_rack_heartbeat(p->store, &b, p->arena, &beaten, NULL),
                    LESSOR_E_NOT_FOUND); /* R013 */
        EXPECT_CODE(p, lessor_rack_poll(p->store, m.id, NULL, 0, NULL), LESSOR_E_NOT_FOUND);
        EXPECT_CODE(p, lessor_rack_get(p->store, m.id, p->arena, &rack, NULL), LESSOR_E_NOT_FOUND);
        EXPECT_CODE(p, lessor_rack_deregister(p->store, m.id, NULL, NULL), LESSOR_E_NOT_FOUND);
        struct lessor_lease_list list;
        EXPECT_CODE(p, lessor_lease_recent(p->store, m.id, 1, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 1, "its activity is forgotten");
        now = list.items[0];
        EXPECT(p, now.status == LESSOR_LEASE_SUPERSEDED && now.cause == LESSOR_CAUSE_DEREGISTERED,
               "its lease is not superseded");
        return probe_hear(p, LESSOR_EVENT_ATTEMPT_ENDED, 1);
}

static int the_first_boot_is_adopted(probe_t *p)
{
        struct lessor_rack_beaten beaten;
        struct lessor_lease lease;
        struct machine m;

        EXPECT_CODE(p, lessor_rack_set_policy(p->store, true, NULL), 0);
        TRY(submit(p, &(struct work){0}, &lease));
        TRY(enroll(p, NULL, &m));
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_QUARANTINE)); /* R032 */
        TRY(beat(p, &m, &beaten));
        EXPECT(p, !beaten.pending_approval, "the first boot is not adopted"); /* R030 */
        return probe_claim_gets(p, &m, &lease, NULL);
}

static int a_new_boot_waits_for_approval(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_rack_beaten beaten;
        struct lessor_lease lease;
        struct lessor_rack rack;
        struct machine m;
        int64_t deadline_ms;

        EXPECT_CODE(p, lessor_rack_set_policy(p->store, true, NULL), 0);
        TRY(held_task(p, &m, &grant));
        TRY(submit(p, &(struct work){0}, &lease));
        m.boot = "boot-2";
        TRY(beat(p, &m, &beaten));
        EXPECT(p, beaten.pending_approval, "a new boot is not pending"); /* R033 */
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_QUARANTINE));     /* R031 */
        struct lessor_lease_holder holder = holder_of(&m, &grant.lease);
        EXPECT_CODE(p, lessor_lease_extend(p->store, &holder, &deadline_ms, NULL), 0); /* R037 */
        EXPECT_CODE(p, lessor_rack_get(p->store, m.id, p->arena, &rack, NULL), 0);
        EXPECT(p, rack.pending && !rack.fit, "the registry does not show it");
        EXPECT_CODE(p, lessor_rack_approve(p->store, m.id, LESSOR_SLICE("boot-1"), NULL),
                    LESSOR_E_BOOT_CHANGED); /* R035 */
        EXPECT_CODE(p, lessor_rack_approve(p->store, LESSOR_SLICE("no"), LESSOR_SLICE("boot-2"), NULL),
                    LESSOR_E_NOT_FOUND);
        EXPECT_CODE(p, lessor_rack_approve(p->store, m.id, LESSOR_SLICE("boot-2"), NULL), 0);
        return probe_claim_gets(p, &m, &lease, NULL); /* R034 */
}

static int without_the_policy_any_boot_is_granted_work(probe_t *p)
{
        struct lessor_lease lease;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){0}, &lease));
        m.boot = "boot-9";
        TRY(probe_claim_gets(p, &m, &lease, NULL)); /* R036 */
        return probe_hear(p, LESSOR_EVENT_POLICY, 0);
}

static int old_agents_are_refused(probe_t *p)
{
        struct lessor_lease lease;
        struct lessor_lease_grant grant;
        struct lessor_lease_claim c;
        struct lessor_rack rack;
        struct machine m;

        TRY(join(p, NULL, &m));
        m.version = "0.4.9";
        TRY(beat(p, &m, NULL));
        TRY(submit(p, &(struct work){.tier = "new"}, &lease));
        m.tiers[0] = LESSOR_SLICE("new");
        TRY(poll_again(p, &m));
        c = (struct lessor_lease_claim){
                .rack_id = m.id, .boot_id = LESSOR_SLICE("boot-1"), .tiers = m.tiers, .n_tiers = 1};
        EXPECT_CODE(p, lessor_lease_claim(p->store, &c, p->arena, &grant, NULL),
                    LESSOR_E_AGENT_TOO_OLD); /* R043 */
        EXPECT_CODE(p, lessor_rack_get(p->store, m.id, p->arena, &rack, NULL), 0);
        EXPECT(p, rack.n_tiers == 1 && text_is(rack.tiers[0], "new"), "its tiers were not taken"); /* R042 */
        m.version = "0.10.0";
        TRY(beat(p, &m, NULL));
        return probe_claim_gets(p, &m, &lease, NULL); /* R044, R045 */
}

static int a_beat_updates_what_it_reports(probe_t *p)
{
        struct lessor_rack before, after;
        struct lessor_lease lease;
        struct lessor_rack_beaten beaten;
        struct machine m;

        TRY(join(p, "a b", &m));
        EXPECT_CODE(p, lessor_rack_get(p->store, m.id, p->arena, &before, NULL), 0);
        TRY(probe_advance(p, 1000));
        struct lessor_rack_beat b = {.rack_id = m.id,
                                     .boot_id = LESSOR_SLICE("boot-7"),
                                     .agent_version = LESSOR_SLICE("7.0.0"),
                                     .token_hash = m.token,
                                     .successor_hash = LESSOR_SLICE("s")};
        EXPECT_CODE(p, lessor_rack_heartbeat(p->store, &b, p->arena, &beaten, NULL), 0);
        EXPECT_CODE(p, lessor_rack_get(p->store, m.id, p->arena, &after, NULL), 0);
        EXPECT(p,
               after.last_seen_ms == before.last_seen_ms + 1000 && after.last_beat_ms == after.last_seen_ms &&
                       !after.healthy && text_is(after.agent_version, "7.0.0") &&
                       text_is(after.last_boot, "boot-7") && text_is(after.approved_boot, "boot-1"),
               "something is not as reported"); /* R056 */
        EXPECT(p, after.n_tiers == 2 && after.capacity == 2 && text_is(after.label, "a machine"),
               "something else changed");
        TRY(submit(p, &(struct work){.tier = "a"}, &lease));
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_UNHEALTHY));
        EXPECT_CODE(p, lessor_rack_get(p->store, m.id, p->arena, &after, NULL), 0);
        EXPECT(p, after.last_poll_ms != 0 && before.last_poll_ms == 0, "the poll is not noted");
        return 0;
}

static int a_draining_rack_keeps_what_it_has(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease lease;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        TRY(submit(p, &(struct work){0}, &lease));
        EXPECT_CODE(p, lessor_rack_drain(p->store, m.id, true, NULL), 0);
        TRY(probe_claim_gets_nothing(p, &m, LESSOR_BAR_DRAINING));
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED));
        EXPECT_CODE(p, lessor_rack_drain(p->store, m.id, false, NULL), 0);
        return probe_claim_gets(p, &m, &lease, NULL);
}

static int tokens_and_racks_outlast_a_restart(probe_t *p)
{
        struct lessor_rack_caller caller;
        struct lessor_rack rack;
        struct machine old, new;
        bool offered = false;
        int64_t expires_ms;

        TRY(join(p, "a b", &old));
        TRY(probe_advance(p, 24 * HOUR + 1));
        TRY(beat_offering(p, &old, LESSOR_SLICE("s1"), &offered));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, LESSOR_SLICE("s1"), p->arena, &caller, NULL), 0);
        EXPECT_CODE(p,
                    lessor_rack_mint_enrolment(p->store, LESSOR_SLICE("e"), LESSOR_SLICE(""), MINUTE,
                                               &expires_ms, NULL),
                    0);
        TRY(reopen(p));
        EXPECT_CODE(p, lessor_rack_get(p->store, old.id, p->arena, &rack, NULL), 0);
        EXPECT(p, rack.n_tiers == 2 && text_is(rack.tiers[1], "b") && text_is(rack.approved_boot, "boot-1"),
               "the registration is not as it was");
        new = old;
        new.token = LESSOR_SLICE("s1");
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, new.token, p->arena, &caller, NULL), 0);
        EXPECT(p, caller.status == LESSOR_TOKEN_CURRENT, "the promotion is forgotten");
        EXPECT_CODE(p, lessor_rack_revoke_enrolment(p->store, LESSOR_SLICE("e"), NULL), 0);
        TRY(probe_advance(p, 15 * MINUTE));
        EXPECT_CODE(p, lessor_rack_authenticate(p->store, old.token, p->arena, &caller, NULL),
                    LESSOR_E_NOT_FOUND);
        return 0;
}

static int environments_are_found_by_hash_and_version(probe_t *p)
{
        struct lessor_environment env = {.env_hash = LESSOR_SLICE("e"),
                                         .e3_version = LESSOR_SLICE("1.0.85"),
                                         .base_image = LESSOR_SLICE("image"),
                                         .base_tier = LESSOR_SLICE("py"),
                                         .manifest_key = LESSOR_SLICE("key"),
                                         .manifest = LESSOR_SLICE("{ \"layers\": [] }"),
                                         .n_layers = 2};
        struct lessor_environment found;
        struct lessor_environment_list list;

        EXPECT_CODE(
                p, lessor_environment_resolve(p->store, env.env_hash, env.e3_version, p->arena, &found, NULL),
                LESSOR_E_NOT_FOUND); /* R120 */
        EXPECT_CODE(p, lessor_environment_publish(p->store, &env, NULL), 0);
        EXPECT_CODE(
                p, lessor_environment_resolve(p->store, env.env_hash, env.e3_version, p->arena, &found, NULL),
                0);
        EXPECT(p,
               text_is(found.manifest, "{ \"layers\": [] }") && text_is(found.base_tier, "py") &&
                       found.n_layers == 2 && found.published_ms != 0,
               "it is not as published"); /* R121 */
        EXPECT_CODE(p,
                    lessor_environment_resolve(p->store, env.env_hash, LESSOR_SLICE("1.0.86"), p->arena,
                                               &found, NULL),
                    LESSOR_E_NOT_FOUND);
        env.manifest = LESSOR_SLICE("{}");
        EXPECT_CODE(p, lessor_environment_publish(p->store, &env, NULL), 0);
        EXPECT_CODE(
                p, lessor_environment_resolve(p->store, env.env_hash, env.e3_version, p->arena, &found, NULL),
                0);
        EXPECT(p, text_is(found.manifest, "{}"), "it was not replaced");
        EXPECT_CODE(p, lessor_environment_list(p->store, p->arena, &list, NULL), 0);
        EXPECT(p, list.n == 1 && list.items[0].manifest.p == NULL, "the list is wrong");
        EXPECT_CODE(p, lessor_environment_remove(p->store, env.env_hash, env.e3_version, NULL), 0);
        EXPECT_CODE(p, lessor_environment_remove(p->store, env.env_hash, env.e3_version, NULL),
                    LESSOR_E_NOT_FOUND);
        return 0;
}

const struct lessor_lease_contract_case rack_cases[] = {
        {"an_enrolment_token_is_used_once", "R001 R002", 0, an_enrolment_token_is_used_once},
        {"of_concurrent_exchanges_one_wins", "R003", 0, of_concurrent_exchanges_one_wins},
        {"an_enrolment_token_ends", "R004", NEEDS_ADVANCE, an_enrolment_token_ends},
        {"only_known_tokens_authenticate", "R009 R010", 0, only_known_tokens_authenticate},
        {"tokens_rotate", "R020 R021 R022 R023 R024 R025 R026 R027 R028", NEEDS_ADVANCE, tokens_rotate},
        {"a_further_rotation_lengthens_no_grace", "R029", NEEDS_ADVANCE,
         a_further_rotation_lengthens_no_grace},
        {"of_simultaneous_beats_one_is_offered_a_token", "section 20", NEEDS_ADVANCE,
         of_simultaneous_beats_one_is_offered_a_token},
        {"deregistration_revokes_everything", "R011 R012 R013", 0, deregistration_revokes_everything},
        {"the_first_boot_is_adopted", "R030 R032", 0, the_first_boot_is_adopted},
        {"a_new_boot_waits_for_approval", "R031 R033 R034 R035 R037", 0, a_new_boot_waits_for_approval},
        {"without_the_policy_any_boot_is_granted_work", "R036", 0,
         without_the_policy_any_boot_is_granted_work},
        {"old_agents_are_refused", "R042 R043 R044 R045", 0, old_agents_are_refused},
        {"a_beat_updates_what_it_reports", "R056", NEEDS_ADVANCE, a_beat_updates_what_it_reports},
        {"a_draining_rack_keeps_what_it_has", "control API, drain", 0, a_draining_rack_keeps_what_it_has},
        {"tokens_and_racks_outlast_a_restart", "section 2, durability", NEEDS_ADVANCE | NEEDS_REOPEN,
         tokens_and_racks_outlast_a_restart},
        {"environments_are_found_by_hash_and_version", "R120 R121, section 12", 0,
         environments_are_found_by_hash_and_version},
};
const size_t n_rack_cases = sizeof(rack_cases) / sizeof(rack_cases[0]);
