/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "client/tree_place.h"
#include "lessor/bar.h"
#include "lessor/commands.h"
#include "lessor/control_client.h"
#include "lessor/list.h"
#include "lessor/object_link.h"

/* Published environments: what racks make of a base image before a task of theirs runs in it. */

#define LAYERS_REPO "env-layers"

/* --- Publishing --- */

static int send_layer(struct cli *cli, struct object_upload *upload, const char *path,
                      char ret_hash[SHA256_HEX_LEN + 1])
{
        _cleanup_(tree_place_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct tree_object object = {.fd = fd, .path = lessor_slice_of(path)};
        int e;

        if (fd < 0)
                return cli_fail_error(cli, tree_place_error(errno), path, strerror(errno));
        e = tree_hash_file(fd, ret_hash, &object.size);
        if (e == 0) {
                object.hash = (struct lessor_slice){ret_hash, SHA256_HEX_LEN};
                e = object_upload_add(upload, &object);
                return e < 0 ? object_upload_fail(upload, e) : CLI_EXIT_OK;
        }
        return cli_fail_error(cli, e, path, NULL);
}

static void on_moved(void *context, const struct object_figures *figures)
{
        bar_move(context, figures->n_bytes, 0);
}

/* Sends the layers, and gives their hashes, in the order of the arguments. */
static int send_layers(struct cli *cli, char (*hashes)[SHA256_HEX_LEN + 1])
{
        _cleanup_(control_link_freep) struct control_link *link = NULL;
        _cleanup_(object_upload_freep) struct object_upload *upload = NULL;
        struct object_link_options options = {.repo = LAYERS_REPO};
        struct bar bar;
        int code = control_link_open(cli, &link), e;

        if (code != CLI_EXIT_OK)
                return code;
        bar_begin(&bar, "sending", 0, cli_switch(cli, "quiet"));
        options.link = link;
        options.moved = on_moved;
        options.context = &bar;
        if (object_upload_new(&options, &upload) < 0)
                return cli_fail_nomem(cli);
        for (size_t i = 2; code == CLI_EXIT_OK && i < cli->n_args; i++)
                code = send_layer(cli, upload, cli->args[i], hashes[i - 2]);
        e = code == CLI_EXIT_OK ? object_upload_finish(upload) : 0;
        bar_end(&bar);
        return e < 0 ? object_upload_fail(upload, e) : code;
}

static void write_publication(struct cli *cli, char (*hashes)[SHA256_HEX_LEN + 1], struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_member_cstr(&w, "envHash", cli->args[0]);
        json_member_cstr(&w, "e3Version", cli->args[1]);
        json_member_cstr(&w, "baseImage", cli_option(cli, "image"));
        json_member_cstr(&w, "baseTier", cli_option(cli, "tier"));
        json_key(&w, "layers");
        json_open_array(&w);
        for (size_t i = 2; i < cli->n_args; i++) {
                char digest[SHA256_HEX_LEN + 8];

                snprintf(digest, sizeof(digest), "sha256:%s", hashes[i - 2]);
                json_open_object(&w);
                json_member_cstr(&w, "digest", digest);
                json_member_cstr(&w, "mediaType", cli_option(cli, "media-type"));
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
}

int run_env_publish(struct cli *cli)
{
        char(*hashes)[SHA256_HEX_LEN + 1] = lessor_arena_array(cli->arena, cli->n_args, sizeof(*hashes));
        _cleanup_(buf_done) struct buf body = {0};
        struct control_answer answer;
        int code;

        if (cli_option(cli, "image") == NULL || cli_option(cli, "tier") == NULL)
                return cli_misuse(cli,
                                  "give --image IMAGE, which the layers go on, and --tier TIER, which racks "
                                  "can run it");
        if (hashes == NULL)
                return cli_fail_nomem(cli);
        code = control_get(cli, "/environments", &answer); /* is there a server at all? */
        if (code == CLI_EXIT_OK)
                code = send_layers(cli, hashes);
        if (code != CLI_EXIT_OK)
                return code;
        write_publication(cli, hashes, &body);
        code = control_post(cli, "/environments/publish", &body, &answer);
        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "environment %s is published for %s, with %zu layer%s",
                              cli->args[0], cli->args[1], cli->n_args - 2, cli->n_args == 3 ? "" : "s");
}

/* --- What there is --- */

static void put_row(struct output_table *t, const struct json *environment, int64_t now_ms)
{
        output_cell(t, control_slice(environment, "envHash"), COLOUR_NONE);
        list_text(t, environment, "e3Version");
        list_text(t, environment, "baseTier");
        list_text(t, environment, "baseImage");
        list_number(t, control_int(environment, "layers"), COLOUR_NONE);
        list_when(t, control_int(environment, "publishedAt"), now_ms, COLOUR_DIM);
}

int run_env_ls(struct cli *cli)
{
        static const char *const titles[] = {"ENVIRONMENT", "VERSION", "TIER",
                                             "IMAGE",       ">LAYERS", "PUBLISHED"};
        const struct list list = {.path = "/environments",
                                  .member = "environments",
                                  .titles = titles,
                                  .n_titles = 6,
                                  .none = "no environments yet; `lessor env publish` publishes one",
                                  .row = put_row};

        return list_show(cli, &list);
}

int run_env_rm(struct cli *cli)
{
        struct control_answer answer;
        int code = control_post_texts(cli, "/environments/remove", &answer, "envHash", cli->args[0],
                                      "e3Version", cli->args[1], NULL);

        if (code != CLI_EXIT_OK)
                return code;
        return control_report(cli, &answer, "environment %s is not published for %s any more", cli->args[0],
                              cli->args[1]);
}
