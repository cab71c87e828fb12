/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/utf8.h"
#include "lessor/args.h"
#include "lessor/commands.h"
#include "lessor/error.h"
#include "lessor/help.h"
#include "lessor/input.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

static int show_help(struct cli *cli)
{
        const char *group = cli->n_args == 0 ? NULL : args_group(cli_commands, cli_n_commands, cli->args[0]);
        struct buf out = {0};

        if (cli->command != NULL)
                help_command(cli->command, &out);
        else if (group != NULL)
                help_group(group, &out);
        else
                help_program(&out);
        return output_print(cli, &out);
}

/* No command was named, or none that there is. */
static int no_command(struct cli *cli)
{
        const char *word = cli->n_args == 0 ? NULL : cli->args[0];
        struct buf out = {0};

        if (word == NULL && cli_switch(cli, "help"))
                return show_help(cli);
        if (word == NULL) {
                help_program(&out);
                fwrite(out.p == NULL ? "" : out.p, 1, out.n, stderr);
                buf_done(&out);
                return CLI_EXIT_USAGE;
        }
        if (args_group(cli_commands, cli_n_commands, word) == NULL)
                return cli_misuse(cli, "there is no command \"%s\"", word);
        if (cli->n_args > 1)
                return cli_fail(cli, CLI_EXIT_USAGE, "there is no command \"%s %s\"; see lessor %s --help",
                                word, cli->args[1], word);
        return cli_fail(cli, CLI_EXIT_USAGE, "\"%s\" wants a command; see lessor %s --help", word, word);
}

int main(int argc, char **argv)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(buf_done) struct buf problem = {0};
        struct cli cli = {.arena = arena};
        int e;

        /* A reader of ours that goes away is an error of the write, not a death. */
        signal(SIGPIPE, SIG_IGN);
        if (sodium_init() < 0)
                return cli_fail(&cli, CLI_EXIT_FAILED, "the system's random source does not work");
        if (arena == NULL)
                return cli_fail_nomem(&cli);
        for (int i = 1; i < argc; i++)
                if (!utf8_valid(lessor_slice_of(argv[i])))
                        return cli_fail(&cli, CLI_EXIT_USAGE, "argument %d is no UTF-8", i);
        if (argc == 2 && strcmp(argv[1], "--version") == 0)
                return run_version(&cli);
        e = args_read(cli_commands, cli_n_commands, argc, argv, &cli, &problem);
        if (e == LESSOR_E_NOMEM)
                return cli_fail_nomem(&cli);
        if (cli.help)
                return show_help(&cli);
        if (cli.command == NULL)
                return no_command(&cli);
        if (e < 0)
                return cli_misuse(&cli, "%s", problem.p == NULL ? lessor_error_text(e) : problem.p);
        return cli.command->run(&cli);
}
