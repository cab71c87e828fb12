/* SPDX-License-Identifier: MIT */
/*
 * A life of jobs on a disk that breaks: for every step N that writes, the life is lived once more with step N
 * failing, by an I/O error or for want of space, for once or for a while. Then:
 *
 *  - nobody is told success before it is on disk: after every success the files are copied as a crash would
 * leave them, and a store on the copy holds the very same;
 *  - while the disk is broken everything is refused; when it is well again, asking again works, and the life
 * ends as it always does.
 *
 * With LESSOR_SOAK_ROUNDS set every step is tried with every kind of fault, else with one of them in turn.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "fault_vfs.h"
#include "routing/sqlite.h"
#include "store_text.h"

#define START_MS  INT64_C(1760000000000)
#define SITE      LESSOR_SLICE("site-1")
#define MAX_TRIES 20000

struct life {
        long n; /* the step that fails */
        struct clock_manual clock;
        struct lessor_routing_store *store;
        struct lessor_arena *arena;
        char *dir, *copy;
        char lease[64];
        bool broke; /* something was refused since the fault was set */
        char payload[20001], result[9001];
};

static void fail(const struct life *l, const char *format, ...)
        __attribute__((format(printf, 2, 3), noreturn));

static void fail(const struct life *l, const char *format, ...)
{
        va_list args;

        fprintf(stderr, "disk_fault_test: step %ld fails: ", l->n);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        exit(1);
}

static int open_store(struct life *l, const char *dir, const char *vfs,
                      struct lessor_routing_store **ret_store, struct buf *problem)
{
        const struct sqlite_store_options options = {.vfs = vfs, .retry_ms = 1, .low_space_bytes = 1};

        return sqlite_store_new(dir, &l->clock.clock, NULL, &options, ret_store, problem);
}

/* What a crash right now would leave is what the store says. */
static void check_crash_image(struct life *l)
{
        struct lessor_routing_store *store;
        struct buf live, image, problem;

        buf_init(&live);
        buf_init(&image);
        buf_init(&problem);
        if (store_text(l->store, &live) < 0)
                fail(l, "a store that works does not answer");
        copy_database(l->dir, l->copy, SQLITE_STORE_FILE);
        if (open_store(l, l->copy, NULL, &store, &problem) < 0)
                fail(l, "the crash image does not open: %s", problem.p);
        if (store_text(store, &image) < 0)
                fail(l, "the crash image does not answer");
        lessor_routing_store_free(store);
        if (!lessor_slice_equal(buf_view(&live), buf_view(&image)))
                fail(l, "a crash would undo what was told:\n--- told:%s\n--- on disk:%s", live.p, image.p);
        buf_done(&live);
        buf_done(&image);
        buf_done(&problem);
}

/*
 * Whether to ask again. The first refusal of a lasting fault must be everybody's refusal; then the disk gets
 * well.
 */
static bool again(struct life *l, int r, int *tries)
{
        struct lessor_job_list jobs;

        if (r != LESSOR_E_UNAVAILABLE)
                return false;
        if (!fault_vfs_struck())
                fail(l, "refused without a fault");
        if (++*tries > MAX_TRIES)
                fail(l, "the store does not recover");
        l->broke = true;
        if (*tries == 1) {
                struct lessor_arena *arena = lessor_arena_new();

                (void)lessor_routing_jobs(l->store, NULL, 100, arena, &jobs, NULL);
                lessor_arena_free(arena);
                fault_vfs_heal();
        }
        (void)usleep(200); /* as any client that is told to come back later */
        return true;
}

#define UNTIL_SERVED(l, r, call)                  \
        do {                                      \
                int tries_ = 0;                   \
                                                  \
                do                                \
                        (r) = (call);             \
                while (again((l), (r), &tries_)); \
                if (((r) == 0))                   \
                        check_crash_image(l);     \
        } while (0)

static void must(struct life *l, int r, int want, const char *what)
{
        if (r != want)
                fail(l, "%s: %s, not %s", what, lessor_error_name(r), lessor_error_name(want));
}

