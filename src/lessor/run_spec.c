/* SPDX-License-Identifier: MIT */
#include "lessor/run_spec.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macro.h"
#include "base/utf8.h"
#include "lessor/args.h"
#include "lessor/repo.h"

#define TIER_DEFAULT     "shell"
#define ATTEMPTS_DEFAULT 3
#define ATTEMPTS_MOST    1000

/* --- Paths --- */

/* The next name of a path; absent at its end. Empty names and "." are passed over. */
static struct lessor_slice next_name(const char **path)
{
        for (;;) {
                const char *p = *path;
                size_t n;

                while (*p == '/')
                        p++;
                n = strcspn(p, "/");
                *path = p + n;
                if (n == 0)
                        return (struct lessor_slice){0};
                if (n != 1 || p[0] != '.')
                        return (struct lessor_slice){p, n};
        }
}

static bool is_up(struct lessor_slice name)
{
        return name.n == 2 && memcmp(name.p, "..", 2) == 0;
}

static bool leads_up(const char *path)
{
        struct lessor_slice name;

        while ((name = next_name(&path)).p != NULL)
                if (is_up(name))
                        return true;
        return false;
}

int run_spec_place(const char *path, struct lessor_arena *arena, struct lessor_slice *ret_place)
{
        const char *at = path;
        struct lessor_slice name, last = {0};
        bool is_below = path[0] != '/';
        char *place = lessor_arena_alloc(arena, strlen(path) + 1);
        size_t n = 0;

        if (place == NULL)
                return LESSOR_E_NOMEM;
        while ((name = next_name(&at)).p != NULL) {
                is_below = is_below && !is_up(name);
                last = name;
                if (n > 0)
                        place[n++] = '/';
                memcpy(place + n, name.p, name.n);
                n += name.n;
        }
        if (is_below) {
                *ret_place = (struct lessor_slice){place, n};
                return 0;
        }
        if (last.p == NULL || is_up(last))
                return LESSOR_E_INVALID;
        *ret_place = last;
        return 0;
}

/* --- Inputs --- */

/* Whether a place is one of the roots', or below it. */
static bool is_taken(const struct run_spec *spec, struct lessor_slice place)
{
        for (size_t i = 0; i < spec->n_roots; i++) {
                struct lessor_slice at = spec->roots[i].at;

                if (at.p == NULL || lessor_slice_equal(at, place) ||
                    (place.n > at.n && memcmp(place.p, at.p, at.n) == 0 && place.p[at.n] == '/'))
                        return true;
        }
        return false;
}

static int add_root(struct cli *cli, struct run_spec *spec, const char *from)
{
        struct lessor_slice place;
        int e = run_spec_place(from, cli->arena, &place);

        if (e == LESSOR_E_NOMEM)
                return cli_fail_nomem(cli);
        if (e < 0)
                return cli_misuse(cli, "--in: \"%s\" has no name of its own: name what is in it", from);
        if (place.n > 0 && !tree_path_valid(place))
                return cli_misuse(cli,
                                  "--in: \"%s\" cannot be the path of an input: it is too long or not UTF-8",
                                  from);
        spec->roots[spec->n_roots++] = (struct tree_root){
                .at = place.n == 0 ? (struct lessor_slice){0} : place, .dir = AT_FDCWD, .from = from};
        return CLI_EXIT_OK;
}

static int read_inputs(struct cli *cli, struct run_spec *spec)
{
        const char *command = cli->args[0];
        struct lessor_slice place;
        struct stat st;
        int code = CLI_EXIT_OK;

        spec->roots = lessor_arena_array(cli->arena, cli->n_values + 1, sizeof(*spec->roots));
        if (spec->roots == NULL)
                return cli_fail_nomem(cli);
        for (size_t i = 0; i < cli->n_values && code == CLI_EXIT_OK; i++)
                if (strcmp(cli->values[i].option->name, "in") == 0)
                        code = add_root(cli, spec, cli->values[i].text);
        for (size_t i = 0; i < spec->n_roots && code == CLI_EXIT_OK; i++)
                if (spec->roots[i].at.p == NULL && spec->n_roots > 1)
                        return cli_misuse(cli, "--in .: takes everything; name nothing else beside it");
        /* A command that is a file here goes along: `./train.sh` means this one. */
        if (code == CLI_EXIT_OK && command[0] != '/' && strchr(command, '/') != NULL &&
            run_spec_place(command, cli->arena, &place) == 0 && place.n > 0 && !is_taken(spec, place) &&
            stat(command, &st) == 0 && S_ISREG(st.st_mode))
                code = add_root(cli, spec, command);
        return code;
}

/* --- The rest --- */

static int compare_variables(const void *a, const void *b)
{
        const struct task_variable *x = a, *y = b;

        return lessor_slice_cmp(x->name, y->name);
}

static int read_environment(struct cli *cli, struct run_spec *spec)
{
        struct task_variable *variables =
                lessor_arena_array(cli->arena, cli->n_values + 1, sizeof(*variables));
        size_t n = 0;

        if (variables == NULL)
                return cli_fail_nomem(cli);
        for (size_t i = 0; i < cli->n_values; i++) {
                const char *text = cli->values[i].text, *equals, *value;

                if (strcmp(cli->values[i].option->name, "env") != 0)
                        continue;
                equals = strchr(text, '=');
                value = equals == NULL ? getenv(text) : equals + 1;
                if (equals == text || value == NULL)
                        return cli_misuse(
                                cli, "--env: \"%s\" is neither NAME=VALUE nor a variable that is set", text);
                variables[n++] = (struct task_variable){
                        {text, equals == NULL ? strlen(text) : (size_t)(equals - text)},
                        lessor_slice_of(value)};
        }
        qsort(variables, n, sizeof(*variables), compare_variables);
        for (size_t i = 1; i < n; i++)
                if (lessor_slice_equal(variables[i - 1].name, variables[i].name))
                        return cli_misuse(cli, "--env: %.*s is set twice", (int)variables[i].name.n,
                                          variables[i].name.p);
        spec->task.environment = variables;
        spec->task.n_environment = n;
        return CLI_EXIT_OK;
}

