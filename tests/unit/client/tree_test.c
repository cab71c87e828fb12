/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/macro.h"
#include "check.h"
#include "tree_store.h"

/* Files into objects and back: docs/objects.md. */

struct world {
        char *dir;
        int from, to; /* directories in it */
        struct tree_store store;
        struct buf problem;
};

static int set_up(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        assert_non_null(w);
        w->dir = scratch_make();
        assert_int_equal(mkdir(scratch_path(w->dir, "from"), 0755), 0);
        assert_int_equal(mkdir(scratch_path(w->dir, "to"), 0755), 0);
        w->from = open(scratch_path(w->dir, "from"), O_RDONLY | O_DIRECTORY);
        w->to = open(scratch_path(w->dir, "to"), O_RDONLY | O_DIRECTORY);
        assert_true(w->from >= 0 && w->to >= 0);
        *state = w;
        return 0;
}

static int tear_down(void **state)
{
        struct world *w = *state;

        close(w->from);
        close(w->to);
        tree_store_done(&w->store);
        buf_done(&w->problem);
        scratch_remove(w->dir);
        free(w);
        return 0;
}

static void put_file(int dir, const char *name, const char *text, mode_t mode)
{
        int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(fchmod(fd, mode), 0);
        close(fd);
}

static void put_directory(int dir, const char *name)
{
        assert_int_equal(mkdirat(dir, name, 0755), 0);
}

static int pack_whole(struct world *w, int dir, struct tree_packed *ret_packed)
{
        const struct tree_root root = {.dir = dir, .from = ".", .within = true};
        const struct tree_sink sink = tree_store_sink(&w->store);

        return tree_pack(&root, 1, &sink, ret_packed, &w->problem);
}

/* Only the hash. */
static void hash_whole(struct world *w, int dir, struct tree_packed *ret_packed)
{
        const struct tree_root root = {.dir = dir, .from = ".", .within = true};
        const struct tree_sink nowhere = {.object = NULL};

        assert_int_equal(tree_pack(&root, 1, &nowhere, ret_packed, &w->problem), 0);
}

static int unpack(struct world *w, const char *hash, int64_t size, struct tree_unpacked *ret_unpacked)
{
        const struct tree_source source = tree_store_source(&w->store);

        return tree_unpack(lessor_slice_of(hash), size, w->to, &source, ret_unpacked, &w->problem);
}

static void comes_back(struct world *w)
{
        struct tree_packed packed, again;
        struct tree_unpacked unpacked;

        assert_int_equal(pack_whole(w, w->from, &packed), 0);
        assert_int_equal(unpack(w, packed.hash, packed.size, &unpacked), 0);
        assert_int_equal(unpacked.n_files, packed.n_files);
        assert_int_equal(unpacked.n_bytes, packed.n_bytes);
        assert_int_equal(w->store.n, packed.n_objects);
        hash_whole(w, w->to, &again);
        assert_string_equal(again.hash, packed.hash);
}

#define assert_problem(w, text)                                                       \
        do {                                                                          \
                if ((w)->problem.p == NULL || strstr((w)->problem.p, (text)) == NULL) \
                        fail_msg("the problem is: %s", (w)->problem.p);               \
        } while (0)

static void read_back(int dir, const char *name, char *ret_text, size_t cap)
{
        int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW);
        ssize_t n;

        assert_true(fd >= 0);
        n = read(fd, ret_text, cap - 1);
        assert_true(n >= 0);
        ret_text[n] = '\0';
        close(fd);
}

/* --- There and back --- */

