/* SPDX-License-Identifier: MIT */
#include "fuzz.h"
#include "wire/task_objects.h"

/* A task object. What can be read has one spelling, and can be handed to execve(2). */

static void check_no_nul(struct lessor_slice text)
{
        FUZZ_CHECK(text.n == 0 || memchr(text.p, '\0', text.n) == NULL);
}

static void check_task(const struct task *task)
{
        FUZZ_CHECK(task->n_argv > 0 && task->argv[0].n > 0);
        for (size_t i = 0; i < task->n_argv; i++)
                check_no_nul(task->argv[i]);
        for (size_t i = 0; i < task->n_environment; i++) {
                check_no_nul(task->environment[i].name);
                check_no_nul(task->environment[i].value);
        }
        for (size_t i = 0; i < task->n_inputs; i++)
                FUZZ_CHECK(tree_path_valid(task->inputs[i].path));
        for (size_t i = 0; i < task->n_outputs; i++)
                FUZZ_CHECK(tree_path_valid(task->outputs[i].path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct lessor_slice text = {size == 0 ? "" : (const char *)data, size};
        struct lessor_arena *arena = lessor_arena_new();
        const char *problem = NULL;
        struct task task;
        struct buf out;
        int r;

        FUZZ_CHECK(arena != NULL);
        r = task_read(text, arena, &task, &problem);
        FUZZ_CHECK(r != LESSOR_E_INVALID || problem != NULL);
        if (r == 0) {
                check_task(&task);
                buf_init(&out);
                FUZZ_CHECK(task_write(&task, &out, NULL) == 0);
                FUZZ_CHECK(lessor_slice_equal(buf_view(&out), text));
                buf_done(&out);
        }
        lessor_arena_free(arena);
        return 0;
}
