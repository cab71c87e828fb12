/* SPDX-License-Identifier: MIT */
#include "unit/base/check.h"

#include "base/macro.h"
#include "lessor/args.h"
#include "lessor/error.h"
#include "lessor/help.h"

#define MAX_ARGS 8

struct row {
        const char *argv[MAX_ARGS]; /* after the program's own name */
        int result;
        const char *command; /* NULL: none */
        const char *args;    /* joined by `|` */
        const char *option, *value;
        const char *problem; /* a part of it */
};

static void read_row(const struct row *row, struct cli *cli, struct buf *problem, int *ret_result)
{
        const char *argv[MAX_ARGS + 1] = {"lessor"};
        int argc = 1;

        while (argc <= MAX_ARGS - 1 && row->argv[argc - 1] != NULL) {
                argv[argc] = row->argv[argc - 1];
                argc++;
        }
        *ret_result = args_read(cli_commands, cli_n_commands, argc, (char *const *)argv, cli, problem);
}

static void check_row(const struct row *row)
{
        struct cli cli = {.arena = lessor_arena_new()};
        struct buf problem = {0}, args = {0};
        const char *name = row->argv[0] == NULL ? "nothing" : row->argv[0];
        int result;

        assert_non_null(cli.arena);
        read_row(row, &cli, &problem, &result);
        check_int(name, result, row->result);
        if (row->command == NULL)
                assert_null(cli.command);
        else
                check_text(name, lessor_slice_of(cli.command->name), lessor_slice_of(row->command));
        for (size_t i = 0; i < cli.n_args; i++)
                buf_printf(&args, "%s%s", i > 0 ? "|" : "", cli.args[i]);
        if (row->args != NULL)
                check_text(name, buf_view(&args), lessor_slice_of(row->args));
        if (row->option != NULL && row->value == NULL)
                assert_true(cli_switch(&cli, row->option));
        if (row->value != NULL)
                check_text(name, lessor_slice_of(cli_option(&cli, row->option)), lessor_slice_of(row->value));
        if (row->problem != NULL && (problem.p == NULL || strstr(problem.p, row->problem) == NULL))
                fail_msg("%s: \"%s\" does not say \"%s\"", name, problem.p == NULL ? "" : problem.p,
                         row->problem);
        buf_done(&problem);
        buf_done(&args);
        lessor_arena_free(cli.arena);
}

