/* SPDX-License-Identifier: MIT */
#include "client/sandbox.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"

/* The user that a task is, to itself. */
#define TASK_ID     "1000"
#define WORD_MOST   64
#define NUMBER_ROOM 24

static const char passwd[] = "root:x:0:0:root:/:/usr/sbin/nologin\n"
                             "task:x:" TASK_ID ":" TASK_ID ":task:/tmp:/bin/sh\n"
                             "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\ntask:x:" TASK_ID ":\nnogroup:x:65534:\n";

struct words {
        const char **items;
        size_t n, room;
};

struct sandbox {
        struct lessor_arena *arena; /* owns the texts */
        bool off;
        const char *bwrap;
        const char *task_program;
        /* bwrap's arguments that are the same for every task, in order: system, online or offline, what is
         * the task's own, given, last. */
        struct words system, online, offline, given, last;
};

DEFINE_CLEANUP(struct sandbox, sandbox_free)

struct sandbox *sandbox_free(struct sandbox *s)
{
        if (s == NULL)
                return NULL;
        lessor_arena_free(s->arena);
        free(s->system.items);
        free(s->online.items);
        free(s->offline.items);
        free(s->given.items);
        free(s->last.items);
        free(s);
        return NULL;
}

static int keep(struct sandbox *s, const char *text, const char **ret_copy)
{
        struct lessor_slice copy;
        int r = lessor_arena_copy(s->arena, lessor_slice_of(text), &copy);

        if (r == 0)
                *ret_copy = copy.p;
        return r;
}

static int add(struct sandbox *s, struct words *words, const char *text)
{
        int r;

        if (words->n == words->room) {
                size_t room = words->room == 0 ? 64 : 2 * words->room;
                const char **grown = reallocarray(words->items, room, sizeof(*grown));

                if (grown == NULL)
                        return LESSOR_E_NOMEM;
                words->items = grown;
                words->room = room;
        }
        r = keep(s, text, &words->items[words->n]);
        words->n += r == 0;
        return r;
}

static int add3(struct sandbox *s, struct words *words, const char *option, const char *from, const char *to)
{
        int r = add(s, words, option);

        if (r == 0)
                r = add(s, words, from);
        return r == 0 ? add(s, words, to) : r;
}

/* Words that blanks separate. */
static int add_words(struct sandbox *s, struct words *words, const char *text)
{
        int r = 0;

        while (r == 0 && *text != '\0') {
                char word[WORD_MOST];
                size_t n = strcspn(text, " ");

                snprintf(word, sizeof(word), "%.*s", (int)n, text);
                r = add(s, words, word);
                text += n + (text[n] == ' ');
        }
        return r;
}

