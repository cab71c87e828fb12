/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLICE(text) LESSOR_SLICE(text)

/* Races, failing calls and crashes. */

static const struct lessor_object_stage stage = {SLICE("main"), SLICE("task#inputs#1"), SLICE("attempt-1")};

struct racer {
        struct world *w;
        int r;
};

static void *put_slowly(void *context)
{
        struct racer *racer = context;
        struct lessor_arena *arena = lessor_arena_new();
        char hex[SHA256_HEX_LEN + 1];
        int r = arena == NULL ? LESSOR_E_NOMEM : 0;

        sha256_hex_of(SLICE("hello"), hex);
        for (int round = 0; r == 0 && round < 50; round++) {
                struct lessor_object_writer *writer = NULL;
                struct lessor_object_written written;

                r = lessor_object_put(racer->w->store, SLICE("race"), lessor_slice_of(hex), 5, &writer);
                for (int i = 0; r == 0 && i < 5; i++)
                        r = lessor_object_write(writer, (struct lessor_slice){&"hello"[i], 1});
                if (r == 0)
                        r = lessor_object_finish(writer, arena, &written);
                lessor_object_writer_free(writer);
        }
        lessor_arena_free(arena);
        racer->r = r;
        return NULL;
}

static void writers_of_one_object_all_succeed(void **state)
{
        struct world *w = *state;
        struct racer racers[4];
        pthread_t threads[4];

        for (int i = 0; i < 4; i++) {
                racers[i].w = w;
                assert_int_equal(pthread_create(&threads[i], NULL, put_slowly, &racers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
                pthread_join(threads[i], NULL);
                assert_int_equal(racers[i].r, 0);
        }
        assert_true(world_has(w, "race", world_hash(w, SLICE("hello"))));
        assert_int_equal(world_count(w, "objects"), 2); /* the object and the format */
}

/* Everything that changes the disk once: put, stage, commit, discard. Returns the first failure. */
static int one_of_each(struct world *w)
{
        struct lessor_object_version version;
        bool committed = false;
        int r = world_put(w, "main", SLICE("put"));

        if (r == 0)
                r = world_stage(w, &stage, SLICE("staged"), &version);
        if (r == 0)
                r = lessor_object_commit(w->store, &stage, &version, 1, &committed);
        if (r == 0 && !committed)
                r = LESSOR_E_CORRUPT;
        if (r == 0)
                r = world_stage(w, &stage, SLICE("dropped"), &version);
        if (r == 0)
                r = lessor_object_discard(w->store, SLICE("main"), version.receipt);
        return r;
}

static int count_damaged(void *context, struct lessor_slice hash)
{
        (void)hash;
        ++*(int *)context;
        return 0;
}

/* Whatever is in the repository is whole, and nothing lies about in it or in tmp/. */
static void assert_sound(struct world *w)
{
        struct lessor_object_verified verified;
        int damaged = 0;

        assert_int_equal(
                lessor_object_verify(w->store, SLICE("main"), false, count_damaged, &damaged, &verified), 0);
        assert_int_equal(verified.n_damaged, 0);
        assert_int_equal(damaged, 0);
        assert_int_equal(world_count(w, "objects/repos/main/objects"), verified.n_sound);
        assert_int_equal(world_count(w, "objects/tmp"), 0);
}

/* The making of 256 directories, which are alike, is tried with a few of them. */
static unsigned next_step(unsigned step)
{
        return step == 20 ? 255 : step + 1;
}

static void a_fault_at_any_step_leaves_the_store_sound(void **state)
{
        struct world *w = *state;
        unsigned n_steps;

        world_reopen(w, &faulty_io);
        faults.n_calls = 0;
        assert_int_equal(one_of_each(w), 0);
        n_steps = faults.n_calls;
        assert_true(n_steps > 270);
        for (unsigned step = 1; step <= n_steps; step = next_step(step)) {
                int r;

                world_shell(w, "rm -r objects/repos/main");
                faults = (struct faults){.error = step % 2 ? ENOSPC : EIO, .fail_at = step};
                r = one_of_each(w);
                faults.fail_at = 0;
                if (r == 0)
                        fail_msg("step %u failed and nobody said so", step);
                assert_int_equal(r, faults.error == ENOSPC ? LESSOR_E_LOW_SPACE : LESSOR_E_IO);
                assert_sound(w);
                assert_int_equal(one_of_each(w), 0); /* and it goes on */
        }
}

static void a_crash_at_any_step_leaves_the_store_sound(void **state)
{
        struct world *w = *state;
        unsigned step = 0;
        int status;

        w->store = lessor_object_store_free(w->store);
        do {
                pid_t child;

                world_shell(w, "rm -rf objects");
                step = next_step(step);
                child = fork();
                assert_true(child >= 0);
                if (child == 0) {
                        faults = (struct faults){.fail_at = step, .kill = true};
                        _exit(world_try_open(w, &faulty_io) == 0 && one_of_each(w) == 0 ? 0 : 1);
                }
                assert_int_equal(waitpid(child, &status, 0), child);
                assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
                assert_int_equal(world_try_open(w, NULL), 0);
                assert_sound(w);
                assert_int_equal(one_of_each(w), 0);
                w->store = lessor_object_store_free(w->store);
                world_shell(w, "test -z \"$(ls objects/tmp)\"");
        } while (WIFSIGNALED(status));
        assert_true(step > 270);
}

static void living_processes_keep_what_they_write(void **state)
{
        struct world *w = *state;
        struct lessor_object_store *first = w->store;
        struct lessor_object_writer *writer;
        struct lessor_object_written written;

        assert_int_equal(lessor_object_put(first, SLICE("main"), (struct lessor_slice){NULL, 0}, -1, &writer),
                         0);
        assert_int_equal(lessor_object_write(writer, SLICE("bytes")), 0);
        assert_int_equal(world_try_open(w, NULL), 0); /* a second one */
        assert_int_equal(lessor_object_finish(writer, w->arena, &written), 0);
        lessor_object_writer_free(writer);
        lessor_object_store_free(first);
        assert_true(world_has(w, "main", written.hash));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(writers_of_one_object_all_succeed),
                TEST(a_fault_at_any_step_leaves_the_store_sound),
                TEST(a_crash_at_any_step_leaves_the_store_sound),
                TEST(living_processes_keep_what_they_write),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
