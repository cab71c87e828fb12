/* SPDX-License-Identifier: MIT */
#include "client/task_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macro.h"
#include "client/dir_tree.h"
#include "client/task_spec.h"

#define READ_STEP   65536u
#define DRAIN_MS    1000 /* for what is still in the pipes once the command has ended */
#define KILL_MS     1500 /* until what was killed is gone, before it is killed harder */
#define FULL_MS     20   /* between looks at a reader that has no room */
#define DISK_MS     1000 /* between looks at the disk, at least */
#define DISK_SHARE  20   /* ... and so many times what one took */
#define STATUS_ROOM 256
#define STDERR_KEPT 300 /* for saying why a sandbox did not start */

/* As numbered in the program that is started. */
enum { CHILD_SPEC_FD = 3, CHILD_STATUS_FD, CHILD_CGROUP_FD, CHILD_FDS_END };
#define ABOVE_CHILD_FDS 10

struct process {
        const struct task_run *run;
        pid_t pid;
        int pidfd;
        int fds[N_TASK_STREAMS];
        int status_fd;
        struct cgroup cgroup;
        bool ended;
        siginfo_t how;
        char status[STATUS_ROOM];
        size_t n_status;
        char head[STDERR_KEPT]; /* of stderr */
        size_t n_head;
        int64_t disk_at_ms;
        char *buffer;
};

static void close_fd(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

/* Above what the child's have as numbers, so that putting one in its place never overwrites another. */
static int move_up(int fd)
{
        int moved;

        if (fd < 0 || fd >= ABOVE_CHILD_FDS)
                return fd;
        moved = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_CHILD_FDS);
        close(fd);
        return moved;
}

static int make_pipe(int *ret_read, int *ret_write)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return LESSOR_E_IO;
        *ret_read = move_up(fds[0]);
        *ret_write = move_up(fds[1]);
        if (*ret_read < 0 || *ret_write < 0 || fcntl(*ret_read, F_SETFL, O_NONBLOCK) < 0)
                return LESSOR_E_IO;
        return 0;
}

/* The spec as a file in memory, so that nobody waits for anybody to read it. */
static int make_spec(const struct process *p, int *ret_fd)
{
        static const char *const defaults[] = {
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", NULL,
                NULL, NULL};
        const struct task_run *run = p->run;
        bool on = sandbox_is_on(run->sandbox), grouped = p->cgroup.path != NULL;
        _cleanup_(buf_done) struct buf text = {0}, dir = {0}, home = {0};
        const char *variables[ARRAY_SIZE(defaults)];
        struct task_spec spec = {.status_fd = CHILD_STATUS_FD,
                                 .cgroup_fd = grouped ? CHILD_CGROUP_FD : -1,
                                 .parent = on ? 0 : getpid(),
                                 .alone = on,
                                 .fsize = run->limits.disk_bytes,
                                 /* Of one process; with a cgroup the limit is that of all of them. */
                                 .data = grouped ? 0 : run->limits.memory_bytes,
                                 /* Counted by user, and only in a sandbox is the user the task's alone. */
                                 .nproc = grouped || !on ? 0 : run->limits.processes,
                                 .task = run->task};
        int fd, r;

        buf_text(&dir, on ? SANDBOX_TASK_DIR : run->work_dir);
        if (!lessor_slice_equal(run->task->directory, LESSOR_SLICE("."))) {
                buf_char(&dir, '/');
                buf_slice(&dir, run->task->directory);
        }
        buf_text(&home, "HOME=");
        buf_text(&home, on ? "/tmp" : run->tmp_dir);
        buf_char(&home, '\0');
        buf_text(&home, "TMPDIR=");
        buf_text(&home, on ? "/tmp" : run->tmp_dir);
        if (buf_failed(&dir) < 0 || buf_failed(&home) < 0)
                return LESSOR_E_NOMEM;
        memcpy(variables, defaults, sizeof(defaults));
        variables[2] = home.p;
        variables[3] = home.p + strlen(home.p) + 1;
        spec.defaults = variables;
        spec.dir = dir.p;
        r = task_spec_write(&spec, &text);
        if (r < 0)
                return r;
        fd = move_up(memfd_create("task", MFD_CLOEXEC));
        if (fd < 0)
                return LESSOR_E_IO;
        *ret_fd = fd;
        for (size_t at = 0; at < text.n;) {
                ssize_t n = pwrite(fd, text.p + at, text.n - at, (off_t)at);

                if (n < 0 && errno != EINTR)
                        return LESSOR_E_IO;
                at += n > 0 ? (size_t)n : 0;
        }
        return 0;
}

