/* SPDX-License-Identifier: MIT */
#include "client/rack_identity.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "lessor/arena.h"
#include "wire/message.h"

#define STATE_VERSION 1
#define TOKEN_PREFIX  "e3rk_"

struct document {
        int64_t version;
        struct lessor_slice url;
        struct lessor_slice rack_id;
        struct lessor_slice token;
        struct lessor_slice previous_token; /* absent: none */
};

static const struct message_field document_fields[] = {
        FIELD_POSINT(struct document, version, "version"),
        FIELD_TEXT1(struct document, url, "url"),
        FIELD_TEXT1(struct document, rack_id, "rackId"),
        FIELD_TEXT1(struct document, token, "token"),
        FIELD_TEXT1(struct document, previous_token, "previousToken", .flags = MESSAGE_OPTIONAL),
};
static const struct message_table document_table = MESSAGE_TABLE("Rack", struct document, document_fields);

struct rack_identity {
        char *path;
        char *url;
        char *rack_id;
        pthread_mutex_t mutex; /* guards the tokens, and the file */
        char token[RACK_TOKEN_LEN + 1];
        char previous[RACK_TOKEN_LEN + 1]; /* "": none */
};

bool rack_token_valid(struct lessor_slice token)
{
        size_t n = sizeof(TOKEN_PREFIX) - 1;

        if (token.n != RACK_TOKEN_LEN || memcmp(token.p, TOKEN_PREFIX, n) != 0)
                return false;
        for (size_t i = n; i < token.n; i++)
                if (!((token.p[i] >= '0' && token.p[i] <= '9') || (token.p[i] >= 'a' && token.p[i] <= 'f')))
                        return false;
        return true;
}

static int write_document(const char *path, const struct document *document, bool replace)
{
        _cleanup_(buf_wipe) struct buf text = {0};
        int r = buf_reserve(&text, 4096);

        if (r == 0)
                r = message_append(&document_table, document, &text);
        if (r == 0)
                r = buf_char(&text, '\n');
        if (r < 0)
                return r;
        return replace ? file_replace(path, buf_view(&text), 0600) : file_create(path, buf_view(&text), 0600);
}

int rack_identity_create(const char *path, struct lessor_slice url, struct lessor_slice rack_id,
                         struct lessor_slice token, bool replace)
{
        struct document document = {.version = STATE_VERSION, .url = url, .rack_id = rack_id, .token = token};

        if (url.n == 0 || rack_id.n == 0 || rack_id.n > LIMIT_ID_BYTES || !rack_token_valid(token))
                return LESSOR_E_INVALID;
        return write_document(path, &document, replace);
}

static int save(const struct rack_identity *identity, const char *token, const char *previous)
{
        struct document document = {.version = STATE_VERSION,
                                    .url = lessor_slice_of(identity->url),
                                    .rack_id = lessor_slice_of(identity->rack_id),
                                    .token = lessor_slice_of(token)};

        if (previous[0] != '\0')
                document.previous_token = lessor_slice_of(previous);
        return write_document(identity->path, &document, true);
}

static int read_document(const char *path, struct lessor_arena *arena, struct document *ret_document,
                         struct buf *ret_problem)
{
        _cleanup_(buf_wipe) struct buf text = {0};
        const char *problem = NULL;
        int64_t version = 0;
        struct json *value;
        mode_t mode = 0;
        int r = file_read_private(path, LIMIT_KEY_FILE_BYTES, &text, &mode);

        if (r < 0)
                return r;
        if ((mode & 077) != 0) {
                buf_text(ret_problem, "is open to others: chmod 600 it");
                return LESSOR_E_PERMISSION;
        }
        r = json_read_file_text(buf_view(&text), arena, &value, &problem);
        if (r == 0 && json_int(json_member_named(value, "version"), &version) && version > STATE_VERSION) {
                problem = "was written by a newer version";
                r = LESSOR_E_NEWER;
        }
        if (r == 0)
                r = message_read(&document_table, value, arena, ret_document, &problem);
        if (r == 0 &&
            (!rack_token_valid(ret_document->token) ||
             (ret_document->previous_token.p != NULL && !rack_token_valid(ret_document->previous_token)))) {
                problem = "holds no rack token";
                r = LESSOR_E_MALFORMED;
        }
        if (r < 0 && problem != NULL)
                buf_text(ret_problem, problem);
        return r == LESSOR_E_INVALID ? LESSOR_E_MALFORMED : r;
}