static bool is_program(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int find_bwrap(struct sandbox *s, const char *given, struct buf *ret_problem)
{
        static const char *const places[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"};

        if (given != NULL) {
                if (given[0] == '/' && is_program(given))
                        return keep(s, given, &s->bwrap);
                buf_printf(ret_problem, "%s is no program (a whole path is wanted)", given);
                return LESSOR_E_NOT_FOUND;
        }
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (is_program(places[i]))
                        return keep(s, places[i], &s->bwrap);
        buf_text(ret_problem, "tasks run in a sandbox made by bubblewrap, and there is no bwrap: install the "
                              "package bubblewrap (or say --no-sandbox, which lets tasks do whatever your "
                              "user can)");
        return LESSOR_E_NOT_FOUND;
}

/*
 * The parts of the system that programs live in, as links where they are links here: most systems have
 * /bin -> usr/bin, others directories of their own.
 */
static int add_system(struct sandbox *s)
{
        static const char *const parts[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
                char target[PATH_MAX];
                struct stat st;
                ssize_t n;
                int r = 0;

                if (lstat(parts[i], &st) < 0)
                        continue;
                if (S_ISLNK(st.st_mode)) {
                        n = readlink(parts[i], target, sizeof(target) - 1);
                        if (n < 0)
                                continue;
                        target[n] = '\0';
                        r = add3(s, &s->system, "--symlink", target, parts[i]);
                } else if (S_ISDIR(st.st_mode)) {
                        r = add3(s, &s->system, "--ro-bind", parts[i], parts[i]);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_etc_files(struct sandbox *s, const char *names)
{
        int r = 0;

        while (r == 0 && *names != '\0') {
                char path[WORD_MOST];
                size_t n = strcspn(names, " ");

                snprintf(path, sizeof(path), "/etc/%.*s", (int)n, names);
                r = add3(s, &s->system, "--ro-bind-try", path, path);
                names += n + (names[n] == ' ');
        }
        return r;
}

/* Of /etc only what programs need to start and to look presentable: it holds secrets as well. */
static int add_etc(struct sandbox *s, const char *dir)
{
        static const char *const files[] = {"ld.so.cache ld.so.conf ld.so.conf.d alternatives nsswitch.conf",
                                            "localtime timezone mime.types protocols services terminfo fonts",
                                            "ssl/certs ssl/openssl.cnf ca-certificates pki/tls/certs",
                                            "python3 perl R OpenCL vulkan"};
        static const struct {
                const char *name;
                const char *shown;
                struct lessor_slice text;
        } ours[] = {{"passwd", "/etc/passwd", {passwd, sizeof(passwd) - 1}},
                    {"group", "/etc/group", {group, sizeof(group) - 1}}};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
                r = add_etc_files(s, files[i]);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ours); i++) {
                char path[PATH_MAX];

                if (snprintf(path, sizeof(path), "%s/%s", dir, ours[i].name) >= (int)sizeof(path))
                        return LESSOR_E_INVALID;
                r = file_replace(path, ours[i].text, 0644);
                if (r == 0)
                        r = add3(s, &s->system, "--ro-bind", path, ours[i].shown);
        }
        return r;
}

static int add_given(struct sandbox *s, const char *option, const char *const *paths, size_t n,
                     struct buf *ret_problem)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++) {
                if (paths[i][0] != '/') {
                        buf_printf(ret_problem, "%s: a whole path is wanted", paths[i]);
                        return LESSOR_E_INVALID;
                }
                if (access(paths[i], F_OK) < 0) {
                        buf_printf(ret_problem, "%s: %s", paths[i], strerror(errno));
                        return LESSOR_E_NOT_FOUND;
                }
                r = add3(s, &s->given, option, paths[i], paths[i]);
        }
        return r;
}

static int lay_out(struct sandbox *s, const struct sandbox_options *options, struct buf *ret_problem)
{
        /* A session of its own, so that it cannot type into our terminal (TIOCSTI). */
        int r = add_words(s, &s->system,
                          "--unshare-user --disable-userns --unshare-pid --unshare-ipc --unshare-uts "
                          "--unshare-cgroup-try --uid " TASK_ID " --gid " TASK_ID " --hostname task "
                          "--cap-drop ALL --die-with-parent --new-session --proc /proc --dev /dev --dir /etc "
                          "--tmpfs /run --dir /var --symlink /tmp /var/tmp --symlink /run /var/run");

        if (r == 0)
                r = add_system(s);
        if (r == 0)
                r = add_etc(s, options->dir);
        /* What is left of the sandbox's own is in memory, and not for filling. */
        if (r == 0)
                r = add_words(s, &s->last, "--remount-ro /run --remount-ro /dev --remount-ro / --");
        if (r == 0)
                r = add_words(s, &s->online,
                              "--ro-bind-try /etc/resolv.conf /etc/resolv.conf --ro-bind-try /etc/hosts "
                              "/etc/hosts");
        if (r == 0)
                r = add_words(s, &s->offline, "--unshare-net");
        if (r == 0)
                r = add_given(s, "--ro-bind", options->shares, options->n_shares, ret_problem);
        if (r == 0)
                r = add_given(s, "--dev-bind", options->devices, options->n_devices, ret_problem);
        return r;
}

int sandbox_new(const struct sandbox_options *options, struct sandbox **ret_sandbox, struct buf *ret_problem)
{
        _cleanup_(sandbox_freep) struct sandbox *s = calloc(1, sizeof(*s));
        int r;

        buf_clear(ret_problem);
        if (s == NULL)
                return LESSOR_E_NOMEM;
        s->arena = lessor_arena_new();
        if (s->arena == NULL)
                return LESSOR_E_NOMEM;
        s->off = options->off;
        if (!is_program(options->task_program)) {
                buf_printf(ret_problem, "%s is missing, which starts tasks: is lessor installed whole?",
                           options->task_program);
                return LESSOR_E_NOT_FOUND;
        }
        r = keep(s, options->task_program, &s->task_program);
        if (r == 0 && !s->off)
                r = find_bwrap(s, options->bwrap, ret_problem);
        if (r == 0 && !s->off)
                r = lay_out(s, options, ret_problem);
        if (r < 0)
                return r;
        *ret_sandbox = TAKE(s);
        return 0;
}

bool sandbox_is_on(const struct sandbox *s)
{
        return !s->off;
}

static void put_words(const char **argv, size_t *n, const struct words *words)
{
        for (size_t i = 0; i < words->n; i++)
                argv[(*n)++] = words->items[i];
}

static void put(const char **argv, size_t *n, const char *option, const char *from, const char *to)
{
        argv[(*n)++] = option;
        if (from != NULL)
                argv[(*n)++] = from;
        argv[(*n)++] = to;
}

int sandbox_argv(const struct sandbox *s, const struct sandbox_place *place, struct lessor_arena *arena,
                 const char ***ret_argv)
{
        size_t room = s->system.n + s->online.n + s->offline.n + s->given.n + s->last.n + 24, n = 0;
        const char **argv = lessor_arena_array(arena, room, sizeof(*argv));
        char *fd = lessor_arena_alloc(arena, NUMBER_ROOM), *size = lessor_arena_alloc(arena, NUMBER_ROOM);

        if (argv == NULL || fd == NULL || size == NULL)
                return LESSOR_E_NOMEM;
        snprintf(fd, NUMBER_ROOM, "%d", place->spec_fd);
        snprintf(size, NUMBER_ROOM, "%lld", (long long)place->memory_bytes);
        if (!s->off) {
                argv[n++] = s->bwrap;
                put_words(argv, &n, &s->system);
                put_words(argv, &n, place->network ? &s->online : &s->offline);
                if (place->memory_bytes > 0)
                        put(argv, &n, "--size", NULL, size);
                put(argv, &n, "--tmpfs", NULL, "/dev/shm");
                put(argv, &n, "--bind", place->tmp_dir, "/tmp");
                put(argv, &n, "--bind", place->work_dir, SANDBOX_TASK_DIR);
                put(argv, &n, "--ro-bind", s->task_program, SANDBOX_HELPER);
                put(argv, &n, "--chdir", NULL, "/");
                put_words(argv, &n, &s->given);
                put_words(argv, &n, &s->last);
        }
        argv[n++] = s->off ? s->task_program : SANDBOX_HELPER;
        argv[n++] = fd;
        *ret_argv = argv;
        return 0;
}
