/* SPDX-License-Identifier: MIT */
#include "lessor/help.h"

#include <string.h>

#include "lessor/exit_code.h"

#define COLUMN 36

/* Two columns; a long first one has a line of its own. */
static void row(struct buf *out, const char *indent, const char *left, const char *right)
{
        size_t width = strlen(indent) + strlen(left);

        buf_printf(out, "%s%s", indent, left);
        if (width + 2 > COLUMN)
                buf_printf(out, "\n%*s%s\n", COLUMN, "", right);
        else
                buf_printf(out, "%*s%s\n", (int)(COLUMN - width), "", right);
}

static void command_row(struct buf *out, const struct cli_command *command)
{
        struct buf left = {0};

        buf_text(&left, command->name);
        if (command->args[0] != '\0')
                buf_printf(&left, " %s", command->args);
        row(out, "  ", left.p == NULL ? "" : left.p, command->summary);
        buf_done(&left);
}

static void option_rows(struct buf *out, const struct cli_option *options)
{
        for (; options != NULL && options->name != NULL; options++) {
                struct buf left = {0};

                buf_printf(&left, "--%s%s%s", options->name, options->value == NULL ? "" : " ",
                           options->value == NULL ? "" : options->value);
                row(out, "  ", left.p == NULL ? "" : left.p, options->help);
                buf_done(&left);
        }
}

static void indented(struct buf *out, const char *lines)
{
        while (*lines != '\0') {
                size_t n = strcspn(lines, "\n");

                buf_text(out, "  ");
                buf_append(out, lines, n);
                buf_char(out, '\n');
                lines += n + (lines[n] == '\n');
        }
}

/* "site add" is of group "site"; those of one word are of "server", but for a few. */
static bool is_of_group(const struct cli_command *command, const char *group)
{
        size_t n = strlen(group);

        if (strchr(command->name, ' ') != NULL)
                return strncmp(command->name, group, n) == 0 && command->name[n] == ' ';
        if (strcmp(command->name, "ask") == 0 || strcmp(command->name, "logs") == 0)
                return strcmp(group, command->name) == 0;
        return strcmp(group, command->peer == PEER_SERVER ? "server" : "lessor") == 0;
}

static void group_rows(struct buf *out, const char *group)
{
        for (size_t i = 0; i < cli_n_commands; i++)
                if (is_of_group(&cli_commands[i], group))
                        command_row(out, &cli_commands[i]);
}

static void exit_rows(struct buf *out)
{
        buf_text(out, "\nExit status:\n");
#define EXIT_ROW(name, number, text) buf_printf(out, "  %3d  %s\n", (number), (text));
        CLI_EXIT_CODES(EXIT_ROW)
#undef EXIT_ROW
}

int help_program(struct buf *out)
{
        buf_text(out, "Usage: lessor COMMAND [ARGUMENT...] [OPTION...]\n\n"
                      "Drives a lessord, and is a site or a device of one: work for machines that only dial "
                      "out,\nsealed so that the server in between cannot read it.\n");
        for (size_t i = 0; i < cli_n_groups; i++) {
                buf_printf(out, "\n%c%s: %s\n", cli_groups[i].name[0] - 'a' + 'A', cli_groups[i].name + 1,
                           cli_groups[i].summary);
                group_rows(out, cli_groups[i].name);
        }
        buf_text(out, "\nOptions of every command:\n");
        option_rows(out, cli_common_options);
        buf_text(out, "\nOptions of commands that drive the server:\n");
        option_rows(out, cli_peer_options(PEER_SERVER));
        buf_text(out, "\nOptions of ask, device pair and device run:\n");
        option_rows(out, cli_peer_options(PEER_RELAY));
        exit_rows(out);
        buf_text(out, "\nExamples:\n");
        indented(out, "lessor keys new demo.json\n"
                      "lessor site add demo --keys demo.json\n"
                      "lessor consent add alice demo --service echo\n"
                      "lessor device pair --dir ./device --backend echo\n"
                      "lessor device approve ABCD-1234 --owner alice\n"
                      "lessor device run --dir ./device --backend echo\n"
                      "lessor ask --site demo --site-keys demo.json --owner alice \"hello\"");
        buf_text(out, "\n`lessor COMMAND --help` says more about each; the manual is lessor(1).\n");
        return buf_failed(out);
}

int help_group(const char *group, struct buf *out)
{
        buf_printf(out, "Usage: lessor %s COMMAND [ARGUMENT...] [OPTION...]\n\n", group);
        for (size_t i = 0; i < cli_n_groups; i++)
                if (strcmp(cli_groups[i].name, group) == 0)
                        buf_printf(out, "%c%s: %s\n", group[0] - 'a' + 'A', group + 1, cli_groups[i].summary);
        group_rows(out, group);
        buf_text(out, "\nExamples:\n");
        for (size_t i = 0; i < cli_n_commands; i++)
                if (is_of_group(&cli_commands[i], group))
                        indented(out, cli_commands[i].examples);
        return buf_failed(out);
}

int help_command(const struct cli_command *command, struct buf *out)
{
        buf_printf(out, "Usage: lessor %s%s%s [OPTION...]\n\n%c%s.\n", command->name,
                   command->args[0] == '\0' ? "" : " ", command->args, command->summary[0] - 'a' + 'A',
                   command->summary + 1);
        if (command->details != NULL)
                buf_printf(out, "%s\n", command->details);
        buf_text(out, "\nOptions:\n");
        option_rows(out, command->options);
        option_rows(out, cli_peer_options(command->peer));
        option_rows(out, cli_common_options);
        buf_text(out, "\nExamples:\n");
        indented(out, command->examples);
        return buf_failed(out);
}
