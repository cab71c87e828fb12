/* SPDX-License-Identifier: MIT */
/*
 * kill -9 under load, again and again. A child runs a lease store with several racks, each a thread, that
 * create, claim, give back, end and complete leases, come and go, and change their tokens; it writes what it
 * was told to a pipe, after it was told, and is killed at a random moment. A store opened on what is left
 * must then agree with everything that was ever told:
 *
 *  - every lease that was created is there, with its event, and its key finds it;
 *  - a lease is granted once: no claim that was told is undone or held by another, unless it was given back;
 *  - what was completed is completed, with its result; what was cancelled is cancelled;
 *  - the tokens of a rack that was enrolled, and those it was offered, open; those of one that was removed
 * do not.
 *
 * usage: lease_crash_test [--seed N]; LESSOR_SOAK_ROUNDS=N for more rounds than a few.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "leasing/sqlite.h"
#include "lessor/lease_transfer.h"
#include "lessor/rack_registry.h"
#include "scratch.h"

#define N_THREADS    4
#define N_OF_A_ROUND 10000 /* leases, and racks, that one thread may number */
#define REPO         LESSOR_SLICE("repo")
#define DAY_MS       INT64_C(86400000)
#define HASH         LESSOR_SLICE("1111111111111111111111111111111111111111111111111111111111111111")

enum told_what {
        TOLD_CREATED,
        TOLD_GRANTED,
        TOLD_RETURNING, /* about to be asked for: whether it was done is not known until it is told */
        TOLD_RETURNED,
        TOLD_ENDING,
        TOLD_ENDED,
        TOLD_DONE,
        TOLD_ENROLLED,
        TOLD_OFFERED, /* the rack's next token */
        TOLD_REMOVING,
        TOLD_REMOVED,
};

/* One thing that was told, of a lease or a rack. Written whole: shorter than PIPE_BUF. */
struct told {
        enum told_what what;
        unsigned number;
        char text[120]; /* a lease's id, or its attempt */
};

/* What was told of a lease so far, over all rounds. */
struct known_lease {
        bool created, done, ending, ended;
        bool maybe_returned;
        char id[120];
        char attempt[40]; /* of the grant that was told last; "" none, or given back */
};

struct known_rack {
        bool enrolled, removing, removed;
        unsigned token; /* the last that it was offered */
};

static struct known_lease *leases;
static struct known_rack *racks;
static unsigned n_known; /* of both */
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

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fputs("lease_crash_test: ", stderr);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        _exit(2);
}

static void must(int r, const char *what)
{
        if (r < 0)
                die("%s: %s", what, lessor_error_text(r));
}

struct name {
        char text[48];
};

static struct lessor_slice name(struct name *to, const char *what, unsigned number)
{
        int n = snprintf(to->text, sizeof(to->text), "%s-%u", what, number);

        return (struct lessor_slice){to->text, (size_t)n};
}

static struct lessor_slice token(struct name *to, unsigned rack, unsigned number)
{
        int n = snprintf(to->text, sizeof(to->text), "token-%u-%u", rack, number);

        return (struct lessor_slice){to->text, (size_t)n};
}

/* A long text follows from its lease, so that a lost or swapped one shows. Some are larger than a page. */
static struct lessor_slice text_of(unsigned lease, char kind, char to[12000])
{
        size_t n = lease % 7 == 0 ? 11000 : 300 + lease % 100;
        struct name label;
        struct lessor_slice text = name(&label, "lease", lease);

        memset(to, kind, n);
        memcpy(to, text.p, text.n);
        return (struct lessor_slice){to, n};
}

/* Time stands still within a round: no lease ends but by what is done here. */
static struct clock_manual at_rest;

static int open_store(const char *dir, struct lessor_lease_store **ret_store)
{
        struct lessor_lease_options options = LESSOR_LEASE_OPTIONS;
        /* A log that is folded back often, so that the kill meets that too. */
        const struct lease_sqlite_options disk = {.low_space_bytes = 1, .checkpoint_pages = 50};
        struct buf problem;
        int r;

        options.visibility_ms = options.healthy_ms = options.retention_ms = DAY_MS;
        options.rotation_ms = 1; /* every round is time for another token */
        buf_init(&problem);
        r = lease_sqlite_store_new(dir, &options, &at_rest.clock, NULL, &disk, ret_store, &problem);
        if (r < 0)
                fprintf(stderr, "lease_crash_test: %s\n", problem.p);
        buf_done(&problem);
        return r;
}

