/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macro.h"
#include "client/backend.h"

#define OUTPUT_DEFAULT_BYTES ((size_t)4 * 1024 * 1024)
#define READ_STEP            65536u
#define DRAIN_MS             1000 /* for what is still in the pipe once the program has ended */
#define EXIT_TRY_LATER       75   /* EX_TEMPFAIL of sysexits.h */
#define PATH_DEFAULT         "/usr/local/bin:/usr/bin:/bin"

struct exec_backend {
        struct lessor_backend backend;
        char *program; /* absolute */
        char **argv;
        char *scratch_template;
        char *env_path;
        char *env_lang;
        int64_t timeout_ms;
        size_t max_output_bytes;
};

/* One run. */
struct child {
        pid_t pid;
        int pidfd;
        int stdout_fd;
        char *scratch;
        bool ended;
        siginfo_t status;
};

enum end { END_EXITED, END_STOPPED, END_TIMEOUT, END_OUTPUT, END_NOMEM, END_IO };

static void close_fd(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

/* Above 2, so that putting it in its place in the child never overwrites another. */
static int move_up(int fd)
{
        int moved;

        if (fd < 0 || fd > 2)
                return fd;
        moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        close(fd);
        return moved;
}

/*
 * The payload as a file in memory: the program can read it at leisure, and nobody waits for it to do so, as
 * with a pipe that it never reads.
 */
static int payload_file(struct lessor_slice text)
{
        int fd = move_up(memfd_create("payload", MFD_CLOEXEC));

        while (fd >= 0 && text.n > 0) {
                ssize_t n = write(fd, text.p, text.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        close_fd(&fd);
                        break;
                }
                text.p += n;
                text.n -= (size_t)n;
        }
        if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
                close_fd(&fd);
        return fd;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
        (void)st;
        (void)where;
        if (type == FTW_DP || type == FTW_DNR || type == FTW_D)
                rmdir(path);
        else
                unlink(path);
        return 0; /* whatever cannot be removed must not keep the rest */
}

/* Lets its owner, us, into directories that the program closed. */
static int open_directory(const char *path, const struct stat *st, int type, struct FTW *where)
{
        (void)where;
        if (type == FTW_D || type == FTW_DNR)
                chmod(path, (st->st_mode & 07777) | 0700);
        return 0;
}

static void scratch_remove(const char *path)
{
        /* From the top down first, or what is below a closed directory is never seen. */
        nftw(path, open_directory, 16, FTW_PHYS);
        nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int set_up_files(posix_spawn_file_actions_t *files, int in, int out, const char *scratch)
{
        int e = posix_spawn_file_actions_adddup2(files, in, 0);

        if (e == 0)
                e = posix_spawn_file_actions_adddup2(files, out, 1);
        if (e == 0)
                e = posix_spawn_file_actions_addopen(files, 2, "/dev/null", O_WRONLY, 0);
        if (e == 0)
                e = posix_spawn_file_actions_addclosefrom_np(files, 3);
        if (e == 0)
                e = posix_spawn_file_actions_addchdir_np(files, scratch);
        return e;
}

/* A group of its own, and signals as a program expects them, whatever our thread has blocked or ignored. */
static int set_up_attributes(posix_spawnattr_t *attributes)
{
        sigset_t none, all;
        int e;

        sigemptyset(&none);
        sigfillset(&all);
        e = posix_spawnattr_setflags(attributes,
                                     POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (e == 0)
                e = posix_spawnattr_setpgroup(attributes, 0);
        if (e == 0)
                e = posix_spawnattr_setsigmask(attributes, &none);
        if (e == 0)
                e = posix_spawnattr_setsigdefault(attributes, &all);
        return e;
}

static int spawn(const struct exec_backend *b, int in, int out, const char *scratch, pid_t *ret_pid)
{
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        struct buf home;
        char *envp[6] = {b->env_path, b->env_lang};
        int e;

        if (posix_spawn_file_actions_init(&files) != 0)
                return ENOMEM;
        if (posix_spawnattr_init(&attributes) != 0) {
                posix_spawn_file_actions_destroy(&files);
                return ENOMEM;
        }
        buf_init(&home);
        buf_text(&home, "HOME=");
        buf_text(&home, scratch);
        buf_char(&home, '\0');
        buf_text(&home, "TMPDIR=");
        buf_text(&home, scratch);
        e = buf_failed(&home) < 0 ? ENOMEM : 0;
        if (e == 0) {
                envp[2] = home.p;
                envp[3] = home.p + strlen(home.p) + 1;
                e = set_up_files(&files, in, out, scratch);
        }
        if (e == 0)
                e = set_up_attributes(&attributes);
        if (e == 0)
                e = posix_spawn(ret_pid, b->program, &files, &attributes, b->argv, envp);
        buf_done(&home);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
        return e;
}

static int child_start(const struct exec_backend *b, struct lessor_slice payload, struct child *c)
{
        int pipe_fds[2] = {-1, -1};
        _cleanup_(close_fd) int in = -1;
        _cleanup_(close_fd) int out = -1;

        c->scratch = strdup(b->scratch_template);
        if (c->scratch == NULL)
                return LESSOR_E_NOMEM;
        if (mkdtemp(c->scratch) == NULL) {
                free(TAKE(c->scratch));
                return LESSOR_E_IO;
        }
        in = payload_file(payload);
        if (in < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
                return LESSOR_E_IO;
        c->stdout_fd = move_up(pipe_fds[0]);
        out = move_up(pipe_fds[1]);
        if (c->stdout_fd < 0 || out < 0 || fcntl(c->stdout_fd, F_SETFL, O_NONBLOCK) < 0)
                return LESSOR_E_IO;
        if (spawn(b, in, out, c->scratch, &c->pid) != 0) {
                c->pid = 0;
                return LESSOR_E_IO;
        }
        c->pidfd = pidfd_open(c->pid, 0);
        return c->pidfd < 0 ? LESSOR_E_IO : 0;
}

/* Kills the whole group, while the leader's zombie still keeps its number from being given to others. */
static void child_end(struct child *c)
{
        if (c->pid > 0) {
                kill(-c->pid, SIGKILL);
                while (waitid(P_PID, (id_t)c->pid, &c->status, WEXITED) < 0 && errno == EINTR)
                        ;
        }
        close_fd(&c->pidfd);
        close_fd(&c->stdout_fd);
        if (c->scratch != NULL) {
                scratch_remove(c->scratch);
                free(TAKE(c->scratch));
        }
        c->pid = 0;
}

/* Takes what the pipe has. Returns END_EXITED when there may be more; closes it at its end. */
static enum end take_output(struct child *c, size_t limit, struct buf *out)
{
        for (;;) {
                ssize_t n;

                if (buf_reserve(out, READ_STEP) < 0)
                        return END_NOMEM;
                n = read(c->stdout_fd, out->p + out->n, READ_STEP);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? END_EXITED : END_IO;
                if (n == 0) {
                        close_fd(&c->stdout_fd);
                        return END_EXITED;
                }
                out->n += (size_t)n;
                out->p[out->n] = '\0';
                if (out->n > limit)
                        return END_OUTPUT;
        }
}

/* Until the program has ended and its output has, or until it must be stopped. */
static enum end child_watch(struct child *c, const struct exec_backend *b, struct lessor_stop *stop,
                            struct buf *out)
{
        int64_t until_ms = clock_monotonic_ms() + b->timeout_ms;

        while (!c->ended || c->stdout_fd >= 0) {
                struct pollfd fds[] = {
                        {.fd = c->stdout_fd, .events = POLLIN},
                        {.fd = c->ended ? -1 : c->pidfd, .events = POLLIN},
                        {.fd = lessor_stop_fd(stop), .events = POLLIN},
                };
                int64_t left_ms = until_ms - clock_monotonic_ms();
                enum end end = END_EXITED;

                if (lessor_stop_raised(stop))
                        return END_STOPPED;
                if (left_ms <= 0)
                        return c->ended ? END_EXITED : END_TIMEOUT;
                if (poll(fds, ARRAY_SIZE(fds), left_ms > 60000 ? 60000 : (int)left_ms) < 0 && errno != EINTR)
                        return END_IO;
                if (c->stdout_fd >= 0 && fds[0].revents != 0)
                        end = take_output(c, b->max_output_bytes, out);
                if (end != END_EXITED)
                        return end;
                if (!c->ended && fds[1].revents != 0) {
                        /* What it left running would keep the pipe open and us waiting. */
                        c->ended = true;
                        kill(-c->pid, SIGKILL);
                        if (until_ms > clock_monotonic_ms() + DRAIN_MS)
                                until_ms = clock_monotonic_ms() + DRAIN_MS;
                }
        }
        return END_EXITED;
}

static int exited(const struct child *c, struct lessor_arena *arena, struct buf *out,
                  struct lessor_outcome *ret_outcome)
{
        struct buf why;
        struct lessor_slice message = {0};
        int r;

        if (c->status.si_code == CLD_EXITED && c->status.si_status == 0) {
                *ret_outcome = (struct lessor_outcome){
                        .disposition = LESSOR_DISPOSITION_OK,
                        .stop = LESSOR_STOPPED_UNKNOWN,
                };
                return lessor_arena_copy(arena, buf_view(out), &ret_outcome->text);
        }
        buf_init(&why);
        if (c->status.si_code == CLD_EXITED)
                buf_printf(&why, "the program ended with status %d", c->status.si_status);
        else
                buf_printf(&why, "the program was ended by signal %d", c->status.si_status);
        r = buf_failed(&why);
        if (r == 0)
                r = lessor_arena_copy(arena, buf_view(&why), &message);
        buf_done(&why);
        if (r < 0)
                return r;
        return backend_error(ret_outcome, "backend-exit", message.p,
                             c->status.si_code == CLD_EXITED && c->status.si_status == EXIT_TRY_LATER);
}

static int exec_run(struct lessor_backend *backend, const struct lessor_prompt *prompt,
                    struct lessor_stop *stop, struct lessor_arena *arena, struct lessor_outcome *ret_outcome)
{
        struct exec_backend *b = container_of(backend, struct exec_backend, backend);
        struct child child = {.pidfd = -1, .stdout_fd = -1};
        _cleanup_(buf_wipe) struct buf out;
        enum end end;
        int r;

        buf_init(&out);
        if (lessor_stop_raised(stop))
                return backend_canceled(ret_outcome);
        r = child_start(b, prompt->json, &child);
        end = r < 0 ? END_IO : child_watch(&child, b, stop, &out);
        child_end(&child);
        if (r == LESSOR_E_NOMEM)
                return r;
        switch (end) {
        case END_EXITED:
                return exited(&child, arena, &out, ret_outcome);
        case END_STOPPED:
                return backend_canceled(ret_outcome);
        case END_TIMEOUT:
                return backend_error(ret_outcome, "backend-timeout", "the program took too long", true);
        case END_OUTPUT:
                return backend_error(ret_outcome, "backend-output", "the program wrote too much", false);
        case END_NOMEM:
                return LESSOR_E_NOMEM;
        case END_IO:
                break;
        }
        return backend_error(ret_outcome, "backend-start", "the program could not be started", true);
}

static struct lessor_backend *exec_free(struct lessor_backend *backend)
{
        struct exec_backend *b = container_of(backend, struct exec_backend, backend);

        for (size_t i = 0; b->argv != NULL && b->argv[i] != NULL; i++)
                free(b->argv[i]);
        free(b->argv);
        free(b->program);
        free(b->scratch_template);
        free(b->env_path);
        free(b->env_lang);
        free(b);
        return NULL;
}

static const struct lessor_backend_ops exec_ops = {
        .name = "exec",
        .backend_id = "openai-http", /* the protocol has no word for a program of one's own */
        .backend_class = LESSOR_BACKEND_PROCESS,
        .run = exec_run,
        .free = exec_free,
};

static bool is_program(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Where the program is: as it stands when absolute, else searched in PATH now, not when a job comes. */
static int find_program(const char *name, const char *path, char **ret_program)
{
        if (name[0] == '/') {
                if (!is_program(name))
                        return LESSOR_E_NOT_FOUND;
                *ret_program = strdup(name);
                return *ret_program == NULL ? LESSOR_E_NOMEM : 0;
        }
        if (name[0] == '\0' || strchr(name, '/') != NULL)
                return LESSOR_E_INVALID;
        for (size_t n; *path != '\0'; path += n + (path[n] == ':')) {
                char *candidate = NULL;

                n = strcspn(path, ":");
                if (n == 0 || path[0] != '/')
                        continue;
                if (asprintf(&candidate, "%.*s/%s", (int)n, path, name) < 0)
                        return LESSOR_E_NOMEM;
                if (is_program(candidate)) {
                        *ret_program = candidate;
                        return 0;
                }
                free(candidate);
        }
        return LESSOR_E_NOT_FOUND;
}

static int copy_argv(const char *const *argv, char ***ret_copy)
{
        char **copy;
        size_t n = 0;

        while (argv[n] != NULL)
                n++;
        copy = calloc(n + 1, sizeof(*copy));
        if (copy == NULL)
                return LESSOR_E_NOMEM;
        *ret_copy = copy;
        for (size_t i = 0; i < n; i++) {
                copy[i] = strdup(argv[i]);
                if (copy[i] == NULL)
                        return LESSOR_E_NOMEM;
        }
        return 0;
}

static int exec_set_up(struct exec_backend *b, const struct lessor_exec_options *options)
{
        const char *path = getenv("PATH");
        const char *lang = getenv("LANG");
        const char *tmp = options->scratch_dir != NULL ? options->scratch_dir : getenv("TMPDIR");
        int r;

        if (path == NULL || path[0] == '\0')
                path = PATH_DEFAULT;
        if (tmp == NULL || tmp[0] != '/')
                tmp = "/tmp";
        b->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : BACKEND_TIMEOUT_DEFAULT_MS;
        b->max_output_bytes =
                options->max_output_bytes > 0 ? options->max_output_bytes : OUTPUT_DEFAULT_BYTES;
        r = find_program(options->argv[0], path, &b->program);
        if (r == 0)
                r = copy_argv(options->argv, &b->argv);
        if (r < 0)
                return r;
        if (asprintf(&b->env_path, "PATH=%s", path) < 0) {
                b->env_path = NULL;
                return LESSOR_E_NOMEM;
        }
        if (asprintf(&b->env_lang, "LANG=%s", lang == NULL ? "C.UTF-8" : lang) < 0) {
                b->env_lang = NULL;
                return LESSOR_E_NOMEM;
        }
        if (asprintf(&b->scratch_template, "%s/lessor-job-XXXXXX", tmp) < 0) {
                b->scratch_template = NULL;
                return LESSOR_E_NOMEM;
        }
        return 0;
}

int lessor_backend_exec_new(const struct lessor_exec_options *options, struct lessor_backend **ret_backend)
{
        struct exec_backend *b;
        int r;

        if (options->argv == NULL || options->argv[0] == NULL)
                return LESSOR_E_INVALID;
        b = calloc(1, sizeof(*b));
        if (b == NULL)
                return LESSOR_E_NOMEM;
        b->backend.ops = &exec_ops;
        r = exec_set_up(b, options);
        if (r < 0) {
                exec_free(&b->backend);
                return r;
        }
        *ret_backend = &b->backend;
        return 0;
}
