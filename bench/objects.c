/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "objects/fs.h"
#include "objects/log_file.h"
#include "objects/object_graph.h"

/*
 * What the objects room costs by itself, in a directory that must not be there yet:
 *
 *     objects-bench DIRECTORY [MEBIBYTES]
 */

#define CHUNK     65536u
#define N_THREADS 16
#define N_SMALL   2000

static void check(int r, const char *what)
{
        if (r == 0)
                return;
        fprintf(stderr, "%s: %s\n", what, lessor_error_text(r));
        exit(1);
}

static double seconds_since(int64_t started_us)
{
        return (double)(clock_monotonic_us() - started_us) / 1e6;
}

/* Puts an object of random bytes that are made once. Returns MB/s. */
static double put_large(struct lessor_object_store *s, struct lessor_arena *arena, int64_t size, int round)
{
        struct lessor_object_written written;
        struct lessor_object_writer *w;
        char *chunk = malloc(CHUNK);
        int64_t started = clock_monotonic_us();

        check(chunk == NULL ? LESSOR_E_NOMEM : 0, "chunk");
        memset(chunk, 'a' + round, CHUNK);
        check(lessor_object_put(s, LESSOR_SLICE("bench"), (struct lessor_slice){NULL, 0}, size, &w), "put");
        for (int64_t at = 0; at < size; at += CHUNK)
                check(lessor_object_write(w, (struct lessor_slice){chunk, CHUNK}), "write");
        check(lessor_object_finish(w, arena, &written), "finish");
        lessor_object_writer_free(w);
        free(chunk);
        return (double)size / 1e6 / seconds_since(started);
}

/* What sha256sum reads of as many bytes on its standard input, MB/s; 0: there is none. */
static double sha256sum(const char *dir, int64_t size)
{
        char *command;
        int64_t started;
        int r;

        if (asprintf(&command,
                     "f=$(find '%s/repos/bench/objects' -size +%lldc -type f | head -n 1) && sha256sum < $f "
                     "> /dev/null",
                     dir, (long long)size / 2) < 0)
                return 0;
        r = system(command); /* once to have it in memory */
        started = clock_monotonic_us();
        r |= system(command);
        free(command);
        return r != 0 ? 0 : (double)size / 1e6 / seconds_since(started);
}

struct putter {
        struct lessor_object_store *store;
        struct log_files *logs;
        int number, n;
};

static void *put_small(void *context)
{
        const struct putter *p = context;
        struct lessor_arena *arena = lessor_arena_new();

        for (int i = 0; i < p->n; i++) {
                struct lessor_object_written written;
                struct lessor_object_writer *w;
                char text[64];

                snprintf(text, sizeof(text), "%d/%d of %d", p->number, i, p->n);
                check(lessor_object_put(p->store, LESSOR_SLICE("bench"), (struct lessor_slice){NULL, 0}, -1,
                                        &w),
                      "put");
                check(lessor_object_write(w, lessor_slice_of(text)), "write");
                check(lessor_object_finish(w, arena, &written), "finish");
                lessor_object_writer_free(w);
                lessor_arena_clear(arena);
        }
        lessor_arena_free(arena);
        return NULL;
}

static void *append_logs(void *context)
{
        static const char hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        const struct putter *p = context;
        char text[1024], id[32];
        const struct log_chunk chunk = {LOG_STDOUT, {text, sizeof(text)}};
        const struct log_key key = {LESSOR_SLICE("bench"),
                                    lessor_slice_of(hash),
                                    lessor_slice_of(hash),
                                    {id, (size_t)snprintf(id, sizeof(id), "%d-%d", p->number, p->n)}};

        memset(text, 'x', sizeof(text));
        for (int i = 0; i < p->n; i++)
                check(log_files_append(p->logs, &key, &chunk, 1), "append");
        return NULL;
}

/* Lets so many threads do it, `n` times in all. Returns how often a second. */
static double many(struct lessor_object_store *s, struct log_files *logs, void *(*work)(void *),
                   int n_threads, int n)
{
        struct putter putters[N_THREADS];
        pthread_t threads[N_THREADS];
        int64_t started = clock_monotonic_us();

        for (int i = 0; i < n_threads; i++) {
                putters[i] = (struct putter){s, logs, i, n / n_threads};
                if (pthread_create(&threads[i], NULL, work, &putters[i]) != 0)
                        exit(1);
        }
        for (int i = 0; i < n_threads; i++)
                pthread_join(threads[i], NULL);
        return n / seconds_since(started);
}

static int no_roots(void *context, struct lessor_object_keeper *keeper)
{
        (void)context;
        (void)keeper;
        return 0;
}

int main(int argc, char **argv)
{
        const struct lessor_object_collection collection = {.grace_ms = 3600000, .roots = no_roots};
        int64_t size = (argc > 2 ? strtoll(argv[2], NULL, 10) : 1024) << 20;
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_object_collected collected;
        struct lessor_object_verified verified;
        struct lessor_object_store *s;
        struct log_files *logs;
        int64_t started;
        char *path;

        if (argc < 2 || arena == NULL || asprintf(&path, "%s.logs", argv[1]) < 0)
                return 2;
        check(object_fs_open(argv[1], NULL, &s), argv[1]);
        check(log_files_open(path, NULL, &logs), path);
        for (int round = 0; round < 3; round++)
                printf("put of one object       %8.0f MB/s\n", put_large(s, arena, size, round));
        printf("sha256sum               %8.0f MB/s\n", sha256sum(argv[1], size));
        printf("puts, 1 thread          %8.0f /s\n", many(s, NULL, put_small, 1, N_SMALL / 10));
        printf("puts, %d threads        %8.0f /s\n", N_THREADS, many(s, NULL, put_small, N_THREADS, N_SMALL));
        printf("log appends, 1 thread   %8.0f /s\n", many(NULL, logs, append_logs, 1, N_SMALL / 10));
        printf("log appends, %d threads %8.0f /s\n", N_THREADS,
               many(NULL, logs, append_logs, N_THREADS, N_SMALL));
        started = clock_monotonic_us();
        check(lessor_object_verify(s, LESSOR_SLICE("bench"), false, NULL, NULL, &verified), "verify");
        printf("verification            %8.0f MB/s\n",
               (double)verified.sound_bytes / 1e6 / seconds_since(started));
        started = clock_monotonic_us();
        check(lessor_object_collect(s, &collection, &collected), "collect");
        printf("collection              %8.0f objects/s\n",
               (double)collected.n_kept / seconds_since(started));
        lessor_object_store_free(s);
        log_files_free(logs);
        lessor_arena_free(arena);
        free(path);
        return 0;
}
