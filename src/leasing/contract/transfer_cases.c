/* SPDX-License-Identifier: MIT */
/* Capabilities, receipts and commits. */
#include "probe.h"

/* A request about a few objects, named by number. */
struct wish {
        unsigned need, output, commit; /* 0: none */
        int64_t size;                  /* 0: 10 */
        const char *version;
        bool stored;
        unsigned staged;
};

static int transfer_as(probe_t *p, const struct lessor_lease_holder *holder, const struct wish *w, int code,
                       struct lessor_transfer_answer *ret_answer)
{
        int64_t size = w->size == 0 ? 10 : w->size;
        struct lessor_transfer_need need = {.hash = hash_of(p, w->need)};
        struct lessor_transfer_output output = {{hash_of(p, w->output), size}, w->stored, size};
        struct lessor_transfer_commit commit = {{hash_of(p, w->commit), size}, lessor_slice_of(w->version)};
        struct lessor_object_size staged = {hash_of(p, w->staged), size};
        struct lessor_transfer_request q = {.holder = *holder,
                                            .needs = &need,
                                            .n_needs = w->need != 0,
                                            .staged = w->staged != 0 ? &staged : NULL,
                                            .outputs = &output,
                                            .n_outputs = w->output != 0,
                                            .commits = &commit,
                                            .n_commits = w->commit != 0};
        int r = lessor_lease_transfer(p->store, &q, p->arena, ret_answer, NULL);

        EXPECT(p, r == code, "transfer said %s instead of %s", lessor_error_name(r), lessor_error_name(code));
        return 0;
}

/* Declares an output, and stores it if a receipt is given; its capability id. */
static int put_object(probe_t *p, const struct lessor_lease_holder *holder, unsigned number,
                      const char *receipt, struct lessor_slice *ret_id)
{
        struct lessor_transfer_answer answer;
        struct lessor_slice stands;

        TRY(transfer_as(p, holder, &(struct wish){.output = number}, 0, &answer));
        *ret_id = answer.output_ids[0];
        if (receipt != NULL)
                EXPECT_CODE(p,
                            lessor_capability_stored(p->store, *ret_id, lessor_slice_of(receipt), p->arena,
                                                     &stands, NULL),
                            0);
        return 0;
}

static int opens(probe_t *p, struct lessor_slice id, bool write, int code)
{
        struct lessor_capability c;
        int r = lessor_capability_open(p->store, id, write, p->arena, &c, NULL);

        EXPECT(p, r == code, "open said %s instead of %s", lessor_error_name(r), lessor_error_name(code));
        return 0;
}

static int only_the_holder_transfers(probe_t *p)
{
        struct lessor_transfer_answer answer;
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct machine m, other;

        TRY(join(p, NULL, &other));
        TRY(held_task(p, &m, &grant));
        holder = holder_of(&other, &grant.lease);
        TRY(transfer_as(p, &holder, &(struct wish){.need = 1}, LESSOR_E_NOT_HELD, &answer)); /* R095 */
        holder = holder_of(&m, &grant.lease);
        TRY(transfer_as(p, &holder, &(struct wish){.need = 1}, 0, &answer));
        return opens(p, answer.need_ids[0], false, 0);
}

static int a_live_binding_keeps_its_url(probe_t *p)
{
        struct lessor_transfer_answer first, second;
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        TRY(transfer_as(p, &holder, &(struct wish){.need = 1, .output = 2}, 0, &first));
        TRY(transfer_as(p, &holder, &(struct wish){.need = 1, .output = 2}, 0, &second));
        EXPECT(p,
               lessor_slice_equal(first.need_ids[0], second.need_ids[0]) &&
                       lessor_slice_equal(first.output_ids[0], second.output_ids[0]),
               "the url changed");
        EXPECT(p, !lessor_slice_equal(first.need_ids[0], first.output_ids[0]), "two objects share a url");
        TRY(opens(p, first.need_ids[0], true, LESSOR_E_NOT_FOUND)); /* R118 */
        TRY(opens(p, first.output_ids[0], false, LESSOR_E_NOT_FOUND));
        return opens(p, LESSOR_SLICE("no"), false, LESSOR_E_NOT_FOUND);
}

