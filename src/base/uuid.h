/* SPDX-License-Identifier: MIT */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/slice.h"

#define UUID_TEXT_LEN 36

/* A random (version 4) UUID in lower case, from the system's random source. `ret_text` is NUL-terminated. */
void uuid_v4(char ret_text[UUID_TEXT_LEN + 1]);

/*
 * A time-ordered (version 7) UUID in lower case, RFC 9562: later calls in this process sort after earlier
 * ones, even within one millisecond. Thread-safe.
 */
void uuid_v7(int64_t now_ms, char ret_text[UUID_TEXT_LEN + 1]);

/* True for the text form of a version 7 UUID, in either letter case. */
bool uuid_is_v7(struct lessor_slice text);

#endif
