/* SPDX-License-Identifier: MIT */
/*
 * What the http room itself costs: a server with handlers that do nothing, and a client, in two processes.
 *
 *     http_room MODE [CONNECTIONS [SECONDS [PARKED]]]
 *
 * plain   answers at once
 * post    the same for a POST with 1 kB
 * hold    the answer waits for a thread that commits everything that came meanwhile, as a store does
 * idle    CONNECTIONS idle ones: memory and processor time
 *
 * PARKED more requests wait in a parking lot all the while. Prints one line of JSON.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/parking.h"
#include "http/server.h"

#define COMMIT_US 500 /* about a fast disk's sync */
#define MOST_HELD 65536

struct bench {
        struct parking_lot *lot;
        pthread_mutex_t lock;
        pthread_cond_t come;
        struct {
                http_told *told;
                void *context;
        } held[MOST_HELD];
        size_t n_held;
        bool stop;
};

static void plain(struct http_request *request, void *context)
{
        (void)context;
        http_answer_json(request, 200, LESSOR_SLICE("{\"status\":\"ok\",\"lost\":[],\"cancelled\":[]}"));
}

static int when(void *context, http_told *told, void *told_context)
{
        struct bench *b = context;

        pthread_mutex_lock(&b->lock);
        b->held[b->n_held].told = told;
        b->held[b->n_held].context = told_context;
        if (b->n_held++ == 0)
                pthread_cond_signal(&b->come);
        pthread_mutex_unlock(&b->lock);
        return 0;
}

static void hold(struct http_request *request, void *context)
{
        plain(request, context);
        http_answer_after(request, when, NULL, context);
}

static void resumed(struct http_request *request, void *context)
{
        plain(request, context);
}

static void park(struct http_request *request, void *context)
{
        struct bench *b = context;

        parking_wait(b->lot, request, request->path, parking_generation(b->lot, request->path), 600000,
                     resumed, b);
}

static void *commit(void *context)
{
        static struct bench copy;
        struct bench *b = context;

        pthread_mutex_lock(&b->lock);
        while (!b->stop) {
                size_t n = b->n_held;

                if (n == 0) {
                        pthread_cond_wait(&b->come, &b->lock);
                        continue;
                }
                memcpy(copy.held, b->held, n * sizeof(b->held[0]));
                b->n_held = 0;
                pthread_mutex_unlock(&b->lock);
                usleep(COMMIT_US);
                for (size_t i = 0; i < n; i++)
                        copy.held[i].told(copy.held[i].context, 0);
                pthread_mutex_lock(&b->lock);
        }
        pthread_mutex_unlock(&b->lock);
        return NULL;
}

static const struct http_route routes[] = {
        {"GET", "/plain", plain, 0, "plain", ""},
        {"POST", "/post", plain, 65536, "post", ""},
        {"GET", "/hold", hold, 0, "hold", ""},
        {"GET", "/park/*", park, 0, "park", ""},
        {0},
};

static void pin(unsigned processor)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(processor, &set);
        sched_setaffinity(0, sizeof(set), &set);
}

/* Serves until stdin-like `from` closes. */
static void serve(int tell_port, int until)
{
        static struct bench b = {.lock = PTHREAD_MUTEX_INITIALIZER, .come = PTHREAD_COND_INITIALIZER};
        struct lessor_arena *arena = lessor_arena_new();
        struct http_listen listen = {"127.0.0.1:0", false, routes, &b, "bench"};
        struct http_options options;
        struct http_server *server;
        const char *problem;
        pthread_t committer;
        unsigned port;
        char byte;

        pin(0);
        b.lot = parking_lot_new();
        http_options_init(&options);
        options.listen = &listen;
        options.n_listen = 1;
        options.threads = 1;
        options.no_access_log = true;
        if (http_server_new(&options, arena, &server, &problem) < 0 || http_server_start(server) < 0) {
                fprintf(stderr, "%s\n", problem);
                exit(1);
        }
        pthread_create(&committer, NULL, commit, &b);
        port = http_server_port(server, 0);
        (void)!write(tell_port, &port, sizeof(port));
        (void)!read(until, &byte, 1);
        _exit(0);
}

static int connect_to(unsigned port)
{
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
                perror("connect");
                exit(1);
        }
        return fd;
}

