/* SPDX-License-Identifier: MIT */
/*
 * A life of leases and racks on a disk that breaks: for every step N that writes, the life is lived once more
 * with step N failing, by an I/O error or for want of space, for once or for a while. Then:
 *
 *  - nobody is told success before it is on disk: after every success the files are copied as a crash would
 * leave them, and a store on the copy holds the very same;
 *  - while the disk is broken everything is refused; when it is well again, asking again works, and the life
 * ends as it always does.
 *
 * With LESSOR_SOAK_ROUNDS set every step is tried with every kind of fault, else with one of them in turn.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "fault_vfs.h"
#include "lease_text.h"
#include "leasing/sqlite.h"
#include "lessor/lease_transfer.h"
#include "lessor/rack_registry.h"

#define START_MS  INT64_C(1760000000000)
#define MAX_TRIES 20000
#define HASH      LESSOR_SLICE("1111111111111111111111111111111111111111111111111111111111111111")

struct life {
        long n; /* the step that fails */
        struct clock_manual clock;
        struct lessor_lease_options options;
        struct lessor_lease_store *store;
        struct lessor_arena *arena;
        char *dir, *copy;
        struct lessor_slice rack;
        struct lessor_lease held; /* as it was granted */
        char event[20001], result[9001];
};

static void fail(const struct life *l, const char *format, ...)
        __attribute__((format(printf, 2, 3), noreturn));

static void fail(const struct life *l, const char *format, ...)
{
        va_list args;

        fprintf(stderr, "lease_disk_fault_test: step %ld fails: ", l->n);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        exit(1);
}

static int open_store(struct life *l, const char *dir, const char *vfs, struct lessor_lease_store **ret_store,
                      struct buf *problem)
{
        const struct lease_sqlite_options disk = {.vfs = vfs, .retry_ms = 1, .low_space_bytes = 1};

        return lease_sqlite_store_new(dir, &l->options, &l->clock.clock, NULL, &disk, ret_store, problem);
}

/*
 * Whether to ask again. The first refusal of a lasting fault must be everybody's refusal; then the disk gets
 * well.
 */
static bool again(struct life *l, int r, int *tries)
{
        if (r != LESSOR_E_UNAVAILABLE)
                return false;
        if (!fault_vfs_struck())
                fail(l, "refused without a fault");
        if (++*tries > MAX_TRIES)
                fail(l, "the store does not recover");
        if (*tries == 1) {
                struct lessor_arena *arena = lessor_arena_new();
                struct lessor_rack_list racks;

                (void)lessor_rack_list(l->store, arena, &racks, NULL);
                lessor_arena_free(arena);
                fault_vfs_heal();
        }
        (void)usleep(200); /* as any client that is told to come back later */
        return true;
}

/* What a crash right now would leave is what the store says. */
static void check_crash_image(struct life *l)
{
        struct lessor_lease_store *store;
        struct buf live, image, problem;
        int r, tries = 0;

        buf_init(&live);
        buf_init(&image);
        buf_init(&problem);
        /* The first text that is read from disk opens the file for that, which may be the step that fails. */
        while (again(l, r = lease_text(l->store, &live), &tries))
                buf_clear(&live);
        if (r < 0)
                fail(l, "a store that works does not answer: %s", lessor_error_name(r));
        copy_database(l->dir, l->copy, LEASE_SQLITE_FILE);
        if (open_store(l, l->copy, NULL, &store, &problem) < 0)
                fail(l, "the crash image does not open: %s", problem.p);
        if (lease_text(store, &image) < 0)
                fail(l, "the crash image does not answer");
        lessor_lease_store_free(store);
        if (!lessor_slice_equal(buf_view(&live), buf_view(&image)))
                fail(l, "a crash would undo what was told:\n--- told:%s\n--- on disk:%s", live.p, image.p);
        buf_done(&live);
        buf_done(&image);
        buf_done(&problem);
}

