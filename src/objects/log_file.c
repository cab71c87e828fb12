/* SPDX-License-Identifier: MIT */
#include "objects/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/object_store.h"
#include "objects/fs_internal.h"
#include "objects/log_head.h"

#define DEFAULT_LOW_SPACE_BYTES INT64_C(16777216)

struct log_files {
        const struct object_io *io;
        int root;
        int64_t limit_bytes;
        int64_t low_space_bytes;
};

/* An attempt's two files, open. */
struct attempt {
        int dir;
        int fd[N_LOG_STREAMS];
        struct log_head head[N_LOG_STREAMS];
};

static const char *const suffixes[N_LOG_STREAMS] = {"stdout", "stderr"};

/* --- Files --- */

int log_files_open(const char *path, const struct log_files_options *options, struct log_files **ret_logs)
{
        static const struct log_files_options usual = {.low_space_bytes = -1};
        struct log_files *logs;
        int r = 0;

        if (options == NULL)
                options = &usual;
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return object_io_error(errno);
        logs = calloc(1, sizeof(*logs));
        if (logs == NULL)
                return LESSOR_E_NOMEM;
        logs->io = options->io == NULL ? &object_io_system : options->io;
        logs->limit_bytes = options->limit_bytes == 0 ? LIMIT_LOG_BYTES : options->limit_bytes;
        logs->low_space_bytes =
                options->low_space_bytes < 0 ? DEFAULT_LOW_SPACE_BYTES : options->low_space_bytes;
        logs->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (logs->root < 0) {
                r = object_io_error(errno);
                free(logs);
                return r;
        }
        *ret_logs = logs;
        return 0;
}

struct log_files *log_files_free(struct log_files *logs)
{
        if (logs != NULL)
                close(logs->root);
        free(logs);
        return NULL;
}

static bool execution_valid(struct lessor_slice id)
{
        if (id.n == 0 || id.n > 64)
                return false;
        for (size_t i = 0; i < id.n; i++) {
                char c = id.p[i];

                if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-'))
                        return false;
        }
        return true;
}

static bool key_valid(const struct log_key *key)
{
        return lessor_object_repo_valid(key->repo) && lessor_object_hash_valid(key->task_hash) &&
               lessor_object_hash_valid(key->inputs_hash) && execution_valid(key->execution_id);
}

/* The name of a stream's file in its directory. */
static int name_of(const struct log_key *key, enum log_stream stream, struct buf *ret_name)
{
        return buf_printf(ret_name, "%.*s.%.*s.%.*s.%s", (int)key->task_hash.n, key->task_hash.p,
                          (int)key->inputs_hash.n, key->inputs_hash.p, (int)key->execution_id.n,
                          key->execution_id.p, suffixes[stream]);
}

