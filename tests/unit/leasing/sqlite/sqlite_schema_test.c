/* SPDX-License-Identifier: MIT */
/* Opening: whose file it is, which version, in what shape, and who else has it. */
#include "fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "leasing/sqlite_schema.h"
#include "routing/sqlite.h"

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        fixture_init(f);
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        fixture_done(*state);
        free(*state);
        return 0;
}

static void refused(struct fixture *f, int error, const char *words)
{
        assert_int_equal(fixture_try_open(f), error);
        if (f->problem.p == NULL || strstr(f->problem.p, words) == NULL)
                fail_msg("the problem does not say '%s': %s", words, f->problem.p);
        if (strstr(f->problem.p, f->dir) == NULL)
                fail_msg("the problem does not name the place: %s", f->problem.p);
}

static void a_new_directory_is_private(void **state)
{
        struct fixture *f = *state;
        struct stat st;

        assert_int_equal(rmdir(f->dir), 0);
        fixture_open(f);
        (void)fixture_create(f, "a", NULL);
        assert_int_equal(stat(f->dir, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
        assert_int_equal(stat(fixture_path(f), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
}

static void nothing_but_the_database_is_left_in_the_directory(void **state)
{
        struct fixture *f = *state;

        fixture_open(f);
        (void)fixture_create(f, "a", NULL);
        fixture_close(f);
        assert_int_equal(unlink(fixture_path(f)), 0);
        assert_int_equal(rmdir(f->dir), 0);
}

static void a_second_server_is_refused_and_told_who(void **state)
{
        struct fixture *f = *state;
        char holder[32];
        struct fixture second;

        fixture_open(f);
        second = *f;
        (void)snprintf(holder, sizeof(holder), "process %ld", (long)getpid());
        buf_init(&second.problem);
        refused(&second, LESSOR_E_BUSY, holder);
        buf_done(&second.problem);
        (void)fixture_create(f, "a", NULL);
}

static void a_killed_server_leaves_no_lock(void **state)
{
        struct fixture *f = *state;
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                if (fixture_try_open(f) == 0)
                        (void)kill(getpid(), SIGKILL);
                _exit(1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        fixture_open(f);
}

static void a_newer_database_is_refused_untouched(void **state)
{
        struct fixture *f = *state;

        fixture_open(f);
        fixture_close(f);
        fixture_sql(f, "UPDATE lessor_schema SET version=1000 WHERE part='leasing'; DROP TABLE leasing_key");
        refused(f, LESSOR_E_NEWER, "newer version");
        assert_int_equal(fixture_sql_int(f, "SELECT version FROM lessor_schema WHERE part='leasing'"), 1000);
        assert_int_equal(fixture_sql_int(f, "SELECT count(*) FROM sqlite_schema WHERE name='leasing_key'"),
                         0);
}

static void another_programs_database_is_refused(void **state)
{
        struct fixture *f = *state;

        fixture_sql(f, "CREATE TABLE recipes(name)");
        refused(f, LESSOR_E_INVALID, "another program");
        fixture_sql(f, "PRAGMA application_id=42");
        refused(f, LESSOR_E_INVALID, "another program");
}

static void write_over(struct fixture *f, long at, size_t n)
{
        int fd = open(fixture_path(f), O_RDWR | O_CREAT, 0600);
        char junk[4096];

        memset(junk, 0xa5, sizeof(junk));
        assert_true(fd >= 0);
        for (size_t done = 0; done < n; done += sizeof(junk))
                assert_int_equal(pwrite(fd, junk, sizeof(junk), at + (long)done), sizeof(junk));
        assert_int_equal(close(fd), 0);
}

static void a_corrupt_database_is_refused_with_advice(void **state)
{
        struct fixture *f = *state;

        /* No database at all. */
        write_over(f, 0, 8192);
        refused(f, LESSOR_E_CORRUPT, ".dump");
        assert_int_equal(unlink(fixture_path(f)), 0);

        /* A good first page, and rubbish in the rows. */
        fixture_open(f);
        for (int i = 0; i < 200; i++) {
                char task[16];

                (void)snprintf(task, sizeof(task), "%d", i);
                (void)fixture_create(f, task, NULL);
        }
        fixture_close(f);
        write_over(f, 4096, (size_t)(fixture_sql_int(f, "PRAGMA page_count") - 1) * 4096);
        refused(f, LESSOR_E_CORRUPT, "lessor backup");
}

static void a_place_that_cannot_be_written_is_refused(void **state)
{
        struct fixture *f = *state;
        char *path;

        /* Below a file. */
        path = f->dir;
        assert_true(asprintf(&f->dir, "%s/file/data", path) > 0);
        refused(f, LESSOR_E_INVALID, "cannot be made");
        free(f->dir);
        f->dir = path;
}

/* What somebody who may not write there is told. In a child, since root may write anywhere. */
static int as_nobody(struct fixture *f, int want)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                int r;

                if (getuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
                        _exit(9);
                r = fixture_try_open(f);
                if (r == want && f->problem.p != NULL && strstr(f->problem.p, f->dir) != NULL)
                        _exit(0);
                fprintf(stderr, "%s: %s\n", lessor_error_name(r), f->problem.p);
                _exit(1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_read_only_directory_is_refused(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(chmod(f->dir, 0555), 0);
        assert_int_equal(as_nobody(f, LESSOR_E_PERMISSION), 0);
        assert_int_equal(chmod(f->dir, 0755), 0);
        fixture_open(f);
        fixture_close(f);
        assert_int_equal(chmod(fixture_path(f), 0444), 0);
        assert_int_equal(chmod(f->dir, 0555), 0);
        assert_int_equal(as_nobody(f, LESSOR_E_PERMISSION), 0);
        assert_int_equal(chmod(f->dir, 0000), 0);
        assert_int_equal(as_nobody(f, LESSOR_E_PERMISSION), 0);
        assert_int_equal(chmod(f->dir, 0755), 0);
}

/* Two files, two stores, one lock: whichever was first, the directory is another process's when both are
 * gone.
 */
static void stores_of_one_process_share_a_directory(void **state)
{
        struct fixture *f = *state;
        struct lessor_routing_store *routing;
        int status;
        pid_t pid;

        fixture_open(f);
        assert_int_equal(sqlite_store_new(f->dir, &f->clock.clock, NULL, NULL, &routing, &f->problem), 0);
        fixture_close(f);
        pid = fork();
        if (pid == 0) {
                /* Another process has neither this one's stores nor its lock. */
                execl("/proc/self/exe", "sqlite_schema_test", "--open", f->dir, (char *)NULL);
                _exit(9);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
        fixture_open(f);
        lessor_routing_store_free(routing);
        (void)fixture_create(f, "a", NULL);
        fixture_close(f);
        pid = fork();
        if (pid == 0) {
                execl("/proc/self/exe", "sqlite_schema_test", "--open", f->dir, (char *)NULL);
                _exit(9);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* What another process sees: 0 the store opens, 1 somebody has it, 2 neither. */
static int open_as_another(const char *dir)
{
        struct fixture f = {.lease_options = LESSOR_LEASE_OPTIONS};
        int r;

        clock_manual_init(&f.clock, START_MS);
        buf_init(&f.problem);
        r = lease_sqlite_store_new(dir, &f.lease_options, &f.clock.clock, NULL, NULL, &f.store, &f.problem);
        buf_done(&f.problem);
        lessor_lease_store_free(f.store);
        return r == 0 ? 0 : r == LESSOR_E_BUSY ? 1 : 2;
}

/* --- versions --- */

/* A file of an old version, as SQL, and what the store must tell of it. */
static void read_golden(struct fixture *f, int version, const char *suffix, struct buf *ret_text)
{
        const char *data = getenv("LESSOR_TEST_DATA");
        struct buf path;

        (void)f;
        assert_non_null(data);
        buf_init(&path);
        (void)buf_printf(&path, "%s/leasing-%d.%s", data, version, suffix);
        if (file_read(path.p, 1 << 20, ret_text) < 0)
                fail_msg("%s cannot be read", path.p);
        buf_done(&path);
}

static void databases_of_every_version_are_read(void **state)
{
        (void)state;
        for (int version = 1; version <= (int)lease_sqlite_migration.n_steps; version++) {
                struct buf sql, want;
                struct fixture f;

                fixture_init(&f);
                buf_init(&sql);
                buf_init(&want);
                read_golden(&f, version, "sql", &sql);
                read_golden(&f, version, "txt", &want);
                fixture_sql(&f, sql.p);
                fixture_open(&f);
                if (!lessor_slice_equal(fixture_text(&f), buf_view(&want)))
                        fail_msg("version %d: got:%s", version, fixture_text(&f).p);
                assert_int_equal(fixture_stats(&f).n_set_aside, 0);
                buf_done(&sql);
                buf_done(&want);
                fixture_done(&f);
        }
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
                TEST(a_new_directory_is_private),
                TEST(nothing_but_the_database_is_left_in_the_directory),
                TEST(a_second_server_is_refused_and_told_who),
                TEST(a_killed_server_leaves_no_lock),
                TEST(a_newer_database_is_refused_untouched),
                TEST(another_programs_database_is_refused),
                TEST(a_corrupt_database_is_refused_with_advice),
                TEST(a_place_that_cannot_be_written_is_refused),
                TEST(a_read_only_directory_is_refused),
                TEST(stores_of_one_process_share_a_directory),
                TEST(databases_of_every_version_are_read),
        };

        log_set_level(LOG_LEVEL_ERROR + 1);
        if (argc == 3 && strcmp(argv[1], "--open") == 0)
                return open_as_another(argv[2]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
