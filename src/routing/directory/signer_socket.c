/* SPDX-License-Identifier: MIT */
#include "routing/directory/signer_socket.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/macro.h"
#include "lessor/error.h"
#include "wire/message.h"

#define IDLE_MAX 16

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

struct signer_socket {
        struct sockaddr_un address;
        int64_t timeout_ms;
        pthread_mutex_t lock; /* guards the two below */
        int idle[IDLE_MAX];
        size_t n_idle;
};

struct signer_answer {
        struct lessor_slice signature;
        struct lessor_slice public_key;
        struct lessor_slice error;
};

static const struct message_field signer_answer_fields[] = {
        FIELD_TEXT1(struct signer_answer, signature, "signature", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct signer_answer, public_key, "public", .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct signer_answer, error, "error", .flags = MESSAGE_OPTIONAL),
};
/* Open, so that a newer signer may say more. */
static const struct message_table signer_answer_table =
        MESSAGE_TABLE("SignerAnswer", struct signer_answer, signer_answer_fields, .open = true);

int signer_socket_new(const char *path, int64_t timeout_ms, struct signer_socket **ret_socket)
{
        size_t n = strlen(path);
        struct signer_socket *s;

        if (n == 0 || n >= sizeof(s->address.sun_path))
                return LESSOR_E_INVALID;
        s = calloc(1, sizeof(*s));
        if (s == NULL)
                return LESSOR_E_NOMEM;
        s->address.sun_family = AF_UNIX;
        memcpy(s->address.sun_path, path, n);
        s->timeout_ms = timeout_ms;
        pthread_mutex_init(&s->lock, NULL);
        *ret_socket = s;
        return 0;
}

struct signer_socket *signer_socket_free(struct signer_socket *s)
{
        if (s == NULL)
                return NULL;
        for (size_t i = 0; i < s->n_idle; i++)
                close(s->idle[i]);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return NULL;
}

/* --- Connections --- */

static int take_idle(struct signer_socket *s)
{
        int fd = -1;

        pthread_mutex_lock(&s->lock);
        if (s->n_idle > 0)
                fd = s->idle[--s->n_idle];
        pthread_mutex_unlock(&s->lock);
        return fd;
}

static void give_idle(struct signer_socket *s, int fd)
{
        pthread_mutex_lock(&s->lock);
        if (s->n_idle < IDLE_MAX) {
                s->idle[s->n_idle++] = fd;
                fd = -1;
        }
        pthread_mutex_unlock(&s->lock);
        if (fd >= 0)
                close(fd);
}

/* A Unix socket whose backlog is full cannot be waited for with poll(), but connect() honours the send
 * timeout. */
static int set_send_timeout(int fd, int64_t left_ms)
{
        struct timeval limit = {.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};

        if (left_ms <= 0)
                return LESSOR_E_UNAVAILABLE;
        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
                return LESSOR_E_UNAVAILABLE;
        return 0;
}