static int step_into(const struct log_files *logs, int from, struct lessor_slice name, bool make, int *ret_fd)
{
        _cleanup_(buf_done) struct buf text;
        int fd, r;

        buf_init(&text);
        r = buf_slice(&text, name);
        if (r < 0)
                return r;
        fd = openat(from, text.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT && make) {
                if (logs->io->mkdirat(from, text.p, 0700) < 0 && errno != EEXIST)
                        return object_io_error(errno);
                if (logs->io->fsync(from) < 0)
                        return object_io_error(errno);
                fd = openat(from, text.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        }
        if (fd < 0)
                return object_io_error(errno);
        *ret_fd = fd;
        return 0;
}

/* The directory of an attempt's files. LESSOR_E_NOT_FOUND: there is none, and none was to be made. */
static int open_directory(const struct log_files *logs, const struct log_key *key, bool make, int *ret_fd)
{
        _cleanup_(object_io_close) int repo = -1;
        int r = step_into(logs, logs->root, key->repo, make, &repo);

        return r < 0 ? r : step_into(logs, repo, (struct lessor_slice){key->task_hash.p, 2}, make, ret_fd);
}

static void attempt_close(struct attempt *a)
{
        object_io_close(&a->dir);
        for (int i = 0; i < N_LOG_STREAMS; i++)
                object_io_close(&a->fd[i]);
}

static int open_streams(const struct log_key *key, int flags, struct attempt *a)
{
        for (int i = 0; i < N_LOG_STREAMS; i++) {
                _cleanup_(buf_done) struct buf name;
                int r;

                buf_init(&name);
                r = name_of(key, (enum log_stream)i, &name);
                if (r < 0)
                        return r;
                object_io_close(&a->fd[i]);
                a->fd[i] = openat(a->dir, name.p, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
                if (a->fd[i] < 0)
                        return object_io_error(errno);
        }
        return 0;
}

/* One append at a time: the lock is on the first file, which lives as long as the second. */
static int lock_streams(const struct log_key *key, struct attempt *a)
{
        struct stat st = {.st_nlink = 0};

        while (st.st_nlink == 0) {
                int r = open_streams(key, O_RDWR | O_CREAT, a);

                if (r < 0)
                        return r;
                while (flock(a->fd[LOG_STDOUT], LOCK_EX) < 0)
                        if (errno != EINTR)
                                return object_io_error(errno);
                /* While we waited it may have been removed. */
                if (fstat(a->fd[LOG_STDOUT], &st) < 0)
                        return object_io_error(errno);
        }
        return 0;
}

/* An append to both streams counts if it counts in both. */
static bool is_half(const struct log_head *mine, const struct log_head *other)
{
        return mine->now.streams == (1u << LOG_STDOUT | 1u << LOG_STDERR) && other->now.seq < mine->now.seq;
}

static int read_heads(struct attempt *a)
{
        int r = log_head_read(a->fd[LOG_STDOUT], &a->head[LOG_STDOUT]);

        if (r == 0)
                r = log_head_read(a->fd[LOG_STDERR], &a->head[LOG_STDERR]);
        if (r < 0)
                return r;
        if (is_half(&a->head[LOG_STDOUT], &a->head[LOG_STDERR]))
                log_head_step_back(&a->head[LOG_STDOUT]);
        else if (is_half(&a->head[LOG_STDERR], &a->head[LOG_STDOUT]))
                log_head_step_back(&a->head[LOG_STDERR]);
        return 0;
}

/* Opens an attempt for appending, with whatever a failed append left cut back. */
static int attempt_open(const struct log_files *logs, const struct log_key *key, struct attempt *a)
{
        int r = open_directory(logs, key, true, &a->dir);

        if (r == 0)
                r = lock_streams(key, a);
        if (r == 0)
                r = read_heads(a);
        for (int i = 0; r == 0 && i < N_LOG_STREAMS; i++)
                if (a->head[i].dirty)
                        r = log_head_clean(logs->io, a->fd[i], &a->head[i]);
        /* The names, once: as long as nothing was appended they may not be on disk. */
        if (r == 0 && a->head[LOG_STDOUT].now.seq == 0 && a->head[LOG_STDERR].now.seq == 0 &&
            logs->io->fsync(a->dir) < 0)
                r = object_io_error(errno);
        return r;
}

/* --- Appending --- */

/* What is to be added to one stream. */
struct addition {
        struct buf bytes;
        bool cut;
};

static bool is_continuation(char c)
{
        return ((unsigned char)c & 0xc0) == 0x80;
}

/* How many bytes the character that begins with `c` has; 1 for what begins none. */
static size_t character_len(char c)
{
        unsigned char u = (unsigned char)c;

        return u >= 0xf0 && u < 0xf8 ? 4 : u >= 0xe0 && u < 0xf0 ? 3 : u >= 0xc0 && u < 0xe0 ? 2 : 1;
}

/* How many of the first n bytes are left if a character that is not whole there is left out. */
static size_t whole_characters(const char *bytes, size_t n)
{
        size_t at = n;

        for (int i = 0; i < 3 && at > 0; i++) {
                at--;
                if (!is_continuation(bytes[at]))
                        return at + character_len(bytes[at]) > n ? at : n;
        }
        return n;
}

static int last_byte(const struct attempt *a, enum log_stream stream, const struct buf *added, char *ret_byte)
{
        int64_t length = a->head[stream].now.length;
        size_t n;

        *ret_byte = '\n';
        if (added->n > 0) {
                *ret_byte = added->p[added->n - 1];
                return 0;
        }
        return length == 0
                       ? 0
                       : object_io_read(a->fd[stream], ret_byte, 1, LOG_HEAD_BYTES + (off_t)length - 1, &n);
}

/* Adds a line that begins on a line of its own. */
static int add_line(const struct attempt *a, enum log_stream stream, struct addition *add,
                    struct lessor_slice line)
{
        char before;
        int r = last_byte(a, stream, &add->bytes, &before);

        if (r < 0)
                return r;
        if (before != '\n')
                buf_char(&add->bytes, '\n');
        buf_slice(&add->bytes, line);
        return buf_char(&add->bytes, '\n');
}

static int add_text(const struct log_files *logs, const struct attempt *a, enum log_stream stream,
                    struct addition *add, struct lessor_slice text)
{
        int64_t room = logs->limit_bytes - a->head[stream].now.length - (int64_t)add->bytes.n;
        _cleanup_(buf_done) struct buf marker;
        int r;

        buf_init(&marker);
        if (add->cut || text.n == 0)
                return 0;
        if (room >= 0 && text.n <= (uint64_t)room)
                return buf_slice(&add->bytes, text);
        add->cut = true;
        if (room > 0)
                buf_append(&add->bytes, text.p, whole_characters(text.p, (size_t)room));
        r = buf_printf(&marker, "[lessor: cut here: the log has reached its limit of %lld bytes]",
                       (long long)logs->limit_bytes);
        return r < 0 ? r : add_line(a, stream, add, buf_view(&marker));
}

static int write_addition(const struct log_files *logs, struct attempt *a, int stream,
                          const struct addition *add, struct log_slot *slot)
{
        struct log_slot *now = &a->head[stream].now;

        slot->from = now->length;
        slot->length = now->length + (int64_t)add->bytes.n;
        slot->cut = add->cut;
        log_head_sum(add->bytes.p, add->bytes.n, slot->sum);
        return object_io_write(logs->io, a->fd[stream], add->bytes.p, add->bytes.n,
                               LOG_HEAD_BYTES + (off_t)now->length);
}

static int write_all(const struct log_files *logs, struct attempt *a, const struct addition *add,
                     unsigned streams)
{
        struct log_slot slots[N_LOG_STREAMS];
        uint64_t seq = 0;
        int r = 0;

        for (int i = 0; i < N_LOG_STREAMS; i++)
                if (a->head[i].highest_seq > seq)
                        seq = a->head[i].highest_seq;
        for (int i = 0; r == 0 && i < N_LOG_STREAMS; i++) {
                slots[i] = (struct log_slot){.seq = seq + 1, .streams = streams};
                if (streams & 1u << i)
                        r = write_addition(logs, a, i, &add[i], &slots[i]);
        }
        for (int i = 0; r == 0 && i < N_LOG_STREAMS; i++)
                if (streams & 1u << i)
                        r = log_head_write(logs->io, a->fd[i], !a->head[i].place, &slots[i]);
        for (int i = 0; r == 0 && i < N_LOG_STREAMS; i++)
                if ((streams & 1u << i) && logs->io->fsync(a->fd[i]) < 0)
                        r = object_io_error(errno);
        return r;
}

static int check_space(const struct log_files *logs)
{
        struct statvfs v;

        if (logs->low_space_bytes == 0)
                return 0;
        if (fstatvfs(logs->root, &v) < 0)
                return object_io_error(errno);
        return (uint64_t)v.f_bavail < (uint64_t)logs->low_space_bytes / v.f_frsize ? LESSOR_E_LOW_SPACE : 0;
}

/* Writes what was added to an open attempt, or undoes it. */
static int append(const struct log_files *logs, struct attempt *a, const struct addition *add)
{
        unsigned streams = 0;
        int r;

        for (int i = 0; i < N_LOG_STREAMS; i++)
                if (add[i].bytes.n > 0)
                        streams |= 1u << i;
        if (streams == 0)
                return 0;
        r = check_space(logs);
        if (r < 0)
                return r;
        r = write_all(logs, a, add, streams);
        /* What cannot be undone now is undone by the next one who opens it, unless all of it got there. */
        for (int i = 0; r < 0 && i < N_LOG_STREAMS; i++)
                if (streams & 1u << i)
                        (void)log_head_clean(logs->io, a->fd[i], &a->head[i]);
        return r;
}

static void additions_init(struct addition add[N_LOG_STREAMS], const struct attempt *a)
{
        for (int i = 0; i < N_LOG_STREAMS; i++)
                add[i].cut = a->head[i].now.cut;
}

static void additions_done(struct addition (*add)[N_LOG_STREAMS])
{
        for (int i = 0; i < N_LOG_STREAMS; i++)
                buf_done(&(*add)[i].bytes);
}

int log_files_append(struct log_files *logs, const struct log_key *key, const struct log_chunk *chunks,
                     size_t n_chunks)
{
        _cleanup_(attempt_close) struct attempt a = {.dir = -1, .fd = {-1, -1}};
        _cleanup_(additions_done) struct addition add[N_LOG_STREAMS] = {{.cut = false}};
        int r;

        if (!key_valid(key))
                return LESSOR_E_INVALID;
        r = attempt_open(logs, key, &a);
        if (r < 0)
                return r;
        additions_init(add, &a);
        for (size_t i = 0; r == 0 && i < n_chunks; i++)
                r = add_text(logs, &a, chunks[i].stream, &add[chunks[i].stream], chunks[i].bytes);
        return r < 0 ? r : append(logs, &a, add);
}

int log_files_say(struct log_files *logs, const struct log_key *key, struct lessor_slice line)
{
        _cleanup_(attempt_close) struct attempt a = {.dir = -1, .fd = {-1, -1}};
        _cleanup_(additions_done) struct addition add[N_LOG_STREAMS] = {{.cut = false}};
        int r;

        if (!key_valid(key))
                return LESSOR_E_INVALID;
        r = attempt_open(logs, key, &a);
        if (r < 0)
                return r;
        additions_init(add, &a);
        if (a.head[LOG_STDERR].now.length + (int64_t)line.n + 2 > logs->limit_bytes + LIMIT_LOG_TAIL_BYTES)
                return 0;
        r = add_line(&a, LOG_STDERR, &add[LOG_STDERR], line);
        return r < 0 ? r : append(logs, &a, add);
}

/* --- Reading --- */

static int read_text(const struct attempt *a, enum log_stream stream, int64_t offset, size_t max, bool ended,
                     struct buf *out)
{
        int64_t left = a->head[stream].now.length - offset;
        size_t before = out->n;
        size_t n = 0;
        bool at_end;
        int r;

        if (left <= 0)
                return 0;
        at_end = (uint64_t)left <= max;
        r = buf_reserve(out, at_end ? (size_t)left : max);
        if (r == 0)
                r = object_io_read(a->fd[stream], out->p + before, at_end ? (size_t)left : max,
                                   LOG_HEAD_BYTES + (off_t)offset, &n);
        if (r < 0)
                return r;
        if (!at_end || !ended)
                n = whole_characters(out->p + before, n);
        out->n = before + n;
        out->p[out->n] = '\0';
        return 0;
}

/* LESSOR_E_NOT_FOUND: it was never written. */
static int open_to_read(struct log_files *logs, const struct log_key *key, struct attempt *a)
{
        int r;

        if (!key_valid(key))
                return LESSOR_E_INVALID;
        r = open_directory(logs, key, false, &a->dir);
        if (r == 0)
                r = open_streams(key, O_RDONLY, a);
        return r < 0 ? r : read_heads(a);
}

int log_files_read(struct log_files *logs, const struct log_key *key, enum log_stream stream, int64_t offset,
                   size_t max, bool ended, struct buf *out, struct log_window *ret_window)
{
        _cleanup_(attempt_close) struct attempt a = {.dir = -1, .fd = {-1, -1}};
        int r;

        if (offset < 0 || max < 4)
                return LESSOR_E_INVALID;
        r = open_to_read(logs, key, &a);
        if (r == LESSOR_E_NOT_FOUND) {
                *ret_window = (struct log_window){.offset = offset};
                return 0;
        }
        if (r == 0)
                r = read_text(&a, stream, offset, max, ended, out);
        if (r < 0)
                return r;
        *ret_window = (struct log_window){offset, a.head[stream].now.length, a.head[stream].now.cut};
        return 0;
}

/* How many of n bytes from `offset` on end on a character's boundary. */
static int whole_length(int fd, int64_t offset, int64_t n, int64_t *ret_n)
{
        char tail[4];
        size_t want = n < (int64_t)sizeof(tail) ? (size_t)n : sizeof(tail), got;
        int r = object_io_read(fd, tail, want, LOG_HEAD_BYTES + (off_t)(offset + n) - (off_t)want, &got);

        if (r == 0)
                *ret_n = n - (int64_t)(got - whole_characters(tail, got));
        return r;
}

int log_files_locate(struct log_files *logs, const struct log_key *key, enum log_stream stream,
                     int64_t offset, int64_t max, bool ended, struct log_place *ret_place,
                     struct log_window *ret_window)
{
        _cleanup_(attempt_close) struct attempt a = {.dir = -1, .fd = {-1, -1}};
        struct log_place place = {.fd = -1, .at = LOG_HEAD_BYTES + offset};
        int64_t left;
        int r;

        if (offset < 0 || max < 4)
                return LESSOR_E_INVALID;
        r = open_to_read(logs, key, &a);
        if (r < 0 && r != LESSOR_E_NOT_FOUND)
                return r;
        *ret_window = (struct log_window){.offset = offset};
        if (r == 0) {
                *ret_window = (struct log_window){offset, a.head[stream].now.length, a.head[stream].now.cut};
                left = ret_window->length - offset;
                place.n = left > max ? max : left;
        }
        if (place.n > 0 && (place.n < ret_window->length - offset || !ended)) {
                r = whole_length(a.fd[stream], offset, place.n, &place.n);
                if (r < 0)
                        return r;
        }
        if (place.n > 0) {
                place.fd = a.fd[stream];
                a.fd[stream] = -1;
        } else {
                place.n = 0;
        }
        *ret_place = place;
        return 0;
}

int log_files_remove(struct log_files *logs, const struct log_key *key)
{
        _cleanup_(object_io_close) int dir = -1;
        int r;

        if (!key_valid(key))
                return LESSOR_E_INVALID;
        r = open_directory(logs, key, false, &dir);
        /* The first last: whoever has locked it has the other one too. */
        for (int i = N_LOG_STREAMS - 1; r == 0 && i >= 0; i--) {
                _cleanup_(buf_done) struct buf name;

                buf_init(&name);
                r = name_of(key, (enum log_stream)i, &name);
                if (r == 0 && logs->io->unlinkat(dir, name.p, 0) < 0 && errno != ENOENT)
                        r = object_io_error(errno);
        }
        return r == LESSOR_E_NOT_FOUND ? 0 : r;
}

/* --- Sweeping --- */

struct sweep {
        struct log_files *logs;
        int64_t before_ms; /* written to last before this; epoch ms */
        int (*wants)(void *context, const struct log_key *key);
        void *context;
        size_t n_removed;
};

/* The key in "TASK.INPUTS.EXECUTION.STREAM", borrowed from the name. */
static bool key_of(const char *name, struct lessor_slice repo, struct log_key *ret_key)
{
        const size_t hash = SHA256_HEX_LEN, before = 2 * (hash + 1);
        const char *dot = strrchr(name, '.');

        if (strlen(name) <= before || name[hash] != '.' || name[before - 1] != '.' || dot < name + before ||
            (strcmp(dot + 1, suffixes[LOG_STDOUT]) != 0 && strcmp(dot + 1, suffixes[LOG_STDERR]) != 0))
                return false;
        *ret_key = (struct log_key){repo,
                                    {name, hash},
                                    {name + hash + 1, hash},
                                    {name + before, (size_t)(dot - (name + before))}};
        return key_valid(ret_key);
}

/* When either stream was written to last; 0: neither is there (any more). */
static int last_written(int dir, const struct log_key *key, int64_t *ret_ms)
{
        int64_t last_ms = 0;

        for (int i = 0; i < N_LOG_STREAMS; i++) {
                _cleanup_(buf_done) struct buf name;
                struct stat st;
                int r;

                buf_init(&name);
                r = name_of(key, (enum log_stream)i, &name);
                if (r < 0)
                        return r;
                if (fstatat(dir, name.p, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                        int64_t ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;

                        last_ms = ms > last_ms ? ms : last_ms;
                }
        }
        *ret_ms = last_ms;
        return 0;
}

static int sweep_attempt(struct sweep *sweep, int dir, const struct log_key *key)
{
        int64_t last_ms = 0;
        int r = last_written(dir, key, &last_ms);

        if (r < 0 || last_ms == 0 || last_ms >= sweep->before_ms)
                return r;
        r = sweep->wants(sweep->context, key);
        if (r != 0)
                return r < 0 ? r : 0;
        r = log_files_remove(sweep->logs, key);
        sweep->n_removed += r == 0;
        return r;
}

/* Calls for each entry of a directory below another one; one that is none is passed over. */
static int sweep_shard(struct sweep *sweep, int repo, struct lessor_slice repo_name, const char *shard)
{
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        _cleanup_(object_io_close) int dir = -1;
        const char *name;
        int r = step_into(sweep->logs, repo, lessor_slice_of(shard), false, &dir);

        if (r == 0)
                r = fs_entries(dir, &entries);
        while (r == 0 && (name = fs_each(entries)) != NULL) {
                struct log_key key;

                if (key_of(name, repo_name, &key))
                        r = sweep_attempt(sweep, dir, &key);
        }
        return r == LESSOR_E_NOT_FOUND ? 0 : r;
}

static int sweep_repo(struct sweep *sweep, const char *repo_name)
{
        _cleanup_(fs_entries_close) DIR *entries = NULL;
        _cleanup_(object_io_close) int repo = -1;
        const char *shard;
        int r = step_into(sweep->logs, sweep->logs->root, lessor_slice_of(repo_name), false, &repo);

        if (r == 0)
                r = fs_entries(repo, &entries);
        while (r == 0 && (shard = fs_each(entries)) != NULL)
                r = sweep_shard(sweep, repo, lessor_slice_of(repo_name), shard);
        return r == LESSOR_E_NOT_FOUND ? 0 : r;
}

int log_files_sweep(struct log_files *logs, int64_t min_age_ms,
                    int (*wants)(void *context, const struct log_key *key), void *context,
                    size_t *ret_n_removed)
{
        struct sweep sweep = {.logs = logs,
                              .before_ms = clock_now_ms(clock_wall()) - min_age_ms,
                              .wants = wants,
                              .context = context};
        _cleanup_(fs_entries_close) DIR *repos = NULL;
        const char *repo;
        int r = fs_entries(logs->root, &repos);

        while (r == 0 && (repo = fs_each(repos)) != NULL)
                if (lessor_object_repo_valid(lessor_slice_of(repo)))
                        r = sweep_repo(&sweep, repo);
        *ret_n_removed = sweep.n_removed;
        return r;
}
