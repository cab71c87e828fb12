/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * lessor-task: starts one command of a task, and leaves nothing of it behind. Started by the rack agent,
 * within the sandbox or, without one, beside it.
 *
 *     lessor-task FD
 *
 * reads from FD what is to be done, as texts that each end with a NUL (client/task_spec.h):
 *
 *     options, each NAME=VALUE    status=FD  cgroup=FD  parent=PID  alone=1  dir=PATH
 *                                 fsize=N  data=N  nproc=N
 *     an empty text
 *     variables, each NAME=VALUE
 *     an empty text
 *     the command and its arguments
 *
 * and says on the status descriptor how the command ended, in one line:
 *
 *     exit CODE PEAK      or: signal NUMBER PEAK      PEAK: the largest resident set of its processes, bytes
 *     exec ERRNO          or: dir ERRNO               it could not be started
 *
 * It is a program of its own because it takes over what its parent, with many threads, cannot: orphans of the
 * command come to it, and it ends when none is left. Only the C library, so that it runs in any sandbox.
 */

#define SPEC_MAX   ((size_t)8 * 1024 * 1024)
#define N_LIMITS   3
#define STATUS_MAX 96

struct limit {
        const char *name;
        int resource;
        unsigned long long value;
        bool is_set;
};

struct spec {
        int status_fd;
        int cgroup_fd;
        pid_t parent;
        bool alone; /* nothing but this task is in our PID namespace */
        const char *dir;
        struct limit limits[N_LIMITS];
        char **variables;
        char **argv;
};

static _Noreturn void give_up(const char *what)
{
        fprintf(stderr, "lessor-task: %s: %s\n", what, strerror(errno));
        _exit(125);
}

static char *read_spec(int fd, size_t *ret_n)
{
        size_t n = 0, room = 65536;
        char *text = malloc(room);

        while (text != NULL && n < SPEC_MAX) {
                ssize_t got = read(fd, text + n, room - n);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return NULL;
                if (got == 0) {
                        *ret_n = n;
                        close(fd);
                        return text;
                }
                n += (size_t)got;
                if (n == room) {
                        room *= 2;
                        text = realloc(text, room);
                }
        }
        return NULL;
}

static void take_option(struct spec *spec, char *option)
{
        char *value = strchr(option, '=');

        if (value == NULL)
                return;
        *value++ = '\0';
        if (strcmp(option, "status") == 0)
                spec->status_fd = (int)strtol(value, NULL, 10);
        else if (strcmp(option, "cgroup") == 0)
                spec->cgroup_fd = (int)strtol(value, NULL, 10);
        else if (strcmp(option, "parent") == 0)
                spec->parent = (pid_t)strtol(value, NULL, 10);
        else if (strcmp(option, "alone") == 0)
                spec->alone = true;
        else if (strcmp(option, "dir") == 0)
                spec->dir = value;
        for (size_t i = 0; i < N_LIMITS; i++)
                if (strcmp(option, spec->limits[i].name) == 0) {
                        spec->limits[i].value = strtoull(value, NULL, 10);
                        spec->limits[i].is_set = true;
                }
}

/* Splits the texts that are left into an array ended by NULL. `until_empty`: an empty text ends them. */
static char **take_list(char **at, const char *end, bool until_empty)
{
        size_t n = 0;
        char **list;

        for (const char *p = *at; p < end && !(until_empty && *p == '\0'); p += strlen(p) + 1)
                n++;
        list = calloc(n + 1, sizeof(*list));
        if (list == NULL)
                give_up("memory");
        for (size_t i = 0; i < n; i++) {
                list[i] = *at;
                *at += strlen(*at) + 1;
        }
        if (until_empty && *at < end)
                (*at)++;
        return list;
}

static void parse_spec(struct spec *spec, char *text, size_t n)
{
        const char *end = text + n;

        if (n == 0 || text[n - 1] != '\0') {
                errno = EINVAL;
                give_up("what is to be done");
        }
        while (text < end && *text != '\0') {
                char *next = text + strlen(text) + 1;

                take_option(spec, text);
                text = next;
        }
        if (text < end)
                text++;
        spec->variables = take_list(&text, end, true);
        spec->argv = take_list(&text, end, false);
        if (spec->argv[0] == NULL) {
                errno = EINVAL;
                give_up("what is to be done");
        }
}

static void say(const struct spec *spec, const char *word, int number, bool with_peak)
{
        char line[STATUS_MAX];
        struct rusage usage;
        int n;

        getrusage(RUSAGE_CHILDREN, &usage);
        if (with_peak)
                n = snprintf(line, sizeof(line), "%s %d %lld\n", word, number,
                             (long long)usage.ru_maxrss * 1024);
        else
                n = snprintf(line, sizeof(line), "%s %d\n", word, number);
        /* Nobody is left to be told if this fails. */
        if (spec->status_fd >= 0 && write(spec->status_fd, line, (size_t)n) < 0)
                return;
}

