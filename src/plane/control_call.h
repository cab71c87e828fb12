/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_CALL_H
#define PLANE_CONTROL_CALL_H

#include <pthread.h>

#include "base/json_write.h"
#include "http/http.h"
#include "http/parking.h"
#include "plane/control.h"
#include "wire/message.h"

/* What the files of the control API share: one request under way, and how to answer it. */

#define CONTROL_TOKEN_HASH_BYTES 32

struct control {
        struct control_parts parts;
        struct http_route *routes;       /* one for each endpoint, in the same order */
        struct http_route *token_routes; /* likewise, behind the token; NULL without one */
        unsigned char token_hash[CONTROL_TOKEN_HASH_BYTES];
        int64_t started_ms; /* epoch ms */
        int64_t started_monotonic_ms;
        struct parking_lot *watchers; /* of leases and runs; see control_watch.c */
        struct event_feed *feed;      /* with webhooks: NULL without racks; see control_events.c */
        struct webhooks *webhooks;
        struct control_chore *chore; /* collections and verifications of objects; see control_chore.h */

        /* At most one backup at a time; it has a thread of its own, since a large one takes its time. */
        struct {
                pthread_mutex_t lock;
                pthread_t thread;
                bool joinable;
                bool running;
                struct http_request *waiting; /* NULL: nobody waits for it any more */
                char *path;
                char *leases_path; /* NULL: the leases' database is not asked for */
                int result;
                const char *at_fault; /* the path that the result is about; one of the two */
        } backup;
};

struct control_call {
        struct control *control;
        const struct control_parts *parts;
        struct http_request *http;
        struct lessor_arena *arena;
        struct lessor_ticket ticket;       /* what the answer rests on: of the routing store */
        struct lessor_ticket lease_ticket; /* and of the lease store */
        int64_t now_ms;                    /* store clock, of an endpoint that changes something */
};

/* What an endpoint changes, and therefore cannot when that comes from a file. */
enum control_edit { EDIT_NONE, EDIT_PROJECTION, EDIT_POLICY, EDIT_EITHER };

/* One endpoint. */
struct control_endpoint {
        const char *method;
        const char *path;
        const char *name; /* in logs and metrics */
        void (*serve)(struct control_call *call, const void *body);
        const struct message_table *body; /* NULL: there is none, or the endpoint reads it itself */
        enum control_edit edit;
        size_t body_limit; /* 0: LIMIT_BODY_CONTROL */
        const char *summary;
        bool streamed; /* it takes the body itself as it comes, of any type */
};

/* How an error reads with one endpoint: `{}` stands for the subject. */
struct control_words {
        int error; /* 0 ends the list */
        const char *sentence;
};

/* Answers 200 with what the buffer holds, and takes it. */
void control_answer(struct control_call *call, struct buf *json);

/* Answers {"ok":true}, or refuses with the words for the error, or with what the error says by itself. */
void control_done(struct control_call *call, int error, const struct control_words *words,
                  struct lessor_slice subject);