/* Asks until it is served. `lost`: what is also right when the first answer was lost. */
#define UNTIL_SERVED(l, what, lost, call)                                                                 \
        do {                                                                                              \
                int tries_ = 0, r_;                                                                       \
                                                                                                          \
                do                                                                                        \
                        r_ = (call);                                                                      \
                while (again((l), r_, &tries_));                                                          \
                if (r_ != 0 && !(tries_ > 0 && r_ == (lost)))                                             \
                        fail((l), "%s: %s, not %s", (what), lessor_error_name(r_), lessor_error_name(0)); \
                check_crash_image(l);                                                                     \
        } while (0)

static void enroll(struct life *l)
{
        const struct lessor_slice tiers[] = {LESSOR_SLICE("c")};
        const struct lessor_host_info host = {.label = LESSOR_SLICE("rack"),
                                              .tiers = tiers,
                                              .n_tiers = 1,
                                              .agent_version = LESSOR_SLICE("0.5.0")};
        struct lessor_rack_caller caller;
        struct lessor_rack rack;
        int64_t expires_ms;

        UNTIL_SERVED(l, "mint", LESSOR_E_EXISTS,
                     lessor_rack_mint_enrolment(l->store, LESSOR_SLICE("enrolment"), LESSOR_SLICE(""), 900000,
                                                &expires_ms, NULL));
        UNTIL_SERVED(l, "enroll", LESSOR_E_NOT_FOUND,
                     lessor_rack_enroll(l->store, LESSOR_SLICE("enrolment"), &host, LESSOR_SLICE("token"),
                                        l->arena, &rack, NULL));
        UNTIL_SERVED(l, "authenticate", 0,
                     lessor_rack_authenticate(l->store, LESSOR_SLICE("token"), l->arena, &caller, NULL));
        l->rack = caller.rack.rack_id;
}

static void beat(struct life *l, const char *boot)
{
        const struct lessor_rack_beat b = {.rack_id = l->rack,
                                           .boot_id = lessor_slice_of(boot),
                                           .agent_version = LESSOR_SLICE("0.5.0"),
                                           .healthy = true,
                                           .token_hash = LESSOR_SLICE("token"),
                                           .successor_hash = LESSOR_SLICE("successor")};
        struct lessor_rack_beaten beaten;

        UNTIL_SERVED(l, "beat", 0, lessor_rack_heartbeat(l->store, &b, l->arena, &beaten, NULL));
}

static struct lessor_lease create(struct life *l, const char *key, unsigned limit)
{
        const struct lessor_lease_submission from = {.repo = LESSOR_SLICE("repo"),
                                                     .workspace = LESSOR_SLICE("w"),
                                                     .task_name = lessor_slice_of(key),
                                                     .task_hash = lessor_slice_of(key),
                                                     .inputs_hash = LESSOR_SLICE("i"),
                                                     .tier = LESSOR_SLICE("c"),
                                                     .owner = LESSOR_SLICE("alice"),
                                                     .event_version = LESSOR_EVENT_VERSION,
                                                     .event = lessor_slice_of(l->event),
                                                     .attempt_limit = limit,
                                                     .key = lessor_slice_of(key)};
        struct lessor_lease lease;

        UNTIL_SERVED(l, "create", 0, lessor_lease_create(l->store, &from, l->arena, &lease, NULL, NULL));
        return lease;
}

/* Claims the lease, or finds the claim of an answer that was lost. */
static void claim(struct life *l, const struct lessor_lease *lease)
{
        const struct lessor_slice tier = LESSOR_SLICE("c");
        const struct lessor_lease_claim c = {.rack_id = l->rack,
                                             .boot_id = LESSOR_SLICE("boot"),
                                             .tiers = &tier,
                                             .n_tiers = 1,
                                             .names_attempts = true};
        struct lessor_lease_grant grant;
        int r, tries = 0;

        r = lessor_lease_claim(l->store, &c, l->arena, &grant, NULL);
        while (again(l, r, &tries)) /* asking once more to claim could get another lease */
                r = lessor_lease_get(l->store, &lease->name, LESSOR_WITH_EVENT, l->arena, &l->held, NULL);
        if (r < 0)
                fail(l, "claim: %s", lessor_error_name(r));
        if (tries > 0 && l->held.view != LESSOR_VIEW_CLAIMED) {
                UNTIL_SERVED(l, "claim", 0, lessor_lease_claim(l->store, &c, l->arena, &grant, NULL));
                l->held = grant.lease;
        } else if (tries == 0) {
                if (!grant.granted)
                        fail(l, "nothing was granted");
                l->held = grant.lease;
        }
        check_crash_image(l);
        if (!lessor_slice_equal(l->held.name.lease_id, lease->name.lease_id))
                fail(l, "another lease was granted");
        if (!lessor_slice_equal(l->held.event, lessor_slice_of(l->event)))
                fail(l, "the event is another");
}