static int a_url_ends_and_is_given_again(probe_t *p)
{
        struct lessor_transfer_answer first, second;
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        TRY(transfer_as(p, &holder, &(struct wish){.need = 1, .output = 2}, 0, &first));
        TRY(probe_advance(p, 15 * MINUTE - 1));
        TRY(opens(p, first.need_ids[0], false, 0));
        TRY(opens(p, first.output_ids[0], true, 0));
        TRY(transfer_as(p, &holder, &(struct wish){.need = 1}, 0, &second)); /* does not lengthen it */
        TRY(probe_advance(p, 1));
        TRY(opens(p, first.need_ids[0], false, LESSOR_E_NOT_FOUND)); /* R117 */
        TRY(opens(p, first.output_ids[0], true, LESSOR_E_NOT_FOUND));
        TRY(transfer_as(p, &holder, &(struct wish){.need = 1, .output = 2}, 0, &second));
        TRY(opens(p, second.need_ids[0], false, 0));
        EXPECT(p, lessor_slice_equal(first.output_ids[0], second.output_ids[0]),
               "writing goes to another url");
        return opens(p, second.output_ids[0], true, 0);
}

static int an_object_is_committed_by_its_receipt(probe_t *p)
{
        struct lessor_transfer_answer answer;
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct lessor_slice id, stands;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        TRY(put_object(p, &holder, 1, NULL, &id));
        TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = "r1"}, 0, &answer));
        EXPECT(p, !answer.committed[0], "nothing was stored yet");
        EXPECT_CODE(p, lessor_capability_stored(p->store, id, LESSOR_SLICE("r1"), p->arena, &stands, NULL),
                    0);
        EXPECT(p, text_is(stands, "r1"), "the receipt is another");
        EXPECT_CODE(p, lessor_capability_stored(p->store, id, LESSOR_SLICE("r2"), p->arena, &stands, NULL),
                    0);
        EXPECT(p, text_is(stands, "r1"), "a repeat changed the receipt"); /* R110 */
        TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = "r2"}, 0, &answer));
        EXPECT(p, !answer.committed[0], "a wrong receipt"); /* R112 */
        TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = "r1", .size = 11}, 0, &answer));
        EXPECT(p, !answer.committed[0], "a wrong size");
        TRY(transfer_as(p, &holder, &(struct wish){.commit = 2, .version = "r1"}, 0, &answer));
        EXPECT(p, !answer.committed[0], "never declared"); /* R113 */
        for (int i = 0; i < 2; i++) {
                TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = "r1"}, 0, &answer));
                EXPECT(p, answer.committed[0], "not committed"); /* R114 */
        }
        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED));
        return probe_hear(p, LESSOR_EVENT_DISCARDED, 0);
}

static int what_is_held_needs_no_url(probe_t *p)
{
        struct lessor_transfer_answer answer;
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct lessor_slice *hashes;
        struct machine m;
        size_t n;

        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        TRY(transfer_as(p, &holder, &(struct wish){.output = 1, .stored = true}, 0, &answer));
        EXPECT(p, answer.output_ids[0].p == NULL, "a url for what is held"); /* R102 */
        TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = "r"}, 0, &answer));
        EXPECT(p, !answer.committed[0], "a commit of what is held");
        EXPECT_CODE(p, lessor_lease_targets(p->store, &grant.lease.name, p->arena, &hashes, &n, NULL), 0);
        EXPECT(p, n == 1 && lessor_slice_equal(hashes[0], hash_of(p, 1)), "it is no target");
        return 0;
}

static int a_hash_keeps_its_size(probe_t *p)
{
        struct lessor_transfer_answer answer;
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        TRY(transfer_as(p, &holder, &(struct wish){.output = 1}, 0, &answer));
        TRY(transfer_as(p, &holder, &(struct wish){.output = 1, .size = 11}, LESSOR_E_SIZE_CHANGED, &answer));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.n_targets == 1, "it counts twice"); /* R106 */
        return 0;
}

