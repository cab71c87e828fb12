/* SPDX-License-Identifier: MIT */
#include "routing/directory/source.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "lessor/error.h"

#define HASH_BYTES crypto_generichash_BYTES
/* A file that was written less than this before it was looked at may be written again within the same time
 * stamp. */
#define SETTLED_NS 100000000

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* What tells one state of a file from another without reading it. */
struct file_state {
        bool there;
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec modified;
        struct timespec changed;
};

struct source {
        char *path;
        struct projection_cell *projections; /* one of the two */
        struct policy_cell *policies;
        pthread_mutex_t lock;
        struct file_state state; /* when it was read last */
        bool settled;            /* `state` would differ had the file been written since */
        bool has_hash;
        unsigned char hash[HASH_BYTES]; /* of what was read last, whether it was taken or not */
        int last_result;                /* of reading that */
};

static int source_new(const char *path, struct source **ret_source)
{
        struct source *s = calloc(1, sizeof(*s));

        if (s == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_init(&s->lock, NULL);
        s->path = strdup(path);
        if (s->path == NULL) {
                source_free(s);
                return LESSOR_E_NOMEM;
        }
        *ret_source = s;
        return 0;
}

int source_new_projection(const char *path, struct projection_cell *cell, struct source **ret_source)
{
        int r = source_new(path, ret_source);

        if (r == 0)
                (*ret_source)->projections = cell;
        return r;
}

int source_new_policy(const char *path, struct policy_cell *cell, struct source **ret_source)
{
        int r = source_new(path, ret_source);

        if (r == 0)
                (*ret_source)->policies = cell;
        return r;
}

struct source *source_free(struct source *s)
{
        if (s == NULL)
                return NULL;
        pthread_mutex_destroy(&s->lock);
        free(s->path);
        free(s);
        return NULL;
}

static const char *kind_of(const struct source *s)
{
        return s->projections != NULL ? "projection" : "policy";
}

static struct file_state look(const char *path)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return (struct file_state){.there = false};
        return (struct file_state){.there = true,
                                   .device = st.st_dev,
                                   .inode = st.st_ino,
                                   .size = st.st_size,
                                   .modified = st.st_mtim,
                                   .changed = st.st_ctim};
}

static bool same_time(struct timespec a, struct timespec b)
{
        return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_state(const struct file_state *a, const struct file_state *b)
{
        if (!a->there || !b->there)
                return a->there == b->there;
        return a->device == b->device && a->inode == b->inode && a->size == b->size &&
               same_time(a->modified, b->modified) && same_time(a->changed, b->changed);
}

static bool long_ago(struct timespec then)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (now.tv_sec - then.tv_sec) * 1000000000LL + (now.tv_nsec - then.tv_nsec) > SETTLED_NS;
}

static void log_outcome(const struct source *s, int r, const char *problem)
{
        if (r < 0)
                log_error("source-refused", LOG_CSTR("what", kind_of(s)), LOG_CSTR("file", s->path),
                          LOG_ERROR_CODE(r), LOG_CSTR("problem", problem));
        else
                log_info("source-replaced", LOG_CSTR("what", kind_of(s)), LOG_CSTR("file", s->path));
}

static int take_text(struct source *s, struct lessor_slice text)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        const char *problem = NULL;
        struct projection *projection;
        struct policy *policy;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        if (s->projections != NULL) {
                r = projection_from_json(text, arena, &projection, &problem);
                if (r == 0)
                        projection_cell_put(s->projections, projection);
        } else {
                r = policy_from_json(text, arena, &policy, &problem);
                if (r == 0)
                        policy_cell_put(s->policies, policy);
        }
        log_outcome(s, r, problem);
        return r;
}

/* `ret_new`: the text is another one than last time. The same text again is not read again, unless memory was
 * short. */
static int read_source(struct source *s, bool *ret_new)
{
        _cleanup_(buf_done) struct buf text;
        unsigned char hash[HASH_BYTES];
        struct file_state before = look(s->path);
        struct file_state after;
        int r;

        buf_init(&text);
        *ret_new = true;
        r = file_read(s->path, LIMIT_FILE_BYTES, &text);
        after = look(s->path);
        s->settled = same_state(&before, &after) && (!after.there || long_ago(after.changed));
        s->state = after;
        if (r < 0) {
                s->has_hash = false;
                log_outcome(s, r, NULL);
                return r;
        }
        crypto_generichash(hash, sizeof(hash), (const unsigned char *)buf_view(&text).p, text.n, NULL, 0);
        if (s->has_hash && s->last_result != LESSOR_E_NOMEM && memcmp(hash, s->hash, sizeof(hash)) == 0) {
                *ret_new = false;
                return s->last_result;
        }
        memcpy(s->hash, hash, sizeof(hash));
        s->has_hash = true;
        s->last_result = take_text(s, buf_view(&text));
        return s->last_result;
}

int source_reload(struct source *s)
{
        bool is_new;
        int r;

        pthread_mutex_lock(&s->lock);
        s->has_hash = false; /* asked for by a person: the answer is in the log even if nothing is new */
        r = read_source(s, &is_new);
        pthread_mutex_unlock(&s->lock);
        return r;
}

int source_check(struct source *s)
{
        struct file_state now = look(s->path);
        bool is_new = false;
        int r = 0;

        pthread_mutex_lock(&s->lock);
        if (!s->settled || !same_state(&now, &s->state))
                r = read_source(s, &is_new);
        pthread_mutex_unlock(&s->lock);
        if (!is_new)
                return 0;
        return r < 0 ? r : 1;
}
