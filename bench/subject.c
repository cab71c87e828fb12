/* SPDX-License-Identifier: MIT */
#include "subject.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "lessor/error.h"
#include "machine.h"

#define MAX_ARGUMENTS     32
#define START_PATIENCE_MS 30000
#define STOP_PATIENCE_MS  15000

static int make_directory(struct lessor_slice projection, char **ret_directory)
{
        const char *base = getenv("TMPDIR");
        _cleanup_(buf_done) struct buf path = {0};
        char *directory;

        if (asprintf(&directory, "%s/lessor-bench-XXXXXX", base == NULL ? "/tmp" : base) < 0)
                return LESSOR_E_NOMEM;
        *ret_directory = directory;
        if (mkdtemp(directory) == NULL)
                return LESSOR_E_IO;
        if (buf_printf(&path, "%s/projection.json", directory) < 0)
                return LESSOR_E_NOMEM;
        return file_replace(path.p, projection, 0600);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
        (void)status, (void)type, (void)ftw;
        return remove(path);
}

/* A copy of an argument with the directory in place of "@DIR". NULL when memory is short. */
static char *expand(const char *argument, const char *directory)
{
        const char *at = strstr(argument, "@DIR");
        char *copy;

        if (at == NULL)
                return strdup(argument);
        return asprintf(&copy, "%.*s%s%s", (int)(at - argument), argument, directory, at + 4) < 0 ? NULL
                                                                                                  : copy;
}

/* Becomes the program. Of the two ends of the pipe, the program's stdout is `out`. */
static void become(char *const *arguments, int out)
{
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        pin_to_core(CORE_SERVER);
        (void)raise_open_files(20000);
        if (dup2(out, STDOUT_FILENO) >= 0)
                execvp(arguments[0], arguments);
        fprintf(stderr, "load: cannot run %s: %s\n", arguments[0], strerror(errno));
        _exit(127);
}

/* Reads until the line that tells the port. */
static int await_port(int in, unsigned *ret_port)
{
        static const char line[] = "listening on http://127.0.0.1:";
        uint64_t end_ns = now_ns() + START_PATIENCE_MS * 1000000ull;
        char text[4096];
        size_t n = 0;

        while (n < sizeof(text) - 1) {
                struct pollfd wait = {.fd = in, .events = POLLIN};
                const char *at;
                ssize_t got;

                if (now_ns() >= end_ns || poll(&wait, 1, START_PATIENCE_MS) <= 0)
                        return LESSOR_E_UNAVAILABLE;
                got = read(in, text + n, sizeof(text) - 1 - n);
                if (got <= 0)
                        return LESSOR_E_UNAVAILABLE;
                n += (size_t)got;
                text[n] = '\0';
                at = strstr(text, line);
                if (at == NULL || strchr(at, '\n') == NULL)
                        continue;
                *ret_port = (unsigned)strtoul(at + sizeof(line) - 1, NULL, 10);
                return 0;
        }
        return LESSOR_E_UNAVAILABLE;
}

static int spawn(struct subject *subject, char *const *arguments)
{
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return LESSOR_E_IO;
        subject->pid = fork();
        if (subject->pid == 0)
                become(arguments, ends[1]);
        close(ends[1]);
        subject->out = ends[0];
        return subject->pid < 0 ? LESSOR_E_IO : await_port(ends[0], &subject->port);
}

int subject_start(const char *const *arguments, struct lessor_slice projection, struct subject **ret_subject)
{
        _cleanup_(subject_freep) struct subject *subject = calloc(1, sizeof(*subject));
        char *expanded[MAX_ARGUMENTS + 1] = {NULL};
        int e;

        if (subject == NULL)
                return LESSOR_E_NOMEM;
        subject->out = -1;
        e = make_directory(projection, &subject->directory);
        for (size_t i = 0; e == 0 && i < MAX_ARGUMENTS && arguments[i] != NULL; i++) {
                expanded[i] = expand(arguments[i], subject->directory);
                if (expanded[i] == NULL)
                        e = LESSOR_E_NOMEM;
        }
        if (e == 0)
                e = spawn(subject, expanded);
        for (size_t i = 0; i < MAX_ARGUMENTS; i++)
                free(expanded[i]);
        if (e == 0)
                *ret_subject = TAKE(subject);
        return e;
}

static void stop(pid_t pid)
{
        uint64_t end_ns = now_ns() + STOP_PATIENCE_MS * 1000000ull;

        kill(pid, SIGTERM);
        while (waitpid(pid, NULL, WNOHANG) == 0) {
                if (now_ns() >= end_ns) {
                        kill(pid, SIGKILL);
                        waitpid(pid, NULL, 0);
                        return;
                }
                poll(NULL, 0, 10);
        }
}

struct subject *subject_free(struct subject *subject)
{
        if (subject == NULL)
                return NULL;
        if (subject->pid > 0)
                stop(subject->pid);
        if (subject->out >= 0)
                close(subject->out);
        if (subject->directory != NULL)
                nftw(subject->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(subject->directory);
        free(subject);
        return NULL;
}
