/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/log.h"
#include "base/macro.h"
#include "plane/webhooks_internal.h"

/*
 * The courier: one thread that tells all webhooks, each at most one delivery at a time, so that it hears of
 * things in their order.
 */

#define EVENTS_A_DELIVERY 100
#define CONNECT_MS        5000L
#define DELIVERY_MS       15000L
#define ANSWER_BYTES      65536u /* of an answer that are read; nothing of it is kept */
#define BACK_OFF_MS       1000
#define BACK_OFF_MOST_MS  300000

/* --- What is told --- */

struct batch {
        struct webhook *hook;
        struct json_writer *w;
};

static void take(void *context, struct lessor_slice id, const char *type, struct lessor_slice json)
{
        struct batch *b = context;

        (void)type;
        if (id.p == NULL) { /* a gap: {"missed":N} */
                uint64_t missed = strtoull(json.p + strlen("{\"missed\":"), NULL, 10);

                b->hook->n_dropped += missed;
                return;
        }
        json_put_raw(b->w, json);
        b->hook->n_events++;
}

/* Gathers what there is for a webhook. Lock held. Returns whether there is anything. */
static bool gather(struct webhooks *w, struct webhook *h)
{
        const struct event_filter filter = {.repo = {h->repo, h->repo == NULL ? 0 : strlen(h->repo)},
                                            .run = {h->run, h->run == NULL ? 0 : strlen(h->run)},
                                            .types = h->types};
        struct json_writer json;
        struct batch batch = {h, &json};
        bool more;

        buf_clear(&h->body);
        h->n_events = 0;
        uuid_v7(clock_now_ms(clock_wall()), h->delivery);
        json_writer_init(&json, &h->body);
        json_open_object(&json);
        json_member_cstr(&json, "delivery", h->delivery);
        json_member_cstr(&json, "webhook", h->id);
        json_key(&json, "events");
        json_open_array(&json);
        do {
                more = event_feed_read(w->feed, &filter, &h->at, EVENTS_A_DELIVERY - h->n_events, take,
                                       &batch);
        } while (more && h->n_events == 0);
        json_close_array(&json);
        json_member_int(&json, "dropped", (int64_t)h->n_dropped);
        json_close_object(&json);
        if (buf_failed(&h->body) < 0) {
                h->n_dropped += h->n_events;
                h->n_events = 0;
        }
        return h->n_events > 0;
}

/* --- How --- */

/* NOLINTNEXTLINE(readability-non-const-parameter): curl says what it must look like */
static size_t forget_answer(char *bytes, size_t size, size_t n, void *context)
{
        size_t *n_read = context;

        (void)bytes;
        *n_read += size * n;
        return *n_read > ANSWER_BYTES ? 0 : size * n;
}

/* HMAC-SHA256 over the time, a full stop and the body, so that an old delivery cannot be told again as a new
 * one. */
static void sign(const struct webhook *h, const char *timestamp,
                 char ret_hex[crypto_auth_hmacsha256_BYTES * 2 + 1])
{
        crypto_auth_hmacsha256_state state;
        unsigned char mac[crypto_auth_hmacsha256_BYTES];

        crypto_auth_hmacsha256_init(&state, (const unsigned char *)h->secret, strlen(h->secret));
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)timestamp, strlen(timestamp));
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)".", 1);
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)h->body.p, h->body.n);
        crypto_auth_hmacsha256_final(&state, mac);
        sodium_bin2hex(ret_hex, sizeof(mac) * 2 + 1, mac, sizeof(mac));
        sodium_memzero(&state, sizeof(state));
}

static int put_header(struct webhooks *w, struct webhook *h, const char *name, const char *value)
{
        _cleanup_(buf_done) struct buf line = {0};
        struct curl_slist *longer;

        if (buf_printf(&line, "%s: %s", name, value) < 0)
                return LESSOR_E_NOMEM;
        longer = w->curl->slist_append(h->headers, line.p);
        if (longer == NULL)
                return LESSOR_E_NOMEM;
        h->headers = longer;
        return 0;
}

