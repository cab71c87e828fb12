/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "bench.h"
#include "file_server.h"
#include "lessor/error.h"
#include "machine.h"
#include "rack_world.h"
#include "requests.h"

/* How fast objects go out and come in, by the URLs that racks are given. */

#define MIB         (1u << 20)
#define LARGE_BYTES (256 * MIB)
#define SMALL_BYTES (32 * MIB) /* to see that it works */

/* A lease that is held, and an object. */
struct cargo {
        struct rack_world *world;
        struct wire *wire;
        char *bytes;
        size_t n;
        char lease_id[256];
        char hash[65];
};

static void fill(char *bytes, size_t n)
{
        static const unsigned char seed[randombytes_SEEDBYTES] = "the same every time";

        randombytes_buf_deterministic(bytes, n, seed);
}

static void hash_of(const struct cargo *cargo, char hex[65])
{
        unsigned char hash[crypto_hash_sha256_BYTES];

        crypto_hash_sha256(hash, (const unsigned char *)cargo->bytes, cargo->n);
        sodium_bin2hex(hex, 65, hash, sizeof(hash));
}

/* Puts the object as an operator does, has a lease made that may read it, and the rack take it. */
static int take_lease(struct cargo *cargo)
{
        _cleanup_(buf_done) struct buf head = {0}, asks = {0};
        struct lessor_slice create, answer;
        int e;

        hash_of(cargo, cargo->hash);
        buf_printf(&head,
                   "PUT /api/control/v1/objects?repo=work HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                   "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n",
                   cargo->n);
        e = buf_failed(&head);
        if (e == 0)
                e = wire_send(cargo->world->control, buf_view(&head));
        if (e == 0)
                e = wire_ask(cargo->world->control, (struct lessor_slice){cargo->bytes, cargo->n}, &answer);
        if (e == 0)
                e = rack_world_create(cargo->world, 0, cargo->hash, &create);
        if (e == 0)
                e = wire_ask(cargo->world->control, create, &answer);
        if (e == 0)
                e = rack_world_poll(cargo->world, 0, &asks);
        if (e == 0)
                e = wire_ask(cargo->wire, buf_view(&asks), &answer);
        if (e < 0)
                return e;
        answer = text_after(answer, "\"leaseId\":\"");
        if (answer.p == NULL || answer.n >= sizeof(cargo->lease_id))
                return LESSOR_E_PROTOCOL;
        memcpy(cargo->lease_id, answer.p, answer.n);
        return 0;
}

/* Asks for a URL: to read the object, or to write what the bytes are now. Its secret part, and what to send.
 */
static int ask_url(struct cargo *cargo, bool write, char secret[128], char checksum[64])
{
        _cleanup_(buf_done) struct buf body = {0};
        struct lessor_slice answer, text;
        char hash[65];
        int e;

        if (write)
                hash_of(cargo, hash);
        buf_printf(&body, "{\"repo\":\"work\",\"leaseId\":\"%s\",\"need\":[", cargo->lease_id);
        if (!write)
                buf_printf(&body, "\"%s\"],\"outputs\":[]", cargo->hash);
        else
                buf_printf(&body, "],\"outputs\":[{\"hash\":\"%s\",\"size\":%zu}]", hash, cargo->n);
        buf_text(&body, ",\"commits\":[]}");
        e = rack_world_call(cargo->world, 0, "/api/rack/storage", buf_view(&body), cargo->wire, &answer);
        if (e < 0)
                return e;
        text = text_after(answer, "/api/rack/data/");
        if (text.p == NULL || text.n >= 128)
                return LESSOR_E_PROTOCOL;
        memcpy(secret, text.p, text.n);
        secret[text.n] = '\0';
        if (!write)
                return 0;
        text = text_after(answer, "\"x-amz-checksum-sha256\":\"");
        if (text.p == NULL || text.n >= 64)
                return LESSOR_E_PROTOCOL;
        memcpy(checksum, text.p, text.n);
        checksum[text.n] = '\0';
        return 0;
}

/* Reads an answer of `n` bytes of body and drops them. */
static int swallow(int fd, size_t n)
{
        char head[65536];
        size_t got = 0, body;
        const char *end = NULL;

        while (end == NULL) {
                ssize_t k = recv(fd, head + got, sizeof(head) - got, 0);

                if (k <= 0)
                        return LESSOR_E_CLOSED;
                got += (size_t)k;
                end = memmem(head, got, "\r\n\r\n", 4);
        }
        if (got < 12 || memcmp(head + 9, "200", 3) != 0)
                return LESSOR_E_REFUSED;
        body = got - (size_t)(end + 4 - head);
        while (body < n) {
                /* The kernel drops it; nothing is copied to us. */
                ssize_t k = recv(fd, NULL, n - body, MSG_TRUNC);

                if (k <= 0)
                        return LESSOR_E_CLOSED;
                body += (size_t)k;
        }
        return 0;
}

