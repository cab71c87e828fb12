/* SPDX-License-Identifier: MIT */
/*
 * How fast a routing store is by itself: no HTTP, no signatures. A number of clients, each with one call
 * under way at a time, as connections of a server would be; they are told through when_durable and served by
 * a few threads.
 *
 * usage: store-bench [--store memory|sqlite] [--dir DIR] [--clients N] [--threads N] [--n N] [--payload
 * BYTES]
 *
 * Prints one JSON object a measurement: calls a second, and the CPU time that one took, of all threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "routing/memory.h"
#include "routing/sqlite.h"

enum step { STEP_ENQUEUE, STEP_CLAIM, STEP_SEAL, STEP_FETCH, STEP_COMPLETE, N_STEPS };

struct client {
        struct bench *bench;
        struct client *next; /* ready to go on */
        struct lessor_arena *arena;
        unsigned number;
        unsigned long at; /* number of the job */
        enum step step;
        char runner[32];
        char lease[64];
        size_t lease_len;
};

struct bench {
        struct lessor_routing_store *store;
        bool lifecycles; /* else: claims alone */
        unsigned n_clients, n_threads;
        unsigned long n_jobs, taken, done;
        struct lessor_slice envelope;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct client *ready;
};

static void must(int r, const char *what)
{
        if (r >= 0)
                return;
        fprintf(stderr, "store-bench: %s: %s\n", what, lessor_error_text(r));
        exit(1);
}

static struct lessor_slice name(char *to, size_t cap, const char *what, unsigned long number)
{
        int n = snprintf(to, cap, "%s-%lu", what, number);

        return (struct lessor_slice){to, (size_t)n};
}

