/* SPDX-License-Identifier: MIT */
#include "file_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "lessor/error.h"
#include "machine.h"
#include "wire.h"

#define PATIENCE_MS 10000

static int listen_somewhere(unsigned *ret_port)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (fd < 0 || bind(fd, (struct sockaddr *)&address, n) < 0 || listen(fd, 8) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &n) < 0)
                return -1;
        *ret_port = ntohs(address.sin_port);
        return fd;
}

/* Reads one head; the body of a GET is nothing. */
static bool read_head(int fd)
{
        char head[8192];
        size_t n = 0;

        while (n < sizeof(head) - 1) {
                ssize_t got = recv(fd, head + n, sizeof(head) - 1 - n, 0);

                if (got <= 0)
                        return false;
                n += (size_t)got;
                if (memmem(head, n, "\r\n\r\n", 4) != NULL)
                        return true;
        }
        return false;
}

static bool send_file(int fd, int file, off_t size)
{
        char head[128];
        int n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\n\r\n",
                         (long long)size);
        off_t at = 0;

        if (send(fd, head, (size_t)n, MSG_MORE | MSG_NOSIGNAL) != n)
                return false;
        while (at < size)
                if (sendfile(fd, file, &at, (size_t)(size - at)) <= 0)
                        return false;
        return true;
}

static void serve(int listener, const char *path)
{
        int file = open(path, O_RDONLY | O_CLOEXEC), fd;
        struct stat st;

        prctl(PR_SET_PDEATHSIG, SIGTERM);
        pin_to_core(CORE_SERVER);
        if (file < 0 || fstat(file, &st) < 0)
                _exit(1);
        while ((fd = accept(listener, NULL, NULL)) >= 0) {
                while (read_head(fd) && send_file(fd, file, st.st_size))
                        ;
                (void)close(fd);
        }
        _exit(0);
}

static bool has_nginx(void)
{
        return access("/usr/sbin/nginx", X_OK) == 0;
}

/* Where its file is served as /file. */
static int configure_nginx(struct file_server *server, const char *path)
{
        _cleanup_(buf_done) struct buf text = {0}, to = {0};

        buf_printf(&to, "%s/file", server->directory);
        if (buf_failed(&to) < 0 || symlink(path, to.p) < 0)
                return LESSOR_E_IO;
        buf_clear(&to);
        buf_printf(&to, "%s/nginx.conf", server->directory);
        buf_printf(
                &text,
                "daemon off; master_process off; worker_processes 1; pid %s/pid; error_log %s/log;\n"
                "events {}\nhttp { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;\n"
                "client_body_temp_path %s; proxy_temp_path %s; fastcgi_temp_path %s; uwsgi_temp_path %s;\n"
                "scgi_temp_path %s; server { listen 127.0.0.1:%u; root %s; } }\n",
                server->directory, server->directory, server->directory, server->directory, server->directory,
                server->directory, server->directory, server->port, server->directory);
        if (buf_failed(&text) < 0 || buf_failed(&to) < 0)
                return LESSOR_E_NOMEM;
        return file_replace(to.p, buf_view(&text), 0600);
}

static void become_nginx(const struct file_server *server)
{
        char config[4096];

        prctl(PR_SET_PDEATHSIG, SIGTERM);
        pin_to_core(CORE_SERVER);
        (void)snprintf(config, sizeof(config), "%s/nginx.conf", server->directory);
        execl("/usr/sbin/nginx", "nginx", "-c", config, (char *)NULL);
        _exit(127);
}

static int await(const struct file_server *server)
{
        uint64_t end_ns = now_ns() + PATIENCE_MS * 1000000ull;
        struct wire *wire;

        while (now_ns() < end_ns) {
                if (wire_open(server->port, &wire) == 0) {
                        wire_free(wire);
                        return 0;
                }
                (void)poll(NULL, 0, 5);
        }
        return LESSOR_E_UNAVAILABLE;
}

int file_server_new(const char *path, struct file_server **ret_server)
{
        _cleanup_(file_server_freep) struct file_server *server = calloc(1, sizeof(*server));
        bool nginx = has_nginx();
        int listener, e = 0;

        if (server == NULL)
                return LESSOR_E_NOMEM;
        server->name = nginx ? "nginx" : "a bare sendfile server";
        if (asprintf(&server->directory, "/tmp/lessor-bench-XXXXXX") < 0) {
                server->directory = NULL;
                return LESSOR_E_NOMEM;
        }
        listener = listen_somewhere(&server->port);
        if (listener < 0 || mkdtemp(server->directory) == NULL)
                return LESSOR_E_IO;
        if (nginx) {
                (void)close(listener); /* nginx takes the port that was free */
                e = configure_nginx(server, path);
        }
        if (e == 0)
                server->pid = fork();
        if (e == 0 && server->pid == 0) {
                if (nginx)
                        become_nginx(server);
                serve(listener, path);
        }
        if (!nginx)
                (void)close(listener);
        if (e == 0)
                e = server->pid < 0 ? LESSOR_E_IO : await(server);
        if (e == 0)
                *ret_server = TAKE(server);
        return e;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
        (void)status, (void)type, (void)ftw;
        return remove(path);
}

struct file_server *file_server_free(struct file_server *server)
{
        if (server == NULL)
                return NULL;
        if (server->pid > 0) {
                (void)kill(server->pid, SIGTERM);
                (void)waitpid(server->pid, NULL, 0);
        }
        if (server->directory != NULL)
                (void)nftw(server->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        free(server->directory);
        free(server);
        return NULL;
}
