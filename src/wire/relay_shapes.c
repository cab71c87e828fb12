/* SPDX-License-Identifier: MIT */
#include "wire/relay_shapes.h"

#include "base/macro.h"
#include "wire/relay_fields.h"

#define WORDS(...)                                                    \
        {                                                             \
                .names = (const char *const[]){__VA_ARGS__},          \
                .n = ARRAY_SIZE(((const char *const[]){__VA_ARGS__})) \
        }

/* In the order of the enums in lessor/relay_types.h. */
const struct message_words kind_words = WORDS("llm.generate", "llm.chat");
const struct message_words audience_words = WORDS("private", "team");
const struct message_words size_class_words = WORDS("small", "medium", "large", "unbounded");
const struct message_words backend_class_words = WORDS("http", "process");
const struct message_words offer_words = WORDS("private", "team");
const struct message_words disposition_words = WORDS("ok", "error", "canceled");
const struct message_words release_reason_words =
        WORDS("shutdown", "pause", "revoked", "backend-down", "refused");
const struct message_words job_state_words = WORDS("queued", "awaiting-payload", "ready", "running", "done");
const struct message_words direction_words = WORDS("payload", "result");

const struct message_words backend_id_words =
        WORDS("ollama", "mlx", "llamacpp", "vllm", "lmstudio", "jan", "localai", "anthropic", "openai",
              "gemini", "grok", "groq", "openrouter", "together", "deepseek", "mistral", "openai-http",
              "claude-cli", "codex-cli");

static const struct message_field public_identity_fields[] = {
        FIELD_TEXT1(struct lessor_public_identity, identity, "identity"),
        FIELD_TEXT1(struct lessor_public_identity, encryption, "encryption"),
        FIELD_TEXT1(struct lessor_public_identity, encryption_sig, "encryptionSig"),
};
const struct message_table public_identity_table =
        MESSAGE_TABLE("PublicIdentity", struct lessor_public_identity, public_identity_fields);

static const struct message_field stub_fields[] = {STUB_FIELDS(struct lessor_stub, )};
const struct message_table stub_table = MESSAGE_TABLE("JobStub", struct lessor_stub, stub_fields);

static const struct message_field lease_ref_fields[] = {
        FIELD_TEXT1(struct lessor_lease_ref, job_id, "jobId"),
        FIELD_TEXT1(struct lessor_lease_ref, lease_id, "leaseId"),
};
const struct message_table lease_ref_table =
        MESSAGE_TABLE("GrantRef", struct lessor_lease_ref, lease_ref_fields);

static const struct message_field capability_fields[] = {
        FIELD_ENUM(struct lessor_device_capability, kind, "kind", &kind_words),
        FIELD_TEXT1(struct lessor_device_capability, service, "service"),
        FIELD_WORD(struct lessor_device_capability, backend_id, "backendId", &backend_id_words),
        FIELD_ENUM(struct lessor_device_capability, backend_class, "backendClass", &backend_class_words),
        FIELD_TEXT1(struct lessor_device_capability, model, "model"),
        FIELD_TEXTS(struct lessor_device_capability, known_models, n_known_models, "knownModels", 0,
                    INT64_MAX, .flags = MESSAGE_OPTIONAL),
        FIELD_ENUM(struct lessor_device_capability, offer_scope, "offerScope", &offer_words),
};
const struct message_table capability_table =
        MESSAGE_TABLE("Capability", struct lessor_device_capability, capability_fields);

/* The order is that of the text that is kept and measured (relay-protocol 6.7). */
static const struct message_field sealed_envelope_fields[] = {
        FIELD_TEXT1(struct lessor_sealed_envelope, ciphertext, "ciphertext"),
        FIELD_TEXT1(struct lessor_sealed_envelope, recipient_key_id, "recipientKeyId"),
        FIELD_TEXT1(struct lessor_sealed_envelope, sender_key_id, "senderKeyId"),
        FIELD_ENUM(struct lessor_sealed_envelope, direction, "direction", &direction_words),
        FIELD_POSINT(struct lessor_sealed_envelope, deadline_ms, "deadlineAt"),
};
const struct message_table sealed_envelope_table =
        MESSAGE_TABLE("SealedEnvelope", struct lessor_sealed_envelope, sealed_envelope_fields);

/* `sealed` is the first member of the struct, so its fields serve. */
_Static_assert(offsetof(struct envelope_member, sealed) == 0, "sealed_envelope_fields are used for both");
const struct message_table envelope_member_table =
        MESSAGE_TABLE("SealedEnvelope", struct envelope_member, sealed_envelope_fields, .has_raw = true,
                      .raw_offset = MESSAGE_AT(struct envelope_member, text, struct lessor_slice));

static const struct message_field grant_fields[] = {
        FIELD_TEXT1(struct lessor_grant, grant_id, "grantId"),
        FIELD_TEXT1(struct lessor_grant, job_id, "jobId"),
        FIELD_TEXT1(struct lessor_grant, site, "site"),
        FIELD_TEXT1(struct lessor_grant, user, "user"),
        FIELD_TEXT1(struct lessor_grant, owner, "owner"),
        FIELD_TEXT1(struct lessor_grant, purpose, "purpose"),
        FIELD_TEXT1(struct lessor_grant, kind, "kind"),
        FIELD_TEXT1(struct lessor_grant, service, "service"),
        FIELD_POSINT(struct lessor_grant, issued_ms, "issuedAt"),
        FIELD_TEXT1(struct lessor_grant, signature, "signature"),
};
const struct message_table grant_table = MESSAGE_TABLE("SignedGrant", struct lessor_grant, grant_fields);

static const struct message_field succession_link_fields[] = {
        FIELD_OBJECT(struct lessor_succession_link, identity, "identity", &public_identity_table),
        FIELD_TEXT1(struct lessor_succession_link, signature, "signature"),
};
const struct message_table succession_link_table =
        MESSAGE_TABLE("Succession", struct lessor_succession_link, succession_link_fields);

static const struct message_field claimant_fields[] = {
        FIELD_TEXT1(struct claimant, service, "service"),
        FIELD_ENUM(struct claimant, offer, "offer", &offer_words),
};
static const struct message_table claimant_table =
        MESSAGE_TABLE("Claimant", struct claimant, claimant_fields);

static const struct message_field withheld_fields[] = {
        FIELD_ENUM(struct withheld, kind, "kind", &kind_words),
        FIELD_LIST(struct withheld, claimants, n_claimants, "claimants", &claimant_table, 2, INT64_MAX),
};
const struct message_table withheld_table = MESSAGE_TABLE("WithheldKind", struct withheld, withheld_fields);

const struct message_field pinned_site_item = {
        .name = "",
        .type = MESSAGE_OBJECT,
        .offset = offsetof(struct pinned_site, identity),
        .table = &public_identity_table,
};

unsigned capability_kinds(const struct lessor_device_capability *capabilities, size_t n)
{
        unsigned kinds = 0;

        for (size_t i = 0; i < n; i++)
                kinds |= LESSOR_KIND_BIT(capabilities[i].kind);
        return kinds;
}
