/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "check.h"
#include "client/dir_tree.h"
#include "client/rack_identity.h"
#include "client/rack_outbox.h"

/* rack.json, the outbox, and directories that tasks leave. */

#define TOKEN(digit) "e3rk_" TEXT64(digit)
#define TEXT4(d)     d d d d
#define TEXT16(d)    TEXT4(d) TEXT4(d) TEXT4(d) TEXT4(d)
#define TEXT64(d)    TEXT16(d) TEXT16(d) TEXT16(d) TEXT16(d)

static int set_up(void **state)
{
        *state = scratch_make();
        return 0;
}

static int tear_down(void **state)
{
        scratch_remove(*state);
        return 0;
}

static const char *rack_json(void **state)
{
        return scratch_path(*state, "rack.json");
}

static struct rack_identity *load(void **state)
{
        struct rack_identity *identity = NULL;
        struct buf problem = {0};

        assert_int_equal(rack_identity_load(rack_json(state), &identity, &problem), 0);
        buf_done(&problem);
        return identity;
}

static struct rack_identity *make(void **state)
{
        assert_int_equal(rack_identity_create(rack_json(state), LESSOR_SLICE("http://h"),
                                              LESSOR_SLICE("rack-1"), LESSOR_SLICE(TOKEN("a")), false),
                         0);
        return load(state);
}

static void assert_token(struct rack_identity *identity, const char *token)
{
        char found[RACK_TOKEN_LEN + 1];

        rack_identity_token(identity, found);
        assert_string_equal(found, token);
}

/* What the next start would find. */
static void assert_on_disk(void **state, const char *token, const char *other)
{
        struct buf text = {0};

        assert_int_equal(file_read(rack_json(state), 65536, &text), 0);
        assert_non_null(strstr(text.p, token));
        if (other != NULL)
                assert_non_null(strstr(text.p, other));
        else
                assert_null(strstr(text.p, "previousToken"));
        buf_done(&text);
}