static void set_limits(const struct spec *spec)
{
        const struct rlimit no_core = {0, 0};

        setrlimit(RLIMIT_CORE, &no_core);
        for (size_t i = 0; i < N_LIMITS; i++) {
                const struct limit *limit = &spec->limits[i];
                struct rlimit value = {limit->value, limit->value}, old;

                if (!limit->is_set)
                        continue;
                if (getrlimit((__rlimit_resource_t)limit->resource, &old) == 0 &&
                    old.rlim_max < value.rlim_max)
                        value.rlim_cur = value.rlim_max = old.rlim_max;
                if (setrlimit((__rlimit_resource_t)limit->resource, &value) < 0)
                        give_up(limit->name);
        }
}

static _Noreturn void be_the_command(const struct spec *spec)
{
        sigset_t none;

        setsid();
        umask(022);
        if (spec->dir != NULL && chdir(spec->dir) < 0) {
                say(spec, "dir", errno, false);
                _exit(127);
        }
        set_limits(spec);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        environ = spec->variables;
        execvp(spec->argv[0], spec->argv);
        say(spec, "exec", errno, false);
        _exit(127);
}

/*
 * Kills our children. Theirs come to us then, and are next. Without the list of children that most kernels
 * keep, all processes are looked through.
 */
static void kill_children_listed(FILE *list)
{
        long pid;

        while (fscanf(list, "%ld", &pid) == 1)
                kill((pid_t)pid, SIGKILL);
}

static void kill_children_searched(void)
{
        DIR *proc = opendir("/proc");
        struct dirent *entry;

        while (proc != NULL && (entry = readdir(proc)) != NULL) {
                long pid = strtol(entry->d_name, NULL, 10), parent = 0;
                char path[64], stat[512];
                FILE *file;

                if (pid <= 0)
                        continue;
                snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
                file = fopen(path, "re");
                if (file == NULL)
                        continue;
                if (fgets(stat, sizeof(stat), file) != NULL && strrchr(stat, ')') != NULL &&
                    sscanf(strrchr(stat, ')'), ") %*c %ld", &parent) == 1 && parent == (long)getpid())
                        kill((pid_t)pid, SIGKILL);
                fclose(file);
        }
        if (proc != NULL)
                closedir(proc);
}

static void kill_children(const struct spec *spec)
{
        char path[64];
        FILE *list;

        if (spec->alone) {
                kill(-1, SIGKILL); /* but us and the namespace's init */
                return;
        }
        snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
        list = fopen(path, "re");
        if (list == NULL) {
                kill_children_searched();
                return;
        }
        kill_children_listed(list);
        fclose(list);
}

/* Until we have no child any more. */
static void end_all(const struct spec *spec)
{
        const struct timespec pause = {.tv_nsec = 2000000};

        for (;;) {
                pid_t pid;

                kill_children(spec);
                do {
                        pid = waitpid(-1, NULL, WNOHANG);
                } while (pid > 0);
                if (pid < 0 && errno == ECHILD)
                        return;
                nanosleep(&pause, NULL);
        }
}

/* Until the command has ended, or we are told to end it. */
static void wait_for(const struct spec *spec, pid_t command, const sigset_t *signals)
{
        for (;;) {
                int status = 0, number = sigwaitinfo(signals, NULL);
                pid_t pid;

                if (number == SIGTERM || number == SIGINT || number == SIGHUP) {
                        end_all(spec);
                        return;
                }
                while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
                        if (pid != command)
                                continue;
                        if (WIFEXITED(status))
                                say(spec, "exit", WEXITSTATUS(status), true);
                        else
                                say(spec, "signal", WTERMSIG(status), true);
                        end_all(spec);
                        return;
                }
        }
}

int main(int argc, char **argv)
{
        struct spec spec = {.status_fd = -1,
                            .cgroup_fd = -1,
                            .limits = {{.name = "fsize", .resource = RLIMIT_FSIZE},
                                       {.name = "data", .resource = RLIMIT_DATA},
                                       {.name = "nproc", .resource = RLIMIT_NPROC}}};
        sigset_t signals;
        pid_t command;
        size_t n = 0;
        char *text;

        if (argc != 2) {
                fputs("lessor-task: started by the rack agent, not by people\n", stderr);
                return 2;
        }
        sigemptyset(&signals);
        sigaddset(&signals, SIGCHLD);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGHUP);
        sigprocmask(SIG_BLOCK, &signals, NULL);
        text = read_spec((int)strtol(argv[1], NULL, 10), &n);
        if (text == NULL)
                give_up("what is to be done");
        parse_spec(&spec, text, n);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (spec.parent != 0 && getppid() != spec.parent)
                return 125; /* it died before we asked to be told */
        if (spec.status_fd >= 0)
                fcntl(spec.status_fd, F_SETFD, FD_CLOEXEC);
        if (spec.cgroup_fd >= 0) {
                if (write(spec.cgroup_fd, "0", 1) < 0)
                        give_up("the task's cgroup");
                close(spec.cgroup_fd);
        }
        command = fork();
        if (command < 0)
                give_up("fork");
        if (command == 0)
                be_the_command(&spec);
        close(0);
        close(1);
        close(2);
        wait_for(&spec, command, &signals);
        return 0;
}
