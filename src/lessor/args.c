/* SPDX-License-Identifier: MIT */
#include "lessor/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/size.h"
#include "lessor/error.h"

#define BYTES_MOST (INT64_C(1) << 53)
#define LONGEST_MS (365 * INT64_C(86400000))

struct reader {
        const struct cli_command *commands;
        size_t n_commands;
        struct cli *cli;
        struct buf *problem;
        const char *words[2]; /* what may name the command, until it is clear */
        size_t n_words;
};

static bool in_group(const struct cli_command *command, const char *group)
{
        size_t n = strlen(group);

        return strncmp(command->name, group, n) == 0 && command->name[n] == ' ';
}

const char *args_group(const struct cli_command *commands, size_t n_commands, const char *word)
{
        for (size_t i = 0; i < n_commands; i++)
                if (in_group(&commands[i], word))
                        return word;
        return NULL;
}

/* "site" and "add" are "site add". Three words: "consent mapping" and "add". */
static bool names(const struct cli_command *command, const char *const *words, size_t n_words,
                  size_t *ret_used)
{
        const char *at = command->name;

        for (size_t i = 0; i < n_words; i++) {
                size_t n = strlen(words[i]);

                if (strncmp(at, words[i], n) != 0 || (at[n] != ' ' && at[n] != '\0'))
                        return false;
                if (at[n] == '\0') {
                        *ret_used = i + 1;
                        return true;
                }
                at += n + 1;
        }
        return false;
}

static const struct cli_option *find(const struct cli_option *options, const char *name, size_t n)
{
        for (; options != NULL && options->name != NULL; options++)
                if (strlen(options->name) == n && memcmp(options->name, name, n) == 0)
                        return options;
        return NULL;
}

static const struct cli_option *find_option(const struct cli *cli, const char *name, size_t n)
{
        const struct cli_option *option = find(cli_common_options, name, n);

        if (option == NULL && cli->command != NULL)
                option = find(cli_peer_options(cli->command->peer), name, n);
        if (option == NULL && cli->command != NULL)
                option = find(cli->command->options, name, n);
        return option;
}

/* Options may come before the command is named, so the arguments are looked through for it first. */
static void find_command(struct reader *r, int argc, char *const *argv, size_t *ret_used)
{
        const char *words[3];
        size_t n = 0;

        for (int i = 1; i < argc && n < ARRAY_SIZE(words); i++) {
                if (strcmp(argv[i], "--") == 0)
                        break;
                if (argv[i][0] == '-' && argv[i][1] != '\0') {
                        /* Of options before the command only those that every command has are known. */
                        if (strcmp(argv[i], "--data") == 0 || strcmp(argv[i], "--control") == 0 ||
                            strcmp(argv[i], "--token") == 0 || strcmp(argv[i], "--relay") == 0)
                                i++;
                        continue;
                }
                words[n++] = argv[i];
        }
        *ret_used = 0;
        for (size_t i = 0; i < r->n_commands; i++)
                if (names(&r->commands[i], words, n, ret_used)) {
                        r->cli->command = &r->commands[i];
                        return;
                }
}

static bool word_allowed(const char *words, const char *value)
{
        size_t n = strlen(value);

        for (const char *at = words; *at != '\0'; at += strspn(at, " ")) {
                size_t len = strcspn(at, " ");

                if (len == n && memcmp(at, value, n) == 0)
                        return true;
                at += len;
        }
        return false;
}

static int add_value(struct reader *r, const struct cli_option *option, const char *text)
{
        if (option->words != NULL && text != NULL && !word_allowed(option->words, text)) {
                buf_printf(r->problem, "--%s: \"%s\" is none of: %s", option->name, text, option->words);
                return LESSOR_E_INVALID;
        }
        if (strcmp(option->name, "json") == 0)
                r->cli->json = true;
        if (strcmp(option->name, "help") == 0)
                r->cli->help = true;
        r->cli->values[r->cli->n_values++] = (struct cli_value){option, text};
        return 0;
}

/* The few options that have a short name. */
static const char *in_full(const char *word)
{
        if (strcmp(word, "-h") == 0)
                return "--help";
        return strcmp(word, "-f") == 0 ? "--follow" : word;
}

