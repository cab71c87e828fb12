/* SPDX-License-Identifier: MIT */
#include "lessor/error.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/macro.h"

static const char *const texts[] = {"success",
#define TEXT(name, text) text,
                                    LESSOR_ERRORS(TEXT)
#undef TEXT
};

/* The list spells the names as C does; they are respelled once, at the first question. */
static char names[][32] = {"OK",
#define NAME(name, text) #name,
                           LESSOR_ERRORS(NAME)
#undef NAME
};

static void names_respell(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                for (char *c = names[i]; *c != '\0'; c++) {
                        if (*c == '_')
                                *c = '-';
                        else if (*c >= 'A' && *c <= 'Z')
                                *c = (char)(*c - 'A' + 'a');
                }
        }
}

static bool known(int code)
{
        return code <= 0 && code > -(int)ARRAY_SIZE(texts);
}

const char *lessor_error_text(int code)
{
        return known(code) ? texts[-code] : "unknown error";
}

const char *lessor_error_name(int code)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, names_respell);
        return known(code) ? names[-code] : "unknown-error";
}