static double cpu_s(pid_t pid)
{
        char path[64], line[1024];
        unsigned long ticks = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        file = fopen(path, "r");
        if (file == NULL)
                return 0;
        if (fgets(line, sizeof(line), file) != NULL) {
                char *at = strrchr(line, ')');

                for (int i = 0; at != NULL && i < 12; i++) /* utime is the twelfth field after the name */
                        at = strchr(at + 1, ' ');
                if (at != NULL)
                        ticks = strtoul(at, &at, 10) + strtoul(at, NULL, 10);
        }
        fclose(file);
        return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static long rss_kb(pid_t pid)
{
        char path[64], line[256];
        long kb = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/status", pid);
        file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL)
                kb = strncmp(line, "VmRSS:", 6) == 0 ? strtol(line + 6, NULL, 10) : kb;
        if (file != NULL)
                fclose(file);
        return kb;
}

/* Keeps one request on each connection for so long. Returns how many were answered. */
static unsigned long drive(const int *fds, int n, const char *request, size_t len, int64_t for_ms)
{
        int epoll = epoll_create1(0);
        int64_t until_ms = clock_monotonic_ms() + for_ms;
        unsigned long done = 0;
        struct epoll_event events[256];

        for (int i = 0; i < n; i++) {
                struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};

                epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
                (void)!send(fds[i], request, len, 0);
        }
        while (clock_monotonic_ms() < until_ms) {
                int got = epoll_wait(epoll, events, 256, 100);

                for (int i = 0; i < got; i++) {
                        char answer[4096];

                        if (recv(events[i].data.fd, answer, sizeof(answer), 0) <= 0)
                                exit(1);
                        done++;
                        (void)!send(events[i].data.fd, request, len, 0);
                }
        }
        close(epoll);
        return done;
}

static void say(unsigned port, int fd, const char *text)
{
        char answer[4096];

        (void)port;
        (void)!send(fd, text, strlen(text), 0);
        (void)!recv(fd, answer, sizeof(answer), 0);
}

int main(int argc, char **argv)
{
        const char *mode = argc > 1 ? argv[1] : "plain";
        int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 64,
            seconds = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 3;
        int parked = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 0, port_pipe[2], stop_pipe[2], *fds;
        static char request[4096];
        bool idle = strcmp(mode, "idle") == 0;
        unsigned port = 0;
        double before_s, used_s;
        unsigned long done = 0;
        pid_t server;
        long rss;

        if (pipe(port_pipe) < 0 || pipe(stop_pipe) < 0)
                return 1;
        server = fork();
        if (server == 0) {
                close(stop_pipe[1]);
                serve(port_pipe[1], stop_pipe[0]);
        }
        pin(1);
        if (read(port_pipe[0], &port, sizeof(port)) != (ssize_t)sizeof(port))
                return 1;
        if (strcmp(mode, "post") == 0) {
                int at = snprintf(request, sizeof(request),
                                  "POST /post HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                                  "Content-Length: 1000\r\n\r\n");
                memset(request + at, 'x', 1000);
        } else {
                snprintf(request, sizeof(request), "GET /%s HTTP/1.1\r\nHost: bench\r\n\r\n",
                         idle ? "plain" : mode);
        }
        for (int i = 0; i < parked; i++) {
                int fd = connect_to(port);
                char text[128];

                snprintf(text, sizeof(text), "GET /park/%d HTTP/1.1\r\nHost: bench\r\n\r\n", i);
                (void)!send(fd, text, strlen(text), 0);
        }
        fds = calloc((size_t)n, sizeof(*fds));
        for (int i = 0; i < n; i++) {
                fds[i] = connect_to(port);
                if (idle)
                        say(port, fds[i], request);
        }
        poll(NULL, 0, 500);
        before_s = cpu_s(server);
        if (idle)
                poll(NULL, 0, seconds * 1000);
        else
                done = drive(fds, n, request, strlen(request), (int64_t)seconds * 1000);
        used_s = cpu_s(server) - before_s;
        rss = rss_kb(server);
        printf("{\"mode\":\"%s\",\"connections\":%d,\"parked\":%d,\"per_second\":%lu,\"server_cpu_us_each\":%"
               ".2f,"
               "\"server_cpu_share\":%.4f,\"server_rss_mb\":%.1f}\n",
               mode, n, parked, done / (unsigned long)seconds, done == 0 ? 0 : used_s * 1e6 / (double)done,
               used_s / seconds, (double)rss / 1024);
        close(stop_pipe[1]);
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
        return 0;
}
