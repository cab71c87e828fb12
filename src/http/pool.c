/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdlib.h>

#include "http/internal.h"

/* Enough to keep a disk's queue busy; a commit group forms of those who wait together. */
#define POOL_THREADS 16

/*
 * 1. A thread is made when a job finds none that is free, so a server that never blocks has none.
 * 2. Jobs run in the order of their coming. They are all run, also when the pool is being freed.
 */
struct pool {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct job *first;
        struct job *last;
        size_t n_waiting; /* jobs */
        size_t n_idle;    /* threads */
        size_t n_threads;
        bool stop;
        pthread_t threads[POOL_THREADS];
};

struct pool *pool_new(void)
{
        struct pool *pool = calloc(1, sizeof(*pool));

        if (pool == NULL)
                return NULL;
        pthread_mutex_init(&pool->lock, NULL);
        pthread_cond_init(&pool->changed, NULL);
        return pool;
}

struct pool *pool_free(struct pool *pool)
{
        if (pool == NULL)
                return NULL;
        pthread_mutex_lock(&pool->lock);
        pool->stop = true;
        pthread_cond_broadcast(&pool->changed);
        pthread_mutex_unlock(&pool->lock);
        for (size_t i = 0; i < pool->n_threads; i++)
                pthread_join(pool->threads[i], NULL);
        pthread_cond_destroy(&pool->changed);
        pthread_mutex_destroy(&pool->lock);
        free(pool);
        return NULL;
}

/* Lock held. */
static struct job *take(struct pool *pool)
{
        struct job *job = pool->first;

        pool->first = job->next;
        if (pool->first == NULL)
                pool->last = NULL;
        pool->n_waiting--;
        return job;
}

static void *pool_main(void *context)
{
        struct pool *pool = context;

        pthread_mutex_lock(&pool->lock);
        for (;;) {
                while (pool->first == NULL && !pool->stop) {
                        pool->n_idle++;
                        pthread_cond_wait(&pool->changed, &pool->lock);
                        pool->n_idle--;
                }
                if (pool->first == NULL)
                        break;
                struct job *job = take(pool);

                pthread_mutex_unlock(&pool->lock);
                job->run(job);
                pthread_mutex_lock(&pool->lock);
        }
        pthread_mutex_unlock(&pool->lock);
        return NULL;
}

/* Lock held. */
static void grow(struct pool *pool)
{
        sigset_t all, before;

        if (pool->n_idle >= pool->n_waiting || pool->n_threads == POOL_THREADS)
                return;
        sigfillset(&all); /* signals are for the program's own thread */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (pthread_create(&pool->threads[pool->n_threads], NULL, pool_main, pool) == 0)
                pthread_setname_np(pool->threads[pool->n_threads++], "http-pool");
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void pool_submit(struct pool *pool, struct job *job)
{
        pthread_mutex_lock(&pool->lock);
        job->next = NULL;
        if (pool->last != NULL)
                pool->last->next = job;
        else
                pool->first = job;
        pool->last = job;
        pool->n_waiting++;
        grow(pool);
        if (pool->n_threads == 0)
                job = take(pool);
        else
                job = NULL;
        pthread_cond_signal(&pool->changed);
        pthread_mutex_unlock(&pool->lock);
        if (job != NULL)
                job->run(job);
}
