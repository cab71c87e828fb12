/* SPDX-License-Identifier: MIT */
#include "client/device_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "base/macro.h"

#define STATE_VERSION 1

/* The file is the state and its version. */
struct document {
        int64_t version;
        struct device_state state;
};

static const struct message_field known_site_fields[] = {
        FIELD_OBJECT(struct known_site, identity, "identity", &public_identity_table),
        FIELD_BOOL(struct known_site, served, "served"),
        FIELD_POSINT(struct known_site, retiring_until_ms, "retiringUntil", .flags = MESSAGE_OPTIONAL),
};
static const struct message_table known_site_table =
        MESSAGE_TABLE("KnownSite", struct known_site, known_site_fields);
static const struct message_field known_site_item = {
        .name = "",
        .type = MESSAGE_OBJECT,
        .table = &known_site_table,
};

static const struct message_field document_fields[] = {
        FIELD_POSINT(struct document, version, "version"),
        FIELD_TEXT1(struct document, state.relay_url, "relayUrl"),
        FIELD_TEXT1(struct document, state.runner_id, "runnerId"),
        FIELD_TEXT1(struct document, state.owner, "owner"),
        FIELD_TEXT1(struct document, state.control_plane_public, "controlPlanePublic",
                    .flags = MESSAGE_OPTIONAL),
        FIELD_MAP(struct document, state.sites, state.n_sites, "sites", struct known_site, key_id,
                  &known_site_item),
};
static const struct message_table document_table =
        MESSAGE_TABLE("DeviceState", struct document, document_fields);

static const char *problem_text(struct lessor_arena *arena, const char *path, const char *what)
{
        struct lessor_slice copy = {0};
        struct buf text;
        int r;

        buf_init(&text);
        buf_printf(&text, "%s: %s", path, what);
        r = buf_failed(&text);
        if (r == 0)
                r = lessor_arena_copy(arena, buf_view(&text), &copy);
        buf_done(&text);
        return r < 0 ? NULL : copy.p;
}

static int read_document(const char *path, struct lessor_arena *arena, struct device_state *ret_state,
                         const char **ret_what)
{
        _cleanup_(buf_done) struct buf text;
        struct document document;
        int64_t version = 0;
        struct json *value;
        mode_t mode = 0;
        int r;

        buf_init(&text);
        *ret_what = NULL;
        r = file_read_private(path, LIMIT_FILE_BYTES, &text, &mode);
        if (r < 0) {
                *ret_what = lessor_error_text(r);
                return r;
        }
        if ((mode & 077) != 0) {
                *ret_what = "is open to others: chmod 600 it";
                return LESSOR_E_PERMISSION;
        }
        r = json_read_file_text(buf_view(&text), arena, &value, ret_what);
        if (r < 0)
                return r;
        if (json_int(json_member_named(value, "version"), &version) && version > STATE_VERSION) {
                *ret_what = "was written by a newer version";
                return LESSOR_E_NEWER;
        }
        r = message_read(&document_table, value, arena, &document, ret_what);
        if (r == 0)
                *ret_state = document.state;
        return r == LESSOR_E_INVALID ? LESSOR_E_MALFORMED : r;
}

int device_state_load(const char *path, struct lessor_arena *arena, struct device_state *ret_state,
                      const char **ret_problem)
{
        const char *what;
        int r = read_document(path, arena, ret_state, &what);

        if (ret_problem != NULL)
                *ret_problem = r < 0 && what != NULL ? problem_text(arena, path, what) : NULL;
        return r;
}

int device_state_save(const char *path, const struct device_state *state)
{
        struct document document = {.version = STATE_VERSION, .state = *state};
        _cleanup_(buf_done) struct buf text;
        int r;

        buf_init(&text);
        r = message_append(&document_table, &document, &text);
        if (r == 0)
                r = buf_char(&text, '\n');
        return r < 0 ? r : file_replace(path, buf_view(&text), 0600);
}

char *device_path(const char *dir, const char *name)
{
        char *path;

        return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

int device_dir_make(const char *dir)
{
        if (dir == NULL || dir[0] == '\0')
                return LESSOR_E_INVALID;
        if (mkdir(dir, 0700) == 0 || errno == EEXIST)
                return 0;
        return errno == EACCES || errno == EPERM ? LESSOR_E_PERMISSION : LESSOR_E_IO;
}
