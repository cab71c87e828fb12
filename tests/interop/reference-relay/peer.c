/* SPDX-License-Identifier: MIT */
#include "peer.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/http_client.h"

#define START_MS 15000

extern char **environ;

static int wait_for_line(int fd, char **ret_url)
{
        static const char prefix[] = "listening on ";
        char line[256];
        size_t n = 0;

        for (;;) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                ssize_t got;

                if (n == sizeof(line) - 1 || poll(&p, 1, START_MS) <= 0)
                        return 77;
                got = read(fd, line + n, 1);
                if (got <= 0)
                        return 77;
                if (line[n] != '\n') {
                        n++;
                        continue;
                }
                line[n] = '\0';
                if (strncmp(line, prefix, sizeof(prefix) - 1) == 0) {
                        *ret_url = strdup(line + sizeof(prefix) - 1);
                        return *ret_url == NULL ? 77 : 0;
                }
                n = 0;
        }
}

int peer_start(const char *const *argv, struct peer *ret_peer)
{
        posix_spawn_file_actions_t files;
        int fds[2];
        int r;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return 77;
        posix_spawn_file_actions_init(&files);
        posix_spawn_file_actions_adddup2(&files, fds[1], 1);
        r = posix_spawnp(&ret_peer->pid, argv[0], &files, NULL, (char *const *)argv, environ);
        posix_spawn_file_actions_destroy(&files);
        close(fds[1]);
        if (r != 0) {
                close(fds[0]);
                return 77;
        }
        r = wait_for_line(fds[0], &ret_peer->url);
        close(fds[0]);
        if (r != 0) {
                ret_peer->url = NULL;
                peer_stop(ret_peer);
        }
        return r;
}

void peer_stop(struct peer *peer)
{
        int status;

        kill(peer->pid, SIGTERM);
        while (waitpid(peer->pid, &status, 0) < 0)
                ;
        free(peer->url);
        peer->url = NULL;
}

char *peer_post(const struct peer *peer, const char *path, const char *json)
{
        struct http_client_options options = {0};
        struct http_client *client = NULL;
        struct http_transfer *transfer = NULL;
        struct http_request request = {
                .method = json == NULL ? "GET" : "POST",
                .body = lessor_slice_of(json),
                .max_answer_bytes = 1 << 20,
                .timeout_ms = 5000,
        };
        char url[256];
        char *body;

        snprintf(url, sizeof(url), "%s%s", peer->url, path);
        request.url = url;
        if (http_client_new(&options, &client) < 0 ||
            http_client_call(client, &request, NULL, &transfer) < 0 || http_transfer_status(transfer) != 200)
                abort();
        body = strndup(http_transfer_body(transfer).p, http_transfer_body(transfer).n);
        http_transfer_free(transfer);
        http_client_free(client);
        return body;
}

char *scratch_make(void)
{
        const char *tmp = getenv("TMPDIR");
        char *dir;

        if (asprintf(&dir, "%s/lessor-test-XXXXXX", tmp == NULL ? "/tmp" : tmp) < 0 || mkdtemp(dir) == NULL)
                abort();
        return dir;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
        (void)st;
        (void)type;
        (void)where;
        return remove(path);
}

void scratch_remove(char *dir)
{
        nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(dir);
}
