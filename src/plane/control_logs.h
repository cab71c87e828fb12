/* SPDX-License-Identifier: MIT */
#ifndef PLANE_CONTROL_LOGS_H
#define PLANE_CONTROL_LOGS_H

#include "lessor/lease_store.h"
#include "objects/log_file.h"
#include "plane/control_call.h"
#include "plane/log_watch.h"

/* One request for a log; lives in the call's arena, with all that it points to. */
struct log_request {
        struct control_call *call;
        struct lessor_lease_store *leases;
        struct log_files *logs;
        struct log_watch *watch;
        struct lessor_lease_name lease;
        struct lessor_attempt attempt; /* as it was when the request came */
        struct log_key key;
        enum log_stream stream;
        bool one_stream; /* that one was named */
        bool follow;     /* go on until the attempt has ended; events do, unless told otherwise */
        int64_t offset[N_LOG_STREAMS]; /* the next byte to answer */
};

/* "stdout" or "stderr". Static. */
const char *log_stream_name(enum log_stream stream);

/* Answers with the stream as it grows, until the attempt has ended. */
void control_log_follow(struct log_request *log);

/* Answers with events, likewise. */
void control_log_events(struct log_request *log);

#endif
