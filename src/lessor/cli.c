/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lessor/command.h"
#include "lessor/error.h"

const char *cli_option(const struct cli *cli, const char *name)
{
        const char *text = NULL;

        for (size_t i = 0; i < cli->n_values; i++)
                if (strcmp(cli->values[i].option->name, name) == 0)
                        text = cli->values[i].text;
        return text;
}

bool cli_switch(const struct cli *cli, const char *name)
{
        for (size_t i = 0; i < cli->n_values; i++)
                if (strcmp(cli->values[i].option->name, name) == 0)
                        return true;
        return false;
}

int cli_fail(const struct cli *cli, int code, const char *format, ...)
{
        va_list args;

        (void)cli;
        fflush(stdout);
        fputs("lessor: ", stderr);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        return code;
}

int cli_fail_nomem(const struct cli *cli)
{
        return cli_fail(cli, CLI_EXIT_FAILED, "out of memory");
}

static int code_of(int error)
{
        switch (error) {
        case LESSOR_E_NOT_FOUND:
                return CLI_EXIT_NOT_FOUND;
        case LESSOR_E_LATER:
                return CLI_EXIT_UNREACHABLE;
        case LESSOR_E_REFUSED:
        case LESSOR_E_PERMISSION:
        case LESSOR_E_EXISTS:
        case LESSOR_E_BUSY:
                return CLI_EXIT_REFUSED;
        case LESSOR_E_EXPIRED:
        case LESSOR_E_TIMEOUT:
                return CLI_EXIT_TIMED_OUT;
        case LESSOR_E_CLOSED:
                return CLI_EXIT_INTERRUPTED;
        default:
                return CLI_EXIT_FAILED;
        }
}

int cli_fail_error(const struct cli *cli, int error, const char *what, const char *problem)
{
        if (problem != NULL && problem[0] != '\0')
                return cli_fail(cli, code_of(error), "%s: %s", what, problem);
        return cli_fail(cli, code_of(error), "%s: %s", what, lessor_error_text(error));
}

int cli_misuse(const struct cli *cli, const char *format, ...)
{
        va_list args;

        fflush(stdout);
        fputs("lessor: ", stderr);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        if (cli->command != NULL)
                fprintf(stderr, "; see lessor %s --help\n", cli->command->name);
        else
                fputs("; see lessor --help\n", stderr);
        return CLI_EXIT_USAGE;
}
