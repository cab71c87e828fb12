/* SPDX-License-Identifier: MIT */
#include "lessor/object_store.h"

#include "base/limits.h"

static bool alphanumeric(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool lessor_object_repo_valid(struct lessor_slice repo)
{
        if (repo.n == 0 || repo.n > LIMIT_REPO_BYTES || !alphanumeric(repo.p[0]))
                return false;
        for (size_t i = 1; i < repo.n; i++) {
                char c = repo.p[i];

                if (!alphanumeric(c) && c != '.' && c != '_' && c != '-')
                        return false;
        }
        return true;
}

bool lessor_object_hash_valid(struct lessor_slice hash)
{
        if (hash.n != 64)
                return false;
        for (size_t i = 0; i < hash.n; i++) {
                char c = hash.p[i];

                if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
                        return false;
        }
        return true;
}

static bool named(struct lessor_slice repo, struct lessor_slice hash)
{
        return lessor_object_repo_valid(repo) && lessor_object_hash_valid(hash);
}

int lessor_object_put(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                      int64_t size, struct lessor_object_writer **ret_writer)
{
        if (!lessor_object_repo_valid(repo) || (hash.p != NULL && !lessor_object_hash_valid(hash)) ||
            size < -1)
                return LESSOR_E_INVALID;
        if (size > LIMIT_OBJECT_BYTES)
                return LESSOR_E_TOO_LARGE;
        return s->ops->put(s, repo, hash, size, ret_writer);
}

int lessor_object_stage(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                        struct lessor_slice hash, int64_t size, struct lessor_object_writer **ret_writer)
{
        if (!named(stage->repo, hash) || size < 0)
                return LESSOR_E_INVALID;
        if (size > LIMIT_OBJECT_BYTES)
                return LESSOR_E_TOO_LARGE;
        return s->ops->stage(s, stage, hash, size, ret_writer);
}

int lessor_object_write(struct lessor_object_writer *w, struct lessor_slice bytes)
{
        return w->store->ops->write(w, bytes);
}

int lessor_object_finish(struct lessor_object_writer *w, struct lessor_arena *arena,
                         struct lessor_object_written *ret_written)
{
        return w->store->ops->finish(w, arena, ret_written);
}

struct lessor_object_writer *lessor_object_writer_free(struct lessor_object_writer *w)
{
        return w == NULL ? NULL : w->store->ops->writer_free(w);
}

int lessor_object_commit(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                         const struct lessor_object_version *versions, size_t n, bool *ret_committed)
{
        if (!lessor_object_repo_valid(stage->repo))
                return LESSOR_E_INVALID;
        return s->ops->commit(s, stage, versions, n, ret_committed);
}

int lessor_object_check_staged(struct lessor_object_store *s, const struct lessor_object_stage *stage,
                               const struct lessor_object_version *version)
{
        if (!named(stage->repo, version->hash))
                return LESSOR_E_INVALID;
        return s->ops->check_staged(s, stage, version);
}

int lessor_object_discard(struct lessor_object_store *s, struct lessor_slice repo,
                          struct lessor_slice receipt)
{
        if (!lessor_object_repo_valid(repo))
                return LESSOR_E_INVALID;
        return s->ops->discard(s, repo, receipt);
}

int lessor_object_sweep_staged(struct lessor_object_store *s, int64_t min_age_ms,
                               int (*wants)(void *context, struct lessor_slice repo,
                                            struct lessor_slice receipt),
                               void *context, size_t *ret_n_discarded)
{
        return s->ops->sweep_staged(s, min_age_ms, wants, context, ret_n_discarded);
}

int lessor_object_open(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                       int *ret_fd, int64_t *ret_size)
{
        if (!named(repo, hash))
                return LESSOR_E_INVALID;
        return s->ops->open(s, repo, hash, ret_fd, ret_size);
}

int lessor_object_stat(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice hash,
                       struct lessor_object_info *ret_info)
{
        if (!named(repo, hash))
                return LESSOR_E_INVALID;
        return s->ops->stat(s, repo, hash, ret_info);
}

int lessor_object_sizes(struct lessor_object_store *s, struct lessor_slice repo,
                        const struct lessor_slice *hashes, size_t n, int64_t *ret_sizes)
{
        if (!lessor_object_repo_valid(repo))
                return LESSOR_E_INVALID;
        return s->ops->look(s, repo, hashes, n, false, ret_sizes);
}

int lessor_object_touch(struct lessor_object_store *s, struct lessor_slice repo,
                        const struct lessor_slice *hashes, size_t n, int64_t *ret_sizes)
{
        if (!lessor_object_repo_valid(repo))
                return LESSOR_E_INVALID;
        return s->ops->look(s, repo, hashes, n, true, ret_sizes);
}

int lessor_object_list(struct lessor_object_store *s, struct lessor_slice repo, struct lessor_slice after,
                       size_t max, struct lessor_arena *arena, struct lessor_object_info_list *ret_list)
{
        if (!lessor_object_repo_valid(repo) || (after.p != NULL && !lessor_object_hash_valid(after)))
                return LESSOR_E_INVALID;
        return s->ops->list(s, repo, after, max, arena, ret_list);
}

int lessor_object_repos(struct lessor_object_store *s, struct lessor_arena *arena,
                        struct lessor_slice **ret_repos, size_t *ret_n)
{
        return s->ops->repos(s, arena, ret_repos, ret_n);
}

int lessor_object_collect(struct lessor_object_store *s, const struct lessor_object_collection *collection,
                          struct lessor_object_collected *ret_collected)
{
        if (collection->grace_ms < 0)
                return LESSOR_E_INVALID;
        return s->ops->collect(s, collection, ret_collected);
}

int lessor_object_verify(struct lessor_object_store *s, struct lessor_slice repo, bool set_aside,
                         int (*damaged)(void *context, struct lessor_slice hash), void *context,
                         struct lessor_object_verified *ret_verified)
{
        if (!lessor_object_repo_valid(repo))
                return LESSOR_E_INVALID;
        return s->ops->verify(s, repo, set_aside, damaged, context, ret_verified);
}

struct lessor_object_store *lessor_object_store_free(struct lessor_object_store *s)
{
        return s == NULL ? NULL : s->ops->free(s);
}
