/* SPDX-License-Identifier: MIT */
#include "client/payload.h"

#include "base/json_read.h"
#include "base/macro.h"
#include "lessor/site_client.h"
#include "wire/relay_opened.h"

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

static int read_chat(const struct json *value, struct lessor_arena *arena, struct lessor_prompt *ret_prompt,
                     size_t *ret_units, const char **ret_problem)
{
        static const enum lessor_role roles[] = {
                [CHAT_ROLE_SYSTEM] = LESSOR_ROLE_SYSTEM,
                [CHAT_ROLE_USER] = LESSOR_ROLE_USER,
                [CHAT_ROLE_ASSISTANT] = LESSOR_ROLE_ASSISTANT,
        };
        struct lessor_message *messages;
        struct chat_payload chat;
        int r = message_read(&chat_payload_table, value, arena, &chat, ret_problem);

        if (r < 0)
                return r;
        messages = lessor_arena_array(arena, chat.n_messages, sizeof(*messages));
        if (messages == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < chat.n_messages; i++)
                messages[i] = (struct lessor_message){roles[chat.messages[i].role], chat.messages[i].content};
        ret_prompt->messages = messages;
        ret_prompt->n_messages = chat.n_messages;
        ret_prompt->system = chat.system;
        *ret_units = chat_payload_units(&chat);
        return 0;
}

static int read_generate(const struct json *value, struct lessor_arena *arena,
                         struct lessor_prompt *ret_prompt, size_t *ret_units, const char **ret_problem)
{
        struct generate_payload generate;
        int r = message_read(&generate_payload_table, value, arena, &generate, ret_problem);

        if (r < 0)
                return r;
        ret_prompt->prompt = generate.prompt;
        ret_prompt->system = generate.system;
        *ret_units = generate_payload_units(&generate);
        return 0;
}

int payload_read(enum lessor_kind kind, struct lessor_slice json, struct lessor_arena *arena,
                 struct lessor_prompt *ret_prompt, size_t *ret_units, const char **ret_problem)
{
        struct lessor_prompt prompt = {.kind = kind, .json = json};
        size_t units = 0;
        struct json *value;
        int r;

        if (ret_problem != NULL)
                *ret_problem = NULL;
        r = json_read(json, arena, &value);
        if (r < 0)
                return r;
        r = kind == LESSOR_KIND_LLM_CHAT ? read_chat(value, arena, &prompt, &units, ret_problem)
                                         : read_generate(value, arena, &prompt, &units, ret_problem);
        if (r < 0)
                return r;
        *ret_prompt = prompt;
        if (ret_units != NULL)
                *ret_units = units;
        return 0;
}

int lessor_payload_check(enum lessor_kind kind, struct lessor_slice payload,
                         enum lessor_size_class *ret_size_class)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_prompt prompt;
        size_t units;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        r = payload_read(kind, payload, arena, &prompt, &units, NULL);
        if (r == 0 && ret_size_class != NULL)
                *ret_size_class = size_class_of(units);
        return r == LESSOR_E_INVALID ? LESSOR_E_MALFORMED : r;
}