/* Refuses. `code` is one word for programs. */
void control_refuse(struct control_call *call, unsigned status, const char *code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void control_refuse_error(struct control_call *call, int error, const struct control_words *words,
                          struct lessor_slice subject);

/* What an error is in HTTP. */
unsigned control_status_of(int error);

/* A query parameter; absent when there is none or it is empty. False when the call was refused. */
bool control_query(struct control_call *call, const char *name, struct lessor_slice *ret_value);

/* As control_query, for a number; `otherwise` when there is none. */
bool control_query_int(struct control_call *call, const char *name, int64_t least, int64_t most,
                       int64_t otherwise, int64_t *ret_number);

/* Refuses a body that is none of this table. `problem` may be NULL. */
void control_refuse_body(struct control_call *call, const struct message_table *table, int error,
                         const char *problem);

/*
 * Reads a JSON value by a table into the arena, as it is done with bodies that an endpoint has a table for.
 * NULL when the call was refused.
 */
void *control_read(struct control_call *call, const struct message_table *table, const struct json *value);

/* Makes the lot of watchers and has it hear of what happens to leases. As control_new. */
int control_watch_open(struct control *control);

/* Begins to keep what happens, and to tell the webhooks. As control_new. */
int control_events_open(struct control *control, struct buf *ret_problem);
void control_events_close(struct control *control);

/* The lease store. NULL when the call was refused: this server has none. */
struct lessor_lease_store *control_leases(struct control_call *call);

/* Notes that the answer also rests on this. */
void control_rests_on(struct control_call *call, struct lessor_ticket lease_ticket);

/* Whether the current projection comes from the built-in tables. */
bool control_has_tables(const struct control_call *call);

/* The current projection, held until the request ends. NULL when the call was refused. */
const struct projection *control_projection(struct control_call *call);

/* A key's id in the arena; empty without memory. */
struct lessor_slice control_key_id(struct control_call *call, struct lessor_slice identity);

/* The endpoints, by subject. */
void control_index(struct control_call *call, const void *body);
void control_status(struct control_call *call, const void *body);
void control_metrics(struct control_call *call, const void *body);
void control_log_level_get(struct control_call *call, const void *body);
void control_log_level_put(struct control_call *call, const void *body);
void control_backup(struct control_call *call, const void *body);

void control_site_list(struct control_call *call, const void *body);
void control_site_add(struct control_call *call, const void *body);
void control_site_remove(struct control_call *call, const void *body);
void control_site_rotate(struct control_call *call, const void *body);
void control_site_declare(struct control_call *call, const void *body);
void control_site_undeclare(struct control_call *call, const void *body);

void control_consent_list(struct control_call *call, const void *body);
void control_consent_add(struct control_call *call, const void *body);
void control_consent_remove(struct control_call *call, const void *body);
void control_consent_pause(struct control_call *call, const void *body);
void control_consent_resume(struct control_call *call, const void *body);
void control_consent_revoke(struct control_call *call, const void *body);
void control_mapping_add(struct control_call *call, const void *body);
void control_mapping_remove(struct control_call *call, const void *body);

void control_device_list(struct control_call *call, const void *body);
void control_device_approve(struct control_call *call, const void *body);
void control_device_revoke(struct control_call *call, const void *body);
void control_device_remove(struct control_call *call, const void *body);
void control_pairing_list(struct control_call *call, const void *body);

void control_roster_list(struct control_call *call, const void *body);
void control_roster_add(struct control_call *call, const void *body);
void control_roster_remove(struct control_call *call, const void *body);
void control_member_add(struct control_call *call, const void *body);
void control_member_remove(struct control_call *call, const void *body);

void control_job_list(struct control_call *call, const void *body);
void control_job_show(struct control_call *call, const void *body);
void control_job_cancel(struct control_call *call, const void *body);

void control_projection_get(struct control_call *call, const void *body);
void control_projection_put(struct control_call *call, const void *body);

void control_lease_create(struct control_call *call, const void *body);
void control_lease_get(struct control_call *call, const void *body);
void control_lease_find(struct control_call *call, const void *body);
void control_lease_watch(struct control_call *call, const void *body);
void control_lease_explain(struct control_call *call, const void *body);
void control_lease_cancel(struct control_call *call, const void *body);
void control_lease_supersede(struct control_call *call, const void *body);
void control_lease_replay(struct control_call *call, const void *body);

void control_run_get(struct control_call *call, const void *body);
void control_run_watch(struct control_call *call, const void *body);
void control_run_cancel(struct control_call *call, const void *body);

void control_rack_list(struct control_call *call, const void *body);
void control_rack_activity(struct control_call *call, const void *body);
void control_rack_approve(struct control_call *call, const void *body);
void control_rack_drain(struct control_call *call, const void *body);
void control_rack_remove(struct control_call *call, const void *body);
void control_rack_policy_get(struct control_call *call, const void *body);
void control_rack_policy_put(struct control_call *call, const void *body);
void control_rack_token_list(struct control_call *call, const void *body);
void control_rack_token_create(struct control_call *call, const void *body);
void control_rack_token_revoke(struct control_call *call, const void *body);

void control_object_put(struct control_call *call, const void *body);
void control_object_get(struct control_call *call, const void *body);
void control_object_list(struct control_call *call, const void *body);
void control_object_repos(struct control_call *call, const void *body);
void control_object_touch(struct control_call *call, const void *body);
void control_object_gc(struct control_call *call, const void *body);
void control_object_verify(struct control_call *call, const void *body);

void control_environment_layer_put(struct control_call *call, const void *body);
void control_environment_publish(struct control_call *call, const void *body);
void control_environment_get(struct control_call *call, const void *body);
void control_environment_remove(struct control_call *call, const void *body);

void control_log_get(struct control_call *call, const void *body);

void control_event_stream(struct control_call *call, const void *body);
void control_webhook_list(struct control_call *call, const void *body);
void control_webhook_add(struct control_call *call, const void *body);
void control_webhook_remove(struct control_call *call, const void *body);

/* Their bodies. */
extern const struct message_table control_log_level_body;
extern const struct message_table control_backup_body;
extern const struct message_table control_site_body;
extern const struct message_table control_site_name_body;
extern const struct message_table control_site_rotate_body;
extern const struct message_table control_site_declare_body;
extern const struct message_table control_consent_body;
extern const struct message_table control_consent_name_body;
extern const struct message_table control_mapping_body;
extern const struct message_table control_approve_body;
extern const struct message_table control_device_body;
extern const struct message_table control_roster_body;
extern const struct message_table control_roster_name_body;
extern const struct message_table control_member_body;
extern const struct message_table control_job_body;
extern const struct message_table control_lease_create_body; /* without `event`, which may be any object */
extern const struct message_table control_lease_cancel_body;
extern const struct message_table control_lease_supersede_body;
extern const struct message_table control_lease_name_body;
extern const struct message_table control_run_body;
extern const struct message_table control_rack_approve_body;
extern const struct message_table control_rack_drain_body;
extern const struct message_table control_rack_name_body;
extern const struct message_table control_rack_policy_body;
extern const struct message_table control_rack_token_body;
extern const struct message_table control_rack_token_name_body;
extern const struct message_table control_object_touch_body;
extern const struct message_table control_object_gc_body;
extern const struct message_table control_object_verify_body;
extern const struct message_table control_environment_publish_body;
extern const struct message_table control_environment_name_body;
extern const struct message_table control_webhook_body;
extern const struct message_table control_webhook_name_body;

#endif
