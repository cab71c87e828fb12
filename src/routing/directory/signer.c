/* SPDX-License-Identifier: MIT */
#include "routing/directory/signer.h"

#include <stdlib.h>

#include "crypto/identity_key.h"
#include "crypto/signing_key.h"
#include "lessor/error.h"
#include "routing/directory/signer_socket.h"

/* One of the two; immutable but for the connections within `socket`. */
struct signer {
        struct signing_key *key;
        struct signer_socket *socket;
        struct buf public_text; /* of the socket's signer */
        struct identity_key public_key;
};

static struct signer *signer_new(void)
{
        struct signer *s = calloc(1, sizeof(*s));

        if (s != NULL)
                buf_init(&s->public_text);
        return s;
}

struct signer *signer_free(struct signer *s)
{
        if (s == NULL)
                return NULL;
        signing_key_free(s->key);
        signer_socket_free(s->socket);
        buf_done(&s->public_text);
        free(s);
        return NULL;
}

int signer_open_file(const char *path, struct lessor_arena *arena, struct signer **ret_signer,
                     const char **ret_problem)
{
        _cleanup_(signer_freep) struct signer *s = signer_new();
        int r;

        if (s == NULL)
                return LESSOR_E_NOMEM;
        r = signing_key_load(path, arena, &s->key, ret_problem);
        if (r < 0)
                return r;
        *ret_signer = TAKE(s);
        return 0;
}

int signer_open_socket(const char *path, int64_t timeout_ms, struct signer **ret_signer)
{
        _cleanup_(signer_freep) struct signer *s = signer_new();
        int r;

        if (s == NULL)
                return LESSOR_E_NOMEM;
        r = signer_socket_new(path, timeout_ms, &s->socket);
        if (r < 0 || (r = signer_socket_public(s->socket, &s->public_text)) < 0)
                return r;
        if (identity_key_read(buf_view(&s->public_text), &s->public_key) < 0)
                return LESSOR_E_PROTOCOL;
        *ret_signer = TAKE(s);
        return 0;
}

struct lessor_slice signer_public(const struct signer *s)
{
        return s->key != NULL ? signing_key_identity(s->key)->identity : buf_view(&s->public_text);
}

int signer_sign(struct signer *s, struct lessor_slice statement, struct lessor_arena *arena,
                struct lessor_slice *ret_signature)
{
        _cleanup_(buf_done) struct buf text;
        int r;

        buf_init(&text);
        if (s->key != NULL)
                r = signing_key_sign_text(s->key, statement, &text);
        else
                r = signer_socket_sign(s->socket, statement, &text);
        if (r < 0)
                return r;
        /* A signer that was restarted with another key would have every device refuse its work. */
        if (s->socket != NULL && identity_key_verify(&s->public_key, statement, buf_view(&text)) < 0)
                return LESSOR_E_PROTOCOL;
        return lessor_arena_copy(arena, buf_view(&text), ret_signature);
}
