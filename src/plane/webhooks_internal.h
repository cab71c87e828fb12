/* SPDX-License-Identifier: MIT */
#ifndef PLANE_WEBHOOKS_INTERNAL_H
#define PLANE_WEBHOOKS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/uuid.h"
#include "plane/webhook_curl.h"
#include "plane/webhooks.h"

struct webhook {
        struct webhook *next;
        /* constant */
        char id[UUID_TEXT_LEN + 1];
        char *url;
        char *secret;
        char *repo; /* NULL: any */
        char *run;
        uint32_t types;
        int64_t created_ms;
        /* under the lock */
        bool removed; /* the courier takes it out */
        uint64_t at;  /* in the feed */
        uint64_t n_delivered;
        uint64_t n_failed;
        uint64_t n_dropped;
        unsigned n_failures; /* since the last success */
        int64_t tried_ms;    /* wall clock; 0: never */
        int64_t next_ms;     /* monotonic; not before */
        long status;         /* of the last answer; 0: there was none */
        char problem[CURL_ERROR_SIZE];
        /* the courier's own */
        CURL *transfer; /* under way; NULL: none */
        struct curl_slist *headers;
        struct buf body; /* what is being told, until it is */
        size_t n_events; /* in it */
        char delivery[UUID_TEXT_LEN + 1];
        size_t n_read; /* of the answer */
        char error[CURL_ERROR_SIZE];
};

/*
 * 1. The list is changed with the lock held; entries are taken out and freed by the courier only, or when it
 * does not run.
 * 2. `changing` is held while the file is written, and comes before `lock`, which never waits for the disk.
 */
struct webhooks {
        char *path;
        struct event_feed *feed;
        pthread_mutex_t changing;
        pthread_mutex_t lock;
        struct webhook *first;
        size_t n;
        uint64_t n_delivered_before; /* by those that are gone */
        uint64_t n_failed_before;
        uint64_t n_dropped_before;
        const struct webhook_curl *curl; /* NULL: not loaded yet */
        CURLM *multi;
        pthread_t thread;
        bool running;
        _Atomic bool sleeps; /* the courier, or it is about to: news have to wake it */
        _Atomic bool stop;
};

struct webhook *webhook_free(struct webhook *h);

/* ---- webhook_courier.c */
/* Starts the thread if it does not run. Lock held. Returns 0, LESSOR_E_UNAVAILABLE (no libcurl),
 * LESSOR_E_NOMEM or LESSOR_E_IO. */
int courier_start(struct webhooks *w);
void courier_stop(struct webhooks *w);
/* The list has changed. Lock held. */
void courier_wake(struct webhooks *w);
/* Something has happened. */
void courier_news(void *context);

#endif
