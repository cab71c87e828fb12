/* SPDX-License-Identifier: MIT */
#include "client/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/macro.h"

#define FILE_MOST    65536
#define OWN_GROUP    "lessor-agent"
#define TASK_PREFIX  "lessor-task-"
#define REMOVE_TRIES 100 /* of 5 ms: what was killed needs a moment to be gone */

struct cgroup_parent {
        char *path;
};

DEFINE_CLEANUP(struct cgroup_parent, cgroup_parent_free)

struct cgroup_parent *cgroup_parent_free(struct cgroup_parent *parent)
{
        if (parent != NULL)
                free(parent->path);
        free(parent);
        return NULL;
}

static int write_file(const char *dir, const char *name, const char *text)
{
        char *path;
        int fd, r = 0;

        if (asprintf(&path, "%s/%s", dir, name) < 0)
                return LESSOR_E_NOMEM;
        /* The kernel makes no files there, whatever it is asked: a directory that only looks like one, does.
         */
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        free(path);
        if (fd < 0)
                return LESSOR_E_IO;
        if (write(fd, text, strlen(text)) < 0)
                r = LESSOR_E_IO;
        close(fd);
        return r;
}

static int read_named(const char *dir, const char *name, struct buf *out)
{
        char *path;
        int r;

        buf_clear(out);
        if (asprintf(&path, "%s/%s", dir, name) < 0)
                return LESSOR_E_NOMEM;
        r = file_read(path, FILE_MOST, out);
        free(path);
        return r;
}

/* Whether a word stands in a text of words. */
static bool has_word(const struct buf *text, const char *word)
{
        size_t n = strlen(word);

        for (const char *at = text->p; at != NULL && *at != '\0'; at += strspn(at, " \n")) {
                size_t len = strcspn(at, " \n");

                if (len == n && memcmp(at, word, n) == 0)
                        return true;
                at += len;
        }
        return false;
}

/* "0::/path", the line of version 2. */
static int own_path(const char *root, char **ret_path)
{
        _cleanup_(buf_done) struct buf text = {0};
        const char *line;
        int r = file_read("/proc/self/cgroup", FILE_MOST, &text);

        if (r < 0)
                return LESSOR_E_UNAVAILABLE;
        line = strncmp(text.p, "0::", 3) == 0 ? text.p : strstr(text.p, "\n0::");
        if (line == NULL)
                return LESSOR_E_UNAVAILABLE;
        line = strstr(line, "::") + 2;
        if (asprintf(ret_path, "%s%.*s", root, (int)strcspn(line, "\n"), line) < 0)
                return LESSOR_E_NOMEM;
        return 0;
}

static const char *find_root(void)
{
        static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
        const long cgroup2_magic = 0x63677270;
        struct statfs fs;

        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (statfs(places[i], &fs) == 0 && fs.f_type == cgroup2_magic)
                        return places[i];
        return NULL;
}

static int divide(const char *path)
{
        _cleanup_(buf_done) struct buf controllers = {0};
        char *below;
        int r = read_named(path, "cgroup.controllers", &controllers);

        if (r < 0 || !has_word(&controllers, "memory") || !has_word(&controllers, "pids"))
                return LESSOR_E_UNAVAILABLE;
        if (asprintf(&below, "%s/" OWN_GROUP, path) < 0)
                return LESSOR_E_NOMEM;
        r = mkdir(below, 0755) < 0 && errno != EEXIST ? LESSOR_E_UNAVAILABLE : 0;
        if (r == 0)
                r = write_file(below, "cgroup.procs", "0");
        if (r == 0) {
                r = write_file(path, "cgroup.subtree_control", "+memory +pids");
                if (r < 0) { /* others are in it, a login's shell, say: all as it was */
                        write_file(path, "cgroup.procs", "0");
                        rmdir(below);
                }
        }
        free(below);
        return r == LESSOR_E_IO ? LESSOR_E_UNAVAILABLE : r;
}