static void take_token(char to[RACK_TOKEN_LEN + 1], struct lessor_slice from)
{
        memcpy(to, from.p, RACK_TOKEN_LEN);
        to[RACK_TOKEN_LEN] = '\0';
}

int rack_identity_load(const char *path, struct rack_identity **ret_identity, struct buf *ret_problem)
{
        _cleanup_(rack_identity_freep) struct rack_identity *identity = NULL;
        struct lessor_arena *arena = lessor_arena_new();
        struct document document;
        int r;

        buf_clear(ret_problem);
        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = read_document(path, arena, &document, ret_problem);
        if (r == 0) {
                identity = calloc(1, sizeof(*identity));
                r = identity == NULL ? LESSOR_E_NOMEM : 0;
        }
        if (r == 0) {
                pthread_mutex_init(&identity->mutex, NULL);
                identity->path = strdup(path);
                identity->url = strndup(document.url.p, document.url.n);
                identity->rack_id = strndup(document.rack_id.p, document.rack_id.n);
                take_token(identity->token, document.token);
                if (document.previous_token.p != NULL)
                        take_token(identity->previous, document.previous_token);
                if (identity->path == NULL || identity->url == NULL || identity->rack_id == NULL)
                        r = LESSOR_E_NOMEM;
        }
        lessor_arena_wipe(arena);
        if (r == 0)
                *ret_identity = TAKE(identity);
        return r;
}

struct rack_identity *rack_identity_free(struct rack_identity *identity)
{
        if (identity == NULL)
                return NULL;
        pthread_mutex_destroy(&identity->mutex);
        sodium_memzero(identity->token, sizeof(identity->token));
        sodium_memzero(identity->previous, sizeof(identity->previous));
        free(identity->path);
        free(identity->url);
        free(identity->rack_id);
        free(identity);
        return NULL;
}

const char *rack_identity_url(const struct rack_identity *identity)
{
        return identity->url;
}

const char *rack_identity_rack_id(const struct rack_identity *identity)
{
        return identity->rack_id;
}

void rack_identity_token(struct rack_identity *identity, char ret_token[RACK_TOKEN_LEN + 1])
{
        pthread_mutex_lock(&identity->mutex);
        memcpy(ret_token, identity->token, RACK_TOKEN_LEN + 1);
        pthread_mutex_unlock(&identity->mutex);
}

int rack_identity_rotate(struct rack_identity *identity, struct lessor_slice token)
{
        char successor[RACK_TOKEN_LEN + 1];
        int r;

        if (!rack_token_valid(token))
                return LESSOR_E_INVALID;
        take_token(successor, token);
        pthread_mutex_lock(&identity->mutex);
        r = save(identity, successor, identity->token);
        if (r == 0) {
                memcpy(identity->previous, identity->token, sizeof(identity->previous));
                memcpy(identity->token, successor, sizeof(identity->token));
        }
        pthread_mutex_unlock(&identity->mutex);
        sodium_memzero(successor, sizeof(successor));
        return r;
}

/* Our own tokens against each other: there is nobody to whom the time that it takes could tell anything. */
static bool same(const char *a, const char *b)
{
        return sodium_memcmp(a, b, RACK_TOKEN_LEN) == 0;
}

int rack_identity_worked(struct rack_identity *identity, const char *token)
{
        int r = 0;

        pthread_mutex_lock(&identity->mutex);
        if (identity->previous[0] != '\0' && same(identity->token, token)) {
                r = save(identity, identity->token, "");
                if (r == 0)
                        sodium_memzero(identity->previous, sizeof(identity->previous));
        }
        pthread_mutex_unlock(&identity->mutex);
        return r;
}

bool rack_identity_refused(struct rack_identity *identity, const char *token)
{
        bool another = true;

        pthread_mutex_lock(&identity->mutex);
        if (same(identity->token, token)) {
                another = identity->previous[0] != '\0';
                if (another) {
                        memcpy(identity->token, identity->previous, sizeof(identity->token));
                        sodium_memzero(identity->previous, sizeof(identity->previous));
                        /* If this fails, the next start finds both tokens and comes to the same end. */
                        save(identity, identity->token, "");
                }
        }
        pthread_mutex_unlock(&identity->mutex);
        return another;
}
