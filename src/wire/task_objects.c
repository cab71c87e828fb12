/* SPDX-License-Identifier: MIT */
#include "wire/task_objects.h"

#include "base/limits.h"
#include "base/macro.h"
#include "base/utf8.h"

#define TREE_FORMAT "lessor.tree/1"
#define TASK_FORMAT "lessor.task/1"

const struct lessor_slice tree_prefix = LESSOR_SLICE("{\"format\":\"" TREE_FORMAT "\",");
const struct lessor_slice task_prefix = LESSOR_SLICE("{\"format\":\"" TASK_FORMAT "\",");

/* --- Tables --- */

static const char *const entry_type_names[] = {"file", "tree", "directory", "link"};
static const struct message_words entry_type_words = {entry_type_names, ARRAY_SIZE(entry_type_names)};

static const char *const mode_names[] = {"644", "755"};
static const struct message_words mode_words = {mode_names, ARRAY_SIZE(mode_names)};

#define WITH_FILE   (1u << TREE_FILE)
#define WITH_OBJECT (1u << TREE_FILE | 1u << TREE_TREE)
#define WITH_LINK   (1u << TREE_LINK)

static const struct message_field entry_fields[] = {
        FIELD_ENUM(struct tree_entry, type, "type", &entry_type_words),
        FIELD_TEXT1(struct tree_entry, path, "path"),
        FIELD_ENUM(struct tree_entry, mode, "mode", &mode_words, .when = WITH_FILE),
        FIELD_TEXT(struct tree_entry, hash, "hash", 64, 64, .when = WITH_OBJECT),
        FIELD_INT(struct tree_entry, size, "size", 0, LIMIT_OBJECT_BYTES, .when = WITH_OBJECT),
        FIELD_TEXT1(struct tree_entry, target, "target", .when = WITH_LINK),
};
static const struct message_table entry_table =
        MESSAGE_TABLE("TreeEntry", struct tree_entry, entry_fields, .has_forms = true);

static const struct message_field tree_fields[] = {
        FIELD_LITERAL("format", TREE_FORMAT),
        FIELD_LIST(struct tree, entries, n_entries, "entries", &entry_table, 0, LIMIT_TREE_ENTRIES),
};
const struct message_table tree_table = MESSAGE_TABLE("Tree", struct tree, tree_fields);

static const struct message_field argument_item = {
        .name = "", .type = MESSAGE_TEXT, .min = 0, .max = INT64_MAX};
static const struct message_field variable_item = FIELD_TEXT(struct task_variable, value, "", 0, INT64_MAX);

static const struct message_field output_fields[] = {
        FIELD_TEXT1(struct task_output, path, "path"),
        FIELD_BOOL(struct task_output, required, "required"),
};
static const struct message_table output_table =
        MESSAGE_TABLE("TaskOutput", struct task_output, output_fields);

static const struct message_field limits_fields[] = {
        FIELD_POSINT(struct task_limits, time_ms, "timeMs", .flags = MESSAGE_OPTIONAL),
        FIELD_POSINT(struct task_limits, memory_bytes, "memoryBytes", .flags = MESSAGE_OPTIONAL),
        FIELD_POSINT(struct task_limits, disk_bytes, "diskBytes", .flags = MESSAGE_OPTIONAL),
        FIELD_POSINT(struct task_limits, processes, "processes", .flags = MESSAGE_OPTIONAL),
};
static const struct message_table limits_table =
        MESSAGE_TABLE("TaskLimits", struct task_limits, limits_fields);

static const struct message_field task_fields[] = {
        FIELD_LITERAL("format", TASK_FORMAT),
        /* Not FIELD_TEXTS: an argument may be empty. */
        {MESSAGE_NAMED("argv"), .type = MESSAGE_LIST,
         .offset = MESSAGE_AT(struct task, argv, struct lessor_slice *),
         .count_offset = MESSAGE_AT(struct task, n_argv, size_t), .min = 1, .max = INT64_MAX,
         .item_size = sizeof(struct lessor_slice), .item = &argument_item},
        FIELD_MAP(struct task, environment, n_environment, "environment", struct task_variable, name,
                  &variable_item),
        FIELD_LIST(struct task, inputs, n_inputs, "inputs", &entry_table, 0, INT64_MAX),
        FIELD_LIST(struct task, outputs, n_outputs, "outputs", &output_table, 0, INT64_MAX),
        FIELD_TEXT1(struct task, directory, "directory"),
        FIELD_BOOL(struct task, network, "network"),
        FIELD_OBJECT(struct task, limits, "limits", &limits_table),
};
const struct message_table task_table = MESSAGE_TABLE("Task", struct task, task_fields);

/* --- Paths --- */

