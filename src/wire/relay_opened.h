/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RELAY_OPENED_H
#define WIRE_RELAY_OPENED_H

#include "wire/relay_shapes.h"

/*
 * What is inside an envelope once it is opened (relay-protocol 6.7). A library of its own, `opened`, which
 * the server never links: it has no type that could hold a plaintext.
 */

enum chat_role { CHAT_ROLE_SYSTEM, CHAT_ROLE_USER, CHAT_ROLE_ASSISTANT };

struct chat_message {
        enum chat_role role;
        struct lessor_slice content;
};

struct generate_payload {
        struct lessor_slice prompt;
        struct lessor_slice system; /* absent: none */
};

struct chat_payload {
        struct chat_message *messages; /* 1..256 */
        size_t n_messages;
        struct lessor_slice system; /* absent: none */
};

enum stop_reason { STOP_END, STOP_LENGTH, STOP_SEQUENCE, STOP_UNKNOWN };

struct job_outcome {
        enum lessor_disposition outcome;
        struct lessor_slice text;         /* ok */
        struct lessor_slice artifact_url; /* ok; absent: none */
        struct lessor_slice code;         /* error */
        struct lessor_slice message;      /* error */
        bool retryable;                   /* error */
};

/* What ran, and how it ended. */
struct run_metadata {
        struct lessor_slice model;
        enum lessor_backend_class backend_class;
        int64_t duration_ms;
        bool has_stop;
        enum stop_reason stop;
        bool has_stop_reported;
        bool stop_reported; /* the backend said so itself */
};

struct sealed_outcome {
        struct job_outcome outcome;
        struct run_metadata ran;
};

extern const struct message_words chat_role_words;
extern const struct message_words stop_reason_words;

extern const struct message_table generate_payload_table;
extern const struct message_table chat_payload_table;
extern const struct message_table sealed_outcome_table;

/* The table of a kind's payload. */
const struct message_table *payload_table(enum lessor_kind kind);

/* The text in a payload, in UTF-16 units: what a size class is about. */
size_t generate_payload_units(const struct generate_payload *payload);
size_t chat_payload_units(const struct chat_payload *payload);

/* The size class of so many UTF-16 units of text. */
enum lessor_size_class size_class_of(size_t text_units);

#endif