static int put_headers(struct webhooks *w, struct webhook *h)
{
        char timestamp[24], hex[crypto_auth_hmacsha256_BYTES * 2 + 1], signature[sizeof(hex) + 4];
        int e;

        snprintf(timestamp, sizeof(timestamp), "%" PRId64, clock_now_ms(clock_wall()) / 1000);
        sign(h, timestamp, hex);
        snprintf(signature, sizeof(signature), "v1=%s", hex);
        e = put_header(w, h, "Content-Type", "application/json");
        if (e == 0)
                e = put_header(w, h, "Lessor-Webhook", h->id);
        if (e == 0)
                e = put_header(w, h, "Lessor-Delivery", h->delivery);
        if (e == 0)
                e = put_header(w, h, "Lessor-Timestamp", timestamp);
        if (e == 0)
                e = put_header(w, h, "Lessor-Signature", signature);
        if (e == 0)
                e = put_header(w, h, "Expect", ""); /* curl would wait for a go-ahead that many never give */
        return e;
}

static void transfer_end(struct webhooks *w, struct webhook *h)
{
        if (h->transfer != NULL) {
                w->curl->multi_remove_handle(w->multi, h->transfer);
                w->curl->easy_cleanup(h->transfer);
        }
        h->transfer = NULL;
        if (h->headers != NULL)
                w->curl->slist_free_all(h->headers);
        h->headers = NULL;
}

static int transfer_begin(struct webhooks *w, struct webhook *h)
{
        CURL *t = w->curl->easy_init();

        h->transfer = t;
        h->error[0] = '\0';
        if (t == NULL || put_headers(w, h) < 0)
                return LESSOR_E_NOMEM;
        w->curl->easy_setopt(t, CURLOPT_PRIVATE, h);
        w->curl->easy_setopt(t, CURLOPT_ERRORBUFFER, h->error);
        w->curl->easy_setopt(t, CURLOPT_NOSIGNAL, 1L);
        w->curl->easy_setopt(t, CURLOPT_USERAGENT, "lessor/" LESSOR_VERSION);
        w->curl->easy_setopt(t, CURLOPT_PROTOCOLS_STR, "http,https");
        w->curl->easy_setopt(t, CURLOPT_FOLLOWLOCATION, 0L); /* what is signed for one is not for another */
        w->curl->easy_setopt(t, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
        w->curl->easy_setopt(t, CURLOPT_TIMEOUT_MS, DELIVERY_MS);
        w->curl->easy_setopt(t, CURLOPT_WRITEFUNCTION, forget_answer);
        w->curl->easy_setopt(t, CURLOPT_WRITEDATA, &h->n_read);
        w->curl->easy_setopt(t, CURLOPT_POST, 1L);
        w->curl->easy_setopt(t, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)h->body.n);
        w->curl->easy_setopt(t, CURLOPT_POSTFIELDS, h->body.p);
        w->curl->easy_setopt(t, CURLOPT_HTTPHEADER, h->headers);
        h->n_read = 0;
        if (w->curl->easy_setopt(t, CURLOPT_URL, h->url) != CURLE_OK ||
            w->curl->multi_add_handle(w->multi, t) != CURLM_OK)
                return LESSOR_E_NOMEM;
        return 0;
}

/* --- What came of it; lock held --- */

/* Twice as long after each failure, up to five minutes, and at random, so that many do not come back
 * together. */
static int64_t back_off(unsigned n_failures)
{
        int64_t most_ms = BACK_OFF_MS;

        for (unsigned i = 1; i < n_failures && most_ms < BACK_OFF_MOST_MS; i++)
                most_ms *= 2;
        if (most_ms > BACK_OFF_MOST_MS)
                most_ms = BACK_OFF_MOST_MS;
        return most_ms / 2 + (int64_t)randombytes_uniform((uint32_t)(most_ms / 2));
}

static void failed(struct webhook *h, const char *problem)
{
        h->n_failed++;
        h->n_failures++;
        h->next_ms = clock_monotonic_ms() + back_off(h->n_failures);
        snprintf(h->problem, sizeof(h->problem), "%s", problem);
        if (h->n_failures == 1)
                log_warning("webhook-failed", LOG_CSTR("webhook", h->id), LOG_INT("status", h->status),
                            LOG_CSTR("problem", h->problem));
}

static void delivered(struct webhook *h)
{
        if (h->n_failures > 0)
                log_info("webhook-mended", LOG_CSTR("webhook", h->id), LOG_INT("failures", h->n_failures));
        h->n_delivered += h->n_events;
        h->n_events = 0;
        h->n_failures = 0;
        h->next_ms = 0;
        h->problem[0] = '\0';
        buf_done(&h->body);
}

