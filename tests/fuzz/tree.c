/* SPDX-License-Identifier: MIT */
#include "fuzz.h"
#include "wire/task_objects.h"

/* A tree object. What can be read has one spelling, and paths that stay where they are put. */

static void check_entry(const struct tree_entry *e, const struct tree_entry *before)
{
        FUZZ_CHECK(tree_path_valid(e->path));
        FUZZ_CHECK(e->path.p[0] != '/' && memchr(e->path.p, '\0', e->path.n) == NULL);
        FUZZ_CHECK(before == NULL || tree_path_cmp(before->path, e->path) < 0);
        FUZZ_CHECK(e->type != TREE_LINK || tree_target_valid(e->path, e->target));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct lessor_slice text = {size == 0 ? "" : (const char *)data, size};
        struct lessor_arena *arena = lessor_arena_new();
        const char *problem = NULL;
        struct tree tree;
        struct buf out;
        int r;

        FUZZ_CHECK(arena != NULL);
        r = tree_read(text, arena, &tree, &problem);
        FUZZ_CHECK(r != LESSOR_E_INVALID || problem != NULL);
        if (r == 0) {
                for (size_t i = 0; i < tree.n_entries; i++)
                        check_entry(&tree.entries[i], i == 0 ? NULL : &tree.entries[i - 1]);
                buf_init(&out);
                FUZZ_CHECK(tree_write(&tree, &out, NULL) == 0);
                FUZZ_CHECK(lessor_slice_equal(buf_view(&out), text));
                buf_done(&out);
        }
        lessor_arena_free(arena);
        return 0;
}
