/* SPDX-License-Identifier: MIT */
/*
 * kill -9 under load, again and again. A child runs a store with several threads that enqueue, claim, seal,
 * fetch, complete and release, and writes what it was told to a pipe, after it was told; it is killed at a
 * random moment. A store opened on what is left must then agree with everything that was ever told:
 *
 *  - every accepted job is there, until its end was told;
 *  - a job is granted once: no claim that was told is undone or held by another, unless it was given back;
 *  - a result that was accepted is there, with its bytes, and its job is done for ever.
 *
 * usage: crash_test [--seed N]; LESSOR_SOAK_ROUNDS=N for more rounds than a few.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "routing/sqlite.h"
#include "store_text.h"

#define N_THREADS 4
#define SITE      LESSOR_SLICE("site")
#define LEASE_MS  INT64_C(86400000)
#define DEADLINE  INT64_C(4102444800000)

enum told_what { TOLD_ACCEPTED, TOLD_GRANTED, TOLD_RELEASING, TOLD_RELEASED, TOLD_DONE };

/* One thing that was told. Written whole: shorter than PIPE_BUF. */
struct told {
        enum told_what what;
        unsigned job;
        char lease[40];
};

/* What was told of a job so far, over all rounds. */
struct known {
        bool accepted, done;
        bool maybe_released; /* a release was asked for and no answer seen */
        char lease[40];      /* of the grant that was told last; "" none, or given back */
};

static uint64_t dice;

static uint64_t roll(uint64_t *d, uint64_t n)
{
        uint64_t x;

        *d += UINT64_C(0x9e3779b97f4a7c15);
        x = *d;
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return (x ^ (x >> 31)) % n;
}

static void name(char to[32], const char *what, unsigned number)
{
        (void)snprintf(to, 32, "%s-%u", what, number);
}

/* The bytes of an envelope follow from its job, so that a lost or swapped one shows. Some are larger than a
 * page. */
static struct lessor_slice envelope_of(unsigned job, char kind, char to[12000])
{
        size_t n = job % 7 == 0 ? 11000 : 300 + job % 100;
        char label[32];

        memset(to, kind, n);
        name(label, "job", job);
        memcpy(to, label, strlen(label));
        return (struct lessor_slice){to, n};
}

/* Time stands still: no lease and no window ends but by what is done here. */
static struct clock_manual at_rest;

static int open_store(const char *dir, struct lessor_routing_store **ret_store)
{
        /* A log that is folded back often, so that the kill meets that too. */
        const struct sqlite_store_options options = {.low_space_bytes = 1, .checkpoint_pages = 50};
        struct buf problem;
        int r;

        buf_init(&problem);
        r = sqlite_store_new(dir, &at_rest.clock, NULL, &options, ret_store, &problem);
        if (r < 0)
                fprintf(stderr, "crash_test: %s\n", problem.p);
        buf_done(&problem);
        return r;
}

/* --- the child --- */

struct worker {
        struct lessor_routing_store *store;
        int pipe;
        unsigned number;
        unsigned first_job, last_job; /* the jobs that only this thread enqueues */
        uint64_t dice;
};

static void tell(const struct worker *w, enum told_what what, unsigned job, struct lessor_slice lease)
{
        struct told t = {.job = job};

        memset(t.lease, 0, sizeof(t.lease));
        t.what = what;
        if (lease.n > 0 && lease.n < sizeof(t.lease))
                memcpy(t.lease, lease.p, lease.n);
        if (write(w->pipe, &t, sizeof(t)) != (ssize_t)sizeof(t))
                _exit(3);
}

static void must(int r, const char *what)
{
        if (r >= 0)
                return;
        fprintf(stderr, "crash_test: %s: %s\n", what, lessor_error_text(r));
        _exit(2);
}

static void work_on(struct worker *w, const struct lessor_job *job, struct lessor_arena *arena)
{
        const struct lessor_lease_ref ref = {job->stub.id, job->lease_id};
        unsigned number = (unsigned)strtoul(job->stub.id.p + 4, NULL, 10);
        const struct lessor_release release = {.runner_id = job->runner_id, .leases = &ref, .n_leases = 1};
        struct lessor_lease_ref_list released;
        struct lessor_envelope envelope;
        enum lessor_job_state was;
        char bytes[12000];
        bool duplicate;

        tell(w, TOLD_GRANTED, number, job->lease_id);
        if (roll(&w->dice, 8) == 0) {
                tell(w, TOLD_RELEASING, number, job->lease_id);
                must(lessor_routing_release_leases(w->store, &release, arena, &released, NULL), "release");
                tell(w, TOLD_RELEASED, number, job->lease_id);
                return;
        }
        envelope.json = envelope_of(number, 'p', bytes);
        must(lessor_routing_seal(w->store, SITE, job->stub.id, &envelope, &was, NULL), "seal");
        if (roll(&w->dice, 8) == 0)
                return; /* left sealed */
        must(lessor_routing_take_payload(w->store, job->runner_id, &ref, arena, &envelope, NULL), "fetch");
        if (!lessor_slice_equal(envelope.json, envelope_of(number, 'p', bytes))) {
                fprintf(stderr, "crash_test: another payload\n");
                _exit(2);
        }
        if (roll(&w->dice, 8) == 0)
                return; /* left running */
        envelope.json = envelope_of(number, 'r', bytes);
        must(lessor_routing_complete(w->store, job->runner_id, &ref, &envelope, LESSOR_DISPOSITION_OK,
                                     &duplicate, NULL),
             "complete");
        tell(w, TOLD_DONE, number, job->lease_id);
}