static void enqueue(struct life *l, const char *id, int64_t deadline_ms)
{
        const struct lessor_stub stub = {.id = lessor_slice_of(id),
                                         .owner = LESSOR_SLICE("alice"),
                                         .site = LESSOR_SLICE("KEY-ID"),
                                         .audience = LESSOR_AUDIENCE_TEAM,
                                         .deadline_ms = deadline_ms};
        struct lessor_job job;
        int r;

        UNTIL_SERVED(l, r, lessor_routing_enqueue(l->store, SITE, &stub, l->arena, &job, NULL));
        must(l, r, 0, "enqueue");
}

/* Claims one job, or finds the claim of an answer that was lost. */
static void claim(struct life *l, const char *runner, const char *id)
{
        const struct lessor_route route = {SITE, LESSOR_SLICE("alice")};
        const struct lessor_claim claim = {
                .runner_id = lessor_slice_of(runner),
                .owner = LESSOR_SLICE("bob"),
                .device = {LESSOR_SLICE("I"), LESSOR_SLICE("E"), LESSOR_SLICE("S")},
                .routes = &route,
                .n_routes = 1,
                .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_GENERATE),
                .max = 1,
                .lease_ms = 60000};
        struct lessor_job_list granted;
        struct lessor_job job;
        int r, tries = 0;

        r = lessor_routing_claim(l->store, &claim, l->arena, &granted, NULL);
        while (again(l, r, &tries)) /* asking once more to claim could get another job */
                r = lessor_routing_job(l->store, SITE, lessor_slice_of(id), l->arena, &job, NULL);
        if (tries > 0 && r == 0 && !job.claimed)
                UNTIL_SERVED(l, r, lessor_routing_claim(l->store, &claim, l->arena, &granted, NULL));
        must(l, r, 0, "claim");
        check_crash_image(l);
        UNTIL_SERVED(l, r, lessor_routing_job(l->store, SITE, lessor_slice_of(id), l->arena, &job, NULL));
        must(l, r, 0, "job");
        if (!job.claimed || job.state != LESSOR_JOB_AWAITING)
                fail(l, "%s was not granted", id);
        (void)snprintf(l->lease, sizeof(l->lease), "%.*s", (int)job.lease_id.n, job.lease_id.p);
}

static struct lessor_lease_ref ref(const struct life *l, const char *id)
{
        return (struct lessor_lease_ref){lessor_slice_of(id), lessor_slice_of(l->lease)};
}

static void seal_and_fetch(struct life *l, const char *runner, const char *id)
{
        const struct lessor_envelope payload = {lessor_slice_of(l->payload)};
        const struct lessor_lease_ref lease = ref(l, id);
        struct lessor_envelope got;
        enum lessor_job_state was;
        bool broke = l->broke;
        int r;

        l->broke = false;
        UNTIL_SERVED(l, r, lessor_routing_seal(l->store, SITE, lessor_slice_of(id), &payload, &was, NULL));
        if (!(l->broke && r == LESSOR_E_TOO_LATE && was == LESSOR_JOB_READY))
                must(l, r, 0, "seal");
        l->broke |= broke;
        UNTIL_SERVED(
                l, r,
                lessor_routing_take_payload(l->store, lessor_slice_of(runner), &lease, l->arena, &got, NULL));
        must(l, r, 0, "take_payload");
        if (!lessor_slice_equal(got.json, payload.json))
                fail(l, "the payload is another");
}

static void complete(struct life *l, const char *runner, const char *id)
{
        const struct lessor_envelope result = {lessor_slice_of(l->result)};
        const struct lessor_lease_ref lease = ref(l, id);
        bool duplicate;
        int r;

        UNTIL_SERVED(l, r,
                     lessor_routing_complete(l->store, lessor_slice_of(runner), &lease, &result,
                                             LESSOR_DISPOSITION_OK, &duplicate, NULL));
        must(l, r, 0, "complete");
        if (duplicate && !l->broke)
                fail(l, "the first result is a duplicate");
}

static void release_refused(struct life *l, const char *runner, const char *id)
{
        const struct lessor_lease_ref lease = ref(l, id);
        const struct lessor_release release = {
                .runner_id = lessor_slice_of(runner), .leases = &lease, .n_leases = 1, .refused = true};
        struct lessor_lease_ref_list released;
        int r;

        UNTIL_SERVED(l, r, lessor_routing_release_leases(l->store, &release, l->arena, &released, NULL));
        must(l, r, 0, "release");
}

