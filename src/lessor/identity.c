/* SPDX-License-Identifier: MIT */
#include "lessor/identity.h"

#include <string.h>

#include "base/file.h"
#include "base/json_read.h"
#include "base/limits.h"
#include "base/macro.h"
#include "crypto/public_identity.h"
#include "lessor/error.h"
#include "lessor/input.h"
#include "wire/relay_shapes.h"

int identity_load_keys(struct cli *cli, const char *path, struct signing_key **ret_key)
{
        const char *problem = NULL;
        int e = signing_key_load(path, cli->arena, ret_key, &problem);

        if (e == 0)
                return CLI_EXIT_OK;
        if (problem != NULL)
                return cli_fail_error(cli, e, "cannot use the keys", problem);
        return cli_fail_error(cli, e, path, NULL);
}

/* Copies what belongs to somebody whose life is shorter than the run's. */
static int keep(struct cli *cli, const struct lessor_public_identity *from, struct lessor_slice key_id,
                struct lessor_public_identity *ret_identity, struct lessor_slice *ret_key_id)
{
        struct lessor_public_identity copy = {0};

        if (lessor_arena_copy(cli->arena, from->identity, &copy.identity) < 0 ||
            lessor_arena_copy(cli->arena, from->encryption, &copy.encryption) < 0 ||
            lessor_arena_copy(cli->arena, from->encryption_sig, &copy.encryption_sig) < 0 ||
            lessor_arena_copy(cli->arena, key_id, ret_key_id) < 0)
                return cli_fail_nomem(cli);
        *ret_identity = copy;
        return CLI_EXIT_OK;
}

static int from_keys(struct cli *cli, const char *path, struct lessor_public_identity *ret_identity,
                     struct lessor_slice *ret_key_id)
{
        _cleanup_(signing_key_freep) struct signing_key *key = NULL;
        int code = identity_load_keys(cli, path, &key);

        if (code != CLI_EXIT_OK)
                return code;
        return keep(cli, signing_key_identity(key), signing_key_id(key), ret_identity, ret_key_id);
}

static int from_public(struct cli *cli, const char *path, struct lessor_public_identity *ret_identity,
                       struct lessor_slice *ret_key_id)
{
        _cleanup_(buf_done) struct buf text = {0};
        struct lessor_public_identity identity = {0};
        struct identity_key key;
        struct key_id id;
        const char *problem = NULL;
        struct json *root;
        int code, e;

        code = input_read(cli, path, LIMIT_KEY_FILE_BYTES, &text);
        if (code != CLI_EXIT_OK)
                return code;
        e = json_read_file_text(buf_view(&text), cli->arena, &root, &problem);
        if (e == 0)
                e = message_read(&public_identity_table, root, cli->arena, &identity, &problem);
        if (e < 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "%s is no public identity: %s", path,
                                problem == NULL ? lessor_error_text(e) : problem);
        if (public_identity_check(&identity, &key) < 0)
                return cli_fail(cli, CLI_EXIT_FAILED, "%s: its keys do not belong together", path);
        key_id_of(&key, &id);
        return keep(cli, &identity, key_id_text(&id), ret_identity, ret_key_id);
}

int identity_read(struct cli *cli, const char *keys, const char *public,
                  struct lessor_public_identity *ret_identity, struct lessor_slice *ret_key_id)
{
        if ((keys == NULL) == (public == NULL))
                return cli_misuse(cli, "give either --keys FILE or --public FILE");
        if (keys != NULL)
                return from_keys(cli, keys, ret_identity, ret_key_id);
        return from_public(cli, public, ret_identity, ret_key_id);
}

void identity_write(const struct lessor_public_identity *identity, struct json_writer *w)
{
        message_write(&public_identity_table, identity, w);
}
