/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/buf.h"
#include "lessor/commands.h"
#include "lessor/input.h"

/*
 * Completions of shells, made from the table of commands. Both scripts know three things of every command:
 * the words that can follow its name, its options, and what each option wants.
 */

/* Calls `each` for every option that a command takes. */
static void each_option(const struct cli_command *command,
                        void (*each)(const struct cli_option *, struct buf *), struct buf *out)
{
        const struct cli_option *const lists[] = {command->options, cli_peer_options(command->peer),
                                                  cli_common_options};

        for (size_t i = 0; i < 3; i++)
                for (const struct cli_option *o = lists[i]; o != NULL && o->name != NULL; o++)
                        each(o, out);
}

/* The next word of every command whose name begins with `prefix` ("" or "site "), each once. */
static void next_words(struct buf *out, const char *prefix, size_t prefix_len)
{
        const char *before = "";
        size_t before_len = 0;

        for (size_t i = 0; i < cli_n_commands; i++) {
                const char *rest = cli_commands[i].name + prefix_len;
                size_t n;

                if (strncmp(cli_commands[i].name, prefix, prefix_len) != 0)
                        continue;
                n = strcspn(rest, " ");
                if (n == before_len && memcmp(rest, before, n) == 0)
                        continue;
                if (before_len > 0)
                        buf_char(out, ' ');
                buf_append(out, rest, n);
                before = rest;
                before_len = n;
        }
}

/* Calls `each` for every word or words that a command must follow: "", "site", "consent mapping". */
static void each_prefix(void (*each)(const char *prefix, size_t n, struct buf *out), struct buf *out)
{
        each("", 0, out);
        for (size_t i = 0; i < cli_n_commands; i++) {
                const char *name = cli_commands[i].name;

                for (const char *space = strchr(name, ' '); space != NULL; space = strchr(space + 1, ' ')) {
                        size_t n = (size_t)(space - name);
                        bool is_new = true;

                        for (size_t k = 0; k < i && is_new; k++)
                                is_new = strncmp(cli_commands[k].name, name, n + 1) != 0;
                        if (is_new)
                                each(name, n, out);
                }
        }
}

/* --- bash --- */

static void bash_option(const struct cli_option *option, struct buf *out)
{
        buf_printf(out, " --%s", option->name);
}

static void bash_prefix(const char *prefix, size_t n, struct buf *out)
{
        buf_printf(out, "        \"%.*s\") words=\"", (int)n, prefix);
        if (n == 0)
                next_words(out, "", 0);
        else
                next_words(out, prefix, n + 1);
        buf_text(out, "\" ;;\n");
}

/* What the arguments of a command can be: the alternatives of "bash|zsh", or files. */
static void argument_words(const struct cli_command *command, struct buf *out)
{
        const char *at = command->args[0] == '[' ? command->args + 1 : command->args;

        if (strchr(at, '|') == NULL || (at[0] >= 'A' && at[0] <= 'Z'))
                return;
        for (; *at != '\0' && *at != ']'; at++)
                buf_append(out, *at == '|' ? " " : at, 1);
}

static void bash_command(const struct cli_command *command, struct buf *out)
{
        buf_printf(out, "        \"%s\") words=\"", command->name);
        argument_words(command, out);
        buf_text(out, "\" options=\"");
        each_option(command, bash_option, out);
        buf_printf(out, "\" files=%d ;;\n", command->complete == COMPLETE_FILE);
}

/* What an option wants is the same wherever it occurs, but for words, which say so themselves. */
static void bash_values(struct buf *out)
{
        static const struct {
                const char *options, *action;
        } values[] = {
                {"--data|--dir", "compgen -d -- \"$cur\""},
                {"--keys|--new-keys|--public|--site-keys|--token|--ca|--event|--leases",
                 "compgen -f -- \"$cur\""},
                {"--kind", "compgen -W \"chat generate\" -- \"$cur\""},
                {"--offer|--audience", "compgen -W \"private team\" -- \"$cur\""},
                {"--state", "compgen -W \"queued awaiting-payload ready running done\" -- \"$cur\""},
                {"--size", "compgen -W \"serverless small medium large xlarge\" -- \"$cur\""},
                {"--status", "compgen -W \"pending claimed completed superseded cancelled poisoned expired\" "
                             "-- \"$cur\""},
                {"--backend", "compgen -W \"echo openai: exec:\" -- \"$cur\""},
        };

        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
                buf_printf(out, "    %s) mapfile -t COMPREPLY < <(%s); return ;;\n", values[i].options,
                           values[i].action);
}

