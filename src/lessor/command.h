/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_COMMAND_H
#define LESSOR_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "lessor/arena.h"
#include "lessor/exit_code.h"

/*
 * The commands as data: what parses the command line is also what --help prints and what shells complete.
 */

enum cli_completion { COMPLETE_NOTHING, COMPLETE_FILE, COMPLETE_DIRECTORY, COMPLETE_WORDS };

struct cli_option {
        const char *name;  /* "owner"; NULL ends a list */
        const char *value; /* "USER"; NULL: a switch */
        const char *help;
        enum cli_completion complete;
        const char *words; /* COMPLETE_WORDS: separated by spaces, and nothing else is taken */
};

/* Whom a command talks to, which brings options of its own. */
enum cli_peer { PEER_NONE, PEER_SERVER, PEER_RELAY };

struct cli;

struct cli_command {
        const char *name; /* "site add" */
        const char *args; /* "SITE [PURPOSE...]", for people; "" for none */
        int min_args;
        int max_args; /* -1: any number */
        enum cli_peer peer;
        enum cli_completion complete;     /* of its arguments */
        const struct cli_option *options; /* NULL: none of its own */
        int (*run)(struct cli *cli);      /* returns an enum cli_exit */
        const char *summary;              /* one line, lower case, no full stop */
        const char *details;              /* further lines; NULL: none */
        const char *examples;             /* lines, each a command */
};

extern const struct cli_command cli_commands[];
extern const size_t cli_n_commands;

/* What every command of a group is for: `lessor site --help` begins with it. */
struct cli_group {
        const char *name;
        const char *summary;
};
extern const struct cli_group cli_groups[];
extern const size_t cli_n_groups;

/* Options that every command has, and those of the peers. Each list ends with a NULL name. */
extern const struct cli_option cli_common_options[];
const struct cli_option *cli_peer_options(enum cli_peer peer);

/* One value of the command line. */
struct cli_value {
        const struct cli_option *option;
        const char *text; /* NULL: a switch */
};

/* One run of the program. */
struct cli {
        const struct cli_command *command; /* NULL: none was named */
        struct lessor_arena *arena;        /* whatever the run needs; goes at its end */
        const char **args;
        size_t n_args;
        struct cli_value *values;
        size_t n_values;
        bool json;
        bool help;
};

/* The last value of an option, or NULL. */
const char *cli_option(const struct cli *cli, const char *name);
bool cli_switch(const struct cli *cli, const char *name);

/* Says what went wrong on stderr, after `lessor: `, and returns `code`. */
int cli_fail(const struct cli *cli, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* As cli_fail with the code that belongs to an error of the library; `what` names the thing. */
int cli_fail_error(const struct cli *cli, int error, const char *what, const char *problem);

int cli_fail_nomem(const struct cli *cli);

/* As cli_fail, for a wrong command line: also says how to get help. Returns CLI_EXIT_USAGE. */
int cli_misuse(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
