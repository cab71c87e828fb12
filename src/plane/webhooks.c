/* SPDX-License-Identifier: MIT */
#include "plane/webhooks.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/macro.h"
#include "plane/webhooks_internal.h"
#include "wire/message.h"

#define SECRET_BYTES 32

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_wipe)
DEFINE_CLEANUP(struct webhook, webhook_free)
DEFINE_CLEANUP(struct webhooks, webhooks_free)

struct webhook *webhook_free(struct webhook *h)
{
        if (h == NULL)
                return NULL;
        if (h->secret != NULL)
                sodium_memzero(h->secret, strlen(h->secret));
        free(h->secret);
        free(h->url);
        free(h->repo);
        free(h->run);
        buf_done(&h->body);
        free(h);
        return NULL;
}

/* --- The file --- */

struct stored {
        struct lessor_slice id, url, secret, repo, run;
        struct lessor_slice *types;
        size_t n_types;
        int64_t created_ms;
};

struct stored_file {
        int64_t version;
        struct stored *webhooks;
        size_t n_webhooks;
};

static const struct message_field stored_fields[] = {
        FIELD_TEXT(struct stored, id, "id", WEBHOOK_ID_LEN, WEBHOOK_ID_LEN),
        FIELD_TEXT1(struct stored, url, "url"),
        FIELD_TEXT1(struct stored, secret, "secret"),
        FIELD_TEXT1(struct stored, repo, "repo", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct stored, run, "run", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXTS(struct stored, types, n_types, "types", 0, N_EVENT_TYPES),
        FIELD_INT(struct stored, created_ms, "createdAt", 0, INT64_MAX),
};
static const struct message_table stored_table = MESSAGE_TABLE("Webhook", struct stored, stored_fields);

static const struct message_field file_fields[] = {
        FIELD_INT(struct stored_file, version, "version", 1, 1),
        FIELD_LIST(struct stored_file, webhooks, n_webhooks, "webhooks", &stored_table, 0, LIMIT_WEBHOOKS),
};
static const struct message_table file_table = MESSAGE_TABLE("Webhooks", struct stored_file, file_fields);

static void write_types(uint32_t types, struct json_writer *w)
{
        json_key(w, "types");
        json_open_array(w);
        for (int i = 0; i < N_EVENT_TYPES; i++)
                if ((types & (UINT32_C(1) << i)) != 0)
                        json_put_cstr(w, event_type_name((enum event_type)i));
        json_close_array(w);
}

/* Lock held. */
static void write_file(const struct webhooks *w, struct buf *out)
{
        struct json_writer json;

        json_writer_init(&json, out);
        json_open_object(&json);
        json_member_int(&json, "version", 1);
        json_key(&json, "webhooks");
        json_open_array(&json);
        for (const struct webhook *h = w->first; h != NULL; h = h->next) {
                if (h->removed)
                        continue;
                json_open_object(&json);
                json_member_cstr(&json, "id", h->id);
                json_member_cstr(&json, "url", h->url);
                json_member_cstr(&json, "secret", h->secret);
                json_member_cstr(&json, "repo", h->repo);
                json_member_cstr(&json, "run", h->run);
                write_types(h->types, &json);
                json_member_int(&json, "createdAt", h->created_ms);
                json_close_object(&json);
        }
        json_close_array(&json);
        json_close_object(&json);
        buf_char(out, '\n');
}

/* `changing` held. */
static int save(struct webhooks *w)
{
        _cleanup_(buf_wipe) struct buf text = {0};
        int e = buf_reserve(&text, 65536); /* growing would leave copies of secrets behind */

        if (e < 0)
                return e;
        pthread_mutex_lock(&w->lock);
        write_file(w, &text);
        pthread_mutex_unlock(&w->lock);
        e = buf_failed(&text);
        return e < 0 ? e : file_replace(w->path, buf_view(&text), 0600);
}

/* --- One --- */

static char *copy(struct lessor_slice text, bool *ok)
{
        char *p = text.p == NULL ? NULL : strndup(text.p, text.n);

        *ok &= text.p == NULL || p != NULL;
        return p;
}

static struct webhook *webhook_new(const struct webhook_wish *wish)
{
        struct webhook *h = calloc(1, sizeof(*h));
        bool ok = true;

        if (h == NULL)
                return NULL;
        h->url = copy(wish->url, &ok);
        h->secret = copy(wish->secret, &ok);
        h->repo = copy(wish->repo, &ok);
        h->run = copy(wish->run, &ok);
        h->types = wish->types;
        return ok ? h : webhook_free(h);
}

/* Lock held. In the order of their coming. */
static void enter(struct webhooks *w, struct webhook *h)
{
        struct webhook **at = &w->first;

        while (*at != NULL)
                at = &(*at)->next;
        *at = h;
        w->n++;
}

static bool is_url(struct lessor_slice url)
{
        bool good = (url.n > 7 && strncasecmp(url.p, "http://", 7) == 0) ||
                    (url.n > 8 && strncasecmp(url.p, "https://", 8) == 0);

        for (size_t i = 0; i < url.n; i++)
                good &= (unsigned char)url.p[i] > 0x20 && (unsigned char)url.p[i] < 0x7f;
        return good && url.n <= LIMIT_WEBHOOK_URL;
}

static int make_secret(struct buf *secret)
{
        unsigned char random[SECRET_BYTES];
        char hex[SECRET_BYTES * 2 + 1];
        int e;

        randombytes_buf(random, sizeof(random));
        sodium_bin2hex(hex, sizeof(hex), random, sizeof(random));
        e = buf_text(secret, hex);
        sodium_memzero(random, sizeof(random));
        sodium_memzero(hex, sizeof(hex));
        return e;
}

/* --- All --- */

static int load_one(struct webhooks *w, const struct stored *s)
{
        struct webhook_wish wish = {.url = s->url, .secret = s->secret, .repo = s->repo, .run = s->run};
        struct webhook *h;

        for (size_t i = 0; i < s->n_types; i++) {
                int type = event_type_number(s->types[i]);

                if (type < 0)
                        return LESSOR_E_CORRUPT;
                wish.types |= UINT32_C(1) << type;
        }
        h = webhook_new(&wish);
        if (h == NULL)
                return LESSOR_E_NOMEM;
        memcpy(h->id, s->id.p, WEBHOOK_ID_LEN);
        h->created_ms = s->created_ms;
        enter(w, h);
        return 0;
}

static int load(struct webhooks *w)
{
        _cleanup_(lessor_arena_wipep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(buf_wipe) struct buf text = {0};
        struct stored_file file;
        struct json *value;
        mode_t mode;
        int e = arena == NULL ? LESSOR_E_NOMEM : file_read_private(w->path, LIMIT_FILE_BYTES, &text, &mode);

        if (e == LESSOR_E_NOT_FOUND)
                return 0;
        if (e == 0)
                e = json_read_file_text(buf_view(&text), arena, &value, NULL);
        if (e == 0)
                e = message_read(&file_table, value, arena, &file, NULL);
        for (size_t i = 0; e == 0 && i < file.n_webhooks; i++)
                e = load_one(w, &file.webhooks[i]);
        return e == LESSOR_E_MALFORMED || e == LESSOR_E_INVALID ? LESSOR_E_CORRUPT : e;
}

int webhooks_open(const char *path, struct event_feed *feed, struct webhooks **ret_webhooks)
{
        _cleanup_(webhooks_freep) struct webhooks *w = calloc(1, sizeof(*w));
        int e;

        if (w == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_init(&w->changing, NULL);
        pthread_mutex_init(&w->lock, NULL);
        w->feed = feed;
        w->path = strdup(path);
        if (w->path == NULL)
                return LESSOR_E_NOMEM;
        e = load(w);
        if (e == 0 && w->first != NULL)
                e = courier_start(w);
        if (e < 0)
                return e;
        event_feed_listen(feed, courier_news, w);
        *ret_webhooks = TAKE(w);
        return 0;
}

struct webhooks *webhooks_free(struct webhooks *w)
{
        if (w == NULL)
                return NULL;
        courier_stop(w);
        while (w->first != NULL) {
                struct webhook *h = w->first;

                w->first = h->next;
                webhook_free(h);
        }
        pthread_mutex_destroy(&w->changing);
        pthread_mutex_destroy(&w->lock);
        free(w->path);
        free(w);
        return NULL;
}

/* Changes back what could not be written down. `changing` held. */
static void take_back(struct webhooks *w, struct webhook *h)
{
        pthread_mutex_lock(&w->lock);
        h->removed = true;
        w->n--;
        courier_wake(w);
        pthread_mutex_unlock(&w->lock);
}

static int begin(struct webhooks *w, struct webhook *h)
{
        int e = 0;

        pthread_mutex_lock(&w->lock);
        if (w->n >= LIMIT_WEBHOOKS)
                e = LESSOR_E_FULL;
        if (e == 0)
                e = courier_start(w);
        if (e == 0) {
                h->at = event_feed_head(w->feed);
                h->next_ms = INT64_MAX; /* nothing is sent before it is written down */
                enter(w, h);
        }
        pthread_mutex_unlock(&w->lock);
        return e;
}

int webhooks_add(struct webhooks *w, const struct webhook_wish *wish, char ret_id[WEBHOOK_ID_LEN + 1],
                 struct buf *ret_secret)
{
        _cleanup_(webhook_freep) struct webhook *h = NULL;
        struct webhook_wish whole = *wish;
        struct webhook *entered;
        int e;

        if (!is_url(wish->url))
                return LESSOR_E_INVALID;
        e = wish->secret.p == NULL ? make_secret(ret_secret) : buf_slice(ret_secret, wish->secret);
        if (e < 0)
                return e;
        whole.secret = buf_view(ret_secret);
        h = webhook_new(&whole);
        if (h == NULL)
                return LESSOR_E_NOMEM;
        h->created_ms = clock_now_ms(clock_wall());
        uuid_v7(h->created_ms, h->id);
        memcpy(ret_id, h->id, sizeof(h->id));
        pthread_mutex_lock(&w->changing);
        e = begin(w, h);
        if (e == 0) {
                entered = TAKE(h);
                e = save(w);
                if (e < 0)
                        take_back(w, entered);
        }
        if (e == 0) {
                pthread_mutex_lock(&w->lock);
                entered->next_ms = 0;
                courier_wake(w);
                pthread_mutex_unlock(&w->lock);
        }
        pthread_mutex_unlock(&w->changing);
        return e;
}

/* `changing` held, so that nobody frees it: the courier only frees what is removed. */
static struct webhook *find(struct webhooks *w, struct lessor_slice id)
{
        struct webhook *h;

        pthread_mutex_lock(&w->lock);
        for (h = w->first; h != NULL; h = h->next)
                if (!h->removed && lessor_slice_equal(id, lessor_slice_of(h->id)))
                        break;
        pthread_mutex_unlock(&w->lock);
        return h;
}

int webhooks_remove(struct webhooks *w, struct lessor_slice id)
{
        struct webhook *h;
        int e = LESSOR_E_NOT_FOUND;

        pthread_mutex_lock(&w->changing);
        h = find(w, id);
        if (h != NULL) {
                take_back(w, h);
                e = save(w); /* on failure it is told nothing any more, and comes back with the next start */
        }
        pthread_mutex_unlock(&w->changing);
        return e;
}

static void write_one(const struct webhook *h, struct json_writer *w)
{
        int64_t left_ms = h->next_ms - clock_monotonic_ms();

        json_open_object(w);
        json_member_cstr(w, "id", h->id);
        json_member_cstr(w, "url", h->url);
        json_member_cstr(w, "repo", h->repo);
        json_member_cstr(w, "run", h->run);
        write_types(h->types, w);
        json_member_int(w, "createdAt", h->created_ms);
        json_member_int(w, "delivered", (int64_t)h->n_delivered);
        json_member_int(w, "failed", (int64_t)h->n_failed);
        json_member_int(w, "dropped", (int64_t)h->n_dropped);
        if (h->tried_ms > 0)
                json_member_int(w, "triedAt", h->tried_ms);
        if (h->status > 0)
                json_member_int(w, "status", h->status);
        if (h->problem[0] != '\0')
                json_member_cstr(w, "problem", h->problem);
        if (h->n_failures > 0)
                json_member_int(w, "retryInMs", left_ms > 0 ? left_ms : 0);
        json_close_object(w);
}

void webhooks_write(struct webhooks *w, struct json_writer *out)
{
        pthread_mutex_lock(&w->lock);
        json_open_array(out);
        for (const struct webhook *h = w->first; h != NULL; h = h->next)
                if (!h->removed)
                        write_one(h, out);
        json_close_array(out);
        pthread_mutex_unlock(&w->lock);
}

void webhooks_totals(struct webhooks *w, struct webhook_totals *ret_totals)
{
        pthread_mutex_lock(&w->lock);
        *ret_totals = (struct webhook_totals){.n_webhooks = w->n,
                                              .n_delivered = w->n_delivered_before,
                                              .n_failed = w->n_failed_before,
                                              .n_dropped = w->n_dropped_before};
        for (const struct webhook *h = w->first; h != NULL; h = h->next) {
                ret_totals->n_delivered += h->n_delivered;
                ret_totals->n_failed += h->n_failed;
                ret_totals->n_dropped += h->n_dropped;
        }
        pthread_mutex_unlock(&w->lock);
}
