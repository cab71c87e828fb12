/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/macro.h"
#include "crypto/stored_keys.h"
#include "lessor/commands.h"
#include "lessor/error.h"
#include "lessor/identity.h"
#include "lessor/input.h"

/* Key files. Nothing private is ever printed. */

static int show(struct cli *cli, const char *path, const struct signing_key *key, int64_t created_ms,
                const char *headline)
{
        struct buf out = {0};
        struct json_writer w;

        if (cli->json) {
                json_writer_init(&w, &out);
                json_open_object(&w);
                json_member_cstr(&w, "file", path);
                json_member_text(&w, "keyId", signing_key_id(key));
                json_key(&w, "public");
                identity_write(signing_key_identity(key), &w);
                if (created_ms > 0)
                        json_member_int(&w, "createdAt", created_ms);
                json_close_object(&w);
                buf_char(&out, '\n');
                return output_print(cli, &out);
        }
        if (headline != NULL)
                buf_printf(&out, "%s %s\n", headline, path);
        buf_text(&out, "key id  ");
        buf_slice(&out, signing_key_id(key));
        buf_text(&out, "\npublic  ");
        json_writer_init(&w, &out);
        identity_write(signing_key_identity(key), &w);
        buf_char(&out, '\n');
        return output_print(cli, &out);
}

int run_keys_new(struct cli *cli)
{
        _cleanup_(stored_keys_freep) struct stored_keys *keys = NULL;
        const char *path = cli->args[0];
        int64_t now_ms = clock_now_ms(clock_wall());
        int e = stored_keys_generate(now_ms, &keys);

        if (e == 0)
                e = stored_keys_create(keys, path);
        if (e == LESSOR_E_EXISTS)
                return cli_fail(cli, CLI_EXIT_REFUSED,
                                "%s is there already, and keys are never overwritten: name another file",
                                path);
        if (e == LESSOR_E_NOT_FOUND)
                return cli_fail(cli, CLI_EXIT_NOT_FOUND, "%s: there is no such directory", path);
        if (e < 0)
                return cli_fail_error(cli, e, path, NULL);
        return show(cli, path, stored_keys_signing(keys), now_ms,
                    "wrote new keys, readable by you alone, to");
}

int run_keys_show(struct cli *cli)
{
        _cleanup_(stored_keys_freep) struct stored_keys *keys = NULL;
        const char *problem = NULL;
        int e = stored_keys_load(cli->args[0], cli->arena, &keys, &problem);

        if (e < 0)
                return problem != NULL ? cli_fail_error(cli, e, "cannot use the keys", problem)
                                       : cli_fail_error(cli, e, cli->args[0], NULL);
        return show(cli, cli->args[0], stored_keys_signing(keys), stored_keys_created_ms(keys), NULL);
}
