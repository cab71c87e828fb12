/* SPDX-License-Identifier: MIT */
#include "rack_world.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lessor/error.h"
#include "machine.h"
#include "requests.h"

#define PATIENCE_NS 60000000000u
#define HASH        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static int put_request(struct buf *out, const char *method, const char *path, const char *token,
                       struct lessor_slice body)
{
        buf_printf(out, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n", method,
                   path);
        if (token != NULL)
                buf_printf(out, "Authorization: Bearer %s\r\n", token);
        buf_printf(out, "Content-Length: %zu\r\n\r\n", body.n);
        return buf_slice(out, body);
}

int rack_world_control(struct rack_world *world, const char *path, const char *body,
                       struct lessor_slice *ret_answer)
{
        _cleanup_(buf_done) struct buf whole = {0};
        int e;

        buf_printf(&whole, "/api/control/v1%s", path);
        buf_clear(&world->request);
        e = buf_failed(&whole);
        if (e == 0)
                e = put_request(&world->request, body == NULL ? "GET" : "POST", whole.p, NULL,
                                lessor_slice_of(body == NULL ? "" : body));
        return e < 0 ? e : wire_ask(world->control, buf_view(&world->request), ret_answer);
}

/* The text between quotes behind `before`, into `to`. */
static int take_text(struct lessor_slice from, const char *before, char *to, size_t cap)
{
        struct lessor_slice text = text_after(from, before);

        if (text.p == NULL || text.n >= cap)
                return LESSOR_E_PROTOCOL;
        memcpy(to, text.p, text.n);
        to[text.n] = '\0';
        return 0;
}

static int enroll(struct rack_world *world, unsigned rack)
{
        _cleanup_(buf_done) struct buf body = {0};
        struct lessor_slice answer;
        char token[128];
        int e = rack_world_control(world, "/racks/tokens/create", "{}", &answer);

        if (e == 0)
                e = take_text(answer, "\"token\":\"", token, sizeof(token));
        if (e < 0)
                return e;
        buf_printf(&body,
                   "{\"enrollmentToken\":\"%s\",\"hostInfo\":{\"label\":\"bench-%u\",\"tiers\":[\"tier-%u\"],"
                   "\"capacity\":1,\"agentVersion\":\"1.0.0\"}}",
                   token, rack, rack);
        buf_clear(&world->request);
        e = put_request(&world->request, "POST", "/api/rack/enroll", NULL, buf_view(&body));
        if (e == 0)
                e = wire_ask(world->racks, buf_view(&world->request), &answer);
        if (e == 0)
                e = take_text(answer, "\"rackToken\":\"", world->racks_of[rack].token,
                              sizeof(world->racks_of[rack].token));
        world->racks_of[rack].tier = rack;
        return e;
}

static int start(const struct bench *bench, const char *store, unsigned window_ms,
                 struct subject **ret_subject)
{
        char window[16];
        /* Nobody extends what a measurement holds. */
        const char *const arguments[] = {bench->lessord,
                                         "--listen",
                                         "127.0.0.1:0",
                                         "--data",
                                         "@DIR/data",
                                         "--store",
                                         store,
                                         "--threads",
                                         "1",
                                         "--rack-window-ms",
                                         window,
                                         "--rack-visibility-ms",
                                         "3600000",
                                         "--log-level",
                                         bench->log_level,
                                         NULL};

        (void)snprintf(window, sizeof(window), "%u", window_ms);
        return subject_start(arguments, LESSOR_SLICE("{}"), ret_subject);
}

int rack_world_new(const struct bench *bench, const char *store, unsigned window_ms, unsigned n_racks,
                   struct rack_world **ret_world)
{
        _cleanup_(rack_world_freep) struct rack_world *world = calloc(1, sizeof(*world));
        _cleanup_(buf_done) struct buf path = {0};
        int e;

        if (world == NULL)
                return LESSOR_E_NOMEM;
        world->racks_of = calloc(n_racks, sizeof(*world->racks_of));
        if (world->racks_of == NULL)
                return LESSOR_E_NOMEM;
        e = start(bench, store, window_ms, &world->subject);
        if (e == 0)
                e = buf_printf(&path, "%s/data/control.sock", world->subject->directory);
        if (e == 0)
                e = wire_open_unix(path.p, &world->control);
        if (e == 0)
                e = wire_open(world->subject->port, &world->racks);
        for (; e == 0 && world->n_racks < n_racks; world->n_racks++)
                e = enroll(world, world->n_racks);
        if (e == 0)
                *ret_world = TAKE(world);
        return e;
}

struct rack_world *rack_world_free(struct rack_world *world)
{
        if (world == NULL)
                return NULL;
        wire_free(world->control);
        wire_free(world->racks);
        subject_free(world->subject);
        buf_done(&world->request);
        free(world->racks_of);
        free(world);
        return NULL;
}

int rack_world_poll(const struct rack_world *world, unsigned rack, struct buf *out)
{
        char body[96];
        int n = snprintf(body, sizeof(body), "{\"tiers\":[\"tier-%u\"],\"bootId\":\"boot\"}",
                         world->racks_of[rack].tier);

        return put_request(out, "POST", "/api/rack/lease", world->racks_of[rack].token,
                           (struct lessor_slice){body, (size_t)n});
}

int rack_world_create(struct rack_world *world, unsigned rack, const char *reads,
                      struct lessor_slice *ret_request)
{
        _cleanup_(buf_done) struct buf body = {0};
        unsigned n = ++world->n_leases;
        int e;

        buf_printf(
                &body,
                "{\"repo\":\"work\",\"tier\":\"tier-%u\",\"event\":{\"version\":2,\"workspace\":\"main\","
                "\"taskName\":\"train\",\"closure\":{\"hashes\":[\"%s\"]},\"runnerEvent\":{\"mode\":\"task\","
                "\"launchId\":\"0199c82c-c000-7000-8000-%012x\",\"repo\":\"work\",\"timeoutMs\":60000,"
                "\"taskHash\":\"%s\",\"inputHashes\":[]}}}",
                world->racks_of[rack].tier, reads == NULL ? HASH : reads, n, HASH);
        buf_clear(&world->request);
        e = put_request(&world->request, "POST", "/api/control/v1/leases/create", NULL, buf_view(&body));
        if (e == 0)
                *ret_request = buf_view(&world->request);
        return e;
}

int rack_world_call(const struct rack_world *world, unsigned rack, const char *path, struct lessor_slice body,
                    struct wire *wire, struct lessor_slice *ret_answer)
{
        _cleanup_(buf_done) struct buf request = {0};
        int e = put_request(&request, "POST", path, world->racks_of[rack].token, body);

        return e < 0 ? e : wire_ask(wire, buf_view(&request), ret_answer);
}

int rack_world_until_parked(struct rack_world *world, unsigned n)
{
        uint64_t end_ns = now_ns() + PATIENCE_NS;
        char want[32];
        int len = snprintf(want, sizeof(want), "\"parked\":%u,", n);

        while (now_ns() < end_ns) {
                struct lessor_slice answer;
                int e = rack_world_control(world, "/status", NULL, &answer);

                if (e < 0)
                        return e;
                if (memmem(answer.p, answer.n, want, (size_t)len) != NULL)
                        return 0;
                (void)poll(NULL, 0, 1);
        }
        return LESSOR_E_TIMEOUT;
}