static struct lessor_lease_holder holder(const struct life *l)
{
        return (struct lessor_lease_holder){l->held.name, l->rack, l->held.attempt};
}

static void transfer(struct life *l)
{
        const struct lessor_transfer_output output = {.object = {HASH, 10}};
        const struct lessor_transfer_request request = {
                .holder = holder(l), .outputs = &output, .n_outputs = 1};
        struct lessor_transfer_answer answer;
        struct lessor_slice receipt;

        UNTIL_SERVED(l, "transfer", 0, lessor_lease_transfer(l->store, &request, l->arena, &answer, NULL));
        UNTIL_SERVED(l, "stored", 0,
                     lessor_capability_stored(l->store, answer.output_ids[0], LESSOR_SLICE("receipt"),
                                              l->arena, &receipt, NULL));
}

static void complete(struct life *l)
{
        const struct lessor_lease_completion completion = {.holder = holder(l),
                                                           .verdict = {.success = true, .output_hash = HASH},
                                                           .result = lessor_slice_of(l->result)};
        enum lessor_completed how;
        struct lessor_lease lease;

        UNTIL_SERVED(l, "complete", 0,
                     lessor_lease_complete(l->store, &completion, l->arena, &how, NULL, NULL));
        if (how == LESSOR_COMPLETED_DISCARDED)
                fail(l, "the completion was discarded");
        UNTIL_SERVED(l, "get", 0,
                     lessor_lease_get(l->store, &l->held.name, LESSOR_WITH_RESULT, l->arena, &lease, NULL));
        if (!lessor_slice_equal(lease.result, lessor_slice_of(l->result)))
                fail(l, "the result is another");
}

static void sweep(struct life *l)
{
        UNTIL_SERVED(l, "sweep", 0, lessor_lease_sweep(l->store, NULL, NULL, NULL));
}

static void live(struct life *l)
{
        const struct lessor_environment env = {.env_hash = LESSOR_SLICE("env"),
                                               .e3_version = LESSOR_SLICE("1.0.0"),
                                               .base_image = LESSOR_SLICE("image"),
                                               .base_tier = LESSOR_SLICE("c"),
                                               .manifest_key = LESSOR_SLICE("key"),
                                               .manifest = LESSOR_SLICE("{}")};
        struct lessor_lease a, b, ended;
        int64_t deadline_ms;

        enroll(l);
        beat(l, "boot");
        UNTIL_SERVED(l, "policy", 0, lessor_rack_set_policy(l->store, true, NULL));
        UNTIL_SERVED(l, "publish", 0, lessor_environment_publish(l->store, &env, NULL));
        a = create(l, "a", 0);
        claim(l, &a);
        transfer(l);
        clock_manual_advance(&l->clock, 1000);
        UNTIL_SERVED(l, "extend", 0,
                     lessor_lease_extend(l->store,
                                         &(struct lessor_lease_holder){a.name, l->rack, l->held.attempt},
                                         &deadline_ms, NULL));
        complete(l);
        b = create(l, "b", 1);
        claim(l, &b);
        transfer(l);
        clock_manual_advance(&l->clock, 2 * l->options.visibility_ms + 2);
        beat(l, "boot");
        sweep(l); /* b is poisoned */
        UNTIL_SERVED(l, "replay", LESSOR_E_TERMINAL,
                     lessor_lease_replay(l->store, &b.name, l->arena, &ended, NULL));
        UNTIL_SERVED(l, "cancel", 0,
                     lessor_lease_end(l->store, &b.name, LESSOR_END_CANCEL, (struct lessor_slice){0},
                                      LESSOR_SLICE("enough"), l->arena, &ended, NULL));
        clock_manual_advance(&l->clock, l->options.retention_ms);
        sweep(l); /* a and b are forgotten */
        (void)create(l, "c", 0);
        UNTIL_SERVED(l, "deregister", LESSOR_E_NOT_FOUND,
                     lessor_rack_deregister(l->store, l->rack, NULL, NULL));
        UNTIL_SERVED(l, "check", 0, lessor_lease_check(l->store));
}

