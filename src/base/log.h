/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "lessor/error.h"
#include "lessor/slice.h"

/*
 * The log: one JSON object a line on stderr, `{"at":"2026-01-01T00:00:00.000Z","level":"info","event":...}`.
 * The only global of the project. Thread-safe. A line is written with one write(2), or with those before it
 * after log_delay_start().
 *
 * Never log a token, a key, a signature, a payload or a body. There is on purpose no way to log bytes: fields
 * are texts and numbers that the caller names one by one.
 */
enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

struct log_field {
        const char *key;
        enum { LOG_FIELD_TEXT, LOG_FIELD_INT, LOG_FIELD_BOOL } type;
        struct lessor_slice text;
        int64_t number;
};

#define LOG_TEXT(k, s)       ((struct log_field){.key = (k), .type = LOG_FIELD_TEXT, .text = (s)})
#define LOG_CSTR(k, s)       ((struct log_field){.key = (k), .type = LOG_FIELD_TEXT, .text = lessor_slice_of(s)})
#define LOG_INT(k, n)        ((struct log_field){.key = (k), .type = LOG_FIELD_INT, .number = (n)})
#define LOG_BOOL(k, b)       ((struct log_field){.key = (k), .type = LOG_FIELD_BOOL, .number = (b)})
#define LOG_ERROR_CODE(code) LOG_CSTR("error", lessor_error_name(code))

/* Lines below this level are dropped. Default: info. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

/*
 * From now on lines below warning are gathered and written together, at most LOG_DELAY_MS late, by a thread
 * of the log's own; a warning or an error is written at once, after all that came before it. What a program
 * that is killed had gathered is lost. Returns 0, or LESSOR_E_NOMEM when there can be no such thread or no
 * memory: then nothing is delayed. Once, not thread-safe.
 */
#define LOG_DELAY_MS 200
int log_delay_start(void);

/* Writes what was gathered and delays nothing any more. Harmless without log_delay_start(). Not thread-safe.
 */
void log_delay_stop(void);

/* Writes one line. `fields` may be NULL when n is 0. Fields with an absent text are left out. */
void log_fields(enum log_level level, const char *event, const struct log_field *fields, size_t n);

#define log_write(level, event, ...)                                              \
        do {                                                                      \
                if (log_enabled(level)) {                                         \
                        const struct log_field log_fields_[] = {__VA_ARGS__};     \
                        log_fields((level), (event), log_fields_,                 \
                                   sizeof(log_fields_) / sizeof(log_fields_[0])); \
                }                                                                 \
        } while (0)

#define log_debug(event, ...)   log_write(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...)    log_write(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warning(event, ...) log_write(LOG_LEVEL_WARNING, event, __VA_ARGS__)
#define log_error(event, ...)   log_write(LOG_LEVEL_ERROR, event, __VA_ARGS__)

#endif
