/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"
#include "json_values.h"

/* What `write` puts on stderr, NUL-terminated. */
static void capture(void (*write)(void), char *ret_text, size_t cap)
{
        FILE *file = tmpfile();
        int saved = dup(STDERR_FILENO);
        size_t n;

        assert_non_null(file);
        assert_true(saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
        write();
        dup2(saved, STDERR_FILENO);
        close(saved);
        rewind(file);
        n = fread(ret_text, 1, cap - 1, file);
        ret_text[n] = '\0';
        fclose(file);
}

static void write_fields(void)
{
        log_info("claim", LOG_TEXT("runner", LESSOR_SLICE("r\"1\n")), LOG_INT("jobs", -3),
                 LOG_BOOL("held", true), LOG_CSTR("absent", NULL), LOG_ERROR_CODE(LESSOR_E_STALE_LEASE));
}

static void a_line_is_one_json_object(void **state)
{
        struct lessor_arena *arena = lessor_arena_new();
        char text[1024];
        const char *line = text;
        struct json *value;

        (void)state;
        capture(write_fields, text, sizeof(text));
        assert_int_equal(json_read(lessor_slice_of(line), arena, &value), 0);
        assert_int_equal(json_text(json_member_named(value, "at")).n, 24);
        line = strchr(text, ',');
        assert_string_equal(line,
                            ",\"level\":\"info\",\"event\":\"claim\",\"runner\":\"r\\\"1\\n\",\"jobs\":-3,"
                            "\"held\":true,\"error\":\"stale-lease\"}\n");
        lessor_arena_free(arena);
}

static void write_bad_text(void)
{
        log_error("odd", LOG_TEXT("t", LESSOR_SLICE("a\xff"
                                                    "b")));
}

static void text_that_is_no_utf8_is_made_so(void **state)
{
        char text[1024];

        (void)state;
        capture(write_bad_text, text, sizeof(text));
        assert_non_null(strstr(text, "\"t\":\"a\xef\xbf\xbd"
                                     "b\"}\n"));
        assert_true(utf8_valid(lessor_slice_of(text)));
}

static void write_each_level(void)
{
        log_debug("d");
        log_info("i");
        log_warning("w");
        log_error("e");
}

static void lines_below_the_level_are_dropped(void **state)
{
        static const struct {
                enum log_level level;
                const char *events;
        } cases[] = {
                {LOG_LEVEL_DEBUG, "diwe"},
                {LOG_LEVEL_INFO, "iwe"},
                {LOG_LEVEL_WARNING, "we"},
                {LOG_LEVEL_ERROR, "e"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char text[1024], events[8] = "";
                size_t n = 0;

                log_set_level(cases[i].level);
                capture(write_each_level, text, sizeof(text));
                for (const char *p = text; (p = strstr(p, "\"event\":\"")) != NULL && n < 7; p++)
                        events[n++] = p[9];
                assert_string_equal(events, cases[i].events);
        }
        log_set_level(LOG_LEVEL_INFO);
}

/* --- delayed lines --- */

static void write_levels_delayed(void)
{
        assert_int_equal(log_delay_start(), 0);
        log_info("first");
        log_warning("second");
        log_info("third");
        log_delay_stop();
}

static void delayed_lines_keep_their_order(void **state)
{
        char text[1024];
        const char *first, *second, *third;

        (void)state;
        capture(write_levels_delayed, text, sizeof(text));
        first = strstr(text, "\"first\"");
        second = strstr(text, "\"second\"");
        third = strstr(text, "\"third\"");
        assert_non_null(first);
        assert_true(first < second && second < third);
}

/* What is on stderr, a file, by now. */
static off_t written(void)
{
        struct stat status;

        assert_int_equal(fstat(STDERR_FILENO, &status), 0);
        return status.st_size;
}

static void write_warning_delayed(void)
{
        off_t before;

        assert_int_equal(log_delay_start(), 0);
        log_info("before");
        before = written();
        log_warning("now");
        assert_true(written() > before);
        log_delay_stop();
}

static void a_warning_does_not_wait(void **state)
{
        char text[1024];

        (void)state;
        capture(write_warning_delayed, text, sizeof(text));
        assert_non_null(strstr(text, "before"));
        assert_non_null(strstr(text, "now"));
}

/* Returns when the log's thread has written it; the test's own time limit is for when it never does. */
static void await_line(void)
{
        assert_int_equal(log_delay_start(), 0);
        log_info("alone");
        while (written() == 0)
                sched_yield();
        log_delay_stop();
}

static void a_delayed_line_is_written_by_itself(void **state)
{
        char text[1024];

        (void)state;
        capture(await_line, text, sizeof(text));
        assert_non_null(strstr(text, "alone"));
}

#define MANY_LINES 3000
#define LONG_TEXT  70000

static void write_too_much(void)
{
        char *big = malloc(LONG_TEXT);

        assert_non_null(big);
        memset(big, 'x', LONG_TEXT);
        assert_int_equal(log_delay_start(), 0);
        for (int i = 0; i < MANY_LINES; i++)
                log_info("line", LOG_INT("i", i));
        log_info("big", LOG_TEXT("text", ((struct lessor_slice){big, LONG_TEXT})));
        log_info("last");
        log_delay_stop();
        free(big);
}

static void more_than_fits_is_written_in_order(void **state)
{
        size_t cap = MANY_LINES * 100 + 2 * LONG_TEXT;
        char *text = malloc(cap), want[32];
        const char *at = text;

        (void)state;
        assert_non_null(text);
        capture(write_too_much, text, cap);
        for (int i = 0; i < MANY_LINES; i++) {
                snprintf(want, sizeof(want), "\"i\":%d}\n", i);
                at = strstr(at, want);
                assert_non_null(at);
        }
        at = strstr(at, "xxx");
        assert_non_null(at);
        assert_non_null(strstr(at, "last"));
        free(text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_line_is_one_json_object),
                cmocka_unit_test(text_that_is_no_utf8_is_made_so),
                cmocka_unit_test(lines_below_the_level_are_dropped),
                cmocka_unit_test(delayed_lines_keep_their_order),
                cmocka_unit_test(a_warning_does_not_wait),
                cmocka_unit_test(a_delayed_line_is_written_by_itself),
                cmocka_unit_test(more_than_fits_is_written_in_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