struct child_fds {
        int out, err, spec, status, cgroup;
};

static int set_up_files(posix_spawn_file_actions_t *files, const struct child_fds *fds)
{
        int e = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);

        if (e == 0)
                e = posix_spawn_file_actions_adddup2(files, fds->out, 1);
        if (e == 0)
                e = posix_spawn_file_actions_adddup2(files, fds->err, 2);
        if (e == 0)
                e = posix_spawn_file_actions_adddup2(files, fds->spec, CHILD_SPEC_FD);
        if (e == 0)
                e = posix_spawn_file_actions_adddup2(files, fds->status, CHILD_STATUS_FD);
        if (e == 0 && fds->cgroup >= 0)
                e = posix_spawn_file_actions_adddup2(files, fds->cgroup, CHILD_CGROUP_FD);
        if (e == 0)
                e = posix_spawn_file_actions_addclosefrom_np(files, fds->cgroup >= 0 ? CHILD_FDS_END
                                                                                     : CHILD_CGROUP_FD);
        if (e == 0)
                e = posix_spawn_file_actions_addchdir_np(files, "/");
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

static int spawn(const char *const *argv, const struct child_fds *fds, pid_t *ret_pid)
{
        /* Whatever our environment holds is not for tasks, nor for what starts them. */
        char *const environment[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL};
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        int e;

        if (posix_spawn_file_actions_init(&files) != 0)
                return ENOMEM;
        if (posix_spawnattr_init(&attributes) != 0) {
                posix_spawn_file_actions_destroy(&files);
                return ENOMEM;
        }
        e = set_up_files(&files, fds);
        if (e == 0)
                e = set_up_attributes(&attributes);
        if (e == 0)
                e = posix_spawn(ret_pid, argv[0], &files, &attributes, (char *const *)argv, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
        return e;
}

static int start(struct process *p)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct child_fds fds = {-1, -1, -1, -1, -1};
        struct sandbox_place place = {.work_dir = p->run->work_dir,
                                      .tmp_dir = p->run->tmp_dir,
                                      .network = p->run->network,
                                      .memory_bytes = p->run->limits.memory_bytes,
                                      .spec_fd = CHILD_SPEC_FD};
        const char **argv = NULL;
        int r = arena == NULL ? LESSOR_E_NOMEM : sandbox_argv(p->run->sandbox, &place, arena, &argv);

        if (r == 0)
                r = make_pipe(&p->fds[TASK_STDOUT], &fds.out);
        if (r == 0)
                r = make_pipe(&p->fds[TASK_STDERR], &fds.err);
        if (r == 0)
                r = make_pipe(&p->status_fd, &fds.status);
        if (r == 0)
                r = make_spec(p, &fds.spec);
        if (r == 0 && p->cgroup.path != NULL) {
                p->cgroup.procs_fd = move_up(p->cgroup.procs_fd);
                fds.cgroup = p->cgroup.procs_fd;
        }
        if (r == 0 && spawn(argv, &fds, &p->pid) != 0) {
                p->pid = 0;
                r = LESSOR_E_IO;
        }
        close_fd(&fds.out);
        close_fd(&fds.err);
        close_fd(&fds.spec);
        close_fd(&fds.status);
        lessor_arena_free(arena);
        if (r == 0)
                p->pidfd = pidfd_open(p->pid, 0);
        return r == 0 && p->pidfd < 0 ? LESSOR_E_IO : r;
}

static bool has_room(const struct process *p, enum task_stream stream)
{
        return p->run->room == NULL || p->run->room(p->run->context, stream);
}

/* Takes one piece of a stream; closes it at its end. */
static void take_output(struct process *p, enum task_stream stream)
{
        ssize_t n = read(p->fds[stream], p->buffer, READ_STEP);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0) {
                close_fd(&p->fds[stream]);
                return;
        }
        if (stream == TASK_STDERR && p->n_head < sizeof(p->head)) {
                size_t more = sizeof(p->head) - p->n_head;

                if (more > (size_t)n)
                        more = (size_t)n;
                memcpy(p->head + p->n_head, p->buffer, more);
                p->n_head += more;
        }
        if (p->run->output != NULL)
                p->run->output(p->run->context, stream, (struct lessor_slice){p->buffer, (size_t)n});
}

