/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plane/control_call.h"

/*
 * Backups. A thread of its own copies, and the request is parked meanwhile. When the caller leaves or the
 * server drains, the copying goes on and nobody is told.
 */

struct backup_body {
        struct lessor_slice path;
        struct lessor_slice leases_path; /* absent: not asked for */
};

static const struct message_field backup_fields[] = {
        FIELD_TEXT1(struct backup_body, path, "path"),
        FIELD_TEXT1(struct backup_body, leases_path, "leasesPath", .flags = MESSAGE_OPTIONAL),
};
const struct message_table control_backup_body = MESSAGE_TABLE("Backup", struct backup_body, backup_fields);

static const struct control_words words[] = {
        {LESSOR_E_EXISTS, "{} is there already: a backup never replaces a file"},
        {LESSOR_E_IO, "the server could not write {}"},
        {LESSOR_E_PERMISSION, "the server may not write {}"},
        {LESSOR_E_NOT_FOUND, "there is no directory for {}"},
        {LESSOR_E_BUSY, "another backup is under way; wait for it"},
        {LESSOR_E_UNAVAILABLE, "nobody waits for the backup to {} any more, but it goes on"},
        {0},
};

static void *copy(void *context)
{
        struct control *control = context;
        const char *at_fault = control->backup.path;
        int result = lessor_routing_backup(control->parts.store, control->backup.path);

        if (result == 0 && control->backup.leases_path != NULL) {
                result = lessor_lease_backup(control->parts.rack->parts.store, control->backup.leases_path);
                if (result < 0) { /* half a backup would be taken for a whole one */
                        at_fault = control->backup.leases_path;
                        unlink(control->backup.path);
                }
        }
        pthread_mutex_lock(&control->backup.lock);
        control->backup.result = result;
        control->backup.at_fault = at_fault;
        control->backup.running = false;
        if (control->backup.waiting != NULL)
                http_resume(control->backup.waiting);
        pthread_mutex_unlock(&control->backup.lock);
        return NULL;
}

/* The copy is made, or the wait is over before it is. */
static void finished(struct http_request *http, void *context)
{
        struct control_call *call = context;
        struct control *control = call->control;
        const char *at_fault;
        struct lessor_slice path;
        struct buf json = {0};
        struct json_writer w;
        int e;

        (void)http;
        pthread_mutex_lock(&control->backup.lock);
        control->backup.waiting = NULL;
        e = control->backup.running ? LESSOR_E_UNAVAILABLE : control->backup.result;
        at_fault = e == LESSOR_E_UNAVAILABLE ? control->backup.path : control->backup.at_fault;
        if (lessor_arena_copy(call->arena, lessor_slice_of(at_fault), &path) < 0)
                path = LESSOR_SLICE("");
        pthread_mutex_unlock(&control->backup.lock);
        if (e == LESSOR_E_INVALID) {
                control_refuse(call, 409, "nothing-to-copy",
                               "this server keeps its jobs in memory, so there is nothing to copy");
                return;
        }
        if (e < 0) {
                control_refuse_error(call, e, words, path);
                return;
        }
        json_writer_init(&w, &json);
        json_open_object(&w);
        json_member_bool(&w, "ok", true);
        json_member_text(&w, "path", path);
        json_close_object(&w);
        control_answer(call, &json);
}

/* With the lock held. Returns 0; the thread cannot end before the lock is given back. */
static int begin(struct control *control, const struct backup_body *in)
{
        char *path, *leases_path = NULL;

        if (control->backup.running)
                return LESSOR_E_BUSY;
        if (control->backup.joinable) {
                pthread_join(control->backup.thread, NULL);
                control->backup.joinable = false;
        }
        path = strndup(in->path.p, in->path.n);
        if (in->leases_path.p != NULL)
                leases_path = strndup(in->leases_path.p, in->leases_path.n);
        if (path == NULL || (in->leases_path.p != NULL && leases_path == NULL)) {
                free(path);
                free(leases_path);
                return LESSOR_E_NOMEM;
        }
        free(control->backup.path);
        free(control->backup.leases_path);
        control->backup.path = path;
        control->backup.leases_path = leases_path;
        if (pthread_create(&control->backup.thread, NULL, copy, control) != 0)
                return LESSOR_E_NOMEM;
        control->backup.joinable = true;
        control->backup.running = true;
        return 0;
}

static bool is_whole_path(struct lessor_slice path)
{
        return path.p[0] == '/' && memchr(path.p, '\0', path.n) == NULL;
}

void control_backup(struct control_call *call, const void *body)
{
        const struct backup_body *in = body;
        struct control *control = call->control;
        int e;

        if (!is_whole_path(in->path) || (in->leases_path.p != NULL && !is_whole_path(in->leases_path))) {
                control_refuse(call, 400, "invalid", "name the file with its whole path");
                return;
        }
        if (in->leases_path.p != NULL && control_leases(call) == NULL)
                return;
        pthread_mutex_lock(&control->backup.lock);
        e = begin(control, in);
        if (e == 0) {
                http_suspend_prepare(call->http);
                control->backup.waiting = call->http;
        }
        pthread_mutex_unlock(&control->backup.lock);
        if (e < 0)
                control_refuse_error(call, e, words, in->path);
        else
                http_suspend(call->http, -1, finished, call);
}
