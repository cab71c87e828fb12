/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_line_is_one_json_object),
                cmocka_unit_test(text_that_is_no_utf8_is_made_so),
                cmocka_unit_test(lines_below_the_level_are_dropped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