/* Options that want a value, so that the value is not taken for a word of the command. */
static void bash_valued(struct buf *out)
{
        static const char seen_mark[] = "|";
        struct buf seen = {0};

        buf_text(&seen, seen_mark);
        for (size_t i = 0; i < cli_n_commands; i++) {
                const struct cli_option *const lists[] = {cli_commands[i].options,
                                                          cli_peer_options(cli_commands[i].peer)};

                for (size_t k = 0; k < 2; k++)
                        for (const struct cli_option *o = lists[k]; o != NULL && o->name != NULL; o++) {
                                struct buf mark = {0};

                                buf_printf(&mark, "|--%s|", o->name);
                                if (o->value != NULL && seen.p != NULL && mark.p != NULL &&
                                    strstr(seen.p, mark.p) == NULL)
                                        buf_printf(&seen, "--%s|", o->name);
                                buf_done(&mark);
                        }
        }
        if (seen.n > 2)
                buf_append(out, seen.p + 1, seen.n - 2);
        buf_done(&seen);
}

static void write_bash(struct buf *out)
{
        buf_text(out, "# bash completion for lessor; made by `lessor completion bash`\n"
                      "_lessor() {\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "    local path=\"\" words=\"\" options=\" --json --help\" files=0 i word\n"
                      "    COMPREPLY=()\n"
                      "    case $prev in\n");
        bash_values(out);
        buf_text(out, "    ");
        bash_valued(out);
        buf_text(out, ") return ;;\n"
                      "    esac\n"
                      "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                      "        word=${COMP_WORDS[i]}\n"
                      "        case $word in\n"
                      "        ");
        bash_valued(out);
        buf_text(out, ") ((i++)); continue ;;\n"
                      "        -*) continue ;;\n"
                      "        esac\n"
                      "        case \"$path${path:+ }$word\" in\n");
        for (size_t i = 0; i < cli_n_commands; i++) {
                const char *name = cli_commands[i].name;
                size_t n = strlen(name);

                /* Every beginning of a command's name, so that arguments do not become part of the path. */
                for (const char *space = strchr(name, ' '); space != NULL; space = strchr(space + 1, ' '))
                        buf_printf(out, "        \"%.*s\"|\\\n", (int)(space - name), name);
                buf_printf(out, "        \"%.*s\"%s\n", (int)n, name, i + 1 == cli_n_commands ? ")" : "|\\");
        }
        buf_text(out, "            path=\"$path${path:+ }$word\" ;;\n"
                      "        esac\n"
                      "    done\n"
                      "    case $path in\n");
        each_prefix(bash_prefix, out);
        for (size_t i = 0; i < cli_n_commands; i++)
                bash_command(&cli_commands[i], out);
        buf_text(out, "    esac\n"
                      "    if [[ $cur == -* ]]; then\n"
                      "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
                      "    elif [[ $files == 1 ]]; then\n"
                      "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                      "    else\n"
                      "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                      "    fi\n"
                      "}\n"
                      "complete -o filenames -F _lessor lessor\n");
}

/* --- zsh --- */

/* A text inside single quotes, where a colon or bracket of a description would end it. */
static void zsh_escape(struct buf *out, const char *text)
{
        for (; *text != '\0'; text++) {
                if (*text == '\'')
                        buf_text(out, "'\\''");
                else if (*text == ':' || *text == '[' || *text == ']')
                        buf_printf(out, "\\%c", *text);
                else
                        buf_char(out, *text);
        }
}

static void zsh_option(const struct cli_option *option, struct buf *out)
{
        buf_printf(out, " \\\n            '--%s", option->name);
        if (option->value != NULL)
                buf_char(out, '=');
        buf_char(out, '[');
        zsh_escape(out, option->help);
        buf_char(out, ']');
        if (option->value != NULL) {
                buf_char(out, ':');
                zsh_escape(out, option->value);
                buf_char(out, ':');
                if (option->complete == COMPLETE_WORDS)
                        buf_printf(out, "(%s)", option->words);
                else if (option->complete == COMPLETE_FILE)
                        buf_text(out, "_files");
                else if (option->complete == COMPLETE_DIRECTORY)
                        buf_text(out, "_files -/");
        }
        buf_char(out, '\'');
}

