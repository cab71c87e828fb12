/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "lessor/error.h"

/* Each test runs in an empty directory of its own. */
static int setup(void **state)
{
        char *dir = strdup("/tmp/lessor-file-test-XXXXXX");

        *state = dir;
        return dir == NULL || mkdtemp(dir) == NULL || chdir(dir) != 0;
}

static size_t count_files(const char *remove_from)
{
        DIR *dir = opendir(".");
        struct dirent *e;
        size_t n = 0;

        assert_non_null(dir);
        while ((e = readdir(dir)) != NULL) {
                if (e->d_name[0] == '.')
                        continue;
                n++;
                if (remove_from != NULL)
                        remove(e->d_name);
        }
        closedir(dir);
        return n;
}

static int teardown(void **state)
{
        count_files(*state);
        if (chdir("/") != 0 || rmdir(*state) != 0)
                return 1;
        free(*state);
        return 0;
}

static void check_file(const char *path, struct lessor_slice want, mode_t want_mode)
{
        struct buf b;
        mode_t mode;

        buf_init(&b);
        assert_int_equal(file_read_private(path, SIZE_MAX, &b, &mode), 0);
        check_text(path, buf_view(&b), want);
        assert_int_equal(mode, want_mode);
        buf_done(&b);
}

static void a_file_is_replaced_whole_with_its_mode(void **state)
{
        mode_t old = umask(077);

        (void)state;
        assert_int_equal(file_replace("f", LESSOR_SLICE("one\0two"), 0644), 0);
        check_file("f", LESSOR_SLICE("one\0two"), 0644);
        assert_int_equal(file_replace("./f", LESSOR_SLICE(""), 0600), 0);
        check_file("f", LESSOR_SLICE(""), 0600);
        assert_int_equal(count_files(NULL), 1);
        umask(old);
}

static void a_file_is_created_only_once(void **state)
{
        (void)state;
        assert_int_equal(file_create("f", LESSOR_SLICE("first"), 0600), 0);
        assert_int_equal(file_create("f", LESSOR_SLICE("second"), 0600), LESSOR_E_EXISTS);
        check_file("f", LESSOR_SLICE("first"), 0600);
        assert_int_equal(count_files(NULL), 1);
}

static void a_missing_directory_is_not_found(void **state)
{
        (void)state;
        assert_int_equal(file_replace("none/f", LESSOR_SLICE("x"), 0600), LESSOR_E_NOT_FOUND);
        assert_int_equal(file_create("none/f", LESSOR_SLICE("x"), 0600), LESSOR_E_NOT_FOUND);
}

static void the_limit_is_exact_and_a_refusal_appends_nothing(void **state)
{
        struct buf b;

        (void)state;
        assert_int_equal(file_replace("f", LESSOR_SLICE("12345"), 0600), 0);
        buf_init(&b);
        buf_text(&b, ">");
        assert_int_equal(file_read("f", 4, &b), LESSOR_E_TOO_LARGE);
        check_text("refused", buf_view(&b), LESSOR_SLICE(">"));
        assert_int_equal(file_read("f", 5, &b), 0);
        check_text("read", buf_view(&b), LESSOR_SLICE(">12345"));
        buf_done(&b);
}

static void a_large_file_comes_back(void **state)
{
        struct buf b, back;

        (void)state;
        buf_init(&b);
        buf_init(&back);
        for (int i = 0; i < 300000; i++)
                buf_int(&b, i);
        assert_int_equal(file_replace("f", buf_view(&b), 0600), 0);
        assert_int_equal(file_read("f", SIZE_MAX, &back), 0);
        assert_true(lessor_slice_equal(buf_view(&b), buf_view(&back)));
        buf_done(&b);
        buf_done(&back);
}

/* /proc files say that they are empty. */
static void a_file_of_unknown_size_is_read_up_to_the_limit(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b);
        assert_int_equal(file_read("/proc/self/maps", 1048576, &b), 0);
        assert_true(b.n > 100);
        buf_clear(&b);
        assert_int_equal(file_read("/proc/self/maps", 100, &b), LESSOR_E_TOO_LARGE);
        assert_int_equal(b.n, 0);
        buf_done(&b);
}

static void what_is_no_file_is_refused(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b);
        assert_int_equal(file_read("none", 10, &b), LESSOR_E_NOT_FOUND);
        assert_int_equal(file_read(".", 10, &b), LESSOR_E_INVALID);
        assert_int_equal(file_read("/dev/null", 10, &b), LESSOR_E_INVALID);
        assert_int_equal(mkfifo("fifo", 0600), 0);
        assert_int_equal(file_read("fifo", 10, &b), LESSOR_E_INVALID);
        buf_done(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_file_is_replaced_whole_with_its_mode, setup, teardown),
                cmocka_unit_test_setup_teardown(a_file_is_created_only_once, setup, teardown),
                cmocka_unit_test_setup_teardown(a_missing_directory_is_not_found, setup, teardown),
                cmocka_unit_test_setup_teardown(the_limit_is_exact_and_a_refusal_appends_nothing, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(a_large_file_comes_back, setup, teardown),
                cmocka_unit_test_setup_teardown(a_file_of_unknown_size_is_read_up_to_the_limit, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
