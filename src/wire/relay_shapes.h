/* SPDX-License-Identifier: MIT */
#ifndef WIRE_RELAY_SHAPES_H
#define WIRE_RELAY_SHAPES_H

#include "lessor/relay_types.h"
#include "wire/message.h"

/* What several messages of the relay protocol have in common (relay-protocol 3, 6, 7, 8 and 13). */

#define RELAY_PROTOCOL_VERSION "2"

extern const struct message_words kind_words;
extern const struct message_words audience_words;
extern const struct message_words size_class_words;
extern const struct message_words backend_class_words;
extern const struct message_words backend_id_words; /* of a capability's backendId, kept as text */
extern const struct message_words offer_words;
extern const struct message_words disposition_words;
extern const struct message_words release_reason_words;
extern const struct message_words job_state_words;
extern const struct message_words direction_words;

extern const struct message_table public_identity_table; /* struct lessor_public_identity */
extern const struct message_table stub_table;            /* struct lessor_stub, JobStub on the wire */
extern const struct message_table lease_ref_table;       /* struct lessor_lease_ref, GrantRef on the wire */
extern const struct message_table capability_table;      /* struct lessor_device_capability */
extern const struct message_table sealed_envelope_table; /* struct lessor_sealed_envelope */
extern const struct message_table grant_table;           /* struct lessor_grant, SignedGrant on the wire */
extern const struct message_table succession_link_table; /* struct lessor_succession_link */
extern const struct message_table withheld_table;        /* struct withheld */
extern const struct message_table envelope_member_table; /* struct envelope_member */

/*
 * An envelope inside a message. A reader fills `sealed`; a writer that holds the JSON text already, as the
 * relay does, sets `text` and it is written as it is.
 */
struct envelope_member {
        struct lessor_sealed_envelope sealed;
        struct lessor_slice text; /* absent: `sealed` is written */
};

/* A service that could serve a kind which the device does not serve because more than one could. */
struct claimant {
        struct lessor_slice service;
        enum lessor_offer offer;
};

struct withheld {
        enum lessor_kind kind;
        struct claimant *claimants; /* two at least */
        size_t n_claimants;
};

/* One entry of a `sites` object: a site's identity under its key id. */
struct pinned_site {
        struct lessor_slice key_id;
        struct lessor_public_identity identity;
};

/* How a `sites` object is read and written; for FIELD_MAP. */
extern const struct message_field pinned_site_item;

/* The kinds in a list of capabilities, as LESSOR_KIND_BITs. */
unsigned capability_kinds(const struct lessor_device_capability *capabilities, size_t n);

#endif