static void odd_names_modes_links_and_empty_things_come_back(void **state)
{
        struct world *w = *state;
        char longest[LIMIT_TREE_NAME + 1], text[32], target[32] = {0};
        struct stat st;

        memset(longest, 'n', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        put_directory(w->from, "a");
        put_directory(w->from, "a/b");
        put_directory(w->from, "empty");
        put_file(w->from, "a/b/run", "#!/bin/sh\n", 0755);
        put_file(w->from, "a-b", "after a/b", 0640);
        put_file(w->from, "-rf", "dash", 0600);
        put_file(w->from, "line\nbreak \"quoted\" \\ \x01", "odd", 0644);
        put_file(w->from, "\xc3\xa4\xf0\x9f\x8c\xb2 ", "letters", 0644);
        put_file(w->from, longest, "long", 0644);
        put_file(w->from, "nothing", "", 0644);
        assert_int_equal(linkat(w->from, "a-b", w->from, "same", 0), 0);
        assert_int_equal(symlinkat("../../a-b", w->from, "a/b/link"), 0);
        assert_int_equal(symlinkat("gone", w->from, "dangling"), 0);
        comes_back(w);

        assert_int_equal(fstatat(w->to, "a/b/run", &st, 0), 0);
        assert_int_equal(st.st_mode & 0111, 0111);
        assert_int_equal(fstatat(w->to, "-rf", &st, 0), 0);
        assert_int_equal(st.st_mode & 0111, 0);
        assert_int_equal(readlinkat(w->to, "a/b/link", target, sizeof(target) - 1), 9);
        assert_string_equal(target, "../../a-b");
        assert_int_equal(fstatat(w->to, "empty", &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISDIR(st.st_mode));
        read_back(w->to, "line\nbreak \"quoted\" \\ \x01", text, sizeof(text));
        assert_string_equal(text, "odd");
        /* What was one file with two names is two files. */
        assert_int_equal(fstatat(w->to, "same", &st, 0), 0);
        assert_int_equal(st.st_nlink, 1);
}

static void the_hash_is_of_the_content_alone(void **state)
{
        static const struct timespec old[2] = {{1000, 0}, {1000, 0}};
        struct world *w = *state;
        struct tree_packed first, second;

        put_file(w->from, "a", "1", 0644);
        put_file(w->from, "b", "2", 0755);
        put_file(w->to, "b", "2", 0711);
        put_file(w->to, "a", "1", 0600);
        assert_int_equal(utimensat(w->to, "a", old, 0), 0);
        hash_whole(w, w->from, &first);
        hash_whole(w, w->to, &second);
        assert_string_equal(first.hash, second.hash);
        assert_int_equal(fchmodat(w->to, "a", 0700, 0), 0);
        hash_whole(w, w->to, &second);
        assert_string_not_equal(first.hash, second.hash);
}

static void an_empty_directory_is_an_empty_tree(void **state)
{
        struct world *w = *state;
        struct tree_packed packed;

        assert_int_equal(pack_whole(w, w->from, &packed), 0);
        assert_string_equal(w->store.objects[0].hash, packed.hash);
        assert_int_equal(w->store.objects[0].n, strlen("{\"format\":\"lessor.tree/1\",\"entries\":[]}"));
        assert_int_equal(unpack(w, packed.hash, packed.size, NULL), 0);
}

/* Hard links, since making files takes its time. */
static void put_many(int dir, int n)
{
        char name[32];

        put_file(dir, "many/0", "x", 0644);
        for (int i = 1; i < n; i++) {
                snprintf(name, sizeof(name), "many/%d", i);
                assert_int_equal(linkat(dir, "many/0", dir, name, 0), 0);
        }
}

static void read_tree(struct world *w, const char *hash, struct lessor_arena *arena, struct tree *ret_tree)
{
        const struct tree_store_object *object = tree_store_find(&w->store, hash);

        assert_non_null(object);
        assert_true(object->is_tree);
        assert_int_equal(tree_read((struct lessor_slice){object->bytes, object->n}, arena, ret_tree, NULL),
                         0);
}

static void a_directory_with_many_files_becomes_a_tree_of_its_own(void **state)
{
        struct world *w = *state;
        struct lessor_arena *arena = lessor_arena_new();
        struct tree_packed packed;
        struct tree top, many;

        put_directory(w->from, "many");
        put_directory(w->from, "few");
        put_file(w->from, "few/file", "few", 0644);
        put_many(w->from, 4200);
        assert_int_equal(pack_whole(w, w->from, &packed), 0);
        assert_int_equal(packed.n_files, 4201);
        assert_int_equal(packed.n_objects, 4); /* two files, two trees */
        read_tree(w, packed.hash, arena, &top);
        assert_int_equal(top.n_entries, 2);
        assert_text_equal(top.entries[0].path, "few/file");
        assert_text_equal(top.entries[1].path, "many");
        assert_int_equal(top.entries[1].type, TREE_TREE);
        read_tree(w, top.entries[1].hash.p, arena, &many);
        assert_int_equal(many.n_entries, 4200);
        lessor_arena_free(arena);
}

static void a_link_keeps_its_directory_within_the_tree_that_it_leads_to(void **state)
{
        struct world *w = *state;
        struct lessor_arena *arena = lessor_arena_new();
        struct tree_packed packed;
        struct tree top;

        put_directory(w->from, "many");
        put_file(w->from, "target", "there", 0644);
        assert_int_equal(symlinkat("../target", w->from, "many/link"), 0);
        put_many(w->from, 4200);
        assert_int_equal(pack_whole(w, w->from, &packed), 0);
        assert_int_equal(packed.n_objects, 3); /* the target, the x and one tree */
        read_tree(w, packed.hash, arena, &top);
        assert_int_equal(top.n_entries, 4202);
        lessor_arena_free(arena);
}

static void holes_stay_holes(void **state)
{
        struct world *w = *state;
        struct tree_packed packed;
        struct stat st;
        int fd = openat(w->from, "sparse", O_WRONLY | O_CREAT, 0644);

        assert_int_equal(pwrite(fd, "end", 3, (64 << 20) - 3), 3);
        assert_int_equal(ftruncate(fd, 96 << 20), 0);
        close(fd);
        for (int i = 0; i < 2; i++) {
                w->store.by_file = i == 1;
                tree_store_done(&w->store);
                assert_int_equal(pack_whole(w, w->from, &packed), 0);
                assert_int_equal(unpack(w, packed.hash, packed.size, NULL), 0);
                assert_int_equal(fstatat(w->to, "sparse", &st, 0), 0);
                assert_int_equal(st.st_size, 96 << 20);
                assert_true(st.st_blocks < 2048);
                hash_whole(w, w->to, &packed);
                assert_int_equal(unlinkat(w->to, "sparse", 0), 0);
        }
}

/* --- Roots --- */

static void roots_land_at_their_paths(void **state)
{
        struct world *w = *state;
        const struct tree_root roots[] = {
                {.at = LESSOR_SLICE("out/model"), .dir = w->from, .from = "made", .within = true},
                {.at = LESSOR_SLICE("log"), .dir = w->from, .from = "made/x", .within = true},
                {.at = LESSOR_SLICE("maybe"),
                 .dir = w->from,
                 .from = "not/there",
                 .within = true,
                 .optional = true},
                {.at = LESSOR_SLICE("none"), .dir = w->from, .from = "empty", .within = true},
        };
        const struct tree_sink sink = tree_store_sink(&w->store);
        struct lessor_arena *arena = lessor_arena_new();
        struct tree_packed packed;
        struct tree tree;

        put_directory(w->from, "made");
        put_directory(w->from, "empty");
        put_file(w->from, "made/x", "x", 0644);
        put_file(w->from, "made/y", "y", 0755);
        assert_int_equal(
                tree_pack_entries(roots, ARRAY_SIZE(roots), &sink, arena, &tree, &packed, &w->problem), 0);
        assert_int_equal(tree.n_entries, 4);
        assert_text_equal(tree.entries[0].path, "log");
        assert_text_equal(tree.entries[1].path, "none");
        assert_int_equal(tree.entries[1].type, TREE_DIRECTORY);
        assert_text_equal(tree.entries[2].path, "out/model/x");
        assert_text_equal(tree.entries[3].path, "out/model/y");
        assert_int_equal(tree.entries[3].mode, TREE_MODE_755);
        assert_int_equal(packed.n_objects, 2);
        assert_int_equal(packed.n_files, 3);
        lessor_arena_free(arena);
}

static void a_root_that_is_missing_is_named(void **state)
{
        struct world *w = *state;
        const struct tree_root root = {
                .at = LESSOR_SLICE("out"), .dir = w->from, .from = "gone", .within = true};
        const struct tree_sink sink = tree_store_sink(&w->store);
        struct tree_packed packed;

        assert_int_equal(tree_pack(&root, 1, &sink, &packed, &w->problem), LESSOR_E_NOT_FOUND);
        assert_problem(w, "out");
}

static void a_root_from_elsewhere_does_not_lead_out(void **state)
{
        static const char *const bad[] = {"../to/secret", "/etc/passwd", "way/secret", "a//b", "./x", ""};
        struct world *w = *state;
        const struct tree_sink sink = tree_store_sink(&w->store);
        struct tree_packed packed;

        put_file(w->to, "secret", "secret", 0644);
        assert_int_equal(symlinkat("../to", w->from, "way"), 0);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                const struct tree_root root = {
                        .at = LESSOR_SLICE("out"), .dir = w->from, .from = bad[i], .within = true};

                assert_in_range(-tree_pack(&root, 1, &sink, &packed, &w->problem), 1, 100);
                assert_int_equal(w->store.n, 0);
        }
        /* The link itself is a link, and leads out of the tree. */
        assert_int_equal(tree_pack(&(struct tree_root){.at = LESSOR_SLICE("out"),
                                                       .dir = w->from,
                                                       .from = "way",
                                                       .within = true},
                                   1, &sink, &packed, &w->problem),
                         LESSOR_E_INVALID);
        assert_int_equal(w->store.n, 0);
}

static void the_users_own_words_may_be_links(void **state)
{
        struct world *w = *state;
        const struct tree_root root = {.at = LESSOR_SLICE("data"), .dir = w->from, .from = "way/file"};
        const struct tree_sink sink = tree_store_sink(&w->store);
        struct tree_packed packed;

        put_file(w->to, "file", "linked", 0644);
        assert_int_equal(symlinkat("../to", w->from, "way"), 0);
        assert_int_equal(tree_pack(&root, 1, &sink, &packed, &w->problem), 0);
        assert_int_equal(packed.n_files, 1);
}

static void roots_within_each_other_are_refused(void **state)
{
        struct world *w = *state;
        const struct tree_root roots[] = {
                {.at = LESSOR_SLICE("a/b"), .dir = w->from, .from = "."},
                {.at = LESSOR_SLICE("a"), .dir = w->from, .from = "."},
        };
        const struct tree_sink sink = tree_store_sink(&w->store);
        struct tree_packed packed;

        assert_int_equal(tree_pack(roots, 2, &sink, &packed, &w->problem), LESSOR_E_INVALID);
        assert_problem(w, "within another");
}

/* --- What a tree cannot hold --- */

static void refused(struct world *w, const char *problem)
{
        struct tree_packed packed;

        assert_int_equal(pack_whole(w, w->from, &packed), LESSOR_E_INVALID);
        assert_problem(w, problem);
}

static void directories_go_as_deep_as_a_path(void **state)
{
        struct world *w = *state;
        int dir = dup(w->from);
        char longest[LIMIT_TREE_NAME + 1];
        struct tree_packed packed;

        memset(longest, 'n', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        /* 600 bytes of short names and 2,304 of long ones; 168 are left. */
        for (int i = 0; i < 309; i++) {
                const char *name = i < 300 ? "d" : longest;
                int next;

                put_directory(dir, name);
                next = openat(dir, name, O_RDONLY | O_DIRECTORY);
                assert_true(next >= 0);
                close(dir);
                dir = next;
        }
        put_file(dir, "end", "deep", 0644);
        comes_back(w);
        put_directory(dir, longest + LIMIT_TREE_NAME - 168);
        hash_whole(w, w->from, &packed);
        put_directory(dir, longest + LIMIT_TREE_NAME - 169);
        close(dir);
        tree_store_done(&w->store);
        refused(w, "longer than 3072");
}

static void pipes_and_sockets_are_refused(void **state)
{
        struct world *w = *state;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int s = socket(AF_UNIX, SOCK_STREAM, 0);

        put_directory(w->from, "dir");
        assert_int_equal(mkfifoat(w->from, "dir/pipe", 0600), 0);
        refused(w, "dir/pipe: this is a named pipe");
        assert_int_equal(unlinkat(w->from, "dir/pipe", 0), 0);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/from/dir/socket", w->dir);
        assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
        refused(w, "dir/socket: this is a socket");
        close(s);
}

static void names_that_are_no_text_are_refused_and_shown(void **state)
{
        struct world *w = *state;

        put_file(w->from, "caf\xe9", "latin", 0644);
        refused(w, "caf\\xe9: its name is no UTF-8");
}

static void links_that_lead_out_are_refused(void **state)
{
        static const char *const targets[] = {"/etc/passwd", "../x", "a/../../x", "dir/../x"};
        struct world *w = *state;

        for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
                assert_int_equal(symlinkat(targets[i], w->from, "link"), 0);
                refused(w, "link: this link leads out");
                assert_int_equal(unlinkat(w->from, "link", 0), 0);
        }
}

/* --- Trees that are not to be trusted --- */

static const char *entry_hash(struct world *w, const char *text)
{
        return tree_store_add(&w->store, lessor_slice_of(text))->hash;
}

static int unpack_text(struct world *w, const char *text)
{
        const struct tree_store_object *tree = tree_store_add(&w->store, lessor_slice_of(text));

        return unpack(w, tree->hash, (int64_t)tree->n, NULL);
}

static void malformed_trees_place_nothing(void **state)
{
        static const char *const bad[] = {
                "{\"format\":\"lessor.tree/1\",\"entries\":[{\"type\":\"link\",\"path\":\"a\",\"target\":\"/"
                "etc\"}]}",
                "{\"format\":\"lessor.tree/"
                "1\",\"entries\":[{\"type\":\"link\",\"path\":\"a\",\"target\":\"..\"}]}",
                "{\"format\":\"lessor.tree/1\",\"entries\":[{\"type\":\"directory\",\"path\":\"../a\"}]}",
                "{\"format\":\"lessor.tree/1\",\"entries\":[{\"type\":\"directory\",\"path\":\"/a\"}]}",
                "{\"format\":\"lessor.tree/"
                "1\",\"entries\":[{\"type\":\"link\",\"path\":\"a\",\"target\":\"b\"},"
                "{\"type\":\"directory\",\"path\":\"a/b\"}]}",
                "no tree at all",
        };
        struct world *w = *state;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                int r = unpack_text(w, bad[i]);

                assert_true(r == LESSOR_E_INVALID || r == LESSOR_E_MALFORMED);
                assert_problem(w, "not valid");
        }
        assert_int_equal(scratch_count(scratch_path(w->dir, "to")), 0);
}