static void transfer_over(struct webhooks *w, struct webhook *h, CURLcode code)
{
        char problem[64];

        h->status = 0;
        h->tried_ms = clock_now_ms(clock_wall());
        w->curl->easy_getinfo(h->transfer, CURLINFO_RESPONSE_CODE, &h->status);
        if (code == CURLE_OK && h->status >= 200 && h->status < 300) {
                delivered(h);
        } else if (code == CURLE_OK) {
                snprintf(problem, sizeof(problem), "it answered %ld", h->status);
                failed(h, problem);
        } else {
                failed(h, h->error[0] == '\0' ? w->curl->easy_strerror(code) : h->error);
        }
        transfer_end(w, h);
}

/* --- The thread --- */

/* Begins what can begin. Lock held. Returns in how many ms there may be more to begin. */
static int begin_due(struct webhooks *w, bool *ret_idle)
{
        int64_t now_ms = clock_monotonic_ms(), next_ms = now_ms + 60000;

        *ret_idle = false;

        for (struct webhook *h = w->first; h != NULL; h = h->next) {
                if (h->transfer != NULL || h->removed)
                        continue;
                if (h->next_ms > now_ms) {
                        next_ms = h->next_ms < next_ms ? h->next_ms : next_ms;
                        continue;
                }
                if (h->n_events == 0 && !gather(w, h)) {
                        *ret_idle = true;
                        continue;
                }
                if (transfer_begin(w, h) < 0) {
                        failed(h, "out of memory");
                        transfer_end(w, h);
                        next_ms = h->next_ms < next_ms ? h->next_ms : next_ms;
                }
        }
        return (int)(next_ms - now_ms);
}

/* Lock held. */
static void take_out_removed(struct webhooks *w)
{
        struct webhook **at = &w->first;

        while (*at != NULL) {
                struct webhook *h = *at;

                if (!h->removed) {
                        at = &h->next;
                        continue;
                }
                *at = h->next;
                transfer_end(w, h);
                w->n_delivered_before += h->n_delivered;
                w->n_failed_before += h->n_failed;
                w->n_dropped_before += h->n_dropped;
                webhook_free(h);
        }
}

static void look_what_is_over(struct webhooks *w)
{
        const CURLMsg *message;
        int left;

        while ((message = w->curl->multi_info_read(w->multi, &left)) != NULL) {
                CURLcode code = message->data.result;
                char *hook = NULL;

                if (message->msg != CURLMSG_DONE)
                        continue;
                w->curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &hook);
                transfer_over(w, (struct webhook *)(void *)hook, code);
        }
}

static void *courier_main(void *context)
{
        struct webhooks *w = context;

        while (!atomic_load(&w->stop)) {
                int n_running, wait_ms;
                bool idle;

                w->curl->multi_perform(w->multi, &n_running);
                /* Before looking for news, so that what comes after the look wakes. */
                atomic_store(&w->sleeps, true);
                pthread_mutex_lock(&w->lock);
                look_what_is_over(w);
                take_out_removed(w);
                wait_ms = begin_due(w, &idle);
                pthread_mutex_unlock(&w->lock);
                if (!idle) /* news are not what anybody waits for */
                        atomic_store(&w->sleeps, false);
                w->curl->multi_poll(w->multi, NULL, 0, wait_ms, NULL);
        }
        return NULL;
}

void courier_wake(struct webhooks *w)
{
        if (w->running)
                w->curl->multi_wakeup(w->multi);
}

void courier_news(void *context)
{
        struct webhooks *w = context;

        if (atomic_load_explicit(&w->sleeps, memory_order_relaxed) && atomic_exchange(&w->sleeps, false))
                w->curl->multi_wakeup(w->multi);
}

int courier_start(struct webhooks *w)
{
        sigset_t all, before;

        if (w->running)
                return 0;
        if (w->curl == NULL)
                w->curl = webhook_curl_load();
        if (w->curl == NULL)
                return LESSOR_E_UNAVAILABLE;
        if (w->multi == NULL)
                w->multi = w->curl->multi_init();
        if (w->multi == NULL)
                return LESSOR_E_NOMEM;
        sigfillset(&all); /* signals are for the program's own thread */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        w->running = pthread_create(&w->thread, NULL, courier_main, w) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!w->running)
                return LESSOR_E_IO;
        pthread_setname_np(w->thread, "webhooks");
        return 0;
}

void courier_stop(struct webhooks *w)
{
        if (w->running) {
                atomic_store(&w->stop, true);
                w->curl->multi_wakeup(w->multi);
                pthread_join(w->thread, NULL);
                w->running = false;
        }
        for (struct webhook *h = w->first; h != NULL; h = h->next)
                transfer_end(w, h);
        if (w->multi != NULL)
                w->curl->multi_cleanup(w->multi);
        w->multi = NULL;
}
