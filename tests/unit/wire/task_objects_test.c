/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/macro.h"
#include "wire/task_objects.h"

#define SLICE(text) LESSOR_SLICE(text)
#define HASH        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void paths_are_plain_and_relative(void **state)
{
        static const struct {
                struct lessor_slice path;
                bool valid;
        } cases[] = {
                {SLICE("a"), true},
                {SLICE("a/b/c.txt"), true},
                {SLICE("..."), true},
                {SLICE(".hidden/..b/c.."), true},
                {SLICE("a b\n\t\\*?\"'$`;|&<>"), true}, /* odd, and a name */
                {SLICE("\xc3\xa4/\xf0\x9f\x8e\x89"), true},
                {SLICE("-rf"), true},
                {SLICE(""), false},
                {SLICE("/a"), false},
                {SLICE("a/"), false},
                {SLICE("a//b"), false},
                {SLICE("."), false},
                {SLICE("./a"), false},
                {SLICE("a/./b"), false},
                {SLICE(".."), false},
                {SLICE("../a"), false},
                {SLICE("a/../b"), false},
                {SLICE("a/.."), false},
                {SLICE("a\0b"), false},
                {SLICE("a\xff"), false},
                {SLICE("\xc0\xaf"), false}, /* a slash in disguise */
        };
        char longest[LIMIT_TREE_PATH + 2];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (tree_path_valid(cases[i].path) != cases[i].valid)
                        fail_msg("\"%s\"", cases[i].path.p);
        memset(longest, 'x', sizeof(longest));
        assert_true(tree_path_valid((struct lessor_slice){longest, LIMIT_TREE_NAME}));
        assert_false(tree_path_valid((struct lessor_slice){longest, LIMIT_TREE_NAME + 1}));
        for (size_t i = 200; i < sizeof(longest); i += 201)
                longest[i] = '/';
        assert_true(tree_path_valid((struct lessor_slice){longest, LIMIT_TREE_PATH}));
        assert_false(tree_path_valid((struct lessor_slice){longest, LIMIT_TREE_PATH + 1}));
}