/* A tree below a link of another one would be a way out, if links were followed. */
static void links_are_never_gone_through(void **state)
{
        struct world *w = *state;
        char text[400];

        snprintf(text, sizeof(text),
                 "{\"format\":\"lessor.tree/1\",\"entries\":[{\"type\":\"file\",\"path\":\"way/"
                 "file\",\"mode\":"
                 "\"644\",\"hash\":\"%s\",\"size\":3}]}",
                 entry_hash(w, "out"));
        assert_int_equal(symlinkat("../from", w->to, "way"), 0);
        assert_int_equal(unpack_text(w, text), LESSOR_E_PERMISSION);
        assert_problem(w, "way/file: a link or a file is in the way");
        assert_int_equal(scratch_count(scratch_path(w->dir, "from")), 0);
}

static void what_is_there_is_never_replaced(void **state)
{
        struct world *w = *state;
        char text[400], there[16];

        snprintf(text, sizeof(text),
                 "{\"format\":\"lessor.tree/"
                 "1\",\"entries\":[{\"type\":\"file\",\"path\":\"file\",\"mode\":\"644\","
                 "\"hash\":\"%s\",\"size\":3}]}",
                 entry_hash(w, "new"));
        put_file(w->to, "file", "old", 0644);
        assert_int_equal(unpack_text(w, text), LESSOR_E_EXISTS);
        read_back(w->to, "file", there, sizeof(there));
        assert_string_equal(there, "old");
        assert_int_equal(unlinkat(w->to, "file", 0), 0);
        assert_int_equal(symlinkat("../from/made", w->to, "file"), 0);
        assert_int_equal(unpack_text(w, text), LESSOR_E_EXISTS);
        assert_int_equal(scratch_count(scratch_path(w->dir, "from")), 0);
}

