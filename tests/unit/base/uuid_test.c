/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/uuid.h"

static void check_form(const char *id, char version)
{
        assert_int_equal(strlen(id), UUID_TEXT_LEN);
        for (size_t i = 0; i < UUID_TEXT_LEN; i++) {
                if (i == 8 || i == 13 || i == 18 || i == 23)
                        assert_int_equal(id[i], '-');
                else
                        assert_non_null(strchr("0123456789abcdef", id[i]));
        }
        assert_int_equal(id[14], version);
        assert_non_null(strchr("89ab", id[19]));
}

static void version_4_is_random(void **state)
{
        char a[UUID_TEXT_LEN + 1], b[UUID_TEXT_LEN + 1];

        (void)state;
        for (int i = 0; i < 100; i++) {
                uuid_v4(a);
                uuid_v4(b);
                check_form(a, '4');
                assert_string_not_equal(a, b);
                assert_false(uuid_is_v7(lessor_slice_of(a)));
        }
}

static void a_child_process_makes_ids_of_its_own(void **state)
{
        char ours[UUID_TEXT_LEN + 1], theirs[UUID_TEXT_LEN + 1];
        int ends[2];
        pid_t pid;

        (void)state;
        uuid_v4(ours); /* random bytes for more than one are there now */
        assert_int_equal(pipe(ends), 0);
        pid = fork();
        if (pid == 0) {
                uuid_v4(theirs);
                _exit(write(ends[1], theirs, sizeof(theirs)) == (ssize_t)sizeof(theirs) ? 0 : 1);
        }
        assert_true(pid > 0);
        close(ends[1]);
        assert_int_equal(read(ends[0], theirs, sizeof(theirs)), sizeof(theirs));
        close(ends[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        for (int i = 0; i < 100; i++) {
                uuid_v4(ours);
                assert_string_not_equal(ours, theirs);
        }
}

static void version_7_begins_with_the_time(void **state)
{
        char id[UUID_TEXT_LEN + 1];

        (void)state;
        uuid_v7(0x0123456789ab, id);
        check_form(id, '7');
        assert_memory_equal(id, "01234567-89ab-7", 15);
        assert_true(uuid_is_v7(lessor_slice_of(id)));
}

static void version_7_sorts_in_the_order_of_the_calls(void **state)
{
        static const int64_t steps[] = {0, 0, 1, 0, -1000, 0, 5000, 0, INT64_MIN};
        char last[UUID_TEXT_LEN + 1] = "", id[UUID_TEXT_LEN + 1];

        (void)state;
        for (size_t i = 0; i < 9; i++) {
                for (int k = 0; k < 1000; k++) {
                        uuid_v7(steps[i] == INT64_MIN ? steps[i] : 0x0200000000000 + steps[i], id);
                        check_form(id, '7');
                        assert_true(strcmp(last, id) < 0);
                        memcpy(last, id, sizeof(id));
                }
        }
}

#define N_THREADS 4
#define N_EACH    2000

static void *draw(void *ids)
{
        char(*mine)[UUID_TEXT_LEN + 1] = ids;

        for (size_t i = 0; i < N_EACH; i++)
                uuid_v7(0x0300000000000, mine[i]);
        return NULL;
}

static int by_text(const void *a, const void *b)
{
        return strcmp(a, b);
}

static void threads_never_draw_the_same(void **state)
{
        static char ids[N_THREADS * N_EACH][UUID_TEXT_LEN + 1];
        pthread_t threads[N_THREADS];

        (void)state;
        for (size_t i = 0; i < N_THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, draw, ids[i * N_EACH]), 0);
        for (size_t i = 0; i < N_THREADS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        for (size_t i = 0; i < N_THREADS; i++) {
                for (size_t k = 1; k < N_EACH; k++)
                        assert_true(strcmp(ids[i * N_EACH + k - 1], ids[i * N_EACH + k]) < 0);
        }
        qsort(ids, sizeof(ids) / sizeof(ids[0]), sizeof(ids[0]), by_text);
        for (size_t i = 1; i < sizeof(ids) / sizeof(ids[0]); i++)
                assert_string_not_equal(ids[i - 1], ids[i]);
}

static void version_7_is_told_by_its_form(void **state)
{
        static const struct {
                const char *text;
                bool is;
        } cases[] = {
                {"01890a5d-ac96-774b-bcce-b302099a8057", true},
                {"01890A5D-AC96-774B-BCCE-B302099A8057", true},
                {"01890a5d-ac96-774b-8cce-b302099a8057", true},
                {"01890a5d-ac96-474b-bcce-b302099a8057", false},
                {"01890a5d-ac96-774b-ccce-b302099a8057", false},
                {"01890a5d-ac96-774b-7cce-b302099a8057", false},
                {"01890a5d-ac96-774b-bcce-b302099a805", false},
                {"01890a5d-ac96-774b-bcce-b302099a80570", false},
                {"01890a5d_ac96-774b-bcce-b302099a8057", false},
                {"01890a5dac96-774b-bcce-b302099a80570", false},
                {"01890a5g-ac96-774b-bcce-b302099a8057", false},
                {"", false},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                check_int(cases[i].text, uuid_is_v7(lessor_slice_of(cases[i].text)), cases[i].is);
        /* strchr finds the NUL that ends its own list */
        assert_false(uuid_is_v7(LESSOR_SLICE("01890a5d-ac96-774b-\0cce-b302099a8057")));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(version_4_is_random),
                cmocka_unit_test(a_child_process_makes_ids_of_its_own),
                cmocka_unit_test(version_7_begins_with_the_time),
                cmocka_unit_test(version_7_sorts_in_the_order_of_the_calls),
                cmocka_unit_test(threads_never_draw_the_same),
                cmocka_unit_test(version_7_is_told_by_its_form),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