/* A request of many outputs, numbered from `first`. */
static int declare(probe_t *p, const struct lessor_lease_holder *holder, unsigned first, size_t n,
                   size_t n_commits, int code)
{
        struct lessor_transfer_output *outputs = lessor_arena_array(p->arena, n + 1, sizeof(*outputs));
        struct lessor_transfer_commit *commits =
                lessor_arena_array(p->arena, n_commits + 1, sizeof(*commits));
        struct lessor_transfer_request q = {.holder = *holder,
                                            .outputs = outputs,
                                            .n_outputs = n,
                                            .commits = commits,
                                            .n_commits = n_commits};
        struct lessor_transfer_answer answer;
        int r;

        EXPECT(p, outputs != NULL && commits != NULL, "out of memory");
        for (size_t i = 0; i < n; i++)
                outputs[i].object.hash = hash_of(p, first + (unsigned)i);
        for (size_t i = 0; i < n_commits; i++)
                commits[i] = (struct lessor_transfer_commit){{hash_of(p, 1), 0}, LESSOR_SLICE("r")};
        r = lessor_lease_transfer(p->store, &q, p->arena, &answer, NULL);
        EXPECT(p, r == code, "transfer said %s instead of %s", lessor_error_name(r), lessor_error_name(code));
        return 0;
}

static int declarations_are_bounded(probe_t *p)
{
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        TRY(declare(p, &holder, 1, 257, 0, LESSOR_E_TOO_LARGE)); /* R103 */
        TRY(declare(p, &holder, 1, 0, 257, LESSOR_E_TOO_LARGE));
        for (unsigned i = 0; i < 16; i++)
                TRY(declare(p, &holder, 1 + i * 256, 256, 0, 0));
        TRY(declare(p, &holder, 5000, 1, 0, LESSOR_E_TARGET_LIMIT)); /* R105 */
        TRY(declare(p, &holder, 1, 256, 0, 0));                      /* R106 */
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.n_targets == 4096, "%zu targets", now.n_targets);
        return 0;
}

static int a_bad_entry_issues_nothing(probe_t *p)
{
        static const struct {
                const char *hash;
                int64_t size;
        } bad[] = {
                {"short", 1},
                {"000000000000000000000000000000000000000000000000000000000000000G", 1},
                {"A000000000000000000000000000000000000000000000000000000000000000", 1},
                {"a000000000000000000000000000000000000000000000000000000000000000", -1},
                {"a000000000000000000000000000000000000000000000000000000000000000", INT64_C(5368709121)},
        };
        struct lessor_lease_stats stats;
        struct lessor_lease_grant grant;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct lessor_transfer_output outputs[2] = {
                        {{hash_of(p, 1), 1}, false, 0},
                        {{lessor_slice_of(bad[i].hash), bad[i].size}, false, 0}};
                struct lessor_transfer_commit commit = {outputs[1].object, LESSOR_SLICE("r")};
                struct lessor_transfer_request q = {
                        .holder = holder_of(&m, &grant.lease), .outputs = outputs, .n_outputs = 2};
                struct lessor_transfer_answer answer;

                EXPECT_CODE(p, lessor_lease_transfer(p->store, &q, p->arena, &answer, NULL),
                            LESSOR_E_INVALID); /* R104 */
                q.n_outputs = 1;
                q.commits = &commit;
                q.n_commits = 1;
                EXPECT_CODE(p, lessor_lease_transfer(p->store, &q, p->arena, &answer, NULL),
                            LESSOR_E_INVALID);
        }
        EXPECT_CODE(p, lessor_lease_stats(p->store, &stats), 0);
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, stats.n_capabilities == 0 && now.n_targets == 0, "something was issued");
        return 0;
}