/* --- the child --- */

struct worker {
        struct lessor_lease_store *store;
        struct lessor_arena *arena;
        int pipe;
        unsigned first, next_rack; /* numbers that only this thread gives */
        uint64_t dice;
        struct lessor_slice rack_id; /* its own */
        unsigned rack;
};

static void tell(const struct worker *w, enum told_what what, unsigned number, struct lessor_slice text)
{
        struct told t = {.number = number};

        memset(t.text, 0, sizeof(t.text));
        t.what = what;
        if (text.n > 0 && text.n < sizeof(t.text))
                memcpy(t.text, text.p, text.n);
        if (write(w->pipe, &t, sizeof(t)) != (ssize_t)sizeof(t))
                _exit(3);
}

static const struct lessor_slice no_text = {NULL, 0};

static struct lessor_slice enroll(struct worker *w, unsigned rack)
{
        const struct lessor_slice tier = LESSOR_SLICE("c");
        const struct lessor_host_info host = {.label = LESSOR_SLICE("rack"),
                                              .tiers = &tier,
                                              .n_tiers = 1,
                                              .agent_version = LESSOR_SLICE("0.5.0")};
        struct name enrolment, first;
        struct lessor_slice hash = name(&enrolment, "enrolment", rack);
        struct lessor_rack registered;
        int64_t expires_ms;

        must(lessor_rack_mint_enrolment(w->store, hash, LESSOR_SLICE(""), DAY_MS, &expires_ms, NULL), "mint");
        must(lessor_rack_enroll(w->store, hash, &host, token(&first, rack, 0), w->arena, &registered, NULL),
             "enroll");
        tell(w, TOLD_ENROLLED, rack, no_text);
        return registered.rack_id;
}

static void beat(struct worker *w, unsigned rack, unsigned number)
{
        struct name current, next;
        struct lessor_rack_beat b = {.boot_id = LESSOR_SLICE("boot"),
                                     .agent_version = LESSOR_SLICE("0.5.0"),
                                     .healthy = true,
                                     .token_hash = token(&current, rack, number),
                                     .successor_hash = token(&next, rack, number + 1)};
        struct lessor_rack_caller caller;
        struct lessor_rack_beaten beaten;

        must(lessor_rack_authenticate(w->store, b.token_hash, w->arena, &caller, NULL), "authenticate");
        b.rack_id = caller.rack.rack_id;
        /* As the plane does it: what was pending is current from its first use on. */
        b.token_status = caller.status == LESSOR_TOKEN_PENDING ? LESSOR_TOKEN_CURRENT : caller.status;
        must(lessor_rack_heartbeat(w->store, &b, w->arena, &beaten, NULL), "beat");
        if (beaten.offered)
                tell(w, TOLD_OFFERED, rack, no_text);
}

static void visit_racks(struct worker *w)
{
        unsigned rack = w->next_rack++;
        struct lessor_slice id = enroll(w, rack);

        if (roll(&w->dice, 2) == 0) {
                tell(w, TOLD_REMOVING, rack, no_text);
                must(lessor_rack_deregister(w->store, id, NULL, NULL), "deregister");
                tell(w, TOLD_REMOVED, rack, no_text);
        }
}

/* Racks of rounds before that are this thread's to look after: by what the parent knows. */
static void rotate_tokens(struct worker *w, unsigned thread)
{
        for (unsigned i = 0; i < n_known; i++)
                if (racks[i].enrolled && !racks[i].removing && i / N_OF_A_ROUND % N_THREADS == thread &&
                    roll(&w->dice, 4) == 0)
                        beat(w, i, racks[i].token);
}

static void create(struct worker *w, unsigned number)
{
        struct name key, task;
        char bytes[12000];
        struct lessor_lease_submission from = {.repo = REPO,
                                               .workspace = LESSOR_SLICE("w"),
                                               .task_name = name(&task, "lease", number),
                                               .task_hash = LESSOR_SLICE("t"),
                                               .inputs_hash = LESSOR_SLICE("i"),
                                               .tier = LESSOR_SLICE("c"),
                                               .owner = LESSOR_SLICE("o"),
                                               .event_version = LESSOR_EVENT_VERSION,
                                               .event = text_of(number, 'e', bytes),
                                               .key = name(&key, "key", number)};
        struct lessor_lease lease;

        must(lessor_lease_create(w->store, &from, w->arena, &lease, NULL, NULL), "create");
        tell(w, TOLD_CREATED, number, lease.name.lease_id);
}

