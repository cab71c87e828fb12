/* SPDX-License-Identifier: MIT */
#ifndef WIRE_TASK_OBJECTS_H
#define WIRE_TASK_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "lessor/arena.h"
#include "wire/message.h"

/*
 * The project's own objects, lessor.tree/1 and lessor.task/1, as docs/objects.md has them. Each is a JSON
 * text with exactly one spelling, the one that tree_write and task_write give, so that the same content
 * always has the same hash.
 */

enum tree_entry_type {
        TREE_FILE,
        TREE_TREE,      /* a directory whose content is another tree object */
        TREE_DIRECTORY, /* a directory that may be empty */
        TREE_LINK,
};

enum tree_mode { TREE_MODE_644, TREE_MODE_755 };

struct tree_entry {
        enum tree_entry_type type;
        struct lessor_slice path;
        enum tree_mode mode;        /* of a file */
        struct lessor_slice hash;   /* of a file or tree: the object */
        int64_t size;               /* of that object, bytes */
        struct lessor_slice target; /* of a link */
};

struct tree {
        struct tree_entry *entries; /* in the order of tree_path_cmp */
        size_t n_entries;
};

struct task_variable {
        struct lessor_slice name;
        struct lessor_slice value;
};

struct task_output {
        struct lessor_slice path;
        bool required;
};

/* What an agent is to allow at most; 0: what it allows anyway. */
struct task_limits {
        int64_t time_ms;
        int64_t memory_bytes;
        int64_t disk_bytes;
        int64_t processes;
};

struct task {
        struct lessor_slice *argv;
        size_t n_argv;
        struct task_variable *environment; /* by name */
        size_t n_environment;
        struct tree_entry *inputs; /* as in a tree */
        size_t n_inputs;
        struct task_output *outputs; /* by path, as in a tree */
        size_t n_outputs;
        struct lessor_slice directory; /* where the command starts: a path, or "." */
        bool network;
        struct task_limits limits;
};

/* For whoever describes them to others. */
extern const struct message_table tree_table;
extern const struct message_table task_table;

/*
 * What every such object begins with: "{"format":"lessor.tree/1"," and the like. Whatever begins otherwise is
 * none.
 */
extern const struct lessor_slice tree_prefix;
extern const struct lessor_slice task_prefix;

/*
 * Reads one, and checks all that docs/objects.md asks for.
 *
 * bytes        borrowed for as long as the tree or task is used
 * arena        owns the arrays
 * ret_problem  may be NULL; on LESSOR_E_INVALID a clause for people, in the arena or static
 *
 * Returns 0; LESSOR_E_TOO_LARGE; LESSOR_E_MALFORMED (not JSON, or not in its one spelling); LESSOR_E_INVALID;
 * LESSOR_E_NOMEM.
 */
int tree_read(struct lessor_slice bytes, struct lessor_arena *arena, struct tree *ret_tree,
              const char **ret_problem);
int task_read(struct lessor_slice bytes, struct lessor_arena *arena, struct task *ret_task,
              const char **ret_problem);

/*
 * Appends the object's text. Texts must be UTF-8. Returns 0; LESSOR_E_INVALID (with the problem, as above:
 * what is written can always be read); LESSOR_E_TOO_LARGE; LESSOR_E_NOMEM.
 */
int tree_write(const struct tree *tree, struct buf *out, const char **ret_problem);
int task_write(const struct task *task, struct buf *out, const char **ret_problem);

/*
 * Whether a path is one of a tree: relative, names joined by single slashes, none of them empty, `.` or `..`,
 * no NUL, UTF-8, within LIMIT_TREE_PATH and LIMIT_TREE_NAME.
 */
bool tree_path_valid(struct lessor_slice path);

/* Whether a link at a valid path may have that target: one that cannot lead out of the tree. */
bool tree_target_valid(struct lessor_slice path, struct lessor_slice target);

/* The order of paths: name by name, by bytes, so that a directory comes right before what is in it. */
int tree_path_cmp(struct lessor_slice a, struct lessor_slice b);

#endif
