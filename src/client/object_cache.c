/* SPDX-License-Identifier: MIT */
#include "client/object_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/cache_index.h"
#include "client/dir_tree.h"

#define SHARDS    256
#define READ_STEP 65536u
#define TOUCH_MS  600000
#define WAIT_MS   100 /* between looks whether the waiting is to end */

struct object_cache {
        char *path;
        int lock_fd;
        int64_t budget_bytes;
        pthread_mutex_t mutex; /* guards the rest; not held while bytes are read or written */
        pthread_cond_t changed;
        struct cache_index index;
        bool has_index;
        unsigned long n_written;
};

static int error_of(int number)
{
        switch (number) {
        case ENOENT:
        case ENOTDIR:
                return LESSOR_E_NOT_FOUND;
        case EACCES:
        case EPERM:
        case EROFS:
                return LESSOR_E_PERMISSION;
        case ENOSPC:
        case EDQUOT:
                return LESSOR_E_LOW_SPACE;
        default:
                return LESSOR_E_IO;
        }
}

static bool is_hash(const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
                        return false;
        return true;
}

static char *object_path(const struct object_cache *cache, struct lessor_slice hash)
{
        char *path;

        if (hash.n != SHA256_HEX_LEN || !is_hash(hash.p, hash.n))
                return NULL;
        return asprintf(&path, "%s/objects/%.2s/%.62s", cache->path, hash.p, hash.p + 2) < 0 ? NULL : path;
}

static int make_dir(const char *path)
{
        return mkdir(path, 0700) < 0 && errno != EEXIST ? error_of(errno) : 0;
}

static int make_dirs(struct object_cache *cache)
{
        _cleanup_(buf_done) struct buf path = {0};
        int r = make_dir(cache->path);

        buf_printf(&path, "%s/tmp", cache->path);
        if (r == 0)
                r = buf_failed(&path);
        if (r == 0)
                r = dir_tree_remove(path.p);
        if (r == 0)
                r = make_dir(path.p);
        buf_clear(&path);
        buf_printf(&path, "%s/objects", cache->path);
        if (r == 0)
                r = buf_failed(&path);
        if (r == 0)
                r = make_dir(path.p);
        for (unsigned i = 0; r == 0 && i < SHARDS; i++) {
                buf_clear(&path);
                buf_printf(&path, "%s/objects/%02x", cache->path, i);
                r = buf_failed(&path) < 0 ? LESSOR_E_NOMEM : make_dir(path.p);
        }
        return r;
}

static int lock(struct object_cache *cache, struct buf *ret_problem)
{
        _cleanup_(buf_done) struct buf path = {0};

        buf_printf(&path, "%s/cache.lock", cache->path);
        if (buf_failed(&path) < 0)
                return LESSOR_E_NOMEM;
        cache->lock_fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (cache->lock_fd < 0)
                return error_of(errno);
        if (flock(cache->lock_fd, LOCK_EX | LOCK_NB) == 0)
                return 0;
        buf_text(ret_problem, "another agent uses this cache");
        return LESSOR_E_BUSY;
}

/* What is there already. */
struct found {
        char hash[SHA256_HEX_LEN + 1];
        int64_t size;
        int64_t used_ns;
};
struct found_list {
        struct found *items;
        size_t n, room;
};

static int add_found(struct found_list *list, const char *shard, const char *name, const struct stat *st)
{
        struct found *found;

        if (list->n == list->room) {
                size_t room = list->room == 0 ? 256 : 2 * list->room;
                struct found *grown = reallocarray(list->items, room, sizeof(*grown));

                if (grown == NULL)
                        return LESSOR_E_NOMEM;
                list->items = grown;
                list->room = room;
        }
        found = &list->items[list->n++];
        snprintf(found->hash, sizeof(found->hash), "%.2s%.62s", shard, name);
        found->size = st->st_size;
        found->used_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
        return 0;
}