static int functions_write_nothing(probe_t *p)
{
        struct lessor_transfer_answer answer;
        struct lessor_lease_holder holder;
        struct lessor_lease lease;
        struct machine m;

        TRY(join(p, NULL, &m));
        TRY(submit(p, &(struct work){.mode = LESSOR_LEASE_FUNCTION}, &lease));
        TRY(probe_claim_gets(p, &m, &lease, NULL));
        holder = holder_of(&m, &lease);
        TRY(transfer_as(p, &holder, &(struct wish){.output = 1}, LESSOR_E_PERMISSION, &answer)); /* R107 */
        TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = "r"}, LESSOR_E_PERMISSION,
                        &answer));
        TRY(transfer_as(p, &holder, &(struct wish){.staged = 1}, LESSOR_E_PERMISSION, &answer));
        return transfer_as(p, &holder, &(struct wish){.need = 1}, 0, &answer);
}

static int urls_die_with_their_claim(probe_t *p)
{
        for (int how = 0; how < 6; how++) {
                struct lessor_lease_grant grant;
                struct lessor_lease_holder holder;
                struct lessor_transfer_answer answer;
                struct lessor_slice id, stands;
                struct lessor_lease now;
                struct machine m, other;
                char receipt[16] = "receipt-0";
                bool wants;

                receipt[8] = (char)('0' + how);
                TRY(join(p, NULL, &other));
                TRY(held_task(p, &m, &grant));
                holder = holder_of(&m, &grant.lease);
                TRY(transfer_as(p, &holder, &(struct wish){.need = 9}, 0, &answer));
                TRY(put_object(p, &holder, 1, receipt, &id));
                EXPECT_CODE(p, lessor_capability_wants(p->store, lessor_slice_of(receipt), &wants, NULL), 0);
                EXPECT(p, wants, "the receipt is not wanted");
                switch (how) {
                case 0:
                        TRY(probe_complete(p, &m, &grant.lease, LESSOR_COMPLETED_RECORDED));
                        break;
                case 1:
                        TRY(end_lease(p, &grant.lease, LESSOR_END_CANCEL, &now));
                        break;
                case 2:
                        TRY(end_lease(p, &grant.lease, LESSOR_END_SUPERSEDE, &now));
                        break;
                case 3:
                        EXPECT_CODE(p, lessor_rack_deregister(p->store, m.id, NULL, NULL), 0);
                        break;
                case 4:
                        EXPECT_CODE(p, lessor_lease_undeliver(p->store, &grant.lease.name, 1, NULL), 0);
                        TRY(end_lease(p, &grant.lease, LESSOR_END_CANCEL, &now));
                        break;
                default:
                        TRY(probe_advance(p, VISIBILITY + 1));
                        TRY(probe_claim_gets(p, &other, &grant.lease, NULL));
                        break;
                }
                TRY(opens(p, answer.need_ids[0], false, LESSOR_E_NOT_FOUND)); /* R116 */
                TRY(opens(p, id, true, LESSOR_E_NOT_FOUND));
                EXPECT_CODE(
                        p,
                        lessor_capability_stored(p->store, id, LESSOR_SLICE("late"), p->arena, &stands, NULL),
                        LESSOR_E_NOT_FOUND);
                TRY(probe_hear(p, LESSOR_EVENT_DISCARDED, (unsigned)how + 1)); /* R115 */
                EXPECT(p, text_is(lessor_slice_of(p->receipt), receipt), "another receipt was discarded");
                EXPECT_CODE(p, lessor_capability_wants(p->store, lessor_slice_of(receipt), &wants, NULL), 0);
                EXPECT(p, !wants, "the receipt is still wanted");
                TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = receipt},
                                LESSOR_E_NOT_HELD, &answer));
        }
        return 0;
}

