/* SPDX-License-Identifier: MIT */
#include "wire/relay_opened.h"

#include "base/limits.h"
#include "base/macro.h"
#include "base/utf8.h"

static const char *const chat_role_names[] = {"system", "user", "assistant"};
const struct message_words chat_role_words = {chat_role_names, ARRAY_SIZE(chat_role_names)};

static const char *const stop_reason_names[] = {"end", "length", "stop-sequence", "unknown"};
const struct message_words stop_reason_words = {stop_reason_names, ARRAY_SIZE(stop_reason_names)};

size_t generate_payload_units(const struct generate_payload *payload)
{
        return utf8_utf16_units(payload->prompt) + utf8_utf16_units(payload->system);
}

size_t chat_payload_units(const struct chat_payload *payload)
{
        size_t units = utf8_utf16_units(payload->system);

        for (size_t i = 0; i < payload->n_messages; i++)
                units += utf8_utf16_units(payload->messages[i].content);
        return units;
}

static bool generate_payload_holds(const void *message)
{
        return generate_payload_units(message) <= LIMIT_PAYLOAD_UNITS;
}

static bool chat_payload_holds(const void *message)
{
        return chat_payload_units(message) <= LIMIT_PAYLOAD_UNITS;
}

static const struct message_field generate_payload_fields[] = {
        FIELD_TEXT(struct generate_payload, prompt, "prompt", 1, LIMIT_PAYLOAD_TEXT),
        FIELD_TEXT(struct generate_payload, system, "system", 0, LIMIT_PAYLOAD_TEXT,
                   .flags = MESSAGE_OPTIONAL),
};
const struct message_table generate_payload_table = MESSAGE_TABLE(
        "GeneratePayload", struct generate_payload, generate_payload_fields, .holds = generate_payload_holds);

static const struct message_field chat_message_fields[] = {
        FIELD_ENUM(struct chat_message, role, "role", &chat_role_words),
        FIELD_TEXT(struct chat_message, content, "content", 0, LIMIT_PAYLOAD_TEXT),
};
static const struct message_table chat_message_table =
        MESSAGE_TABLE("ChatMessage", struct chat_message, chat_message_fields);

static const struct message_field chat_payload_fields[] = {
        FIELD_LIST(struct chat_payload, messages, n_messages, "messages", &chat_message_table, 1,
                   LIMIT_PAYLOAD_MESSAGES),
        FIELD_TEXT(struct chat_payload, system, "system", 0, LIMIT_PAYLOAD_TEXT, .flags = MESSAGE_OPTIONAL),
};
const struct message_table chat_payload_table =
        MESSAGE_TABLE("ChatPayload", struct chat_payload, chat_payload_fields, .holds = chat_payload_holds);

#define WHEN_OK    (1u << LESSOR_DISPOSITION_OK)
#define WHEN_ERROR (1u << LESSOR_DISPOSITION_ERROR)
static const struct message_field job_outcome_fields[] = {
        FIELD_ENUM(struct job_outcome, outcome, "outcome", &disposition_words),
        FIELD_TEXT(struct job_outcome, text, "text", 0, INT64_MAX, .when = WHEN_OK),
        FIELD_URL(struct job_outcome, artifact_url, "artifactUrl", .when = WHEN_OK,
                  .flags = MESSAGE_OPTIONAL),
        FIELD_TEXT1(struct job_outcome, code, "code", .when = WHEN_ERROR),
        FIELD_TEXT1(struct job_outcome, message, "message", .when = WHEN_ERROR),
        FIELD_BOOL(struct job_outcome, retryable, "retryable", .when = WHEN_ERROR),
};
static const struct message_table job_outcome_table =
        MESSAGE_TABLE("JobOutcome", struct job_outcome, job_outcome_fields, .has_forms = true);

static const struct message_field run_metadata_fields[] = {
        FIELD_TEXT1(struct run_metadata, model, "model"),
        FIELD_ENUM(struct run_metadata, backend_class, "backendClass", &backend_class_words),
        FIELD_INT(struct run_metadata, duration_ms, "durationMs", 0, INT64_MAX),
        FIELD_ENUM(struct run_metadata, stop, "stop", &stop_reason_words,
                   FIELD_IF(struct run_metadata, has_stop)),
        FIELD_BOOL(struct run_metadata, stop_reported, "stopReported",
                   FIELD_IF(struct run_metadata, has_stop_reported)),
};
static const struct message_table run_metadata_table =
        MESSAGE_TABLE("RunMetadata", struct run_metadata, run_metadata_fields);

static const struct message_field sealed_outcome_fields[] = {
        FIELD_OBJECT(struct sealed_outcome, outcome, "outcome", &job_outcome_table),
        FIELD_OBJECT(struct sealed_outcome, ran, "ran", &run_metadata_table),
};
const struct message_table sealed_outcome_table =
        MESSAGE_TABLE("SealedOutcome", struct sealed_outcome, sealed_outcome_fields);

const struct message_table *payload_table(enum lessor_kind kind)
{
        return kind == LESSOR_KIND_LLM_CHAT ? &chat_payload_table : &generate_payload_table;
}

enum lessor_size_class size_class_of(size_t text_units)
{
        if (text_units <= LIMIT_SIZE_SMALL)
                return LESSOR_SIZE_SMALL;
        return text_units <= LIMIT_SIZE_MEDIUM ? LESSOR_SIZE_MEDIUM : LESSOR_SIZE_LARGE;
}