static int scan_shard(struct object_cache *cache, unsigned i, struct found_list *list)
{
        _cleanup_(buf_done) struct buf path = {0};
        char shard[8];
        struct dirent *entry;
        DIR *dir;
        int r = 0;

        snprintf(shard, sizeof(shard), "%02x", i);
        buf_printf(&path, "%s/objects/%s", cache->path, shard);
        dir = buf_failed(&path) < 0 ? NULL : opendir(path.p);
        if (dir == NULL)
                return LESSOR_E_IO;
        while (r == 0 && (entry = readdir(dir)) != NULL) {
                struct stat st;

                if (strlen(entry->d_name) != SHA256_HEX_LEN - 2 ||
                    !is_hash(entry->d_name, SHA256_HEX_LEN - 2) ||
                    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
                        continue;
                r = add_found(list, shard, entry->d_name, &st);
        }
        closedir(dir);
        return r;
}

static int by_use(const void *a, const void *b)
{
        const struct found *x = a, *y = b;

        return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static int fill_index(struct object_cache *cache)
{
        struct found_list list = {0};
        int r = 0;

        for (unsigned i = 0; r == 0 && i < SHARDS; i++)
                r = scan_shard(cache, i, &list);
        if (list.n > 0)
                qsort(list.items, list.n, sizeof(*list.items), by_use);
        for (size_t i = 0; r == 0 && i < list.n; i++) {
                struct cache_entry *entry =
                        cache_index_add(&cache->index, lessor_slice_of(list.items[i].hash));

                if (entry == NULL)
                        r = LESSOR_E_NOMEM;
                else
                        cache_index_arrived(&cache->index, entry, list.items[i].size, CACHE_UNCHECKED);
        }
        free(list.items);
        return r;
}

/* With the mutex. Removing a file takes no time worth giving it up for. */
static void shrink(struct object_cache *cache, int64_t budget_bytes)
{
        struct cache_entry *entry;

        while ((entry = cache_index_excess(&cache->index, budget_bytes)) != NULL) {
                char *path = object_path(cache, lessor_slice_of(entry->hash));

                if (path != NULL)
                        unlink(path);
                free(path);
                cache_index_remove(&cache->index, entry);
        }
}

int object_cache_open(const char *path, int64_t budget_bytes, struct object_cache **ret_cache,
                      struct buf *ret_problem)
{
        _cleanup_(object_cache_freep) struct object_cache *cache = calloc(1, sizeof(*cache));
        unsigned char key[16];
        int r;

        buf_clear(ret_problem);
        if (cache == NULL)
                return LESSOR_E_NOMEM;
        cache->lock_fd = -1;
        cache->budget_bytes = budget_bytes;
        pthread_mutex_init(&cache->mutex, NULL);
        pthread_cond_init(&cache->changed, NULL);
        cache->path = strdup(path);
        if (cache->path == NULL || sodium_init() < 0)
                return LESSOR_E_NOMEM;
        randombytes_buf(key, sizeof(key));
        r = cache_index_init(&cache->index, key);
        cache->has_index = r == 0;
        if (r == 0)
                r = make_dir(path);
        if (r == 0)
                r = lock(cache, ret_problem);
        if (r == 0)
                r = make_dirs(cache);
        if (r == 0)
                r = fill_index(cache);
        if (r < 0)
                return r;
        shrink(cache, budget_bytes);
        *ret_cache = TAKE(cache);
        return 0;
}

struct object_cache *object_cache_free(struct object_cache *cache)
{
        if (cache == NULL)
                return NULL;
        if (cache->has_index)
                cache_index_done(&cache->index);
        pthread_cond_destroy(&cache->changed);
        pthread_mutex_destroy(&cache->mutex);
        if (cache->lock_fd >= 0)
                close(cache->lock_fd);
        free(cache->path);
        free(cache);
        return NULL;
}

int64_t object_cache_bytes(struct object_cache *cache)
{
        int64_t bytes;

        pthread_mutex_lock(&cache->mutex);
        bytes = cache->index.bytes;
        pthread_mutex_unlock(&cache->mutex);
        return bytes;
}

/* Whether the file is what its name says. */
static bool is_whole(const char *path, const char *hash, struct lessor_stop *stop)
{
        char *piece = malloc(READ_STEP), found[SHA256_HEX_LEN + 1];
        int fd = piece == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        struct sha256 sha;
        ssize_t n = -1;

        sha256_start(&sha);
        while (fd >= 0 && !lessor_stop_raised(stop)) {
                n = read(fd, piece, READ_STEP);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                sha256_add(&sha, (struct lessor_slice){piece, (size_t)n});
        }
        if (fd >= 0)
                close(fd);
        free(piece);
        sha256_end_hex(&sha, found);
        return fd >= 0 && n == 0 && strcmp(found, hash) == 0;
}

/*
 * With the mutex, which it gives up while it reads. The entry is CACHE_COMING meanwhile. Returns 0;
 * LESSOR_E_MISMATCH (it stays so: fetch it); LESSOR_E_CLOSED.
 */
static int check_entry(struct object_cache *cache, struct cache_entry *entry, struct lessor_stop *stop)
{
        char *path = object_path(cache, lessor_slice_of(entry->hash));
        int64_t size = entry->size;
        int r = LESSOR_E_MISMATCH;

        cache_index_check(&cache->index, entry);
        pthread_mutex_unlock(&cache->mutex);
        if (path != NULL && is_whole(path, entry->hash, stop))
                r = 0;
        else if (lessor_stop_raised(stop))
                r = LESSOR_E_CLOSED;
        else if (path != NULL)
                unlink(path);
        free(path);
        pthread_mutex_lock(&cache->mutex);
        if (r != LESSOR_E_MISMATCH) {
                cache_index_arrived(&cache->index, entry, size, r == 0 ? CACHE_PRESENT : CACHE_UNCHECKED);
                pthread_cond_broadcast(&cache->changed);
        }
        return r;
}

/* Tells the file that it is used, now and then: what a restart knows of the order need not be exact. */
static void touch(const struct object_cache *cache, struct cache_entry *entry)
{
        const struct timespec now[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
        int64_t now_ms = clock_monotonic_ms();
        char *path;

        if (entry->used_ms != 0 && now_ms - entry->used_ms < TOUCH_MS)
                return;
        entry->used_ms = now_ms;
        path = object_path(cache, lessor_slice_of(entry->hash));
        if (path != NULL)
                utimensat(AT_FDCWD, path, now, AT_SYMLINK_NOFOLLOW);
        free(path);
}

static void wait_a_while(struct object_cache *cache)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WAIT_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&cache->changed, &cache->mutex, &until);
}

/* With the mutex. */
static int want(struct object_cache *cache, struct lessor_slice hash, bool wait, struct lessor_stop *stop,
                enum cache_want *ret_want)
{
        for (;;) {
                struct cache_entry *entry = cache_index_find(&cache->index, hash);

                if (entry == NULL) {
                        *ret_want = CACHE_FETCH;
                        return cache_index_add(&cache->index, hash) == NULL ? LESSOR_E_NOMEM : 0;
                }
                if (entry->state == CACHE_UNCHECKED) {
                        int r = check_entry(cache, entry, stop);

                        *ret_want = CACHE_FETCH; /* and it is marked as coming already */
                        if (r < 0)
                                return r == LESSOR_E_MISMATCH ? 0 : r;
                }
                if (entry->state == CACHE_PRESENT) {
                        cache_index_pin(&cache->index, entry);
                        touch(cache, entry);
                        *ret_want = CACHE_HAVE;
                        return 0;
                }
                if (!wait) {
                        *ret_want = CACHE_WAIT;
                        return 0;
                }
                if (lessor_stop_raised(stop))
                        return LESSOR_E_CLOSED;
                wait_a_while(cache);
        }
}

int object_cache_want(struct object_cache *cache, struct lessor_slice hash, bool wait,
                      struct lessor_stop *stop, enum cache_want *ret_want)
{
        int r;

        pthread_mutex_lock(&cache->mutex);
        r = want(cache, hash, wait, stop, ret_want);
        pthread_mutex_unlock(&cache->mutex);
        return r;
}

void object_cache_give_up(struct object_cache *cache, struct lessor_slice hash)
{
        struct cache_entry *entry;

        pthread_mutex_lock(&cache->mutex);
        entry = cache_index_find(&cache->index, hash);
        if (entry != NULL && entry->state == CACHE_COMING)
                cache_index_remove(&cache->index, entry);
        pthread_cond_broadcast(&cache->changed);
        pthread_mutex_unlock(&cache->mutex);
}

static void writer_done(struct cache_writer *writer)
{
        if (writer->fd >= 0)
                close(writer->fd);
        writer->fd = -1;
        free(writer->path);
        writer->path = NULL;
}

int object_cache_begin(struct object_cache *cache, struct lessor_slice hash, struct cache_writer *ret_writer)
{
        struct cache_writer writer = {.cache = cache, .fd = -1};
        unsigned long number;
        int r = 0;

        memcpy(writer.hash, hash.p, SHA256_HEX_LEN);
        sha256_start(&writer.sha);
        pthread_mutex_lock(&cache->mutex);
        number = cache->n_written++;
        pthread_mutex_unlock(&cache->mutex);
        if (asprintf(&writer.path, "%s/tmp/%lu", cache->path, number) < 0) {
                writer.path = NULL;
                r = LESSOR_E_NOMEM;
        } else {
                writer.fd = open(writer.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
                if (writer.fd < 0)
                        r = error_of(errno) == LESSOR_E_LOW_SPACE ? LESSOR_E_LOW_SPACE : LESSOR_E_IO;
        }
        if (r < 0) {
                writer_done(&writer);
                object_cache_give_up(cache, hash);
                return r;
        }
        *ret_writer = writer;
        return 0;
}

int cache_writer_add(struct cache_writer *writer, struct lessor_slice bytes)
{
        bool made_room = false;

        sha256_add(&writer->sha, bytes);
        while (bytes.n > 0) {
                ssize_t n = write(writer->fd, bytes.p, bytes.n);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && error_of(errno) == LESSOR_E_LOW_SPACE && !made_room) {
                        pthread_mutex_lock(&writer->cache->mutex);
                        shrink(writer->cache, 0);
                        pthread_mutex_unlock(&writer->cache->mutex);
                        made_room = true;
                        continue;
                }
                if (n < 0)
                        return error_of(errno) == LESSOR_E_LOW_SPACE ? LESSOR_E_LOW_SPACE : LESSOR_E_IO;
                bytes.p += n;
                bytes.n -= (size_t)n;
                writer->size += n;
        }
        return 0;
}

int cache_writer_restart(struct cache_writer *writer)
{
        writer->size = 0;
        sha256_start(&writer->sha);
        if (ftruncate(writer->fd, 0) < 0 || lseek(writer->fd, 0, SEEK_SET) < 0)
                return LESSOR_E_IO;
        return 0;
}

static int move_in(struct cache_writer *writer)
{
        char found[SHA256_HEX_LEN + 1], *path;
        int r;

        sha256_end_hex(&writer->sha, found);
        if (strcmp(found, writer->hash) != 0)
                return LESSOR_E_MISMATCH;
        path = object_path(writer->cache, lessor_slice_of(writer->hash));
        if (path == NULL)
                return LESSOR_E_IO;
        r = rename(writer->path, path) < 0 ? LESSOR_E_IO : 0;
        free(path);
        return r;
}

int cache_writer_commit(struct cache_writer *writer)
{
        struct object_cache *cache = writer->cache;
        struct cache_entry *entry;
        int r = move_in(writer);

        if (r < 0) {
                cache_writer_abort(writer);
                return r;
        }
        pthread_mutex_lock(&cache->mutex);
        entry = cache_index_find(&cache->index, lessor_slice_of(writer->hash));
        if (entry != NULL) {
                cache_index_arrived(&cache->index, entry, writer->size, CACHE_PRESENT);
                entry->used_ms = clock_monotonic_ms();
                cache_index_pin(&cache->index, entry);
        }
        shrink(cache, cache->budget_bytes);
        pthread_cond_broadcast(&cache->changed);
        pthread_mutex_unlock(&cache->mutex);
        writer_done(writer);
        return 0;
}

void cache_writer_abort(struct cache_writer *writer)
{
        if (writer->path != NULL)
                unlink(writer->path);
        writer_done(writer);
        object_cache_give_up(writer->cache, lessor_slice_of(writer->hash));
}

int object_cache_read(struct object_cache *cache, struct lessor_slice hash)
{
        char *path = object_path(cache, hash);
        int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

        free(path);
        return fd < 0 ? LESSOR_E_IO : fd;
}

void object_cache_unpin(struct object_cache *cache, struct lessor_slice hash)
{
        struct cache_entry *entry;

        pthread_mutex_lock(&cache->mutex);
        entry = cache_index_find(&cache->index, hash);
        if (entry != NULL && entry->pins > 0)
                cache_index_unpin(&cache->index, entry);
        shrink(cache, cache->budget_bytes);
        pthread_mutex_unlock(&cache->mutex);
}
