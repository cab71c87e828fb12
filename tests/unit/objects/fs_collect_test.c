/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macro.h"
#include "objects/object_graph.h"
#include "wire/task_objects.h"

#define SLICE(text) LESSOR_SLICE(text)
#define GRACE_MS    INT64_C(3600000)

/* Puts a tree of files whose contents are their names, and an inner tree if one is given. */
static struct lessor_slice put_tree(struct world *w, const struct lessor_slice *files, size_t n_files,
                                    struct lessor_slice inner, int64_t inner_size, int64_t *ret_size)
{
        struct tree_entry entries[8];
        struct tree tree = {entries, 0};
        struct lessor_slice hash;
        struct buf text;

        for (size_t i = 0; i < n_files; i++)
                entries[tree.n_entries++] = (struct tree_entry){.type = TREE_FILE,
                                                                .path = files[i],
                                                                .hash = world_hash(w, files[i]),
                                                                .size = (int64_t)files[i].n};
        if (inner.p != NULL)
                entries[tree.n_entries++] = (struct tree_entry){
                        .type = TREE_TREE, .path = SLICE("z"), .hash = inner, .size = inner_size};
        buf_init(&text);
        assert_int_equal(tree_write(&tree, &text, NULL), 0);
        assert_int_equal(world_put(w, "main", buf_view(&text)), 0);
        hash = world_hash(w, buf_view(&text));
        if (ret_size != NULL)
                *ret_size = (int64_t)text.n;
        buf_done(&text);
        return hash;
}

static const struct lessor_slice none = {NULL, 0};

/* --- Graphs --- */

/* R088 as far as the store goes */
static void a_graph_is_whole_when_everything_named_is_there(void **state)
{
        static const struct lessor_slice outer_files[] = {SLICE("a"), SLICE("b")};
        static const struct lessor_slice inner_files[] = {SLICE("c")};
        struct world *w = *state;
        struct object_graph_gap gap;
        struct lessor_slice inner, root, *closure;
        int64_t inner_size;
        size_t n;

        inner = put_tree(w, inner_files, 1, none, 0, &inner_size);
        root = put_tree(w, outer_files, 2, inner, inner_size, NULL);
        assert_int_equal(world_put(w, "main", SLICE("a")), 0);
        assert_int_equal(world_put(w, "main", SLICE("b")), 0);
        assert_int_equal(object_graph_complete(w->store, SLICE("main"), root, w->arena, &gap),
                         LESSOR_E_NOT_FOUND);
        assert_true(lessor_slice_equal(gap.hash, world_hash(w, SLICE("c"))));
        assert_int_equal(world_put(w, "main", SLICE("c")), 0);
        assert_int_equal(object_graph_complete(w->store, SLICE("main"), root, w->arena, &gap), 0);
        assert_int_equal(object_graph_closure(w->store, SLICE("main"), root, w->arena, &closure, &n, NULL),
                         0);
        assert_int_equal(n, 5);
        for (size_t i = 1; i < n; i++)
                assert_true(lessor_slice_cmp(closure[i - 1], closure[i]) < 0);
        assert_int_equal(object_graph_complete(w->store, SLICE("other"), root, w->arena, &gap),
                         LESSOR_E_NOT_FOUND);
}

static void an_unknown_format_is_a_leaf_and_so_is_a_file(void **state)
{
        struct world *w = *state;
        struct lessor_slice missing = SLICE("{\"format\":\"lessor.tree/9\",\"entries\":[]}");
        struct lessor_slice tree_in_a_file, root;
        static const struct lessor_slice files[] = {SLICE("missing")};
        struct tree_entry entry = {.type = TREE_FILE, .path = SLICE("x")};
        const struct tree tree = {&entry, 1};
        struct buf text;

        assert_int_equal(world_put(w, "main", missing), 0);
        assert_int_equal(
                object_graph_complete(w->store, SLICE("main"), world_hash(w, missing), w->arena, NULL), 0);
        /* A file may hold the text of a tree, and of one that lacks a file: that names nothing. */
        tree_in_a_file = put_tree(w, files, 1, none, 0, &entry.size);
        entry.hash = tree_in_a_file;
        buf_init(&text);
        assert_int_equal(tree_write(&tree, &text, NULL), 0);
        assert_int_equal(world_put(w, "main", buf_view(&text)), 0);
        root = world_hash(w, buf_view(&text));
        buf_done(&text);
        assert_int_equal(object_graph_complete(w->store, SLICE("main"), root, w->arena, NULL), 0);
        assert_int_equal(object_graph_complete(w->store, SLICE("main"), tree_in_a_file, w->arena, NULL),
                         LESSOR_E_NOT_FOUND);
}