static const struct lessor_public_identity device = {
        LESSOR_SLICE("MCowBQYDK2VwAyEAaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        LESSOR_SLICE("MCowBQYDK2VuAyEAbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
        LESSOR_SLICE(
                "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"),
};
#define SITE LESSOR_SLICE("site-with-an-ordinary-name")

static void enqueue(struct client *c, unsigned long job, struct lessor_ticket *ticket)
{
        char id[64], owner[64];
        const struct lessor_stub stub = {
                .id = name(id, sizeof(id), "0190a0b0-0000-7000-8000-job", job),
                .kind = LESSOR_KIND_LLM_CHAT,
                .owner = name(owner, sizeof(owner), "owner", job),
                .site = LESSOR_SLICE("ABCD-EFGH-IJKL-MNOP"),
                .audience = LESSOR_AUDIENCE_TEAM,
                .purpose = LESSOR_SLICE("summaries"),
                .size_class = LESSOR_SIZE_SMALL,
                .deadline_ms = INT64_C(4102444800000),
        };
        struct lessor_job out;

        must(lessor_routing_enqueue(c->bench->store, SITE, &stub, c->arena, &out, ticket), "enqueue");
}

static void claim(struct client *c, struct lessor_ticket *ticket)
{
        char owner[64];
        const struct lessor_route route = {SITE, name(owner, sizeof(owner), "owner", c->at)};
        const struct lessor_claim claim = {
                .runner_id = lessor_slice_of(c->runner),
                .owner = LESSOR_SLICE("owner-of-the-device"),
                .device = device,
                .routes = &route,
                .n_routes = 1,
                .kinds = LESSOR_KIND_BIT(LESSOR_KIND_LLM_CHAT),
                .max = 1,
                .lease_ms = 600000,
        };
        struct lessor_job_list granted;

        must(lessor_routing_claim(c->bench->store, &claim, c->arena, &granted, ticket), "claim");
        if (granted.n != 1)
                must(LESSOR_E_NOT_FOUND, "claim granted nothing");
        c->lease_len = granted.items[0].lease_id.n;
        memcpy(c->lease, granted.items[0].lease_id.p, c->lease_len);
}

static void step(struct client *c, struct lessor_ticket *ticket)
{
        struct bench *b = c->bench;
        char id[64];
        const struct lessor_lease_ref ref = {name(id, sizeof(id), "0190a0b0-0000-7000-8000-job", c->at),
                                             {c->lease, c->lease_len}};
        const struct lessor_slice runner = lessor_slice_of(c->runner);
        struct lessor_envelope envelope = {b->envelope};
        enum lessor_job_state was;
        bool duplicate;

        switch (c->step) {
        case STEP_ENQUEUE:
                enqueue(c, c->at, ticket);
                break;
        case STEP_CLAIM:
                claim(c, ticket);
                break;
        case STEP_SEAL:
                must(lessor_routing_seal(b->store, SITE, ref.job_id, &envelope, &was, ticket), "seal");
                break;
        case STEP_FETCH:
                must(lessor_routing_take_payload(b->store, runner, &ref, c->arena, &envelope, ticket),
                     "fetch");
                break;
        default:
                must(lessor_routing_complete(b->store, runner, &ref, &envelope, LESSOR_DISPOSITION_OK,
                                             &duplicate, ticket),
                     "complete");
        }
        lessor_arena_clear(c->arena);
}

/* What came after the last step; false: this client has nothing left to do. Lock held. */
static bool go_on(struct client *c)
{
        struct bench *b = c->bench;
        enum step last = b->lifecycles ? STEP_COMPLETE : STEP_CLAIM;

        if (c->step != N_STEPS && c->step != last) {
                c->step++;
                return true;
        }
        if (c->step == last && ++b->done == b->n_jobs)
                (void)pthread_cond_broadcast(&b->changed);
        if (b->taken == b->n_jobs)
                return false;
        c->at = b->taken++;
        c->step = b->lifecycles ? STEP_ENQUEUE : STEP_CLAIM;
        return true;
}

static void told(void *context, int result)
{
        struct client *c = context;
        struct bench *b = c->bench;

        must(result, "write");
        (void)pthread_mutex_lock(&b->lock);
        if (b->ready == NULL)
                (void)pthread_cond_signal(&b->changed);
        c->next = b->ready;
        b->ready = c;
        (void)pthread_mutex_unlock(&b->lock);
}

static void *serve(void *context)
{
        struct bench *b = context;

        (void)pthread_mutex_lock(&b->lock);
        while (b->done < b->n_jobs) {
                struct client *c = b->ready;
                struct lessor_ticket ticket;

                if (c == NULL) {
                        (void)pthread_cond_wait(&b->changed, &b->lock);
                        continue;
                }
                b->ready = c->next;
                if (b->ready != NULL && b->n_threads > 1)
                        (void)pthread_cond_signal(&b->changed);
                for (;;) {
                        if (!go_on(c))
                                break;
                        (void)pthread_mutex_unlock(&b->lock);
                        step(c, &ticket);
                        if (lessor_routing_when_durable(b->store, ticket, told, c) == 0) {
                                (void)pthread_mutex_lock(&b->lock);
                                break;
                        }
                        (void)pthread_mutex_lock(&b->lock);
                }
        }
        (void)pthread_mutex_unlock(&b->lock);
        return NULL;
}

static double cpu_seconds(void)
{
        struct rusage u;

        (void)getrusage(RUSAGE_SELF, &u);
        return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
               (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void measure(struct bench *b, const char *store, const char *what, unsigned n_threads)
{
        struct client *clients = calloc(b->n_clients, sizeof(*clients));
        pthread_t threads[64];
        int64_t start_us;
        double cpu, wall;

        b->ready = NULL;
        b->taken = b->done = 0;
        for (unsigned i = 0; i < b->n_clients; i++) {
                clients[i] = (struct client){.bench = b, .number = i, .step = N_STEPS, .next = b->ready};
                clients[i].arena = lessor_arena_new();
                (void)snprintf(clients[i].runner, sizeof(clients[i].runner), "runner-%u", i);
                b->ready = &clients[i];
        }
        if (!b->lifecycles)
                for (unsigned long i = 0; i < b->n_jobs; i++) {
                        struct lessor_ticket ignored;

                        enqueue(&clients[0], i, &ignored);
                        lessor_arena_clear(clients[0].arena);
                }
        must(lessor_routing_check(b->store), "check");
        cpu = cpu_seconds();
        start_us = clock_monotonic_us();
        for (unsigned i = 0; i < n_threads; i++)
                must(pthread_create(&threads[i], NULL, serve, b) == 0 ? 0 : LESSOR_E_NOMEM, "thread");
        for (unsigned i = 0; i < n_threads; i++)
                (void)pthread_join(threads[i], NULL);
        wall = (double)(clock_monotonic_us() - start_us) / 1e6;
        cpu = cpu_seconds() - cpu;
        printf("{\"store\":\"%s\",\"what\":\"%s\",\"clients\":%u,\"n\":%lu,\"per_second\":%.0f,\"cpu_us\":%."
               "1f}\n",
               store, what, b->n_clients, b->n_jobs, (double)b->n_jobs / wall, cpu / (double)b->n_jobs * 1e6);
        for (unsigned i = 0; i < b->n_clients; i++)
                lessor_arena_free(clients[i].arena);
        free(clients);
}

static int open_store(const char *kind, const char *dir, struct lessor_routing_store **ret_store)
{
        struct buf problem;
        int r;

        if (strcmp(kind, "memory") == 0)
                return memory_store_new(clock_steady(), NULL, ret_store);
        buf_init(&problem);
        r = sqlite_store_new(dir, clock_steady(), NULL, NULL, ret_store, &problem);
        if (r < 0)
                fprintf(stderr, "store-bench: %s\n", problem.p);
        buf_done(&problem);
        return r;
}

int main(int argc, char **argv)
{
        struct bench b = {.n_clients = 64,
                          .n_jobs = 50000,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};
        const char *kind = "sqlite", *dir = NULL;
        unsigned long n_threads = 1, n_payload = 2400;
        int only = -1;
        char made[] = "/tmp/store-bench-XXXXXX", command[64];

        for (int i = 1; i + 1 < argc; i += 2) {
                if (strcmp(argv[i], "--store") == 0)
                        kind = argv[i + 1];
                else if (strcmp(argv[i], "--dir") == 0)
                        dir = argv[i + 1];
                else if (strcmp(argv[i], "--clients") == 0)
                        b.n_clients = (unsigned)strtoul(argv[i + 1], NULL, 10);
                else if (strcmp(argv[i], "--threads") == 0)
                        n_threads = strtoul(argv[i + 1], NULL, 10);
                else if (strcmp(argv[i], "--n") == 0)
                        b.n_jobs = strtoul(argv[i + 1], NULL, 10);
                else if (strcmp(argv[i], "--only") == 0)
                        only = strcmp(argv[i + 1], "claims") == 0 ? 0 : 1;
                else if (strcmp(argv[i], "--payload") == 0)
                        n_payload = strtoul(argv[i + 1], NULL, 10);
        }
        if (n_threads < 1 || n_threads > 64 || b.n_clients < 1 || b.n_jobs < 1)
                return 2;
        b.n_threads = (unsigned)n_threads;
        if (dir == NULL && (dir = mkdtemp(made)) == NULL)
                return 1;
        b.envelope.n = n_payload;
        b.envelope.p = memset(malloc(n_payload + 1), 'e', n_payload);
        for (int lifecycles = 0; lifecycles < 2; lifecycles++) {
                if (only >= 0 && lifecycles != only)
                        continue;
                b.lifecycles = lifecycles == 1;
                must(open_store(kind, dir, &b.store), "open");
                measure(&b, kind, b.lifecycles ? "lifecycles" : "claims", (unsigned)n_threads);
                b.store = lessor_routing_store_free(b.store);
                (void)snprintf(command, sizeof(command), "%s/" SQLITE_STORE_FILE, dir);
                (void)unlink(command);
        }
        if (dir == made)
                (void)rmdir(dir);
        free((void *)(uintptr_t)b.envelope.p);
        return 0;
}
