/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "crypto/key_id.h"

int world_setup(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        assert_non_null(w);
        w->arena = lessor_arena_new();
        assert_non_null(w->arena);
        *state = w;
        return 0;
}

static void remove_dir(const char *path)
{
        DIR *dir = opendir(path);
        struct dirent *entry;

        if (dir == NULL)
                return;
        while ((entry = readdir(dir)) != NULL)
                (void)unlinkat(dirfd(dir), entry->d_name, 0);
        closedir(dir);
        (void)rmdir(path);
}

int world_teardown(void **state)
{
        struct world *w = *state;

        if (w->dir != NULL)
                remove_dir(w->dir);
        free(w->dir);
        lessor_arena_free(w->arena);
        free(w);
        return 0;
}

static struct lessor_slice copy(struct lessor_arena *arena, struct lessor_slice text)
{
        struct lessor_slice made;

        assert_int_equal(lessor_arena_copy(arena, text, &made), 0);
        return made;
}

struct lessor_slice key_text(struct lessor_arena *arena, int byte)
{
        struct lessor_slice text;
        unsigned char raw[32];
        struct buf b;

        memset(raw, byte, sizeof(raw));
        buf_init(&b);
        assert_int_equal(base64url_append(&b, raw, sizeof(raw)), 0);
        text = copy(arena, buf_view(&b));
        buf_done(&b);
        return text;
}

struct lessor_slice key_id(struct lessor_arena *arena, int byte)
{
        struct key_id id;

        assert_int_equal(key_id_of_text(key_text(arena, byte), &id), 0);
        return copy(arena, key_id_text(&id));
}

struct lessor_slice json_of(struct lessor_arena *arena, const char *text)
{
        struct lessor_slice json;
        struct buf b;

        buf_init(&b);
        for (const char *p = text; *p != '\0'; p++) {
                if (p[0] == '{' && p[1] == '@') {
                        char *end;
                        int byte = (int)strtol(p + 2, &end, 10);

                        assert_true(*end == '}');
                        (void)buf_text(&b, "{\"identity\":\"");
                        (void)buf_slice(&b, key_text(arena, byte));
                        (void)buf_text(&b, "\",\"encryption\":\"e\",\"encryptionSig\":\"s\"}");
                        p = end;
                } else {
                        (void)buf_char(&b, *p == '\'' ? '"' : *p);
                }
        }
        assert_int_equal(buf_failed(&b), 0);
        json = copy(arena, buf_view(&b));
        buf_done(&b);
        return json;
}

struct projection *projection_of(struct lessor_arena *arena, const char *text)
{
        struct projection *p;
        const char *problem;

        if (projection_from_json(json_of(arena, text), arena, &p, &problem) < 0)
                fail_msg("%s", problem);
        return p;
}

struct policy *policy_of(struct lessor_arena *arena, const char *text)
{
        struct policy *p;
        const char *problem;

        if (policy_from_json(json_of(arena, text), arena, &p, &problem) < 0)
                fail_msg("%s", problem);
        return p;
}

static void free_keys(void *keys)
{
        stored_keys_free(keys);
}

const struct stored_keys *fresh_keys(struct lessor_arena *arena)
{
        struct stored_keys *keys;

        assert_int_equal(stored_keys_generate(1, &keys), 0);
        assert_int_equal(lessor_arena_own(arena, keys, free_keys), 0);
        return keys;
}

const struct lessor_public_identity *identity_of(const struct stored_keys *keys)
{
        return signing_key_identity(stored_keys_signing(keys));
}

const char *path_in(struct world *w, const char *name)
{
        char *path;
        struct lessor_slice kept;

        if (w->dir == NULL) {
                w->dir = strdup("/tmp/lessor-directory-XXXXXX");
                assert_non_null(w->dir);
                assert_non_null(mkdtemp(w->dir));
        }
        assert_true(asprintf(&path, "%s/%s", w->dir, name) > 0);
        kept = copy(w->arena, S(path));
        free(path);
        return kept.p;
}

void write_file(const char *path, struct lessor_slice text)
{
        assert_int_equal(file_replace(path, text, 0600), 0);
}

void assert_text(struct lessor_slice text, const char *expected)
{
        if (text.n != strlen(expected) || memcmp(text.p, expected, text.n) != 0)
                fail_msg("\"%.*s\" is not \"%s\"", (int)text.n, text.p == NULL ? "" : text.p, expected);
}
