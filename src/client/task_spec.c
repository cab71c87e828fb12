/* SPDX-License-Identifier: MIT */
#include "client/task_spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

static void put_number(struct buf *out, const char *name, int64_t value)
{
        buf_text(out, name);
        buf_char(out, '=');
        buf_int(out, value);
        buf_char(out, '\0');
}

static bool has_variable(const struct task *task, const char *variable)
{
        struct lessor_slice name = {variable, strcspn(variable, "=")};

        for (size_t i = 0; i < task->n_environment; i++)
                if (lessor_slice_equal(task->environment[i].name, name))
                        return true;
        return false;
}

static void put_variables(const struct task_spec *spec, struct buf *out)
{
        for (size_t i = 0; spec->defaults != NULL && spec->defaults[i] != NULL; i++)
                if (!has_variable(spec->task, spec->defaults[i])) {
                        buf_text(out, spec->defaults[i]);
                        buf_char(out, '\0');
                }
        for (size_t i = 0; i < spec->task->n_environment; i++) {
                buf_slice(out, spec->task->environment[i].name);
                buf_char(out, '=');
                buf_slice(out, spec->task->environment[i].value);
                buf_char(out, '\0');
        }
}

int task_spec_write(const struct task_spec *spec, struct buf *out)
{
        put_number(out, "status", spec->status_fd);
        if (spec->cgroup_fd >= 0)
                put_number(out, "cgroup", spec->cgroup_fd);
        if (spec->parent > 0)
                put_number(out, "parent", spec->parent);
        if (spec->alone)
                put_number(out, "alone", 1);
        if (spec->fsize > 0)
                put_number(out, "fsize", spec->fsize);
        if (spec->data > 0)
                put_number(out, "data", spec->data);
        if (spec->nproc > 0)
                put_number(out, "nproc", spec->nproc);
        buf_text(out, "dir=");
        buf_text(out, spec->dir);
        buf_char(out, '\0');
        buf_char(out, '\0');
        put_variables(spec, out);
        buf_char(out, '\0');
        for (size_t i = 0; i < spec->task->n_argv; i++) {
                buf_slice(out, spec->task->argv[i]);
                buf_char(out, '\0');
        }
        return buf_failed(out);
}

static bool take_number(const char **at, const char *end, int64_t most, int64_t *ret_number)
{
        int64_t number = 0;
        const char *p = *at;

        if (p == end || *p != ' ' || ++p == end || *p < '0' || *p > '9')
                return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++) {
                if (number > (most - (*p - '0')) / 10)
                        return false;
                number = number * 10 + (*p - '0');
        }
        *at = p;
        *ret_number = number;
        return true;
}

struct task_status task_status_read(struct lessor_slice text)
{
        static const struct {
                struct lessor_slice name;
                enum task_word word;
                bool has_peak;
        } words[] = {
                {LESSOR_SLICE("exec"), TASK_NO_EXEC, false},
                {LESSOR_SLICE("dir"), TASK_NO_DIR, false},
                {LESSOR_SLICE("exit"), TASK_EXITED, true},
                {LESSOR_SLICE("signal"), TASK_SIGNALLED, true},
        };
        const struct task_status silent = {.word = TASK_SILENT};
        const char *end = text.n == 0 ? text.p : memchr(text.p, '\n', text.n);

        if (text.n == 0 || end == NULL)
                return silent;
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                struct lessor_slice name = words[i].name;
                struct task_status status = {.word = words[i].word};
                const char *at = text.p + name.n;
                int64_t number;

                if ((size_t)(end - text.p) <= name.n || memcmp(text.p, name.p, name.n) != 0)
                        continue;
                if (!take_number(&at, end, INT32_MAX, &number))
                        return silent;
                if (words[i].has_peak && !take_number(&at, end, INT64_MAX / 2, &status.peak_bytes))
                        return silent;
                status.number = (int)number;
                return at == end ? status : silent;
        }
        return silent;
}