/* Ids are random: left out of what two lives must have in common. */
static void strip_ids(struct buf *text)
{
        static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
        size_t n = sizeof(shape) - 1;

        for (size_t at = 0; at + n <= text->n; at++) {
                size_t i = 0;

                while (i < n && (shape[i] == '-') == (text->p[at + i] == '-') && text->p[at + i] != ' ')
                        i++;
                if (i == n)
                        memcpy(text->p + at, shape, n);
        }
}

/* Lives one life. Returns the steps it took, and how it ended in `ret_end`. */
static long run(long n, enum fault_kind kind, bool lasting, struct buf *ret_end)
{
        struct life l = {.n = n, .options = LESSOR_LEASE_OPTIONS};
        struct buf problem;
        long steps;
        int r, tries = 0;

        buf_init(&problem);
        memset(l.event, 'e', sizeof(l.event) - 1);
        memset(l.result, 'r', sizeof(l.result) - 1);
        clock_manual_init(&l.clock, START_MS);
        l.arena = lessor_arena_new();
        l.dir = scratch_dir_new("lease-faults");
        l.copy = scratch_dir_new("lease-faults-copy");
        if (l.arena == NULL || l.dir == NULL || l.copy == NULL)
                fail(&l, "no directory");
        fault_vfs_arm(n, kind, lasting);
        while ((r = open_store(&l, l.dir, FAULT_VFS_NAME, &l.store, &problem)) < 0) {
                if (!fault_vfs_struck() || ++tries > 1)
                        fail(&l, "the store does not open: %s", problem.p);
                if (problem.n == 0)
                        fail(&l, "the store does not say why it does not open");
                fault_vfs_heal();
                buf_clear(&problem);
        }
        live(&l);
        if (lease_text(l.store, ret_end) < 0)
                fail(&l, "the store does not answer in the end");
        steps = fault_vfs_steps();
        if (n != 0 && !fault_vfs_struck())
                fail(&l, "the fault never came");
        fault_vfs_heal();
        l.store = lessor_lease_store_free(l.store);
        strip_ids(ret_end);
        lessor_arena_free(l.arena);
        scratch_dir_free(l.dir);
        scratch_dir_free(l.copy);
        buf_done(&problem);
        return steps;
}

int main(void)
{
        bool soak = getenv("LESSOR_SOAK_ROUNDS") != NULL;
        struct buf want, got;
        long n_steps, n_runs = 0;

        log_set_level(LOG_LEVEL_ERROR + 1);
        fault_vfs_register();
        buf_init(&want);
        buf_init(&got);
        n_steps = run(0, FAULT_IO, false, &want);
        for (long n = 1; n <= n_steps; n++) {
                for (long way = 0; way < 4; way++) {
                        if (!soak && way != n % 4)
                                continue;
                        buf_clear(&got);
                        (void)run(n, (way & 1) != 0 ? FAULT_FULL : FAULT_IO, (way & 2) != 0, &got);
                        if (!lessor_slice_equal(buf_view(&want), buf_view(&got))) {
                                fprintf(stderr,
                                        "lease_disk_fault_test: step %ld, way %ld: ends "
                                        "otherwise:\n%s\nnot\n%s\n",
                                        n, way, got.p, want.p);
                                return 1;
                        }
                        n_runs++;
                }
        }
        printf("%ld lives, each with another of %ld steps failing\n", n_runs, n_steps);
        buf_done(&want);
        buf_done(&got);
        return 0;
}
