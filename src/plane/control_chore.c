/* SPDX-License-Identifier: MIT */
#include "plane/control_chore.h"

#include <pthread.h>
#include <stdlib.h>

struct control_chore {
        pthread_mutex_t lock;
        pthread_t thread;
        bool joinable;
        bool running;
        struct http_request *waiting; /* NULL: nobody waits for it any more */
        const struct control_chore_kind *kind;
        void *work; /* NULL: none yet */
        int result;
};

struct control_chore *control_chore_new(void)
{
        struct control_chore *chore = calloc(1, sizeof(*chore));

        if (chore != NULL)
                pthread_mutex_init(&chore->lock, NULL);
        return chore;
}

/* With the lock held, or alone; the thread is about to end, if it has not. */
static void forget(struct control_chore *chore)
{
        if (chore->joinable)
                pthread_join(chore->thread, NULL);
        chore->joinable = false;
        if (chore->work != NULL)
                chore->kind->free(chore->work);
        chore->work = NULL;
}

struct control_chore *control_chore_free(struct control_chore *chore)
{
        if (chore == NULL)
                return NULL;
        forget(chore);
        pthread_mutex_destroy(&chore->lock);
        free(chore);
        return NULL;
}

static void *run(void *context)
{
        struct control_chore *chore = context;
        int result = chore->kind->run(chore->work);

        pthread_mutex_lock(&chore->lock);
        chore->result = result;
        chore->running = false;
        if (chore->waiting != NULL)
                http_resume(chore->waiting);
        pthread_mutex_unlock(&chore->lock);
        return NULL;
}

struct waiting {
        struct control_call *call;
        struct control_chore *chore;
};

/* It is done, or the wait is over before it is. */
static void finished(struct http_request *http, void *context)
{
        const struct waiting *waiting = context;
        struct control_chore *chore = waiting->chore;
        bool running;

        (void)http;
        pthread_mutex_lock(&chore->lock);
        running = chore->running;
        if (running)
                control_refuse(waiting->call, 503, "unavailable",
                               "nobody waits for %s any more, but it goes on", chore->kind->what);
        else
                chore->kind->answer(waiting->call, chore->work, chore->result);
        chore->waiting = NULL;
        pthread_mutex_unlock(&chore->lock);
}

/* With the lock held, so that the thread cannot end before the lock is given back. */
static int start(struct control_chore *chore, const struct control_chore_kind *kind, void *work)
{
        if (chore->running || chore->waiting != NULL)
                return LESSOR_E_BUSY;
        forget(chore);
        chore->kind = kind;
        chore->work = work;
        chore->running = true;
        if (pthread_create(&chore->thread, NULL, run, chore) == 0) {
                chore->joinable = true;
                return 0;
        }
        chore->running = false;
        chore->work = NULL;
        return LESSOR_E_NOMEM;
}

void control_chore_begin(struct control_call *call, struct control_chore *chore,
                         const struct control_chore_kind *kind, void *work)
{
        struct waiting *waiting = lessor_arena_alloc(call->arena, sizeof(*waiting));
        const char *busy_with = NULL;
        int e = waiting == NULL ? LESSOR_E_NOMEM : 0;

        pthread_mutex_lock(&chore->lock);
        if (e == 0)
                e = start(chore, kind, work);
        if (e == LESSOR_E_BUSY)
                busy_with = chore->kind->what;
        if (e == 0) {
                *waiting = (struct waiting){call, chore};
                http_suspend_prepare(call->http);
                chore->waiting = call->http;
        }
        pthread_mutex_unlock(&chore->lock);
        if (e == 0) {
                http_suspend(call->http, -1, finished, waiting);
                return;
        }
        kind->free(work);
        if (busy_with != NULL)
                control_refuse(call, 409, "busy", "%s is under way; wait for it", busy_with);
        else
                control_refuse_error(call, e, NULL, (struct lessor_slice){0});
}