static void *work(void *context)
{
        struct worker *w = context;
        struct lessor_arena *arena = lessor_arena_new();
        char id[32], owner[32], runner[32];

        /* Two threads to an owner, so that they race for the same jobs; new ones each round, whom nobody owes
         * a seal. */
        name(owner, "owner", w->first_job / 20000);
        name(runner, "runner", w->number);
        for (unsigned job = w->first_job; job < w->last_job; job++) {
                const struct lessor_stub stub = {.id = (name(id, "job", job), lessor_slice_of(id)),
                                                 .owner = lessor_slice_of(owner),
                                                 .site = LESSOR_SLICE("KEY"),
                                                 .audience = LESSOR_AUDIENCE_TEAM,
                                                 .deadline_ms = DEADLINE};
                const struct lessor_route route = {SITE, stub.owner};
                const struct lessor_claim claim = {
                        .runner_id = lessor_slice_of(runner),
                        .owner = LESSOR_SLICE("o"),
                        .device = {LESSOR_SLICE("I"), LESSOR_SLICE("E"), LESSOR_SLICE("S")},
                        .routes = &route,
                        .n_routes = 1,
                        .kinds = 1,
                        .max = 2,
                        .lease_ms = LEASE_MS};
                struct lessor_job_list granted;
                struct lessor_job accepted;

                must(lessor_routing_enqueue(w->store, SITE, &stub, arena, &accepted, NULL), "enqueue");
                tell(w, TOLD_ACCEPTED, job, (struct lessor_slice){NULL, 0});
                must(lessor_routing_claim(w->store, &claim, arena, &granted, NULL), "claim");
                for (size_t i = 0; i < granted.n; i++)
                        work_on(w, &granted.items[i], arena);
                lessor_arena_clear(arena);
        }
        lessor_arena_free(arena);
        return NULL;
}

static void child(const char *dir, int pipe, unsigned first_job)
{
        struct worker workers[N_THREADS];
        pthread_t threads[N_THREADS];
        struct lessor_routing_store *store;

        must(open_store(dir, &store), "open");
        for (unsigned i = 0; i < N_THREADS; i++) {
                unsigned first = first_job + i * 10000;

                workers[i] = (struct worker){.store = store,
                                             .pipe = pipe,
                                             .number = i,
                                             .first_job = first,
                                             .last_job = first + 10000,
                                             .dice = dice + i};
                must(pthread_create(&threads[i], NULL, work, &workers[i]) == 0 ? 0 : LESSOR_E_NOMEM,
                     "thread");
        }
        for (unsigned i = 0; i < N_THREADS; i++)
                (void)pthread_join(threads[i], NULL);
        _exit(0);
}

/* --- the parent --- */

/* The parent grows its table as jobs are told of: job numbers go on from round to round. */
static struct known *known;
static unsigned n_known;

static struct known *known_of(unsigned job)
{
        if (job >= n_known) {
                unsigned more = job + 10000;
                struct known *bigger = realloc(known, more * sizeof(*known));

                if (bigger == NULL)
                        abort();
                memset(bigger + n_known, 0, (more - n_known) * sizeof(*known));
                known = bigger;
                n_known = more;
        }
        return &known[job];
}

static unsigned hear(int pipe)
{
        struct told t;
        unsigned n = 0;
        ssize_t got;

        while ((got = read(pipe, &t, sizeof(t))) == (ssize_t)sizeof(t)) {
                struct known *k = known_of(t.job);

                n++;
                switch (t.what) {
                case TOLD_ACCEPTED:
                        k->accepted = true;
                        break;
                case TOLD_GRANTED:
                        if (k->lease[0] != '\0' && !k->maybe_released && strcmp(k->lease, t.lease) != 0) {
                                fprintf(stderr, "crash_test: job %u granted twice\n", t.job);
                                exit(1);
                        }
                        memcpy(k->lease, t.lease, sizeof(k->lease));
                        k->maybe_released = false;
                        break;
                case TOLD_RELEASING:
                        k->maybe_released = true;
                        break;
                case TOLD_RELEASED:
                        /* The next grant may have been told first. */
                        if (strcmp(k->lease, t.lease) == 0) {
                                k->lease[0] = '\0';
                                k->maybe_released = false;
                        }
                        break;
                default:
                        k->done = true;
                }
        }
        return n;
}