/* The name that begins at `at`: up to the next slash, or the end. */
static struct lessor_slice name_at(struct lessor_slice path, size_t at)
{
        const char *slash = at == path.n ? NULL : memchr(path.p + at, '/', path.n - at);

        return (struct lessor_slice){path.p + at,
                                     slash == NULL ? path.n - at : (size_t)(slash - path.p) - at};
}

static bool is_up(struct lessor_slice name)
{
        return lessor_slice_equal(name, LESSOR_SLICE(".."));
}

static bool name_valid(struct lessor_slice name)
{
        return name.n > 0 && name.n <= LIMIT_TREE_NAME && !is_up(name) &&
               !lessor_slice_equal(name, LESSOR_SLICE("."));
}

static bool text_valid(struct lessor_slice text)
{
        return text.n > 0 && text.n <= LIMIT_TREE_PATH && memchr(text.p, '\0', text.n) == NULL &&
               utf8_valid(text);
}

/* All names from `at` on are valid ones. */
static bool names_valid(struct lessor_slice path, size_t at)
{
        for (;;) {
                struct lessor_slice name = name_at(path, at);

                if (!name_valid(name))
                        return false;
                at += name.n;
                if (at == path.n)
                        return true;
                at++; /* a slash at the very end is followed by an empty name */
        }
}

bool tree_path_valid(struct lessor_slice path)
{
        return text_valid(path) && names_valid(path, 0);
}

static size_t depth_of(struct lessor_slice path)
{
        size_t depth = 0;

        for (size_t i = 0; i < path.n; i++)
                depth += path.p[i] == '/';
        return depth;
}

bool tree_target_valid(struct lessor_slice path, struct lessor_slice target)
{
        size_t up = depth_of(path);
        size_t at = 0;

        if (!text_valid(target))
                return false;
        /*
         * `..` only in front, and not above the tree. Behind a name it would go up from wherever that leads,
         * if it is a link too; in front it goes up real directories, since no entry lies below a link.
         */
        while (is_up(name_at(target, at))) {
                if (up-- == 0)
                        return false;
                at += 2;
                if (at == target.n)
                        return true;
                at++;
        }
        return names_valid(target, at);
}

int tree_path_cmp(struct lessor_slice a, struct lessor_slice b)
{
        size_t n = a.n < b.n ? a.n : b.n;

        for (size_t i = 0; i < n; i++) {
                /* A slash comes before everything: it ends a name. */
                int x = a.p[i] == '/' ? -1 : (unsigned char)a.p[i];
                int y = b.p[i] == '/' ? -1 : (unsigned char)b.p[i];

                if (x != y)
                        return x < y ? -1 : 1;
        }
        return (a.n > b.n) - (a.n < b.n);
}

/* Whether `path` is below `above`. */
static bool path_within(struct lessor_slice path, struct lessor_slice above)
{
        return path.n > above.n && path.p[above.n] == '/' && memcmp(path.p, above.p, above.n) == 0;
}

/* --- What tables cannot say; each gives what is wrong, or NULL --- */

static bool hash_valid(struct lessor_slice hash)
{
        if (hash.n != 64)
                return false;
        for (size_t i = 0; i < hash.n; i++)
                if (!((hash.p[i] >= '0' && hash.p[i] <= '9') || (hash.p[i] >= 'a' && hash.p[i] <= 'f')))
                        return false;
        return true;
}

/* Of two paths that follow each other. In this order all that is below a path comes right behind it. */
static const char *order_problem(struct lessor_slice before, bool before_is_directory,
                                 struct lessor_slice path)
{
        int order = tree_path_cmp(before, path);

        if (order == 0)
                return "two entries have one path";
        if (order > 0)
                return "paths are not in order";
        if (!before_is_directory && path_within(path, before))
                return "a path lies below one that is no directory";
        return NULL;
}

static const char *entries_problem(const struct tree_entry *entries, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                const struct tree_entry *e = &entries[i];
                bool is_object = e->type == TREE_FILE || e->type == TREE_TREE;
                const char *problem;

                if (!tree_path_valid(e->path))
                        return "a path is not a plain relative one";
                if (is_object && !hash_valid(e->hash))
                        return "a hash is not 64 lower-case hex digits";
                if (is_object && (e->size < 0 || e->size > LIMIT_OBJECT_BYTES))
                        return "a size is out of range";
                if (e->type == TREE_LINK && !tree_target_valid(e->path, e->target))
                        return "a link leads out of the tree";
                if (i == 0)
                        continue;
                problem = order_problem(entries[i - 1].path, entries[i - 1].type == TREE_DIRECTORY, e->path);
                if (problem != NULL)
                        return problem;
        }
        return NULL;
}

static const char *tree_problem(const struct tree *tree)
{
        if (tree->n_entries > LIMIT_TREE_ENTRIES)
                return "there are too many entries";
        return entries_problem(tree->entries, tree->n_entries);
}