static int read_option(struct reader *r, int argc, char *const *argv, int *i)
{
        const char *word = in_full(argv[*i]);
        const char *equals = strchr(word, '=');
        size_t n = equals == NULL ? strlen(word) : (size_t)(equals - word);
        const struct cli_option *option = NULL;

        if (n > 2 && word[1] == '-')
                option = find_option(r->cli, word + 2, n - 2);
        if (option == NULL) {
                buf_printf(r->problem, "unknown option %.*s", (int)n, word);
                return LESSOR_E_INVALID;
        }
        if (option->value == NULL) {
                if (equals != NULL) {
                        buf_printf(r->problem, "--%s takes no value", option->name);
                        return LESSOR_E_INVALID;
                }
                return add_value(r, option, NULL);
        }
        if (equals != NULL)
                return add_value(r, option, equals + 1);
        if (*i + 1 >= argc) {
                buf_printf(r->problem, "--%s wants a value: %s", option->name, option->value);
                return LESSOR_E_INVALID;
        }
        return add_value(r, option, argv[++*i]);
}

static bool wants_help(int argc, char *const *argv)
{
        for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
                if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
                        return true;
        return false;
}

static int check_count(struct reader *r)
{
        const struct cli_command *command = r->cli->command;
        size_t n = r->cli->n_args;

        if (n < (size_t)command->min_args) {
                buf_printf(r->problem, "`%s` wants %s", command->name, command->args);
                return LESSOR_E_INVALID;
        }
        if (command->max_args >= 0 && n > (size_t)command->max_args) {
                buf_printf(r->problem, "unexpected argument \"%s\"", r->cli->args[command->max_args]);
                return LESSOR_E_INVALID;
        }
        return 0;
}

static int read_all(struct reader *r, int argc, char *const *argv, size_t n_command_words)
{
        bool options = true;

        for (int i = 1; i < argc; i++) {
                int e;

                if (options && strcmp(argv[i], "--") == 0) {
                        options = false;
                        continue;
                }
                if (!options || argv[i][0] != '-' || argv[i][1] == '\0') {
                        if (n_command_words > 0)
                                n_command_words--;
                        else
                                r->cli->args[r->cli->n_args++] = argv[i];
                        continue;
                }
                e = read_option(r, argc, argv, &i);
                if (e < 0)
                        return e;
        }
        return 0;
}

int args_read(const struct cli_command *commands, size_t n_commands, int argc, char *const *argv,
              struct cli *cli, struct buf *ret_problem)
{
        struct reader r = {
                .commands = commands, .n_commands = n_commands, .cli = cli, .problem = ret_problem};
        size_t room = argc < 1 ? 1 : (size_t)argc, used;
        int e;

        cli->args = lessor_arena_array(cli->arena, room, sizeof(*cli->args));
        cli->values = lessor_arena_array(cli->arena, room, sizeof(*cli->values));
        if (cli->args == NULL || cli->values == NULL)
                return LESSOR_E_NOMEM;
        find_command(&r, argc, argv, &used);
        cli->help = wants_help(argc, argv);
        if (cli->help && cli->command != NULL)
                return 0;
        e = read_all(&r, argc, argv, used);
        if (cli->help)
                return 0;
        if (e < 0)
                return e;
        return cli->command == NULL ? 0 : check_count(&r);
}

int args_bytes(const char *text, int64_t *ret_bytes)
{
        static const char units[] = "KMGT";
        size_t digits = strspn(text, "0123456789");
        const char *unit = text + digits;
        int64_t number = 0, scale = 1;

        if (digits == 0 || digits > 16)
                return LESSOR_E_INVALID;
        for (size_t i = 0; i < digits; i++)
                number = number * 10 + (text[i] - '0');
        if (*unit != '\0') {
                const char *known = strchr(units, *unit);

                if (known == NULL || (unit[1] != '\0' && strcmp(unit + 1, "iB") != 0))
                        return LESSOR_E_INVALID;
                scale = INT64_C(1) << (10 * (known - units + 1));
        }
        if (number > BYTES_MOST / scale)
                return LESSOR_E_INVALID;
        *ret_bytes = number * scale;
        return 0;
}

int args_number(const char *text, int64_t min, int64_t max, int64_t *ret_number)
{
        char *end;
        long long number;

        if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
                return LESSOR_E_INVALID;
        errno = 0;
        number = strtoll(text, &end, 10);
        if (errno != 0 || *end != '\0' || end == text || number < min || number > max)
                return LESSOR_E_INVALID;
        *ret_number = number;
        return 0;
}

int args_duration(const char *text, int64_t *ret_ms)
{
        static const struct {
                const char *unit;
                int64_t ms;
        } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
        size_t digits = strspn(text, "0123456789");
        int64_t number = 0;

        if (digits == 0 || digits > 12)
                return LESSOR_E_INVALID;
        for (size_t i = 0; i < digits; i++)
                number = number * 10 + (text[i] - '0');
        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                if (strcmp(text + digits, units[i].unit) != 0)
                        continue;
                if (number > LONGEST_MS / units[i].ms)
                        return LESSOR_E_INVALID;
                *ret_ms = number * units[i].ms;
                return 0;
        }
        return LESSOR_E_INVALID;
}