static int check_job(unsigned number, const struct known *k, const struct lessor_job *job)
{
        if (k->done && job->state != LESSOR_JOB_DONE)
                return fprintf(stderr, "crash_test: job %u was done and is open again\n", number);
        if (k->lease[0] == '\0' || k->maybe_released)
                return 0;
        if (!job->claimed || !lessor_slice_equal(job->lease_id, lessor_slice_of(k->lease)))
                return fprintf(stderr, "crash_test: the grant of job %u is undone\n", number);
        return 0;
}

static int check_results(struct lessor_routing_store *store, struct lessor_arena *arena)
{
        struct lessor_result_list results;
        unsigned n_want = 0, n_got = 0;
        char bytes[12000];

        must(lessor_routing_finished(store, SITE, SIZE_MAX, arena, &results, NULL), "finished");
        for (size_t i = 0; i < results.n; i++) {
                unsigned number = (unsigned)strtoul(results.items[i].job.stub.id.p + 4, NULL, 10);

                n_got += number < n_known && known[number].done;
                if (!lessor_slice_equal(results.items[i].envelope.json, envelope_of(number, 'r', bytes)))
                        return fprintf(stderr, "crash_test: job %u has another result\n", number);
        }
        for (unsigned i = 0; i < n_known; i++)
                n_want += known[i].done;
        return n_got == n_want ? 0 : fprintf(stderr, "crash_test: %u results of %u\n", n_got, n_want);
}

/* Opens what is left and holds it against what was told. */
static int check(const char *dir)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_routing_store *store;
        int bad = 0;

        must(open_store(dir, &store), "open after the kill");
        for (unsigned i = 0; bad == 0 && i < n_known; i++) {
                struct lessor_job job;
                char id[32];
                int r;

                if (!known[i].accepted)
                        continue;
                name(id, "job", i);
                r = lessor_routing_job(store, SITE, lessor_slice_of(id), arena, &job, NULL);
                bad = r < 0 ? fprintf(stderr, "crash_test: job %u is lost\n", i)
                            : check_job(i, &known[i], &job);
                lessor_arena_clear(arena);
        }
        if (bad == 0)
                bad = check_results(store, arena);
        lessor_arena_free(arena);
        lessor_routing_store_free(store);
        return bad;
}

static int round_of(const char *dir, unsigned first_job)
{
        struct timespec life = {.tv_nsec = (long)roll(&dice, 250) * 1000000 + 1000000};
        int ends[2], status;
        unsigned n;
        pid_t pid;

        if (pipe(ends) != 0)
                return -1;
        (void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        pid = fork();
        if (pid == 0) {
                (void)close(ends[0]);
                child(dir, ends[1], first_job);
        }
        (void)close(ends[1]);
        if (pid < 0)
                return -1;
        /* The pipe holds more than is told in this time, or else the child waits: either way it is killed. */
        (void)nanosleep(&life, NULL);
        (void)kill(pid, SIGKILL);
        n = hear(ends[0]);
        (void)close(ends[0]);
        if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) {
                fprintf(stderr, "crash_test: the child ended by itself: status %d\n", status);
                return -1;
        }
        return check(dir) == 0 ? (int)n : -1;
}

int main(int argc, char **argv)
{
        const char *rounds_text = getenv("LESSOR_SOAK_ROUNDS");
        unsigned long n_rounds = rounds_text == NULL ? 12 : strtoul(rounds_text, NULL, 10);
        char *dir = scratch_dir_new("crash");
        uint64_t seed = argc > 2 && strcmp(argv[1], "--seed") == 0 ? strtoull(argv[2], NULL, 10)
                                                                   : (uint64_t)time(NULL);
        unsigned long n_told = 0;

        log_set_level(LOG_LEVEL_ERROR);
        dice = seed;
        clock_manual_init(&at_rest, INT64_C(1760000000000));
        if (dir == NULL)
                return 1;
        for (unsigned long i = 0; i < n_rounds; i++) {
                int n = round_of(dir, (unsigned)(i % 5000) * N_THREADS * 10000);

                if (n < 0) {
                        fprintf(stderr, "crash_test: round %lu of seed %llu; what is left: %s\n", i,
                                (unsigned long long)seed, dir);
                        return 1;
                }
                n_told += (unsigned long)n;
        }
        scratch_dir_free(dir);
        free(known);
        printf("%lu kills, %lu answers, all kept\n", n_rounds, n_told);
        return n_told == 0;
}