static void command_lines_are_read(void **state)
{
        static const struct row rows[] = {
                {{NULL}, 0, NULL, "", NULL, NULL, NULL},
                {{"site", "ls"}, 0, "site ls", "", NULL, NULL, NULL},
                {{"site", "ls", "--json"}, 0, "site ls", "", "json", NULL, NULL},
                {{"--json", "site", "ls"}, 0, "site ls", "", "json", NULL, NULL},
                {{"--data", "site", "site", "ls"}, 0, "site ls", "", "data", "site", NULL},
                {{"site", "--data", "d", "ls"}, 0, "site ls", "", "data", "d", NULL},
                {{"site", "rm", "--data=d=e", "demo"}, 0, "site rm", "demo", "data", "d=e", NULL},
                {{"consent", "mapping", "add", "alice", "demo"},
                 0,
                 "consent mapping add",
                 "alice|demo",
                 NULL,
                 NULL,
                 NULL},
                {{"consent", "add", "mapping", "add"}, 0, "consent add", "mapping|add", NULL, NULL, NULL},
                {{"site", "rm", "--", "--data"}, 0, "site rm", "--data", NULL, NULL, NULL},
                {{"projection", "put", "-"}, 0, "projection put", "-", NULL, NULL, NULL},
                {{"job", "ls", "--limit", "1", "--limit", "2"}, 0, "job ls", "", "limit", "2", NULL},
                {{"job", "ls", "--state", "ready"}, 0, "job ls", "", "state", "ready", NULL},
                {{"nothing", "at", "all"}, 0, NULL, "nothing|at|all", NULL, NULL, NULL},
                {{"site"}, 0, NULL, "site", NULL, NULL, NULL},
                {{"site", "rm", "--nothing", "--help"}, 0, "site rm", NULL, NULL, NULL, NULL},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                check_row(&rows[i]);
}

static void wrong_command_lines_say_what_is_wrong(void **state)
{
        static const struct row rows[] = {
                {{"site", "rm"}, LESSOR_E_INVALID, "site rm", NULL, NULL, NULL, "wants SITE"},
                {{"site", "ls", "x"}, LESSOR_E_INVALID, "site ls", NULL, NULL, NULL, "\"x\""},
                {{"site", "ls", "--nope"}, LESSOR_E_INVALID, "site ls", NULL, NULL, NULL, "--nope"},
                {{"site", "ls", "-x"}, LESSOR_E_INVALID, "site ls", NULL, NULL, NULL, "-x"},
                {{"site", "ls", "--relay", "x"}, LESSOR_E_INVALID, "site ls", NULL, NULL, NULL, "--relay"},
                {{"site", "ls", "--json=1"}, LESSOR_E_INVALID, "site ls", NULL, NULL, NULL, "no value"},
                {{"site", "ls", "--data"},
                 LESSOR_E_INVALID,
                 "site ls",
                 NULL,
                 NULL,
                 NULL,
                 "wants a value: DIR"},
                {{"job", "ls", "--state", "read"}, LESSOR_E_INVALID, "job ls", NULL, NULL, NULL, "none of"},
                {{"job", "ls", "--state", ""}, LESSOR_E_INVALID, "job ls", NULL, NULL, NULL, "none of"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                check_row(&rows[i]);
}

static void times_have_units(void **state)
{
        static const struct {
                const char *text;
                int result;
                int64_t ms;
        } rows[] = {
                {"500ms", 0, 500},
                {"0s", 0, 0},
                {"90s", 0, 90000},
                {"10m", 0, 600000},
                {"1h", 0, 3600000},
                {"365d", 0, INT64_C(31536000000)},
                {"366d", LESSOR_E_INVALID, 0},
                {"999999999999d", LESSOR_E_INVALID, 0},
                {"9999999999999s", LESSOR_E_INVALID, 0},
                {"10", LESSOR_E_INVALID, 0},
                {"m", LESSOR_E_INVALID, 0},
                {"", LESSOR_E_INVALID, 0},
                {"-1s", LESSOR_E_INVALID, 0},
                {"1.5h", LESSOR_E_INVALID, 0},
                {"1 h", LESSOR_E_INVALID, 0},
                {"1hh", LESSOR_E_INVALID, 0},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                int64_t ms = 0;

                check_int(rows[i].text, args_duration(rows[i].text, &ms), rows[i].result);
                check_int(rows[i].text, ms, rows[i].ms);
        }
}

static void amounts_of_bytes_have_units(void **state)
{
        static const struct {
                const char *text;
                int result;
                int64_t bytes;
        } rows[] = {
                {"0", 0, 0},
                {"4096", 0, 4096},
                {"512K", 0, 524288},
                {"10M", 0, 10485760},
                {"2GiB", 0, INT64_C(2147483648)},
                {"8192T", 0, INT64_C(1) << 53},
                {"8193T", LESSOR_E_INVALID, 0},
                {"9999999999999999", LESSOR_E_INVALID, 0},
                {"99999999999999999", LESSOR_E_INVALID, 0},
                {"", LESSOR_E_INVALID, 0},
                {"K", LESSOR_E_INVALID, 0},
                {"1k", LESSOR_E_INVALID, 0},
                {"1KB", LESSOR_E_INVALID, 0},
                {"-1", LESSOR_E_INVALID, 0},
                {"1.5G", LESSOR_E_INVALID, 0},
                {"1 G", LESSOR_E_INVALID, 0},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                int64_t bytes = 0;

                check_int(rows[i].text, args_bytes(rows[i].text, &bytes), rows[i].result);
                check_int(rows[i].text, bytes, rows[i].bytes);
        }
}

static void numbers_keep_their_bounds(void **state)
{
        static const struct {
                const char *text;
                int result;
                int64_t number;
        } rows[] = {
                {"1", 0, 1},
                {"64", 0, 64},
                {"65", LESSOR_E_INVALID, 0},
                {"0", LESSOR_E_INVALID, 0},
                {"-1", LESSOR_E_INVALID, 0},
                {"", LESSOR_E_INVALID, 0},
                {" 1", LESSOR_E_INVALID, 0},
                {"1x", LESSOR_E_INVALID, 0},
                {"99999999999999999999", LESSOR_E_INVALID, 0},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                int64_t number = 0;

                check_int(rows[i].text, args_number(rows[i].text, 1, 64, &number), rows[i].result);
                check_int(rows[i].text, number, rows[i].number);
        }
}

/* What help and completions rely on. */
static void the_table_of_commands_is_in_order(void **state)
{
        (void)state;
        for (size_t i = 0; i < cli_n_commands; i++) {
                const struct cli_command *c = &cli_commands[i];
                const struct cli_option *const lists[] = {c->options, cli_peer_options(c->peer),
                                                          cli_common_options};
                struct buf help = {0};

                assert_non_null(c->run);
                assert_true(c->summary[0] >= 'a' && c->summary[0] <= 'z');
                assert_true(c->summary[strlen(c->summary) - 1] != '.');
                assert_true(strncmp(c->examples, "lessor ", 7) == 0);
                assert_true(c->max_args < 0 || c->max_args >= c->min_args);
                assert_int_equal(c->args[0] == '\0', c->max_args == 0);
                for (size_t k = 0; k < 3; k++)
                        for (const struct cli_option *o = lists[k]; o != NULL && o->name != NULL; o++) {
                                assert_non_null(o->help);
                                assert_int_equal(o->words != NULL, o->complete == COMPLETE_WORDS);
                        }
                assert_int_equal(help_command(c, &help), 0);
                buf_done(&help);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(command_lines_are_read),
                cmocka_unit_test(wrong_command_lines_say_what_is_wrong),
                cmocka_unit_test(times_have_units),
                cmocka_unit_test(amounts_of_bytes_have_units),
                cmocka_unit_test(numbers_keep_their_bounds),
                cmocka_unit_test(the_table_of_commands_is_in_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