static void links_stay_in_the_tree(void **state)
{
        static const struct {
                struct lessor_slice path, target;
                bool valid;
        } cases[] = {
                {SLICE("l"), SLICE("a"), true},
                {SLICE("l"), SLICE("a/b"), true},
                {SLICE("d/l"), SLICE("../a"), true},
                {SLICE("d/l"), SLICE(".."), true},
                {SLICE("d/e/l"), SLICE("../../a/b"), true},
                {SLICE("l"), SLICE(".."), false},
                {SLICE("l"), SLICE("../a"), false},
                {SLICE("d/l"), SLICE("../../a"), false},
                {SLICE("d/l"), SLICE("b/.."), false}, /* b may lead elsewhere */
                {SLICE("d/l"), SLICE("../b/.."), false},
                {SLICE("l"), SLICE("/etc/passwd"), false},
                {SLICE("l"), SLICE(""), false},
                {SLICE("l"), SLICE("a\0b"), false},
                {SLICE("d/l"), SLICE("../"), false},
                {SLICE("d/l"), SLICE("..//etc"), false},
                {SLICE("d/l"), SLICE("./a"), false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (tree_target_valid(cases[i].path, cases[i].target) != cases[i].valid)
                        fail_msg("%s -> %s", cases[i].path.p, cases[i].target.p);
}

static void what_is_below_a_path_comes_right_behind_it(void **state)
{
        static const struct lessor_slice order[] = {SLICE("a"),    SLICE("a/b"), SLICE("a/b/c"),
                                                    SLICE("a/b-"), SLICE("a\n"), SLICE("a."),
                                                    SLICE("a0"),   SLICE("b"),   SLICE("\xc3\xa4")};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(order); i++)
                for (size_t k = 0; k < ARRAY_SIZE(order); k++) {
                        int is = tree_path_cmp(order[i], order[k]);

                        assert_int_equal((is > 0) - (is < 0), (i > k) - (i < k));
                }
}

static const char whole_tree[] =
        "{\"format\":\"lessor.tree/1\",\"entries\":["
        "{\"type\":\"file\",\"path\":\"a \\\"quoted\\\"\\n\",\"mode\":\"755\",\"hash\":\"" HASH
        "\",\"size\":0},"
        "{\"type\":\"directory\",\"path\":\"d\"},"
        "{\"type\":\"link\",\"path\":\"d/l\",\"target\":\"../a\"},"
        "{\"type\":\"tree\",\"path\":\"d/t\",\"hash\":\"" HASH "\",\"size\":5368709120}]}";

static const char whole_task[] =
        "{\"format\":\"lessor.task/1\",\"argv\":[\"./train.sh\",\"\",\"data.csv\"],"
        "\"environment\":{\"A\":\"\",\"PATH\":\"/usr/bin\"},"
        "\"inputs\":[{\"type\":\"file\",\"path\":\"data.csv\",\"mode\":\"644\",\"hash\":\"" HASH
        "\",\"size\":12}],"
        "\"outputs\":[{\"path\":\"model\",\"required\":true},{\"path\":\"notes\",\"required\":false}],"
        "\"directory\":\".\",\"network\":false,\"limits\":{\"timeMs\":1000,\"processes\":5}}";

static void what_is_read_is_written_the_same(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct tree tree;
        struct task task;
        struct buf out;

        (void)state;
        assert_non_null(arena);
        buf_init(&out);
        assert_int_equal(tree_read(lessor_slice_of(whole_tree), arena, &tree, NULL), 0);
        assert_int_equal(tree.n_entries, 4);
        assert_int_equal(tree.entries[0].mode, TREE_MODE_755);
        assert_int_equal(tree.entries[3].size, LIMIT_OBJECT_BYTES);
        assert_int_equal(tree_write(&tree, &out, NULL), 0);
        assert_string_equal(out.p, whole_tree);
        assert_memory_equal(out.p, tree_prefix.p, tree_prefix.n);
        buf_clear(&out);
        assert_int_equal(task_read(lessor_slice_of(whole_task), arena, &task, NULL), 0);
        assert_int_equal(task.n_argv, 3);
        assert_int_equal(task.limits.processes, 5);
        assert_int_equal(task.limits.memory_bytes, 0);
        assert_int_equal(task_write(&task, &out, NULL), 0);
        assert_string_equal(out.p, whole_task);
        assert_memory_equal(out.p, task_prefix.p, task_prefix.n);
        buf_done(&out);
        lessor_arena_free(arena);
}

#define TREE(entries) "{\"format\":\"lessor.tree/1\",\"entries\":[" entries "]}"
#define FILE_AT(path) \
        "{\"type\":\"file\",\"path\":\"" path "\",\"mode\":\"644\",\"hash\":\"" HASH "\",\"size\":1}"
#define DIR_AT(path) "{\"type\":\"directory\",\"path\":\"" path "\"}"

static void trees_that_are_none_are_refused(void **state)
{
        static const struct {
                const char *text;
                int code;
                const char *problem; /* a part of it */
        } cases[] = {
                {TREE(""), 0, NULL},
                {TREE(FILE_AT("a") "," FILE_AT("b")), 0, NULL},
                {TREE(DIR_AT("a") "," FILE_AT("a/b") "," FILE_AT("a.b")), 0, NULL},
                {TREE(FILE_AT("a/b")), 0, NULL}, /* directories need not be named */
                {TREE(FILE_AT("b") "," FILE_AT("a")), LESSOR_E_INVALID, "order"},
                {TREE(FILE_AT("a") "," FILE_AT("a")), LESSOR_E_INVALID, "one path"},
                {TREE(DIR_AT("a") "," FILE_AT("a")), LESSOR_E_INVALID, "one path"},
                {TREE(FILE_AT("a") "," FILE_AT("a/b")), LESSOR_E_INVALID, "below"},
                {TREE("{\"type\":\"link\",\"path\":\"a\",\"target\":\"b\"}," FILE_AT("a/x")),
                 LESSOR_E_INVALID, "below"},
                {TREE("{\"type\":\"link\",\"path\":\"a\",\"target\":\"/etc\"}"), LESSOR_E_INVALID, "link"},
                {TREE(FILE_AT("../a")), LESSOR_E_INVALID, "path"},
                {TREE(FILE_AT("/a")), LESSOR_E_INVALID, "path"},
                {TREE(FILE_AT("a\\u0000b")), LESSOR_E_INVALID, "path"},
                {TREE("{\"type\":\"fifo\",\"path\":\"a\"}"), LESSOR_E_INVALID, "type"},
                {TREE("{\"type\":\"directory\",\"path\":\"a\",\"mode\":\"755\"}"), LESSOR_E_INVALID, "mode"},
                {TREE("{\"type\":\"file\",\"path\":\"a\",\"mode\":\"4755\",\"hash\":\"" HASH
                      "\",\"size\":1}"),
                 LESSOR_E_INVALID, "mode"},
                {TREE("{\"type\":\"file\",\"path\":\"a\",\"mode\":\"644\",\"hash\":\"" HASH
                      "\",\"size\":5368709121}"),
                 LESSOR_E_INVALID, "size"},
                {TREE("{\"type\":\"file\",\"path\":\"a\",\"mode\":\"644\",\"hash\":"
                      "\"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\",\"size\":1}"),
                 LESSOR_E_INVALID, "hash"},
                {"{\"format\":\"lessor.tree/2\",\"entries\":[]}", LESSOR_E_INVALID, "format"},
                {"{\"format\":\"lessor.tree/1\"}", LESSOR_E_INVALID, "entries"},
                /* One spelling only. */
                {"{\"entries\":[],\"format\":\"lessor.tree/1\"}", LESSOR_E_MALFORMED, NULL},
                {TREE(" "), LESSOR_E_MALFORMED, NULL},
                {TREE("") "\n", LESSOR_E_MALFORMED, NULL},
                {TREE(FILE_AT("\\u0061")), LESSOR_E_MALFORMED, NULL},
                {TREE("{\"type\":\"tree\",\"path\":\"a\",\"hash\":\"" HASH "\",\"size\":1.0}"),
                 LESSOR_E_MALFORMED, NULL},
                {"{\"format\":\"lessor.tree/1\",\"entries\":[],\"entries\":[]}", LESSOR_E_MALFORMED, NULL},
                {"nothing of the kind", LESSOR_E_MALFORMED, NULL},
                {"", LESSOR_E_MALFORMED, NULL},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct lessor_arena *arena = lessor_arena_new();
                const char *problem = NULL;
                struct tree tree;
                int r = tree_read(lessor_slice_of(cases[i].text), arena, &tree, &problem);

                if (r != cases[i].code)
                        fail_msg("%s: %s", cases[i].text, lessor_error_name(r));
                if (cases[i].problem != NULL &&
                    (problem == NULL || strstr(problem, cases[i].problem) == NULL))
                        fail_msg("%s: %s", cases[i].text, problem == NULL ? "-" : problem);
                lessor_arena_free(arena);
        }
}

/* Each case changes one thing of a good task. */
static void tasks_that_are_none_are_refused(void **state)
{
        static const struct {
                const char *from, *to, *problem;
        } cases[] = {
                {"[\"./train.sh\",\"\",\"data.csv\"]", "[]", "argv"},
                {"\"./train.sh\"", "\"\"", "no command"},
                {"\"./train.sh\"", "\"a\\u0000b\"", "argument"},
                {"\"A\":\"\"", "\"A=B\":\"\"", "variable"},
                {"\"A\":\"\"", "\"A\":\"\\u0000\"", "variable"},
                {"\"A\":\"\"", "\"Z\":\"\"", "order"},
                {"\"path\":\"data.csv\"", "\"path\":\"/data.csv\"", "path"},
                {"\"path\":\"model\"", "\"path\":\"../model\"", "output"},
                {"\"path\":\"model\"", "\"path\":\"z\"", "order"},
                {"\"path\":\"notes\"", "\"path\":\"model/notes\"", "below"},
                {"\"directory\":\".\"", "\"directory\":\"..\"", "directory"},
                {"\"directory\":\".\"", "\"directory\":\"/\"", "directory"},
                {"\"network\":false", "\"network\":0", "network"},
                {"\"timeMs\":1000", "\"timeMs\":0", "timeMs"},
                {"\"timeMs\":1000", "\"nice\":5", "nice"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct lessor_arena *arena = lessor_arena_new();
                const char *at = strstr(whole_task, cases[i].from), *problem = NULL;
                struct task task;
                struct buf text;

                assert_non_null(at);
                buf_init(&text);
                buf_append(&text, whole_task, (size_t)(at - whole_task));
                buf_text(&text, cases[i].to);
                buf_text(&text, at + strlen(cases[i].from));
                assert_int_equal(task_read(buf_view(&text), arena, &task, &problem), LESSOR_E_INVALID);
                if (problem == NULL || strstr(problem, cases[i].problem) == NULL)
                        fail_msg("%s: %s", cases[i].to, problem == NULL ? "-" : problem);
                buf_done(&text);
                lessor_arena_free(arena);
        }
}

static void what_could_not_be_read_is_not_written(void **state)
{
        struct tree_entry entries[] = {
                {.type = TREE_DIRECTORY, .path = SLICE("b")},
                {.type = TREE_DIRECTORY, .path = SLICE("a")},
        };
        const struct tree tree = {entries, 2};
        const struct task task = {.n_argv = 0, .directory = SLICE(".")};
        const char *problem = NULL;
        struct buf out;

        (void)state;
        buf_init(&out);
        assert_int_equal(tree_write(&tree, &out, &problem), LESSOR_E_INVALID);
        assert_string_equal(problem, "paths are not in order");
        assert_int_equal(task_write(&task, &out, &problem), LESSOR_E_INVALID);
        assert_string_equal(problem, "there is no command");
        assert_int_equal(out.n, 0);
        buf_done(&out);
}

static void as_many_entries_as_the_limit_says(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct tree tree = {.n_entries = LIMIT_TREE_ENTRIES + 1}, again;
        struct buf out;

        (void)state;
        tree.entries = lessor_arena_array(arena, tree.n_entries, sizeof(*tree.entries));
        assert_non_null(tree.entries);
        for (size_t i = 0; i < tree.n_entries; i++) {
                struct buf path;

                buf_init(&path);
                buf_printf(&path, "dir/%08zu", i);
                tree.entries[i] = (struct tree_entry){.type = TREE_FILE, .hash = SLICE(HASH), .size = 1};
                assert_int_equal(lessor_arena_copy(arena, buf_view(&path), &tree.entries[i].path), 0);
                buf_done(&path);
        }
        buf_init(&out);
        assert_int_equal(tree_write(&tree, &out, NULL), LESSOR_E_INVALID);
        tree.n_entries--;
        assert_int_equal(tree_write(&tree, &out, NULL), 0);
        assert_int_equal(tree_read(buf_view(&out), arena, &again, NULL), 0);
        assert_int_equal(again.n_entries, LIMIT_TREE_ENTRIES);
        buf_done(&out);
        lessor_arena_free(arena);
}

/* Every JSON block of the document is a tree or a task. */
static void the_examples_of_the_document_are_valid(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        const char *data = getenv("LESSOR_TEST_DATA"), *at;
        struct buf path, text;
        size_t n = 0;

        (void)state;
        assert_non_null(data);
        buf_init(&path);
        buf_init(&text);
        buf_printf(&path, "%s/../../docs/objects.md", data);
        assert_int_equal(file_read(path.p, 1u << 20, &text), 0);
        for (at = strstr(text.p, "```json\n"); at != NULL; at = strstr(at, "```json\n"), n++) {
                struct lessor_slice block = {at + 8, (size_t)(strchr(at + 8, '\n') - (at + 8))};
                struct tree tree;
                struct task task;

                if (tree_read(block, arena, &tree, NULL) < 0 && task_read(block, arena, &task, NULL) < 0)
                        fail_msg("%.*s", (int)block.n, block.p);
                at += 8;
        }
        assert_int_equal(n, 2);
        buf_done(&path);
        buf_done(&text);
        lessor_arena_free(arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(paths_are_plain_and_relative),
                cmocka_unit_test(links_stay_in_the_tree),
                cmocka_unit_test(what_is_below_a_path_comes_right_behind_it),
                cmocka_unit_test(what_is_read_is_written_the_same),
                cmocka_unit_test(trees_that_are_none_are_refused),
                cmocka_unit_test(tasks_that_are_none_are_refused),
                cmocka_unit_test(what_could_not_be_read_is_not_written),
                cmocka_unit_test(as_many_entries_as_the_limit_says),
                cmocka_unit_test(the_examples_of_the_document_are_valid),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