static void a_graph_with_a_lie_in_it_is_refused(void **state)
{
        struct world *w = *state;
        struct lessor_slice bad = SLICE("{\"format\":\"lessor.tree/1\",\"entries\":[{}]}");
        struct object_graph_gap gap;
        struct lessor_slice root;

        /* malformed */
        assert_int_equal(world_put(w, "main", bad), 0);
        assert_int_equal(object_graph_complete(w->store, SLICE("main"), world_hash(w, bad), w->arena, &gap),
                         LESSOR_E_INVALID);
        assert_non_null(strstr(gap.problem, "entries[0]"));
        /* of another size than said */
        assert_int_equal(world_put(w, "main", SLICE("plain")), 0);
        root = put_tree(w, NULL, 0, world_hash(w, SLICE("plain")), 4, NULL);
        assert_int_equal(object_graph_complete(w->store, SLICE("main"), root, w->arena, &gap),
                         LESSOR_E_INVALID);
        assert_non_null(strstr(gap.problem, "size"));
        /* named as a tree, and none */
        root = put_tree(w, NULL, 0, world_hash(w, SLICE("plain")), 5, NULL);
        assert_int_equal(object_graph_complete(w->store, SLICE("main"), root, w->arena, &gap),
                         LESSOR_E_INVALID);
        assert_non_null(strstr(gap.problem, "no tree"));
}

static void a_graph_has_a_bottom(void **state)
{
        struct world *w = *state;
        struct lessor_slice root = none;
        int64_t size = 0;
        int r = 0;
        int depth = 0;

        while (r == 0 && depth < 100) {
                root = put_tree(w, NULL, 0, root, size, &size);
                r = object_graph_complete(w->store, SLICE("main"), root, w->arena, NULL);
                depth += r == 0;
        }
        assert_int_equal(r, LESSOR_E_TOO_LARGE);
        assert_int_equal(depth, 33);
}

/* --- Collection --- */

struct roots {
        struct lessor_slice hashes[4];
        size_t n;
        int r;
};

static int tell_roots(void *context, struct lessor_object_keeper *keeper)
{
        const struct roots *roots = context;
        int r = 0;

        for (size_t i = 0; r == 0 && i < roots->n; i++)
                r = keeper->keep(keeper, SLICE("main"), roots->hashes[i]);
        return r < 0 ? r : roots->r;
}

static struct lessor_object_collected collect(struct world *w, struct roots *roots, bool dry)
{
        const struct lessor_object_collection collection = {
                .grace_ms = GRACE_MS, .roots = tell_roots, .context = roots, .dry = dry};
        struct lessor_object_collected collected;

        assert_int_equal(lessor_object_collect(w->store, &collection, &collected), 0);
        return collected;
}

static void what_is_old_and_not_named_goes(void **state)
{
        static const struct lessor_slice files[] = {SLICE("a"), SLICE("b")};
        struct world *w = *state;
        struct lessor_object_collected c;
        struct roots roots = {.n = 2};
        struct lessor_slice touched = world_hash(w, SLICE("touched"));
        int64_t size;

        roots.hashes[0] = put_tree(w, files, 2, none, 0, NULL);
        roots.hashes[1] = world_hash(w, SLICE("not there"));
        assert_int_equal(world_put(w, "main", SLICE("a")), 0);
        assert_int_equal(world_put(w, "main", SLICE("touched")), 0);
        assert_int_equal(world_put(w, "main", SLICE("old")), 0);
        clock_manual_advance(&w->clock, GRACE_MS + 1);
        assert_int_equal(world_put(w, "main", SLICE("young")), 0);
        assert_int_equal(lessor_object_touch(w->store, SLICE("main"), &touched, 1, &size), 0);
        c = collect(w, &roots, true);
        assert_int_equal(c.n_removed, 1);
        assert_true(world_has(w, "main", world_hash(w, SLICE("old"))));
        c = collect(w, &roots, false);
        assert_int_equal(c.n_removed, 1);
        assert_int_equal(c.removed_bytes, 3);
        assert_int_equal(c.n_kept, 4);
        assert_int_equal(c.n_missing, 2); /* b, and a root */
        assert_false(world_has(w, "main", world_hash(w, SLICE("old"))));
        assert_true(world_has(w, "main", world_hash(w, SLICE("a"))));
        assert_true(world_has(w, "main", world_hash(w, SLICE("young"))));
        assert_true(world_has(w, "main", touched));
        /* What is no root any more goes when its time has come. */
        clock_manual_advance(&w->clock, GRACE_MS + 1);
        roots.n = 0;
        c = collect(w, &roots, false);
        assert_int_equal(c.n_kept, 0);
        assert_int_equal(world_count(w, "objects/repos/main/objects"), 0);
}