static int compare_outputs(const void *a, const void *b)
{
        const struct task_output *x = a, *y = b;

        return tree_path_cmp(x->path, y->path);
}

static int read_outputs(struct cli *cli, struct run_spec *spec)
{
        struct task_output *outputs = lessor_arena_array(cli->arena, cli->n_values + 1, sizeof(*outputs));
        size_t n = 0;

        if (outputs == NULL)
                return cli_fail_nomem(cli);
        for (size_t i = 0; i < cli->n_values; i++) {
                const char *text = cli->values[i].text;
                struct lessor_slice place;

                if (strcmp(cli->values[i].option->name, "out") != 0)
                        continue;
                if (text[0] == '/' || leads_up(text) || run_spec_place(text, cli->arena, &place) < 0 ||
                    !tree_path_valid(place))
                        return cli_misuse(cli, "--out: \"%s\" is no path below the task's directory", text);
                outputs[n++] = (struct task_output){.path = place, .required = true};
        }
        spec->has_outputs = n > 0;
        if (n == 0)
                outputs[n++] = (struct task_output){.path = LESSOR_SLICE(RUN_OUTPUT_DEFAULT)};
        qsort(outputs, n, sizeof(*outputs), compare_outputs);
        spec->task.outputs = outputs;
        spec->task.n_outputs = n;
        return CLI_EXIT_OK;
}

static int read_limit(struct cli *cli, const char *option, int (*read)(const char *text, int64_t *ret),
                      const char *such_as, int64_t *ret_limit)
{
        const char *text = cli_option(cli, option);

        *ret_limit = 0;
        if (text == NULL)
                return CLI_EXIT_OK;
        if (read(text, ret_limit) < 0 || *ret_limit < 1)
                return cli_misuse(cli, "--%s: \"%s\" is none, such as %s", option, text, such_as);
        return CLI_EXIT_OK;
}

static int read_limits(struct cli *cli, struct run_spec *spec)
{
        const char *attempts = cli_option(cli, "attempts");
        int code = read_limit(cli, "timeout", args_duration, "90s, 10m or 1h", &spec->task.limits.time_ms);

        if (code == CLI_EXIT_OK)
                code = read_limit(cli, "ttl", args_duration, "90s, 10m or 1h", &spec->ttl_ms);
        if (code == CLI_EXIT_OK)
                code = read_limit(cli, "memory", args_bytes, "512M or 4G", &spec->task.limits.memory_bytes);
        if (code == CLI_EXIT_OK)
                code = read_limit(cli, "disk", args_bytes, "512M or 4G", &spec->task.limits.disk_bytes);
        spec->attempt_limit = ATTEMPTS_DEFAULT;
        if (code == CLI_EXIT_OK && attempts != NULL &&
            args_number(attempts, 1, ATTEMPTS_MOST, &spec->attempt_limit) < 0)
                return cli_misuse(cli, "--attempts: \"%s\" is no number from 1 to %d", attempts,
                                  ATTEMPTS_MOST);
        return code;
}

static int read_command(struct cli *cli, struct run_spec *spec)
{
        struct lessor_slice *argv = lessor_arena_array(cli->arena, cli->n_args, sizeof(*argv));
        const char *slash = strrchr(cli->args[0], '/');

        if (argv == NULL)
                return cli_fail_nomem(cli);
        for (size_t i = 0; i < cli->n_args; i++) {
                argv[i] = lessor_slice_of(cli->args[i]);
                if (!utf8_valid(argv[i]))
                        return cli_misuse(cli, "argument %zu is not UTF-8", i);
        }
        if (argv[0].n == 0)
                return cli_misuse(cli, "the command is empty");
        spec->task.argv = argv;
        spec->task.n_argv = cli->n_args;
        spec->task.directory = LESSOR_SLICE(".");
        spec->task.network = cli_switch(cli, "network");
        spec->task_name = slash == NULL || slash[1] == '\0' ? cli->args[0] : slash + 1;
        return CLI_EXIT_OK;
}

static const char *or_default(const char *text, const char *otherwise)
{
        return text == NULL || text[0] == '\0' ? otherwise : text;
}

int run_spec_read(struct cli *cli, struct run_spec *ret_spec)
{
        struct run_spec spec = {.tier = or_default(cli_option(cli, "tier"), TIER_DEFAULT),
                                .repo = repo_of(cli),
                                .dest = or_default(cli_option(cli, "dest"), ".")};
        int code = read_command(cli, &spec);

        if (code == CLI_EXIT_OK)
                code = read_inputs(cli, &spec);
        if (code == CLI_EXIT_OK)
                code = read_environment(cli, &spec);
        if (code == CLI_EXIT_OK)
                code = read_outputs(cli, &spec);
        if (code == CLI_EXIT_OK)
                code = read_limits(cli, &spec);
        if (code == CLI_EXIT_OK)
                *ret_spec = spec;
        return code;
}
