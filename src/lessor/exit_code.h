/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_EXIT_CODE_H
#define LESSOR_EXIT_CODE_H

/*
 * What lessor's exit status says: one list for the program, its --help and its manual.
 * lessor(1), section EXIT STATUS, is held to it by a test.
 */
#define CLI_EXIT_CODES(X)                                                                        \
        X(OK, 0, "it was done")                                                                  \
        X(FAILED, 1, "it failed: the message says why")                                          \
        X(USAGE, 2, "the command line is wrong")                                                 \
        X(UNREACHABLE, 3, "the server or relay cannot be reached")                               \
        X(REFUSED, 4, "the server refused: a conflict, a wrong key, no permission")              \
        X(NOT_FOUND, 5, "there is no such thing")                                                \
        X(TIMED_OUT, 6, "time ran out: the job's deadline, or the pairing code")                 \
        X(JOB_FAILED, 7, "the job, lease or run ended otherwise than in success")                \
        X(RUN_FAILED, 125, "`lessor run` itself failed; else it ends with its command's status") \
        X(INTERRUPTED, 130, "stopped by Ctrl-C")

enum cli_exit {
#define CLI_EXIT_NAME(name, number, text) CLI_EXIT_##name = (number),
        CLI_EXIT_CODES(CLI_EXIT_NAME)
#undef CLI_EXIT_NAME
};

#endif