static void complete(struct worker *w, const struct lessor_lease *lease, unsigned number)
{
        const struct lessor_transfer_output output = {.object = {HASH, 10}};
        const struct lessor_transfer_request request = {
                .holder = {lease->name, w->rack_id, lease->attempt}, .outputs = &output, .n_outputs = 1};
        char bytes[12000];
        const struct lessor_lease_completion completion = {.holder = request.holder,
                                                           .verdict = {.success = true, .output_hash = HASH},
                                                           .result = text_of(number, 'r', bytes)};
        struct lessor_transfer_answer answer;
        enum lessor_completed how;

        must(lessor_lease_transfer(w->store, &request, w->arena, &answer, NULL), "transfer");
        if (roll(&w->dice, 8) == 0)
                return; /* left running */
        must(lessor_lease_complete(w->store, &completion, w->arena, &how, NULL, NULL), "complete");
        if (how != LESSOR_COMPLETED_RECORDED)
                die("lease %u could not be completed", number);
        tell(w, TOLD_DONE, number, no_text);
}

static void work_on(struct worker *w, const struct lessor_lease *lease)
{
        unsigned number = (unsigned)strtoul(lease->task_name.p + 6, NULL, 10);
        struct lessor_lease ended;
        char bytes[12000];

        tell(w, TOLD_GRANTED, number, lease->attempt);
        if (!lessor_slice_equal(lease->event, text_of(number, 'e', bytes)))
                die("another event");
        switch (roll(&w->dice, 8)) {
        case 0:
                tell(w, TOLD_RETURNING, number, lease->attempt);
                must(lessor_lease_undeliver(w->store, &lease->name, lease->claim_number, NULL), "undeliver");
                tell(w, TOLD_RETURNED, number, lease->attempt);
                return;
        case 1:
                tell(w, TOLD_ENDING, number, no_text);
                must(lessor_lease_end(w->store, &lease->name, LESSOR_END_CANCEL, no_text,
                                      LESSOR_SLICE("reason"), w->arena, &ended, NULL),
                     "cancel");
                tell(w, TOLD_ENDED, number, no_text);
                return;
        default:
                complete(w, lease, number);
        }
}

static void *work(void *context)
{
        struct worker *w = context;
        const struct lessor_slice tier = LESSOR_SLICE("c");
        char id[64];

        rotate_tokens(w, w->first / N_OF_A_ROUND % N_THREADS);
        w->rack = w->next_rack++;
        w->rack_id = enroll(w, w->rack);
        /* The arena is emptied as we go. */
        memcpy(id, w->rack_id.p, w->rack_id.n);
        w->rack_id.p = id;
        beat(w, w->rack, 0);
        for (unsigned number = w->first; number < w->first + N_OF_A_ROUND; number++) {
                const struct lessor_lease_claim claim = {.rack_id = w->rack_id,
                                                         .boot_id = LESSOR_SLICE("boot"),
                                                         .tiers = &tier,
                                                         .n_tiers = 1,
                                                         .names_attempts = true};
                struct lessor_lease_grant grant;

                create(w, number);
                must(lessor_lease_claim(w->store, &claim, w->arena, &grant, NULL), "claim");
                if (grant.granted)
                        work_on(w, &grant.lease);
                if (roll(&w->dice, 16) == 0)
                        visit_racks(w);
                lessor_arena_clear(w->arena);
        }
        return NULL;
}

static void child(const char *dir, int pipe, unsigned first)
{
        struct worker workers[N_THREADS];
        pthread_t threads[N_THREADS];
        struct lessor_lease_store *store;

        must(open_store(dir, &store), "open");
        for (unsigned i = 0; i < N_THREADS; i++) {
                workers[i] = (struct worker){.store = store,
                                             .arena = lessor_arena_new(),
                                             .pipe = pipe,
                                             .first = first + i * N_OF_A_ROUND,
                                             .next_rack = first + i * N_OF_A_ROUND,
                                             .dice = dice + i};
                must(pthread_create(&threads[i], NULL, work, &workers[i]) == 0 ? 0 : LESSOR_E_NOMEM,
                     "thread");
        }
        for (unsigned i = 0; i < N_THREADS; i++)
                (void)pthread_join(threads[i], NULL);
        _exit(0);
}

