/* SPDX-License-Identifier: MIT */
#include "client/device_link.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "client/device_state.h"
#include "wire/relay_shapes.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

int device_problem(char **ret_problem, int code, const char *format, ...)
{
        va_list args;

        if (ret_problem == NULL)
                return code;
        va_start(args, format);
        if (vasprintf(ret_problem, format, args) < 0)
                *ret_problem = NULL;
        va_end(args);
        return code;
}

static int check_service(const struct lessor_service *service, char **ret_problem)
{
        if (service->name == NULL || service->name[0] == '\0')
                return device_problem(ret_problem, LESSOR_E_INVALID, "a service needs a name");
        if (service->backend == NULL)
                return device_problem(ret_problem, LESSOR_E_INVALID, "service %s needs a backend",
                                      service->name);
        if (service->kinds == 0 || service->kinds >= 1u << LESSOR_N_KINDS)
                return device_problem(ret_problem, LESSOR_E_INVALID, "service %s answers no kind of job",
                                      service->name);
        if (message_word_number(&backend_id_words, lessor_slice_of(service->backend->ops->backend_id)) < 0)
                return device_problem(ret_problem, LESSOR_E_INVALID,
                                      "the backend of service %s has no id that the protocol knows",
                                      service->name);
        return 0;
}

int device_options_check(const struct lessor_device_options *options, char **ret_problem)
{
        if (options->dir == NULL || options->dir[0] == '\0')
                return device_problem(ret_problem, LESSOR_E_INVALID, "a device needs a directory");
        if (options->n_services == 0)
                return device_problem(ret_problem, LESSOR_E_INVALID, "a device needs a service at least");
        if (options->slots > LIMIT_CLAIM_MAX)
                return device_problem(ret_problem, LESSOR_E_INVALID, "a device runs at most %d jobs at once",
                                      LIMIT_CLAIM_MAX);
        for (size_t i = 0; i < options->n_services; i++) {
                int r = check_service(&options->services[i], ret_problem);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int make_keys(const char *path, struct stored_keys **ret_keys)
{
        struct stored_keys *keys = NULL;
        int r = stored_keys_generate(clock_now_ms(clock_wall()), &keys);

        if (r == 0)
                r = stored_keys_create(keys, path);
        if (r < 0) {
                stored_keys_free(keys);
                return r;
        }
        *ret_keys = keys;
        return 0;
}

int device_keys_load(const char *dir, bool make, struct stored_keys **ret_keys, char **ret_problem)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        char *path = device_path(dir, "keys.json");
        const char *problem = NULL;
        int r = arena == NULL || path == NULL ? LESSOR_E_NOMEM
                                              : stored_keys_load(path, arena, ret_keys, &problem);

        if (r == LESSOR_E_NOT_FOUND && make) {
                r = make_keys(path, ret_keys);
                problem = NULL;
        }
        if (r < 0 && problem != NULL)
                device_problem(ret_problem, r, "%s", problem);
        else if (r < 0)
                device_problem(ret_problem, r, "%s/keys.json: %s", dir, lessor_error_text(r));
        free(path);
        return r;
}

int device_link_init(struct device_link *link, const struct lessor_device_options *options,
                     const char *base_url)
{
        struct http_client_options http = {.ca_file = options->ca_file, .proxy = options->proxy};
        int r;

        memset(link, 0, sizeof(*link));
        relay_failure_init(&link->failure);
        r = http_client_new(&http, &link->http);
        if (r < 0)
                return r;
        link->caller = (struct relay_caller){
                .http = link->http,
                .base_url = base_url,
                .plane = REQUEST_PLANE_DEVICE,
                .clock = clock_wall(),
                .timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : DEVICE_TIMEOUT_DEFAULT_MS,
        };
        return 0;
}

void device_link_done(struct device_link *link)
{
        link->http = http_client_free(link->http);
        relay_failure_done(&link->failure);
}

bool device_pause(int64_t pause_ms, struct lessor_stop *stop, struct lessor_stop *other)
{
        int64_t until_ms = clock_monotonic_ms() + pause_ms;
        struct pollfd fds[] = {
                {.fd = lessor_stop_fd(stop), .events = POLLIN},
                {.fd = lessor_stop_fd(other), .events = POLLIN},
        };

        while (!lessor_stop_raised(stop) && !lessor_stop_raised(other)) {
                int64_t left_ms = until_ms - clock_monotonic_ms();

                if (left_ms <= 0)
                        return false;
                poll(fds, ARRAY_SIZE(fds), left_ms > 60000 ? 60000 : (int)left_ms);
        }
        return true;
}
