/* SPDX-License-Identifier: MIT */
#ifndef HTTP_PROBLEM_H
#define HTTP_PROBLEM_H

#include "lessor/arena.h"

/* Writes a sentence for people into the arena, as far as there is memory, and returns `code`. */
int problem(struct lessor_arena *arena, const char **ret_problem, int code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

#endif