/* --- the parent --- */

/* The tables grow with the rounds, and are there before a child is made, which looks at them. */
static void make_room(unsigned n)
{
        struct known_lease *more_leases = realloc(leases, n * sizeof(*leases));
        struct known_rack *more_racks = realloc(racks, n * sizeof(*racks));

        if (more_leases == NULL || more_racks == NULL)
                abort();
        memset(more_leases + n_known, 0, (n - n_known) * sizeof(*leases));
        memset(more_racks + n_known, 0, (n - n_known) * sizeof(*racks));
        leases = more_leases;
        racks = more_racks;
        n_known = n;
}

static void hear_of_lease(const struct told *t)
{
        struct known_lease *k = &leases[t->number];

        switch (t->what) {
        case TOLD_CREATED:
                k->created = true;
                memcpy(k->id, t->text, sizeof(k->id));
                break;
        case TOLD_GRANTED:
                if (k->attempt[0] != '\0' && !k->maybe_returned && strcmp(k->attempt, t->text) != 0)
                        die("lease %u granted twice", t->number);
                memcpy(k->attempt, t->text, sizeof(k->attempt));
                k->maybe_returned = false;
                break;
        case TOLD_RETURNING:
                k->maybe_returned = true;
                break;
        case TOLD_RETURNED:
                /* The next grant may have been told first. */
                if (strcmp(k->attempt, t->text) == 0) {
                        k->attempt[0] = '\0';
                        k->maybe_returned = false;
                }
                break;
        case TOLD_ENDING:
                k->ending = true;
                break;
        case TOLD_ENDED:
                k->ended = true;
                break;
        default:
                k->done = true;
        }
}

static void hear_of_rack(const struct told *t)
{
        struct known_rack *k = &racks[t->number];

        switch (t->what) {
        case TOLD_ENROLLED:
                k->enrolled = true;
                break;
        case TOLD_OFFERED:
                k->token++;
                break;
        case TOLD_REMOVING:
                k->removing = true;
                break;
        default:
                k->removed = true;
        }
}

static unsigned hear(int pipe)
{
        struct told t;
        unsigned n = 0;

        for (; read(pipe, &t, sizeof(t)) == (ssize_t)sizeof(t); n++) {
                if (t.what >= TOLD_ENROLLED)
                        hear_of_rack(&t);
                else
                        hear_of_lease(&t);
        }
        return n;
}

static const char *wrong_with_lease(unsigned number, const struct lessor_lease *l)
{
        const struct known_lease *k = &leases[number];
        char bytes[12000];

        if (!lessor_slice_equal(l->event, text_of(number, 'e', bytes)))
                return "has another event";
        if (k->done && l->status != LESSOR_LEASE_COMPLETED)
                return "was completed and is so no longer";
        if (k->ended && l->status != LESSOR_LEASE_CANCELLED)
                return "was cancelled and is so no longer";
        if (l->status == LESSOR_LEASE_COMPLETED &&
            !lessor_slice_equal(l->result, text_of(number, 'r', bytes)))
                return "has another result";
        if (k->attempt[0] != '\0' && !k->maybe_returned && !k->ending &&
            !lessor_slice_equal(l->attempt, lessor_slice_of(k->attempt)))
                return "has lost its grant";
        return NULL;
}

static int check_lease(struct lessor_lease_store *store, unsigned number, struct lessor_arena *arena)
{
        const struct lessor_lease_name whole = {REPO, lessor_slice_of(leases[number].id)};
        struct lessor_lease l;
        const char *wrong;
        int r = lessor_lease_get(store, &whole, LESSOR_WITH_EVENT | LESSOR_WITH_RESULT, arena, &l, NULL);

        wrong = r < 0 ? lessor_error_name(r) : wrong_with_lease(number, &l);
        return wrong == NULL ? 0 : fprintf(stderr, "lease_crash_test: lease %u: %s\n", number, wrong);
}