static bool has_nul(struct lessor_slice text)
{
        return text.n > 0 && memchr(text.p, '\0', text.n) != NULL;
}

static const char *command_problem(const struct task *task)
{
        if (task->n_argv == 0 || task->argv[0].n == 0)
                return "there is no command";
        for (size_t i = 0; i < task->n_argv; i++)
                if (has_nul(task->argv[i]) || !utf8_valid(task->argv[i]))
                        return "an argument cannot be one of a command";
        for (size_t i = 0; i < task->n_environment; i++) {
                const struct task_variable *v = &task->environment[i];

                if (v->name.n == 0 || has_nul(v->name) || has_nul(v->value) || !utf8_valid(v->name) ||
                    !utf8_valid(v->value) || memchr(v->name.p, '=', v->name.n) != NULL)
                        return "a variable cannot be one of an environment";
                if (i > 0 && lessor_slice_cmp(task->environment[i - 1].name, v->name) >= 0)
                        return "variables are not in order";
        }
        return NULL;
}

static const char *task_problem(const struct task *task)
{
        const struct task_limits *l = &task->limits;
        const char *problem = command_problem(task);

        if (problem == NULL)
                problem = entries_problem(task->inputs, task->n_inputs);
        for (size_t i = 0; problem == NULL && i < task->n_outputs; i++) {
                if (!tree_path_valid(task->outputs[i].path))
                        problem = "an output's path is not a plain relative one";
                else if (i > 0)
                        problem = order_problem(task->outputs[i - 1].path, false, task->outputs[i].path);
        }
        if (problem != NULL)
                return problem;
        if (!lessor_slice_equal(task->directory, LESSOR_SLICE(".")) && !tree_path_valid(task->directory))
                return "the directory is not a plain relative path";
        if (l->time_ms < 0 || l->memory_bytes < 0 || l->disk_bytes < 0 || l->processes < 0)
                return "a limit is negative";
        return NULL;
}

/* --- Reading and writing --- */

static const char *problem_of(const struct message_table *table, const void *object)
{
        return table == &tree_table ? tree_problem(object) : task_problem(object);
}

static size_t limit_of(const struct message_table *table)
{
        return table == &tree_table ? LIMIT_TREE_BYTES : LIMIT_TASK_BYTES;
}

/* Whether a text is spelled as we would write it. */
static int check_spelling(const struct message_table *table, const void *object, struct lessor_slice bytes)
{
        _cleanup_(buf_done) struct buf spelled;
        int r;

        buf_init(&spelled);
        r = buf_reserve(&spelled, bytes.n);
        if (r == 0)
                r = message_append(table, object, &spelled);
        if (r < 0)
                return r;
        return lessor_slice_equal(buf_view(&spelled), bytes) ? 0 : LESSOR_E_MALFORMED;
}

static int object_read(const struct message_table *table, struct lessor_slice bytes,
                       struct lessor_arena *arena, void *ret_object, const char **ret_problem)
{
        const char *problem = NULL;
        struct json *value;
        int r;

        if (bytes.n > limit_of(table))
                return LESSOR_E_TOO_LARGE;
        r = json_read(bytes, arena, &value);
        if (r == 0)
                r = message_read(table, value, arena, ret_object, &problem);
        if (r == 0) {
                problem = problem_of(table, ret_object);
                r = problem == NULL ? check_spelling(table, ret_object, bytes) : LESSOR_E_INVALID;
        }
        if (r == LESSOR_E_INVALID && ret_problem != NULL)
                *ret_problem = problem;
        return r;
}

static int object_write(const struct message_table *table, const void *object, struct buf *out,
                        const char **ret_problem)
{
        const char *problem = problem_of(table, object);
        size_t before = out->n;
        int r;

        if (problem != NULL) {
                if (ret_problem != NULL)
                        *ret_problem = problem;
                return LESSOR_E_INVALID;
        }
        r = message_append(table, object, out);
        if (r == 0 && out->n - before > limit_of(table)) {
                out->n = before;
                r = LESSOR_E_TOO_LARGE;
        }
        return r;
}

int tree_read(struct lessor_slice bytes, struct lessor_arena *arena, struct tree *ret_tree,
              const char **ret_problem)
{
        return object_read(&tree_table, bytes, arena, ret_tree, ret_problem);
}

int task_read(struct lessor_slice bytes, struct lessor_arena *arena, struct task *ret_task,
              const char **ret_problem)
{
        return object_read(&task_table, bytes, arena, ret_task, ret_problem);
}

int tree_write(const struct tree *tree, struct buf *out, const char **ret_problem)
{
        return object_write(&tree_table, tree, out, ret_problem);
}

int task_write(const struct task *task, struct buf *out, const char **ret_problem)
{
        return object_write(&task_table, task, out, ret_problem);
}