static void renew(struct life *l, const char *runner, const char *id)
{
        const struct lessor_lease_ref lease = ref(l, id);
        struct lessor_renewal_list renewals;
        int r;

        UNTIL_SERVED(l, r,
                     lessor_routing_renew_leases(l->store, lessor_slice_of(runner), &lease, 1, 90000,
                                                 l->arena, &renewals, NULL));
        must(l, r, 0, "renew");
        if (renewals.n_renewed != 1)
                fail(l, "the lease was lost");
}

static void seen(struct life *l, const char *runner)
{
        const struct lessor_presence presence = {
                .runner_id = lessor_slice_of(runner),
                .owner = LESSOR_SLICE("bob"),
                .device = {LESSOR_SLICE("I"), LESSOR_SLICE("E"), LESSOR_SLICE("S")},
                .capabilities = LESSOR_SLICE("[]"),
                .withheld = LESSOR_SLICE("[]")};
        int r;

        UNTIL_SERVED(l, r, lessor_routing_seen(l->store, &presence, NULL));
        must(l, r, 0, "seen");
}

static void ack(struct life *l, const char *id)
{
        const struct lessor_slice ids = lessor_slice_of(id);
        struct lessor_slice *acked;
        size_t n_acked;
        int r;

        UNTIL_SERVED(l, r, lessor_routing_ack(l->store, SITE, &ids, 1, l->arena, &acked, &n_acked, NULL));
        must(l, r, 0, "ack");
}

static void live(struct life *l)
{
        struct lessor_swept swept;
        int r;

        enqueue(l, "a", START_MS + 3600000);
        enqueue(l, "b", START_MS + 3600000);
        seen(l, "runner-1");
        claim(l, "runner-1", "a");
        renew(l, "runner-1", "a");
        seal_and_fetch(l, "runner-1", "a");
        complete(l, "runner-1", "a");
        claim(l, "runner-1", "b");
        release_refused(l, "runner-1", "b");
        claim(l, "runner-2", "b");
        seal_and_fetch(l, "runner-2", "b");
        enqueue(l, "c", START_MS + 1000);
        UNTIL_SERVED(l, r, lessor_routing_cancel(l->store, SITE, LESSOR_SLICE("b"), NULL));
        must(l, r, 0, "cancel");
        complete(l, "runner-2", "b");
        ack(l, "a");
        clock_manual_advance(&l->clock, 2000);
        UNTIL_SERVED(l, r, lessor_routing_sweep(l->store, l->arena, &swept, NULL));
        must(l, r, 0, "sweep");
        UNTIL_SERVED(l, r, lessor_routing_check(l->store));
        must(l, r, 0, "check");
}

/* Lease ids are random: left out of what two lives must have in common. */
static void strip_leases(struct buf *text)
{
        char *at = text->p;

        while (at != NULL && (at = strstr(at, " lease=")) != NULL)
                for (at += 7; *at != ' ' && *at != '\0'; at++)
                        *at = 'x';
}

/* Lives one life. Returns the steps it took, and how it ended in `ret_end`. */
static long run(long n, enum fault_kind kind, bool lasting, struct buf *ret_end)
{
        struct life l = {.n = n};
        struct buf problem;
        long steps;
        int r, tries = 0;

        buf_init(&problem);
        memset(l.payload, 'p', sizeof(l.payload) - 1);
        memset(l.result, 'r', sizeof(l.result) - 1);
        clock_manual_init(&l.clock, START_MS);
        l.arena = lessor_arena_new();
        l.dir = scratch_dir_new("faults");
        l.copy = scratch_dir_new("faults-copy");
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
        if (store_text(l.store, ret_end) < 0)
                fail(&l, "the store does not answer in the end");
        steps = fault_vfs_steps();
        if (n != 0 && !fault_vfs_struck())
                fail(&l, "the fault never came");
        fault_vfs_heal();
        l.store = lessor_routing_store_free(l.store);
        strip_leases(ret_end);
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
                        /* Only as many steps as a life without faults is sure to take. */
                        buf_clear(&got);
                        (void)run(n, (way & 1) != 0 ? FAULT_FULL : FAULT_IO, (way & 2) != 0, &got);
                        if (!lessor_slice_equal(buf_view(&want), buf_view(&got))) {
                                fprintf(stderr,
                                        "disk_fault_test: step %ld, way %ld: ends otherwise:\n%s\nnot\n%s\n",
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
