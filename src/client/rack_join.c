/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/limits.h"
#include "client/device_state.h"
#include "client/rack.h"

/* Enrolling a machine (rack-protocol 6.1). */

#define JOIN_MS   30000
#define HOST_MOST 256

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_wipe)

static void free_text(char **text)
{
        free(*text);
}

static void close_fd(const int *fd)
{
        if (*fd >= 0)
                close(*fd);
}

/* Held while the rack is made, so that no agent runs, and no other joining, in the same directory. */
static int lock(const char *dir, int *ret_fd, char **ret_problem)
{
        char *path = device_path(dir, "agent.lock");
        int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        free(path);
        if (fd < 0)
                return rack_problem(ret_problem, LESSOR_E_IO, "cannot write in %s: %s", dir, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                close(fd);
                return rack_problem(ret_problem, LESSOR_E_BUSY, "an agent runs in %s: stop it first", dir);
        }
        *ret_fd = fd;
        return 0;
}

static int ask(const struct lessor_rack_join *join, const char *url, struct lessor_arena *arena,
               struct rack_enroll_response *ret_answer, char **ret_problem)
{
        struct http_client_options http = {.ca_file = join->ca_file, .proxy = join->proxy};
        char host[HOST_MOST] = "rack";
        struct rack_enroll_request request = {
                .enrollment_token = lessor_slice_of(join->token),
                .host_info = {.capacity = 1, .agent_version = LESSOR_SLICE(RACK_VERSION)}};
        struct lessor_slice *tiers = lessor_arena_array(arena, join->n_tiers + 1, sizeof(*tiers));
        struct rack_caller caller = {.url = url};
        struct rack_failure failure;
        int r;

        if (tiers == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < join->n_tiers; i++)
                tiers[i] = lessor_slice_of(join->tiers[i]);
        gethostname(host, sizeof(host) - 1);
        request.host_info.label = lessor_slice_of(join->label == NULL ? host : join->label);
        request.host_info.tiers = tiers;
        request.host_info.n_tiers = join->n_tiers;
        r = http_client_new(&http, &caller.http);
        if (r < 0)
                return r == LESSOR_E_INVALID ? rack_problem(ret_problem, r, "the proxy is none") : r;
        rack_failure_init(&failure);
        r = rack_call(&caller, "enroll", &rack_enroll_request_type, &request, JOIN_MS,
                      &rack_enroll_response_type, arena, ret_answer, &failure);
        if (r == LESSOR_E_PERMISSION)
                rack_problem(ret_problem, r,
                             "the server does not take this enrolment token: each is good once, and for a "
                             "while; `lessor rack token` makes another");
        else if (r < 0)
                rack_problem(ret_problem, r, "%s", rack_failure_message(&failure));
        rack_failure_done(&failure);
        http_client_free(caller.http);
        return r;
}

static int enrol(const struct lessor_rack_join *join, const char *path, const char *url, char **ret_rack_id,
                 char **ret_problem)
{
        _cleanup_(lessor_arena_wipep) struct lessor_arena *arena = lessor_arena_new();
        struct rack_enroll_response answer;
        int r = arena == NULL ? LESSOR_E_NOMEM : 0;

        if (!join->replace && access(path, F_OK) == 0)
                return rack_problem(ret_problem, LESSOR_E_EXISTS,
                                    "%s holds a rack already: --replace gives it up, or use another --dir",
                                    join->dir);
        if (r == 0)
                r = ask(join, url, arena, &answer, ret_problem);
        if (r < 0)
                return r;
        r = rack_identity_create(path, lessor_slice_of(url), answer.rack_id, answer.rack_token,
                                 join->replace);
        if (r == LESSOR_E_INVALID)
                return rack_problem(ret_problem, LESSOR_E_PROTOCOL, "%s gave no rack token", url);
        if (r < 0)
                return rack_problem(ret_problem, r,
                                    "the rack is enrolled as %.*s, but %s cannot be written: %s; enrol again",
                                    (int)answer.rack_id.n, answer.rack_id.p, path, lessor_error_text(r));
        *ret_rack_id = strndup(answer.rack_id.p, answer.rack_id.n);
        return *ret_rack_id == NULL ? LESSOR_E_NOMEM : 0;
}

int lessor_rack_join(const struct lessor_rack_join *join, char **ret_rack_id, char **ret_problem)
{
        _cleanup_(free_text) char *url = NULL, *path = NULL;
        _cleanup_(close_fd) int lock_fd = -1;
        int r;

        if (ret_problem != NULL)
                *ret_problem = NULL;
        if (join->dir == NULL || join->dir[0] == '\0' || join->token == NULL)
                return rack_problem(ret_problem, LESSOR_E_INVALID, "a rack needs a directory and a token");
        if (join->label != NULL && strlen(join->label) > LIMIT_ID_BYTES)
                return rack_problem(ret_problem, LESSOR_E_INVALID, "the label has more than %d bytes",
                                    LIMIT_ID_BYTES);
        r = http_base_url(join->url, &url, NULL);
        if (r == LESSOR_E_INVALID)
                return rack_problem(ret_problem, r, "\"%s\" is no address of a server (http://HOST:PORT)",
                                    join->url == NULL ? "" : join->url);
        if (r == 0)
                r = device_dir_make(join->dir);
        if (r < 0)
                return rack_problem(ret_problem, r, "cannot make %s: %s", join->dir, lessor_error_text(r));
        path = device_path(join->dir, "rack.json");
        if (path == NULL)
                return LESSOR_E_NOMEM;
        r = lock(join->dir, &lock_fd, ret_problem);
        return r < 0 ? r : enrol(join, path, url, ret_rack_id, ret_problem);
}