/* Its key finds it; asked of some, since each is a write that the next round has to read. */
static int check_key(struct lessor_lease_store *store, unsigned number, struct lessor_arena *arena)
{
        struct name key;
        const struct lessor_lease_submission from = {.repo = REPO,
                                                     .task_hash = LESSOR_SLICE("t"),
                                                     .inputs_hash = LESSOR_SLICE("i"),
                                                     .owner = LESSOR_SLICE("o"),
                                                     .event = LESSOR_SLICE("{}"),
                                                     .key = name(&key, "key", number)};
        struct lessor_lease l;
        bool created = true;
        int r = lessor_lease_create(store, &from, arena, &l, &created, NULL);

        if (r == 0 && !created && lessor_slice_equal(l.name.lease_id, lessor_slice_of(leases[number].id)))
                return 0;
        return fprintf(stderr, "lease_crash_test: lease %u: its key does not find it\n", number);
}

static int check_rack(struct lessor_lease_store *store, unsigned number, struct lessor_arena *arena)
{
        const struct known_rack *k = &racks[number];
        struct lessor_rack_caller caller;
        int want = k->removed ? LESSOR_E_NOT_FOUND : 0;

        if (k->removing && !k->removed)
                return 0;
        for (unsigned i = k->token == 0 ? 0 : k->token - 1; i <= k->token; i++) {
                struct name hash;
                int r = lessor_rack_authenticate(store, token(&hash, number, i), arena, &caller, NULL);

                if (r != want)
                        return fprintf(stderr, "lease_crash_test: rack %u, token %u: %s\n", number, i,
                                       lessor_error_name(r));
        }
        return 0;
}

/* Opens what is left and holds it against what was told. */
static int check(const char *dir)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_lease_stats stats;
        struct lessor_lease_store *store;
        int bad = 0;

        must(open_store(dir, &store), "open after the kill");
        (void)lessor_lease_stats(store, &stats);
        if (stats.n_set_aside != 0)
                bad = fprintf(stderr, "lease_crash_test: %llu rows cannot be read\n",
                              (unsigned long long)stats.n_set_aside);
        for (unsigned i = 0; bad == 0 && i < n_known; i++) {
                if (leases[i].created)
                        bad = check_lease(store, i, arena);
                if (bad == 0 && leases[i].created && i % 16 == 0)
                        bad = check_key(store, i, arena);
                if (bad == 0 && racks[i].enrolled)
                        bad = check_rack(store, i, arena);
                lessor_arena_clear(arena);
        }
        lessor_arena_free(arena);
        lessor_lease_store_free(store);
        return bad;
}

static int round_of(const char *dir, unsigned first)
{
        struct timespec life = {.tv_nsec = (long)roll(&dice, 250) * 1000000 + 1000000};
        int ends[2], status;
        unsigned n;
        pid_t pid;

        make_room(first + N_THREADS * N_OF_A_ROUND);
        clock_manual_advance(&at_rest, 10);
        if (pipe(ends) != 0)
                return -1;
        (void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        pid = fork();
        if (pid == 0) {
                (void)close(ends[0]);
                child(dir, ends[1], first);
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
                fprintf(stderr, "lease_crash_test: the child ended by itself: status %d\n", status);
                return -1;
        }
        return check(dir) == 0 ? (int)n : -1;
}

int main(int argc, char **argv)
{
        const char *rounds_text = getenv("LESSOR_SOAK_ROUNDS");
        unsigned long n_rounds = rounds_text == NULL ? 12 : strtoul(rounds_text, NULL, 10);
        char *dir = scratch_dir_new("lease-crash");
        uint64_t seed = argc > 2 && strcmp(argv[1], "--seed") == 0 ? strtoull(argv[2], NULL, 10)
                                                                   : (uint64_t)time(NULL);
        unsigned long n_told = 0;

        log_set_level(LOG_LEVEL_ERROR);
        dice = seed;
        clock_manual_init(&at_rest, INT64_C(1760000000000));
        if (dir == NULL)
                return 1;
        for (unsigned long i = 0; i < n_rounds; i++) {
                int n = round_of(dir, (unsigned)i * N_THREADS * N_OF_A_ROUND);

                if (n < 0) {
                        fprintf(stderr, "lease_crash_test: round %lu of seed %llu; what is left: %s\n", i,
                                (unsigned long long)seed, dir);
                        return 1;
                }
                n_told += (unsigned long)n;
        }
        scratch_dir_free(dir);
        free(leases);
        free(racks);
        printf("%lu kills, %lu answers, all kept\n", n_rounds, n_told);
        return n_told == 0;
}