static int a_staged_output_is_taken_in_at_completion(probe_t *p)
{
        struct lessor_lease_completion c = {.verdict = {.success = true, .output_hash = LESSOR_SLICE("o")},
                                            .result = LESSOR_SLICE("{}")};
        struct lessor_transfer_answer answer;
        struct lessor_capability staged;
        struct lessor_lease_grant grant;
        struct lessor_slice stands;
        enum lessor_completed how;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        c.holder = holder_of(&m, &grant.lease);
        TRY(transfer_as(p, &c.holder, &(struct wish){.staged = 1}, 0, &answer));
        EXPECT_CODE(p, lessor_lease_staged(p->store, &c.holder, answer.staged_id, p->arena, &staged, NULL),
                    LESSOR_E_NOT_FOUND);
        EXPECT_CODE(p,
                    lessor_capability_stored(p->store, answer.staged_id, LESSOR_SLICE("r"), p->arena, &stands,
                                             NULL),
                    0);
        EXPECT_CODE(p, lessor_lease_staged(p->store, &c.holder, answer.staged_id, p->arena, &staged, NULL),
                    0);
        EXPECT(p, text_is(staged.receipt, "r") && staged.size == 10, "it is not as stored");
        c.upload_id = LESSOR_SLICE("another");
        EXPECT_CODE(p, lessor_lease_complete(p->store, &c, p->arena, &how, NULL, NULL), LESSOR_E_NOT_FOUND);
        c.upload_id = answer.staged_id;
        EXPECT_CODE(p, lessor_lease_complete(p->store, &c, p->arena, &how, NULL, NULL), 0);
        EXPECT(p, how == LESSOR_COMPLETED_RECORDED, "completion was %d", (int)how);
        return probe_hear(p, LESSOR_EVENT_DISCARDED, 0);
}

static int targets_and_receipts_outlast_a_restart(probe_t *p)
{
        struct lessor_transfer_answer answer;
        struct lessor_lease_grant grant;
        struct lessor_lease_holder holder;
        struct lessor_slice id, again;
        struct lessor_lease now;
        struct machine m;

        TRY(held_task(p, &m, &grant));
        holder = holder_of(&m, &grant.lease);
        TRY(put_object(p, &holder, 1, "r1", &id));
        TRY(reopen(p));
        TRY(look(p, &grant.lease, &now));
        EXPECT(p, now.n_targets == 1, "the targets are forgotten");
        TRY(put_object(p, &holder, 1, NULL, &again));
        EXPECT(p, lessor_slice_equal(id, again), "the binding is forgotten");
        TRY(transfer_as(p, &holder, &(struct wish){.commit = 1, .version = "r1"}, 0, &answer));
        EXPECT(p, answer.committed[0], "the receipt is forgotten");
        return 0;
}

const struct lessor_lease_contract_case transfer_cases[] = {
        {"only_the_holder_transfers", "R095", 0, only_the_holder_transfers},
        {"a_live_binding_keeps_its_url", "section 7, R118", 0, a_live_binding_keeps_its_url},
        {"a_url_ends_and_is_given_again", "R117", NEEDS_ADVANCE, a_url_ends_and_is_given_again},
        {"an_object_is_committed_by_its_receipt", "R110 R112 R113 R114", 0,
         an_object_is_committed_by_its_receipt},
        {"what_is_held_needs_no_url", "R102, section 20", 0, what_is_held_needs_no_url},
        {"a_hash_keeps_its_size", "R106, section 20", 0, a_hash_keeps_its_size},
        {"declarations_are_bounded", "R103 R105 R106", 0, declarations_are_bounded},
        {"a_bad_entry_issues_nothing", "R104", 0, a_bad_entry_issues_nothing},
        {"functions_write_nothing", "R107", 0, functions_write_nothing},
        {"urls_die_with_their_claim", "R115 R116", NEEDS_ADVANCE, urls_die_with_their_claim},
        {"a_staged_output_is_taken_in_at_completion", "section 7, staged output", 0,
         a_staged_output_is_taken_in_at_completion},
        {"targets_and_receipts_outlast_a_restart", "section 6.6, durability", NEEDS_REOPEN,
         targets_and_receipts_outlast_a_restart},
};
const size_t n_transfer_cases = sizeof(transfer_cases) / sizeof(transfer_cases[0]);
