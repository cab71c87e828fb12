/* SPDX-License-Identifier: MIT */
#ifndef LESSOR_KIND_H
#define LESSOR_KIND_H

#include "lessor/error.h"
#include "lessor/relay_types.h"

/* Kinds as people type them: "chat" and "generate", or as the wire has them. */

/* Returns 0 or LESSOR_E_INVALID. */
int kind_read(const char *text, enum lessor_kind *ret_kind);

/* "llm.chat". Static. */
const char *kind_name(enum lessor_kind kind);

/* What comes after the dot: "chat". Borrowed from `name`. */
const char *kind_short(const char *name);

#endif