static void roots_that_cannot_be_told_end_the_collection(void **state)
{
        struct world *w = *state;
        struct roots roots = {.r = LESSOR_E_UNAVAILABLE};
        const struct lessor_object_collection collection = {
                .grace_ms = 0, .roots = tell_roots, .context = &roots};
        struct lessor_object_collected c;

        assert_int_equal(world_put(w, "main", SLICE("old")), 0);
        clock_manual_advance(&w->clock, GRACE_MS);
        assert_int_equal(lessor_object_collect(w->store, &collection, &c), LESSOR_E_UNAVAILABLE);
        assert_true(world_has(w, "main", world_hash(w, SLICE("old"))));
}

static void an_attempts_output_outlives_a_collection_before_its_commit(void **state)
{
        static const struct lessor_object_stage stage = {SLICE("main"), SLICE("lease"), SLICE("attempt")};
        struct world *w = *state;
        struct lessor_object_version version;
        struct roots roots = {.n = 0};
        bool committed;

        assert_int_equal(world_stage(w, &stage, SLICE("output"), &version), 0);
        clock_manual_advance(&w->clock, 10 * GRACE_MS);
        collect(w, &roots, false);
        assert_int_equal(lessor_object_commit(w->store, &stage, &version, 1, &committed), 0);
        assert_true(committed);
        collect(w, &roots, false); /* a commit is a reference */
        assert_true(world_has(w, "main", version.hash));
}

static void a_crash_in_a_collection_loses_nothing_that_is_kept(void **state)
{
        struct world *w = *state;
        struct roots roots = {.n = 1};
        struct lessor_object_collected c;
        int status;
        pid_t child;

        for (int i = 0; i < 20; i++) {
                char text[16];

                snprintf(text, sizeof(text), "%d", i);
                assert_int_equal(world_put(w, "main", lessor_slice_of(text)), 0);
        }
        roots.hashes[0] = world_hash(w, SLICE("7"));
        clock_manual_advance(&w->clock, GRACE_MS + 1);
        w->store = lessor_object_store_free(w->store);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                if (world_try_open(w, &faulty_io) < 0)
                        _exit(1);
                faults = (struct faults){.fail_at = 10, .kill = true};
                collect(w, &roots, false);
                _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(world_try_open(w, NULL), 0);
        assert_int_equal(world_count(w, "objects/repos/main/objects"), 11);
        c = collect(w, &roots, false);
        assert_int_equal(c.n_removed, 10);
        assert_true(world_has(w, "main", roots.hashes[0]));
}

/* Objects that threads put, or touch and rely on, while collections run that may remove all that is old. */
#define N_USED 1024

struct user {
        struct world *w;
        unsigned seed;
        atomic_bool *stop;
        const char *fault;
};

static void text_of(unsigned number, char ret_text[24], char ret_hex[SHA256_HEX_LEN + 1])
{
        snprintf(ret_text, 24, "object %u", number);
        sha256_hex_of(lessor_slice_of(ret_text), ret_hex);
}

/* The object, there by whatever way; then it must be there. */
static const char *use_one(struct user *u, struct lessor_arena *arena, unsigned number)
{
        struct lessor_object_store *s = u->w->store;
        char text[24], hex[SHA256_HEX_LEN + 1];
        struct lessor_object_info info;
        struct lessor_slice hash = {hex, SHA256_HEX_LEN};
        int64_t since_ms = clock_now_ms(&u->w->clock.clock);
        int64_t size;

        text_of(number, text, hex);
        if (lessor_object_touch(s, SLICE("main"), &hash, 1, &size) < 0)
                return "touch failed";
        if (size < 0) {
                struct lessor_object_written written;
                struct lessor_object_writer *writer;
                int r = lessor_object_put(s, SLICE("main"), hash, (int64_t)strlen(text), &writer);

                if (r < 0)
                        return "put failed";
                r = lessor_object_write(writer, lessor_slice_of(text));
                if (r == 0)
                        r = lessor_object_finish(writer, arena, &written);
                lessor_object_writer_free(writer);
                if (r < 0)
                        return "finish failed";
        }
        if (lessor_object_stat(s, SLICE("main"), hash, &info) == 0)
                return NULL;
        /* Unless this thread slept for so long that the grace was over. */
        return clock_now_ms(&u->w->clock.clock) - since_ms < GRACE_MS ? "what was touched is gone" : NULL;
}