static void other_bytes_than_the_tree_says_are_removed(void **state)
{
        struct world *w = *state;
        struct tree_store_object *object;
        struct tree_packed packed;

        put_file(w->from, "file", "right", 0644);
        assert_int_equal(pack_whole(w, w->from, &packed), 0);
        object = tree_store_find(&w->store, w->store.objects[0].hash);
        object->bytes[0] = 'w';
        assert_int_equal(unpack(w, packed.hash, packed.size, NULL), LESSOR_E_MISMATCH);
        assert_problem(w, "file: its object has other bytes");
        object->bytes[0] = 'r';
        object->n--;
        assert_int_equal(unpack(w, packed.hash, packed.size, NULL), LESSOR_E_MISMATCH);
        object->hash[0] = 'x';
        assert_int_equal(unpack(w, packed.hash, packed.size, NULL), LESSOR_E_NOT_FOUND);
        assert_problem(w, "file: its object is missing");
        assert_int_equal(scratch_count(scratch_path(w->dir, "to")), 0);
}

static void trees_in_one_another_have_an_end(void **state)
{
        struct world *w = *state;
        const struct tree_store_object *tree =
                tree_store_add(&w->store, LESSOR_SLICE("{\"format\":\"lessor.tree/1\",\"entries\":[]}"));
        char text[300];

        for (int i = 0; i < LIMIT_GRAPH_DEPTH; i++) {
                assert_int_equal(unpack(w, tree->hash, (int64_t)tree->n, NULL), 0);
                snprintf(text, sizeof(text),
                         "{\"format\":\"lessor.tree/"
                         "1\",\"entries\":[{\"type\":\"tree\",\"path\":\"t\",\"hash\":\"%s\","
                         "\"size\":%zu}]}",
                         tree->hash, tree->n);
                tree = tree_store_add(&w->store, lessor_slice_of(text));
        }
        assert_int_equal(unpack(w, tree->hash, (int64_t)tree->n, NULL), LESSOR_E_TOO_LARGE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(odd_names_modes_links_and_empty_things_come_back),
                TEST(the_hash_is_of_the_content_alone),
                TEST(an_empty_directory_is_an_empty_tree),
                TEST(a_directory_with_many_files_becomes_a_tree_of_its_own),
                TEST(a_link_keeps_its_directory_within_the_tree_that_it_leads_to),
                TEST(directories_go_as_deep_as_a_path),
                TEST(holes_stay_holes),
                TEST(roots_land_at_their_paths),
                TEST(a_root_that_is_missing_is_named),
                TEST(a_root_from_elsewhere_does_not_lead_out),
                TEST(the_users_own_words_may_be_links),
                TEST(roots_within_each_other_are_refused),
                TEST(pipes_and_sockets_are_refused),
                TEST(names_that_are_no_text_are_refused_and_shown),
                TEST(links_that_lead_out_are_refused),
                TEST(malformed_trees_place_nothing),
                TEST(links_are_never_gone_through),
                TEST(what_is_there_is_never_replaced),
                TEST(other_bytes_than_the_tree_says_are_removed),
                TEST(trees_in_one_another_have_an_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