static void take_status(struct process *p)
{
        ssize_t n = read(p->status_fd, p->status + p->n_status, sizeof(p->status) - p->n_status);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n > 0)
                p->n_status += (size_t)n;
        if (n <= 0 || p->n_status == sizeof(p->status))
                close_fd(&p->status_fd);
}

static void reap(struct process *p)
{
        while (waitid(P_PIDFD, (id_t)p->pidfd, &p->how, WEXITED) < 0 && errno == EINTR)
                ;
        p->ended = true;
}

static bool is_over(const struct process *p)
{
        return p->ended && p->fds[TASK_STDOUT] < 0 && p->fds[TASK_STDERR] < 0 && p->status_fd < 0;
}

/* Waits up to `wait_ms` for something to happen, and takes it. `stop`: may be NULL. */
static void step(struct process *p, struct lessor_stop *stop, int64_t wait_ms)
{
        struct pollfd fds[N_TASK_STREAMS + 3];
        bool full = false;

        for (int i = 0; i < N_TASK_STREAMS; i++) {
                bool room = p->fds[i] < 0 || has_room(p, (enum task_stream)i);

                fds[i] = (struct pollfd){.fd = room ? p->fds[i] : -1, .events = POLLIN};
                full = full || !room;
        }
        fds[2] = (struct pollfd){.fd = p->status_fd, .events = POLLIN};
        fds[3] = (struct pollfd){.fd = p->ended ? -1 : p->pidfd, .events = POLLIN};
        fds[4] = (struct pollfd){.fd = lessor_stop_fd(stop), .events = POLLIN};
        if (full && wait_ms > FULL_MS)
                wait_ms = FULL_MS;
        if (poll(fds, ARRAY_SIZE(fds), wait_ms < 0 ? 0 : (int)wait_ms) > 0) {
                for (int i = 0; i < N_TASK_STREAMS; i++)
                        if (fds[i].revents != 0)
                                take_output(p, (enum task_stream)i);
                if (fds[2].revents != 0)
                        take_status(p);
                if (fds[3].revents != 0)
                        reap(p);
        }
}

/* Until all has ended and everything is read, or for so long. True for the former. */
static bool settle(struct process *p, int64_t for_ms)
{
        int64_t until_ms = clock_monotonic_ms() + for_ms;

        while (!is_over(p)) {
                int64_t left_ms = until_ms - clock_monotonic_ms();

                /* What waits for its reader has not been too slow itself. */
                if (left_ms <= 0 && has_room(p, TASK_STDOUT) && has_room(p, TASK_STDERR))
                        return false;
                if (lessor_stop_raised(p->run->stop) && left_ms <= 0)
                        return false;
                step(p, NULL, left_ms > FULL_MS ? left_ms : FULL_MS);
        }
        return true;
}

/*
 * bwrap takes the whole namespace with it. Without one, lessor-task is asked to end what it started, since
 * only it knows what that is.
 */
static void kill_all(struct process *p)
{
        if (p->pid <= 0)
                return;
        if (!p->ended && !sandbox_is_on(p->run->sandbox)) {
                kill(p->pid, SIGTERM);
                if (settle(p, KILL_MS))
                        return;
        }
        if (!p->ended) {
                kill(-p->pid, SIGKILL);
                kill(p->pid, SIGKILL);
                reap(p);
        }
        settle(p, KILL_MS);
}

static bool disk_is_full(struct process *p)
{
        int64_t limit = p->run->limits.disk_bytes, before_ms = clock_monotonic_ms(), used, after_ms;

        if (limit <= 0)
                return false;
        used = dir_tree_usage(p->run->work_dir, limit + 1);
        if (used <= limit)
                used += dir_tree_usage(p->run->tmp_dir, limit + 1 - used);
        after_ms = clock_monotonic_ms();
        p->disk_at_ms = after_ms + DISK_MS + DISK_SHARE * (after_ms - before_ms);
        return used > limit;
}

