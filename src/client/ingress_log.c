/* SPDX-License-Identifier: MIT */
#include "client/ingress_log.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/macro.h"
#include "client/append_file.h"

struct ingress_log {
        pthread_mutex_t mutex;
        int fd;
};

int ingress_log_open(const char *path, struct ingress_log **ret_log)
{
        int fd = append_open(path);
        struct ingress_log *log;

        if (fd < 0)
                return fd;
        log = calloc(1, sizeof(*log));
        if (log == NULL) {
                close(fd);
                return LESSOR_E_NOMEM;
        }
        pthread_mutex_init(&log->mutex, NULL);
        log->fd = fd;
        *ret_log = log;
        return 0;
}

struct ingress_log *ingress_log_close(struct ingress_log *log)
{
        if (log != NULL) {
                close(log->fd);
                pthread_mutex_destroy(&log->mutex);
                free(log);
        }
        return NULL;
}

static void put_time(struct json_writer *w, int64_t at_ms)
{
        time_t seconds = (time_t)(at_ms / 1000);
        struct tm tm;
        char text[sizeof("+2147483647-12-31T23:59:59.000Z")] = "";

        if (gmtime_r(&seconds, &tm) != NULL) {
                size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);

                if (n > 0 && n + 6 <= sizeof(text)) {
                        int ms = (int)(at_ms % 1000);

                        text[n] = '.';
                        text[n + 1] = (char)('0' + ms / 100);
                        text[n + 2] = (char)('0' + ms / 10 % 10);
                        text[n + 3] = (char)('0' + ms % 10);
                        text[n + 4] = 'Z';
                        text[n + 5] = '\0';
                }
        }
        json_member_cstr(w, "at", text);
}

/*
 * A payload is JSON and may be spread over lines; a line feed inside a JSON text is always white space, since
 * strings have it escaped.
 */
static int put_payload(struct buf *out, struct lessor_slice json)
{
        size_t from = out->n;
        int r = buf_slice(out, json);

        for (size_t i = from; r == 0 && i < out->n; i++)
                if (out->p[i] == '\n' || out->p[i] == '\r')
                        out->p[i] = ' ';
        return r;
}

int ingress_log_append(struct ingress_log *log, const struct ingress_entry *entry)
{
        _cleanup_(buf_wipe) struct buf line;
        struct json_writer w;
        int r;

        buf_init(&line);
        json_writer_init(&w, &line);
        json_open_object(&w);
        put_time(&w, entry->at_ms);
        json_member_text(&w, "jobId", entry->job_id);
        json_member_text(&w, "leaseId", entry->lease_id);
        json_member_text(&w, "site", entry->site);
        json_member_text(&w, "owner", entry->owner);
        json_member_cstr(&w, "kind", entry->kind);
        json_member_cstr(&w, "service", entry->service);
        json_key(&w, "payload");
        put_payload(&line, entry->payload);
        buf_text(&line, "}\n");
        r = buf_failed(&line);
        if (r < 0)
                return r;
        pthread_mutex_lock(&log->mutex);
        r = append_line(log->fd, buf_view(&line));
        pthread_mutex_unlock(&log->mutex);
        return r;
}