static int open_connection(const struct signer_socket *s, int64_t deadline_ms, int *ret_fd)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int r;

        if (fd < 0)
                return LESSOR_E_UNAVAILABLE;
        r = set_send_timeout(fd, deadline_ms - clock_monotonic_ms());
        if (r == 0 && connect(fd, (const struct sockaddr *)&s->address, sizeof(s->address)) < 0)
                r = LESSOR_E_UNAVAILABLE;
        if (r < 0) {
                close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

/* LESSOR_E_CLOSED when the other side has gone. */
static int send_line(int fd, struct lessor_slice line, int64_t deadline_ms)
{
        while (line.n > 0) {
                ssize_t n;
                int r = set_send_timeout(fd, deadline_ms - clock_monotonic_ms());

                if (r < 0)
                        return r;
                n = send(fd, line.p, line.n, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EPIPE || errno == ECONNRESET ? LESSOR_E_CLOSED : LESSOR_E_UNAVAILABLE;
                line.p += n;
                line.n -= (size_t)n;
        }
        return 0;
}

static int wait_readable(int fd, int64_t deadline_ms)
{
        for (;;) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                int64_t left_ms = deadline_ms - clock_monotonic_ms();
                int n;

                if (left_ms <= 0)
                        return LESSOR_E_UNAVAILABLE;
                n = poll(&p, 1, left_ms > 60000 ? 60000 : (int)left_ms);
                if (n > 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return LESSOR_E_UNAVAILABLE;
        }
}

/* Reads one line without its end. Anything after it was not asked for: LESSOR_E_PROTOCOL. */
static int receive_line(int fd, int64_t deadline_ms, struct buf *line)
{
        char *end = NULL;

        while (end == NULL) {
                char piece[1024];
                ssize_t n;
                int r = wait_readable(fd, deadline_ms);

                if (r < 0)
                        return r;
                n = recv(fd, piece, sizeof(piece), 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) /* a line that was cut off is no answer, whereas none at all may be an old
                               connection */
                        return line->n > 0 ? LESSOR_E_PROTOCOL : LESSOR_E_CLOSED;
                if (line->n + (size_t)n > LIMIT_SIGNER_LINE)
                        return LESSOR_E_PROTOCOL;
                if ((r = buf_append(line, piece, (size_t)n)) < 0)
                        return r;
                end = memchr(line->p, '\n', line->n);
        }
        if (end != line->p + line->n - 1)
                return LESSOR_E_PROTOCOL;
        line->n--;
        return 0;
}

/* --- Questions --- */

static int exchange(struct signer_socket *s, int fd, struct lessor_slice question, int64_t deadline_ms,
                    struct buf *line)
{
        int r = send_line(fd, question, deadline_ms);

        if (r == 0)
                r = receive_line(fd, deadline_ms, line);
        if (r == 0)
                give_idle(s, fd);
        else
                close(fd); /* its answer may still come, and would be taken for the next one's */
        return r;
}

/* Kept connections that the signer has closed meanwhile, as it does when it restarts, are passed over. */
static int ask_line(struct signer_socket *s, struct lessor_slice question, struct buf *line)
{
        int64_t deadline_ms = clock_monotonic_ms() + s->timeout_ms;
        int fd;
        int r;

        while ((fd = take_idle(s)) >= 0) {
                buf_clear(line);
                r = exchange(s, fd, question, deadline_ms, line);
                if (r != LESSOR_E_CLOSED)
                        return r;
        }
        r = open_connection(s, deadline_ms, &fd);
        if (r < 0)
                return r;
        buf_clear(line);
        r = exchange(s, fd, question, deadline_ms, line);
        return r == LESSOR_E_CLOSED ? LESSOR_E_UNAVAILABLE : r;
}

static int read_answer(struct lessor_slice line, struct lessor_arena *arena, struct signer_answer *ret_answer)
{
        struct json *value;
        int r = json_read_copy(line, arena, &value);

        if (r == 0)
                r = message_read(&signer_answer_table, value, arena, ret_answer, NULL);
        if (r < 0)
                return r == LESSOR_E_NOMEM ? r : LESSOR_E_PROTOCOL;
        return ret_answer->error.p != NULL ? LESSOR_E_REFUSED : 0;
}

int signer_socket_public(struct signer_socket *s, struct buf *ret_public)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(buf_done) struct buf line;
        struct signer_answer answer = {0};
        int r;

        buf_init(&line);
        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = ask_line(s, LESSOR_SLICE("{\"op\":\"public\"}\n"), &line);
        if (r < 0 || (r = read_answer(buf_view(&line), arena, &answer)) < 0)
                return r;
        return answer.public_key.p == NULL ? LESSOR_E_PROTOCOL : buf_slice(ret_public, answer.public_key);
}

int signer_socket_sign(struct signer_socket *s, struct lessor_slice statement, struct buf *ret_signature)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        _cleanup_(buf_done) struct buf question;
        _cleanup_(buf_done) struct buf line;
        struct json_writer w;
        struct signer_answer answer = {0};
        int r;

        buf_init(&question);
        buf_init(&line);
        if (arena == NULL)
                return LESSOR_E_NOMEM;
        json_writer_init(&w, &question);
        json_open_object(&w);
        json_member_text(&w, "statement", statement);
        json_close_object(&w);
        if (buf_char(&question, '\n') < 0)
                return LESSOR_E_NOMEM;
        r = ask_line(s, buf_view(&question), &line);
        if (r < 0 || (r = read_answer(buf_view(&line), arena, &answer)) < 0)
                return r;
        return answer.signature.p == NULL ? LESSOR_E_PROTOCOL : buf_slice(ret_signature, answer.signature);
}
