/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RELAY_FIELDS_H
#define WIRE_RELAY_FIELDS_H

#include "wire/relay_shapes.h"

/* Fields that several tables of this room share. Private to src/wire. */

#define FIELD_PROTOCOL_VERSION FIELD_LITERAL("protocolVersion", RELAY_PROTOCOL_VERSION)

/* The members of a JobStub that is the struct itself (`at` empty) or a part of it (`at` is `part.`). */
#define STUB_FIELDS(type, at)                                                             \
        FIELD_TEXT1(type, at id, "id"), FIELD_ENUM(type, at kind, "kind", &kind_words),   \
                FIELD_TEXT1(type, at owner, "owner"), FIELD_TEXT1(type, at site, "site"), \
                FIELD_ENUM(type, at audience, "audience", &audience_words),               \
                FIELD_TEXT1(type, at purpose, "purpose", .flags = MESSAGE_OPTIONAL),      \
                FIELD_ENUM(type, at size_class, "sizeClass", &size_class_words),          \
                FIELD_BOOL(type, at streaming, "streaming"),                              \
                FIELD_POSINT(type, at deadline_ms, "deadlineAt")

#endif