int cgroup_parent_new(const char *root, const char *own, struct cgroup_parent **ret_parent)
{
        _cleanup_(cgroup_parent_freep) struct cgroup_parent *parent = calloc(1, sizeof(*parent));
        int r = 0;

        if (parent == NULL)
                return LESSOR_E_NOMEM;
        if (root == NULL)
                root = find_root();
        if (root == NULL)
                return LESSOR_E_UNAVAILABLE;
        if (own == NULL)
                r = own_path(root, &parent->path);
        else if (asprintf(&parent->path, "%s%s", root, own) < 0)
                r = LESSOR_E_NOMEM;
        if (r == 0)
                r = divide(parent->path);
        if (r < 0)
                return r;
        *ret_parent = TAKE(parent);
        return 0;
}

static int set_limit(const char *path, const char *name, int64_t value)
{
        char text[32];

        if (value <= 0)
                return 0;
        snprintf(text, sizeof(text), "%lld", (long long)value);
        return write_file(path, name, text);
}

int cgroup_make(const struct cgroup_parent *parent, const char *name, const struct cgroup_limits *limits,
                struct cgroup *ret_cgroup)
{
        struct cgroup cgroup = {.procs_fd = -1};
        char *procs = NULL;
        int r = 0;

        if (asprintf(&cgroup.path, "%s/" TASK_PREFIX "%s", parent->path, name) < 0)
                return LESSOR_E_NOMEM;
        if (mkdir(cgroup.path, 0755) < 0)
                r = LESSOR_E_IO;
        if (r == 0)
                r = set_limit(cgroup.path, "memory.max", limits->memory_bytes);
        if (r == 0 && limits->memory_bytes > 0)
                write_file(cgroup.path, "memory.swap.max", "0"); /* not every kernel has it */
        if (r == 0)
                r = set_limit(cgroup.path, "pids.max", limits->processes);
        if (r == 0 && asprintf(&procs, "%s/cgroup.procs", cgroup.path) < 0)
                r = LESSOR_E_NOMEM;
        if (r == 0) {
                cgroup.procs_fd = open(procs, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                if (cgroup.procs_fd < 0)
                        r = LESSOR_E_IO;
                free(procs);
        }
        if (r < 0) {
                cgroup_end(&cgroup);
                return r;
        }
        *ret_cgroup = cgroup;
        return 0;
}

/* The number behind a name in a file of "name number" lines; 0: none. */
static int64_t event_count(const char *path, const char *file, const char *name)
{
        _cleanup_(buf_done) struct buf text = {0};
        size_t n = strlen(name);

        if (read_named(path, file, &text) < 0)
                return 0;
        for (const char *at = text.p; at != NULL && *at != '\0';) {
                if (strncmp(at, name, n) == 0 && at[n] == ' ')
                        return strtoll(at + n, NULL, 10);
                at = strchr(at, '\n');
                at += at != NULL;
        }
        return 0;
}

struct cgroup_usage cgroup_usage(const struct cgroup *cgroup)
{
        _cleanup_(buf_done) struct buf text = {0};
        struct cgroup_usage usage = {0};

        if (cgroup->path == NULL)
                return usage;
        if (read_named(cgroup->path, "memory.peak", &text) == 0)
                usage.peak_bytes = strtoll(text.p, NULL, 10);
        usage.out_of_memory = event_count(cgroup->path, "memory.events", "oom_kill") > 0;
        usage.out_of_processes = event_count(cgroup->path, "pids.events", "max") > 0;
        return usage;
}

void cgroup_end(struct cgroup *cgroup)
{
        const struct timespec pause = {.tv_nsec = 5000000};

        if (cgroup->procs_fd >= 0)
                close(cgroup->procs_fd);
        cgroup->procs_fd = -1;
        if (cgroup->path == NULL)
                return;
        write_file(cgroup->path, "cgroup.kill", "1");
        for (int i = 0; i < REMOVE_TRIES && rmdir(cgroup->path) < 0 && errno == EBUSY; i++)
                nanosleep(&pause, NULL);
        free(TAKE(cgroup->path));
}