static void *use_objects(void *context)
{
        struct user *u = context;
        struct lessor_arena *arena = lessor_arena_new();

        while (arena != NULL && u->fault == NULL && !atomic_load(u->stop)) {
                u->seed = u->seed * 1103515245u + 12345u;
                u->fault = use_one(u, arena, u->seed >> 16 & (N_USED - 1));
                lessor_arena_clear(arena);
        }
        lessor_arena_free(arena);
        return NULL;
}

static void a_collection_beside_writers_takes_nothing_from_them(void **state)
{
        struct world *w = *state;
        atomic_bool stop = false;
        struct user users[3];
        pthread_t threads[3];
        struct roots roots = {.n = 0};
        size_t n_removed = 0;

        assert_int_equal(world_put(w, "main", SLICE("first")), 0); /* makes the repository */
        for (unsigned i = 0; i < ARRAY_SIZE(users); i++) {
                users[i] = (struct user){.w = w, .seed = i, .stop = &stop};
                assert_int_equal(pthread_create(&threads[i], NULL, use_objects, &users[i]), 0);
        }
        /* The clock moves by a grace period in small steps, so some are old whenever one looks. */
        for (int round = 0; round < 50 || (n_removed == 0 && round < 1000); round++) {
                clock_manual_advance(&w->clock, GRACE_MS / 4);
                n_removed += collect(w, &roots, false).n_removed;
        }
        atomic_store(&stop, true);
        for (unsigned i = 0; i < ARRAY_SIZE(users); i++) {
                pthread_join(threads[i], NULL);
                if (users[i].fault != NULL)
                        fail_msg("%s", users[i].fault);
        }
        assert_true(n_removed > 0);
}

/* --- Verification --- */

static int note_damaged(void *context, struct lessor_slice hash)
{
        struct lessor_slice *noted = context;

        assert_true(lessor_slice_equal(*noted, hash));
        noted->n = 0;
        return 0;
}

static void a_flipped_bit_is_found_and_set_aside(void **state)
{
        struct world *w = *state;
        struct lessor_slice hash = world_hash(w, SLICE("hello")), noted = hash;
        struct lessor_object_verified v;

        assert_int_equal(world_put(w, "main", SLICE("hello")), 0);
        assert_int_equal(world_put(w, "main", SLICE("world")), 0);
        assert_int_equal(lessor_object_verify(w->store, SLICE("main"), true, NULL, NULL, &v), 0);
        assert_int_equal(v.n_sound, 2);
        assert_int_equal(v.sound_bytes, 10);
        world_shell(w, "f=$(find objects/repos -type f | grep $(printf hello | sha256sum | cut -c3-64)) && "
                       "chmod u+w $f && printf hellp > $f");
        assert_int_equal(lessor_object_verify(w->store, SLICE("main"), true, note_damaged, &noted, &v), 0);
        assert_int_equal(v.n_sound, 1);
        assert_int_equal(v.n_damaged, 1);
        assert_int_equal(noted.n, 0);
        assert_false(world_has(w, "main", hash));
        assert_int_equal(world_put(w, "main", SLICE("hello")), 0);
        assert_int_equal(lessor_object_verify(w->store, SLICE("main"), true, note_damaged, &noted, &v), 0);
        assert_int_equal(v.n_damaged, 0);
        assert_int_equal(world_count(w, "objects/repos/main/damaged"), 1);
        assert_int_equal(lessor_object_verify(w->store, SLICE("nobody"), true, NULL, NULL, &v), 0);
        assert_int_equal(v.n_sound, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_graph_is_whole_when_everything_named_is_there),
                TEST(an_unknown_format_is_a_leaf_and_so_is_a_file),
                TEST(a_graph_with_a_lie_in_it_is_refused),
                TEST(a_graph_has_a_bottom),
                TEST(what_is_old_and_not_named_goes),
                TEST(roots_that_cannot_be_told_end_the_collection),
                TEST(an_attempts_output_outlives_a_collection_before_its_commit),
                TEST(a_crash_in_a_collection_loses_nothing_that_is_kept),
                TEST(a_collection_beside_writers_takes_nothing_from_them),
                TEST(a_flipped_bit_is_found_and_set_aside),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