static const char *summary_of(const char *prefix, size_t n, const char *word, size_t word_len)
{
        for (size_t i = 0; i < cli_n_commands; i++) {
                const char *name = cli_commands[i].name;

                if (strncmp(name, prefix, n) == 0 && strncmp(name + n, word, word_len) == 0 &&
                    name[n + word_len] == '\0')
                        return cli_commands[i].summary;
        }
        for (size_t i = 0; n == 0 && i < cli_n_groups; i++)
                if (strlen(cli_groups[i].name) == word_len && memcmp(cli_groups[i].name, word, word_len) == 0)
                        return cli_groups[i].summary;
        return "more commands";
}

static void zsh_prefix(const char *prefix, size_t n, struct buf *out)
{
        struct buf words = {0};
        size_t skip = n == 0 ? 0 : n + 1;

        buf_printf(out, "    '%.*s')\n        words=(", (int)n, prefix);
        next_words(&words, prefix, skip);
        for (const char *at = words.p == NULL ? "" : words.p; *at != '\0'; at += strspn(at, " ")) {
                size_t len = strcspn(at, " ");

                buf_printf(out, "'%.*s:", (int)len, at);
                zsh_escape(out, summary_of(prefix, skip, at, len));
                buf_text(out, "' ");
                at += len;
        }
        buf_text(out, ")\n        _describe -t commands 'command' words\n        ;;\n");
        buf_done(&words);
}

static void zsh_command(const struct cli_command *command, struct buf *out)
{
        struct buf words = {0};

        buf_printf(out, "    '%s')\n        _arguments -S", command->name);
        each_option(command, zsh_option, out);
        argument_words(command, &words);
        if (words.n > 0)
                buf_printf(out, " \\\n            ':argument:(%s)'", words.p);
        else if (command->complete == COMPLETE_FILE)
                buf_text(out, " \\\n            ':file:_files'");
        else if (command->max_args != 0)
                buf_text(out, " \\\n            '*:argument: '");
        buf_text(out, "\n        ;;\n");
        buf_done(&words);
}

static void zsh_name(const char *prefix, size_t n, struct buf *out)
{
        if (n > 0)
                buf_printf(out, " '%.*s'", (int)n, prefix);
}

static void write_zsh(struct buf *out)
{
        buf_text(out, "#compdef lessor\n"
                      "# zsh completion for lessor; made by `lessor completion zsh`\n"
                      "_lessor() {\n"
                      "    local path='' next\n"
                      "    local -a words_so_far words known\n"
                      "    integer at=2\n"
                      "    words_so_far=(\"${(@)words[1,CURRENT-1]}\")\n"
                      "    known=(");
        each_prefix(zsh_name, out);
        for (size_t i = 0; i < cli_n_commands; i++)
                buf_printf(out, " '%s'", cli_commands[i].name);
        buf_text(out, " )\n"
                      "    while (( at < CURRENT )); do\n"
                      "        next=\"${path:+$path }${words_so_far[at]}\"\n"
                      "        (( ${known[(Ie)$next]} )) || break\n"
                      "        path=$next\n"
                      "        (( at++ ))\n"
                      "    done\n"
                      "    shift $(( at - 2 )) words\n"
                      "    (( CURRENT -= at - 2 ))\n"
                      "    case $path in\n");
        each_prefix(zsh_prefix, out);
        for (size_t i = 0; i < cli_n_commands; i++)
                zsh_command(&cli_commands[i], out);
        buf_text(out, "    esac\n"
                      "}\n"
                      "_lessor \"$@\"\n");
}

int run_completion(struct cli *cli)
{
        struct buf out = {0};

        if (strcmp(cli->args[0], "bash") == 0)
                write_bash(&out);
        else if (strcmp(cli->args[0], "zsh") == 0)
                write_zsh(&out);
        else
                return cli_misuse(cli, "\"%s\" is neither bash nor zsh", cli->args[0]);
        return output_print(cli, &out);
}
