/* SPDX-License-Identifier: MIT */
#ifndef BASE_MACRO_H
#define BASE_MACRO_H

#include <stddef.h>

/* The few macros that the project allows itself. */

/* Runs `fn(&variable)` when the variable goes out of scope. */
#define _cleanup_(fn) __attribute__((cleanup(fn)))

/* Hands the value over and leaves NULL behind, so that _cleanup_ has nothing to free. */
#define TAKE(pointer)                                   \
        ({                                              \
                __typeof__(pointer) taken_ = (pointer); \
                (pointer) = NULL;                       \
                taken_;                                 \
        })

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Defines `static inline void NAMEp(TYPE **)` for use with _cleanup_, from a function that frees a TYPE *.
 */
#define DEFINE_CLEANUP(type, name)                                                                 \
        static inline void name##p(type **object) /* NOLINT(bugprone-macro-parentheses): a type */ \
        {                                                                                          \
                if (*object != NULL)                                                               \
                        name(*object);                                                             \
        }

#endif