static int get(struct wire *wire, const char *path, size_t n, struct series *rate)
{
        _cleanup_(buf_done) struct buf request = {0};
        uint64_t begin_ns = now_ns();
        int e;

        buf_printf(&request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
        e = buf_failed(&request);
        if (e == 0)
                e = wire_send(wire, buf_view(&request));
        if (e == 0)
                e = swallow(wire->fd, n);
        if (e == 0)
                series_add(rate, (double)n * 1e3 / (double)(now_ns() - begin_ns));
        return e;
}

static int measure_get(struct bench *bench, struct cargo *cargo, const char *file)
{
        _cleanup_(file_server_freep) struct file_server *other = NULL;
        _cleanup_(wire_freep) struct wire *to_other = NULL, *to_us = NULL;
        struct series ours = {0}, theirs = {0};
        char secret[128], path[192];
        int e = file_server_new(file, &other);

        if (e == 0)
                e = ask_url(cargo, false, secret, NULL);
        (void)snprintf(path, sizeof(path), "/api/rack/data/%s", secret);
        if (e == 0)
                e = wire_open(other->port, &to_other);
        if (e == 0)
                e = wire_open(cargo->world->subject->port, &to_us);
        for (unsigned i = 0; i <= bench->rounds && e == 0; i++) {
                e = get(to_other, "/file", cargo->n, &theirs);
                if (e == 0)
                        e = get(to_us, path, cargo->n, &ours);
        }
        if (e == 0)
                e = report_value(&bench->report, series_median(&ours), "MB/s", "GET");
        if (e == 0)
                e = report_value(&bench->report, series_median(&theirs), "MB/s", "GET from %s", other->name);
        return e < 0 ? e
                     : report_target(&bench->report, series_median(&ours) / series_median(&theirs), "",
                                     REPORT_AT_LEAST, 0.7, "GET / %s", other->name);
}

static int put(struct cargo *cargo, struct series *rate)
{
        _cleanup_(buf_done) struct buf head = {0};
        char secret[128], checksum[64];
        uint64_t begin_ns;
        int e;

        cargo->bytes[0]++; /* another object every time */
        e = ask_url(cargo, true, secret, checksum);
        if (e < 0)
                return e;
        buf_printf(&head,
                   "PUT /api/rack/data/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nx-amz-checksum-sha256: %s\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   secret, checksum, cargo->n);
        e = buf_failed(&head);
        begin_ns = now_ns();
        if (e == 0)
                e = wire_send(cargo->wire, buf_view(&head));
        if (e == 0)
                e = wire_ask(cargo->wire, (struct lessor_slice){cargo->bytes, cargo->n}, NULL);
        if (e == 0)
                series_add(rate, (double)cargo->n * 1e3 / (double)(now_ns() - begin_ns));
        return e;
}

static int run_sha256sum(const char *file, size_t n, struct series *rate)
{
        uint64_t begin_ns = now_ns();
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                pin_to_core(CORE_SERVER);
                if (freopen("/dev/null", "w", stdout) != NULL)
                        execlp("sha256sum", "sha256sum", file, (char *)NULL);
                _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
                return LESSOR_E_IO;
        series_add(rate, (double)n * 1e3 / (double)(now_ns() - begin_ns));
        return 0;
}

static int measure_put(struct bench *bench, struct cargo *cargo, const char *file)
{
        struct series ours = {0}, theirs = {0};
        int e = 0;

        for (unsigned i = 0; i <= bench->rounds && e == 0; i++) {
                e = run_sha256sum(file, cargo->n, &theirs);
                if (e == 0)
                        e = put(cargo, &ours);
        }
        if (e == 0)
                e = report_value(&bench->report, series_median(&ours), "MB/s", "PUT");
        if (e == 0)
                e = report_value(&bench->report, series_median(&theirs), "MB/s", "sha256sum of the same");
        return e < 0 ? e
                     : report_target(&bench->report, series_median(&ours) / series_median(&theirs), "",
                                     REPORT_AT_LEAST, 0.7, "PUT / sha256sum");
}

static int measure(struct bench *bench, struct cargo *cargo)
{
        char file[] = "/tmp/lessor-bench-XXXXXX";
        int e = 0, fd = mkstemp(file);

        if (fd < 0)
                return LESSOR_E_IO;
        (void)close(fd);
        e = file_replace(file, (struct lessor_slice){cargo->bytes, cargo->n}, 0644);
        if (e == 0)
                e = take_lease(cargo);
        if (e == 0)
                e = measure_get(bench, cargo, file);
        if (e == 0)
                e = measure_put(bench, cargo, file);
        (void)unlink(file);
        return e;
}

int bench_bytes(struct bench *bench)
{
        _cleanup_(rack_world_freep) struct rack_world *world = NULL;
        struct cargo cargo = {.n = bench->rounds > 1 ? LARGE_BYTES : SMALL_BYTES};
        int e;

        e = report_section(
                &bench->report, "bytes", "Objects over loopback",
                "One object of 256 MiB on one connection, by the URL that a rack is given: read again "
                "and again, beside nginx with one worker where that is installed and else a server that "
                "does nothing but sendfile; and written, a different one every time, hashed on the way "
                "and on the disk before it is answered, beside sha256sum of the same bytes from the page "
                "cache. Each on one core, by turns.");
        cargo.bytes = malloc(cargo.n);
        if (e == 0 && cargo.bytes == NULL)
                e = LESSOR_E_NOMEM;
        if (e == 0) {
                fill(cargo.bytes, cargo.n);
                e = rack_world_new(bench, "memory", 20000, 1, &world);
        }
        if (e == 0) {
                cargo.world = world;
                e = wire_open(world->subject->port, &cargo.wire);
        }
        if (e == 0)
                e = measure(bench, &cargo);
        wire_free(cargo.wire);
        free(cargo.bytes);
        return e < 0 ? bench_failed(e, "bytes") : 0;
}