static void a_new_rack_is_read_back_and_private(void **state)
{
        struct rack_identity *identity = make(state);
        struct stat st;

        assert_string_equal(rack_identity_url(identity), "http://h");
        assert_string_equal(rack_identity_rack_id(identity), "rack-1");
        assert_token(identity, TOKEN("a"));
        assert_int_equal(stat(rack_json(state), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        rack_identity_free(identity);
}

static void a_rack_is_not_overwritten_unless_said(void **state)
{
        rack_identity_free(make(state));
        assert_int_equal(rack_identity_create(rack_json(state), LESSOR_SLICE("http://h"),
                                              LESSOR_SLICE("rack-2"), LESSOR_SLICE(TOKEN("b")), false),
                         LESSOR_E_EXISTS);
        assert_int_equal(rack_identity_create(rack_json(state), LESSOR_SLICE("http://h"),
                                              LESSOR_SLICE("rack-2"), LESSOR_SLICE(TOKEN("b")), true),
                         0);
        assert_on_disk(state, TOKEN("b"), NULL);
}

static void a_file_that_others_may_read_is_refused(void **state)
{
        struct rack_identity *identity = make(state), *again = NULL;
        struct buf problem = {0};

        rack_identity_free(identity);
        chmod(rack_json(state), 0644);
        assert_int_equal(rack_identity_load(rack_json(state), &again, &problem), LESSOR_E_PERMISSION);
        assert_non_null(strstr(problem.p, "chmod 600"));
        buf_done(&problem);
}

static void damaged_files_are_refused(void **state)
{
        static const struct {
                const char *text;
                int code;
        } files[] = {
                {"", LESSOR_E_MALFORMED},
                {"{}", LESSOR_E_MALFORMED},
                {"{\"version\":2}", LESSOR_E_NEWER},
                {"{\"version\":1,\"url\":\"http://h\",\"rackId\":\"r\",\"token\":\"no\"}",
                 LESSOR_E_MALFORMED},
                {"{\"version\":1,\"url\":\"http://h\",\"rackId\":\"r\",\"token\":\"" TOKEN(
                         "a") "\","
                              "\"previousToken\":\"\"}",
                 LESSOR_E_MALFORMED},
        };

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                struct rack_identity *identity = NULL;
                struct buf problem = {0};

                assert_int_equal(file_replace(rack_json(state), lessor_slice_of(files[i].text), 0600), 0);
                assert_int_equal(rack_identity_load(rack_json(state), &identity, &problem), files[i].code);
                assert_null(identity);
                buf_done(&problem);
        }
}

/* rack-protocol 14: written before it is used, and the old one kept until the new one has worked. */
static void a_rotated_token_is_on_disk_with_the_old_one_until_it_worked(void **state)
{
        struct rack_identity *identity = make(state);

        assert_int_equal(rack_identity_rotate(identity, LESSOR_SLICE(TOKEN("b"))), 0);
        assert_token(identity, TOKEN("b"));
        assert_on_disk(state, TOKEN("b"), TOKEN("a"));
        rack_identity_worked(identity, TOKEN("a")); /* a late answer to the old one says nothing of the new */
        assert_on_disk(state, TOKEN("b"), TOKEN("a"));
        rack_identity_worked(identity, TOKEN("b"));
        assert_on_disk(state, TOKEN("b"), NULL);
        rack_identity_free(identity);
}

static void a_new_token_that_does_not_work_gives_way_to_the_old_one(void **state)
{
        struct rack_identity *identity = make(state);

        rack_identity_rotate(identity, LESSOR_SLICE(TOKEN("b")));
        rack_identity_free(identity);
        identity = load(state); /* also after a restart in between */
        assert_token(identity, TOKEN("b"));
        assert_true(rack_identity_refused(identity, TOKEN("b")));
        assert_token(identity, TOKEN("a"));
        assert_on_disk(state, TOKEN("a"), NULL);
        assert_true(rack_identity_refused(identity, TOKEN("b"))); /* an answer that was still under way */
        assert_false(rack_identity_refused(identity, TOKEN("a")));
        rack_identity_free(identity);
}

static void no_token_is_taken_that_cannot_be_one(void **state)
{
        struct rack_identity *identity = make(state);

        assert_int_equal(rack_identity_rotate(identity, LESSOR_SLICE("e3rk_")), LESSOR_E_INVALID);
        assert_int_equal(rack_identity_rotate(identity, LESSOR_SLICE("e3rk_" TEXT64("A"))), LESSOR_E_INVALID);
        assert_token(identity, TOKEN("a"));
        rack_identity_free(identity);
}

static void a_token_that_cannot_be_written_is_not_used(void **state)
{
        struct rack_identity *identity = make(state);

        unlink(rack_json(state));
        rmdir(*state); /* where it would be written */
        assert_true(rack_identity_rotate(identity, LESSOR_SLICE(TOKEN("b"))) < 0);
        assert_token(identity, TOKEN("a"));
        rack_identity_free(identity);
        mkdir(*state, 0700);
}

/* --- The outbox --- */

struct seen {
        size_t n;
        char names[4][16];
};

static int see(void *context, char *path, struct lessor_arena *arena, const struct rack_outbox_item *item)
{
        struct seen *seen = context;

        snprintf(seen->names[seen->n++ % 4], 16, "%.*s", (int)item->lease_id.n, item->lease_id.p);
        assert_text_equal(item->result, "{\"taskName\":\"t\"}");
        assert_text_equal(item->rack_id, "rack-1");
        free(path);
        lessor_arena_free(arena);
        return 0;
}

static void results_are_kept_in_order_until_they_are_removed(void **state)
{
        const char *dir = strdup(scratch_path(*state, "outbox"));
        struct rack_outbox_item item = {.rack_id = LESSOR_SLICE("rack-1"),
                                        .repo = LESSOR_SLICE("main"),
                                        .lease_id = LESSOR_SLICE("one"),
                                        .attempt = LESSOR_SLICE("a"),
                                        .task_name = LESSOR_SLICE("t"),
                                        .result = LESSOR_SLICE("{\"taskName\":\"t\"}")};
        struct seen seen = {0};
        char *first = NULL, *second = NULL;
        size_t n_unreadable;

        assert_int_equal(rack_outbox_make(dir), 0);
        assert_int_equal(rack_outbox_make(dir), 0);
        assert_int_equal(rack_outbox_put(dir, &item, &first), 0);
        item.lease_id = LESSOR_SLICE("two");
        item.attempt = (struct lessor_slice){0};
        assert_int_equal(rack_outbox_put(dir, &item, &second), 0);
        assert_int_equal(rack_outbox_each(dir, see, &seen, &n_unreadable), 0);
        assert_int_equal(seen.n, 2);
        assert_string_equal(seen.names[0], "one");
        assert_string_equal(seen.names[1], "two");
        rack_outbox_remove(first);
        /* What cannot be read is left alone, and keeps nothing else. */
        assert_int_equal(file_replace(first, LESSOR_SLICE("{"), 0600), 0);
        seen = (struct seen){0};
        assert_int_equal(rack_outbox_each(dir, see, &seen, &n_unreadable), 0);
        assert_int_equal(seen.n, 1);
        assert_int_equal(n_unreadable, 1);
        assert_int_equal(access(first, F_OK), 0);
        free(first);
        free(second);
        free((char *)(uintptr_t)dir);
}

/* --- Directories --- */

static void whatever_a_task_left_can_be_removed(void **state)
{
        const char *path = strdup(scratch_path(*state, "work"));
        char deep[64] = "d";
        int at, next;

        assert_int_equal(dir_tree_remove(path), 0); /* nothing there */
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(symlink("/", scratch_path(*state, "work/link")), 0);
        assert_int_equal(mkdir(scratch_path(*state, "work/closed"), 0755), 0);
        assert_int_equal(mkdir(scratch_path(*state, "work/closed/in"), 0755), 0);
        chmod(scratch_path(*state, "work/closed"), 0);
        assert_int_equal(mkfifo(scratch_path(*state, "work/fifo\n"), 0), 0);
        /* Deeper than any path can say, and than there are descriptors for. */
        at = open(path, O_RDONLY | O_DIRECTORY);
        for (int i = 0; i < 3000; i++) {
                assert_int_equal(mkdirat(at, deep, 0700), 0);
                next = openat(at, deep, O_RDONLY | O_DIRECTORY);
                assert_true(next >= 0);
                close(at);
                at = next;
        }
        close(at);
        assert_int_equal(dir_tree_remove(path), 0);
        assert_int_equal(access(path, F_OK), -1);
        free((char *)(uintptr_t)path);
}

static void the_room_that_it_takes_is_counted(void **state)
{
        const char *path = strdup(scratch_path(*state, "work"));
        struct buf text = {0};

        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(mkdir(scratch_path(*state, "work/a"), 0755), 0);
        assert_int_equal(symlink("/", scratch_path(*state, "work/a/link")), 0);
        for (int i = 0; i < 300000; i++)
                buf_char(&text, (char)i);
        assert_int_equal(file_replace(scratch_path(*state, "work/a/b"), buf_view(&text), 0644), 0);
        assert_in_range(dir_tree_usage(path, INT64_MAX), 300000, 400000);
        assert_int_equal(dir_tree_usage(scratch_path(*state, "none"), INT64_MAX), 0);
        buf_done(&text);
        free((char *)(uintptr_t)path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_new_rack_is_read_back_and_private),
                TEST(a_rack_is_not_overwritten_unless_said),
                TEST(a_file_that_others_may_read_is_refused),
                TEST(damaged_files_are_refused),
                TEST(a_rotated_token_is_on_disk_with_the_old_one_until_it_worked),
                TEST(a_new_token_that_does_not_work_gives_way_to_the_old_one),
                TEST(no_token_is_taken_that_cannot_be_one),
                TEST(a_token_that_cannot_be_written_is_not_used),
                TEST(results_are_kept_in_order_until_they_are_removed),
                TEST(whatever_a_task_left_can_be_removed),
                TEST(the_room_that_it_takes_is_counted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