/* Until the command has ended by itself or has to be ended. */
static enum task_how watch(struct process *p)
{
        int64_t limit_ms = p->run->limits.time_ms;
        int64_t until_ms = limit_ms > 0 ? clock_monotonic_ms() + limit_ms : INT64_MAX;

        p->disk_at_ms = clock_monotonic_ms() + DISK_MS;
        while (!p->ended) {
                int64_t now_ms = clock_monotonic_ms(), wait_ms = p->disk_at_ms - now_ms;

                if (lessor_stop_raised(p->run->stop))
                        return TASK_END_STOPPED;
                if (now_ms >= until_ms)
                        return TASK_END_TIMEOUT;
                if (now_ms >= p->disk_at_ms) {
                        if (disk_is_full(p))
                                return TASK_END_DISK;
                        p->disk_at_ms = p->run->limits.disk_bytes > 0 ? p->disk_at_ms : now_ms + 60000;
                        continue;
                }
                step(p, p->run->stop, wait_ms < until_ms - now_ms ? wait_ms : until_ms - now_ms);
        }
        settle(p, DRAIN_MS);
        return disk_is_full(p) ? TASK_END_DISK : TASK_END_EXIT;
}

static void say_problem(struct task_end *end, const char *what, const char *detail, size_t n)
{
        while (n > 0 && (detail[n - 1] == '\n' || detail[n - 1] == ' '))
                n--;
        snprintf(end->problem, sizeof(end->problem), "%s%s%.*s", what, n > 0 ? ": " : "", (int)n, detail);
        for (char *c = end->problem; *c != '\0'; c++)
                if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127)
                        *c = ' ';
}

/* What lessor-task said, or did not say. */
static void judge(const struct process *p, struct task_end *end)
{
        static const enum task_how hows[] = {[TASK_EXITED] = TASK_END_EXIT,
                                             [TASK_SIGNALLED] = TASK_END_SIGNAL,
                                             [TASK_NO_EXEC] = TASK_END_NO_COMMAND,
                                             [TASK_NO_DIR] = TASK_END_NO_DIRECTORY};
        struct task_status status = task_status_read((struct lessor_slice){p->status, p->n_status});

        if (status.word != TASK_SILENT) {
                end->how = hows[status.word];
                end->number = status.number;
                end->peak_bytes = status.peak_bytes;
                return;
        }
        if (p->how.si_code == CLD_EXITED && p->how.si_status != 0 && p->how.si_status < 128) {
                end->how = TASK_END_BROKEN;
                say_problem(end, "the task could not be started", p->head, p->n_head);
                return;
        }
        /* lessor-task was killed: by the task itself, or since memory was short. */
        end->how = TASK_END_SIGNAL;
        end->number = SIGKILL;
}

static void look_at_cgroup(const struct process *p, struct task_end *end)
{
        struct cgroup_usage usage = cgroup_usage(&p->cgroup);

        end->out_of_memory = usage.out_of_memory;
        end->out_of_processes = usage.out_of_processes;
}

void task_run(const struct task_run *run, struct task_end *ret_end)
{
        struct process p = {
                .run = run, .pidfd = -1, .fds = {-1, -1}, .status_fd = -1, .cgroup = {.procs_fd = -1}};
        struct cgroup_limits limits = {run->limits.memory_bytes, run->limits.processes};
        char buffer[READ_STEP];
        int r = 0;

        memset(ret_end, 0, sizeof(*ret_end));
        p.buffer = buffer;
        if (lessor_stop_raised(run->stop)) {
                ret_end->how = TASK_END_STOPPED;
                return;
        }
        if (run->cgroups != NULL)
                r = cgroup_make(run->cgroups, run->name, &limits, &p.cgroup);
        if (r == 0)
                r = start(&p);
        if (r < 0) {
                ret_end->how = TASK_END_BROKEN;
                say_problem(ret_end, "the task could not be started", lessor_error_text(r),
                            strlen(lessor_error_text(r)));
        } else {
                ret_end->how = watch(&p);
        }
        kill_all(&p);
        if (r == 0 && (ret_end->how == TASK_END_EXIT))
                judge(&p, ret_end);
        look_at_cgroup(&p, ret_end);
        cgroup_end(&p.cgroup);
        close_fd(&p.pidfd);
        close_fd(&p.status_fd);
        close_fd(&p.fds[TASK_STDOUT]);
        close_fd(&p.fds[TASK_STDERR]);
}
