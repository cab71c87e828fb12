/* SPDX-License-Identifier: MIT */
#include "lessor/kind.h"

#include <string.h>

#include "wire/relay_shapes.h"

const char *kind_name(enum lessor_kind kind)
{
        return message_word(&kind_words, (int)kind);
}

const char *kind_short(const char *name)
{
        const char *dot = strchr(name, '.');

        return dot == NULL ? name : dot + 1;
}

int kind_read(const char *text, enum lessor_kind *ret_kind)
{
        for (int kind = 0; kind < LESSOR_N_KINDS; kind++) {
                const char *name = kind_name((enum lessor_kind)kind);

                if (strcmp(text, name) != 0 && strcmp(text, kind_short(name)) != 0)
                        continue;
                *ret_kind = (enum lessor_kind)kind;
                return 0;
        }
        return LESSOR_E_INVALID;
}
