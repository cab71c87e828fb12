/* SPDX-License-Identifier: MIT */
#include "relay_tables.h"

#include "wire/relay_device.h"
#include "wire/relay_documents.h"
#include "wire/relay_errors.h"
#include "wire/relay_opened.h"
#include "wire/relay_site.h"

const struct message_table *const relay_tables[] = {
        &public_identity_table,
        &stub_table,
        &lease_ref_table,
        &capability_table,
        &sealed_envelope_table,
        &envelope_member_table,
        &grant_table,
        &succession_link_table,
        &withheld_table,
        &pair_start_request_table,
        &pair_start_answer_table,
        &pair_poll_request_table,
        &pair_poll_answer_table,
        &pair_fixture_request_table,
        &pair_fixture_answer_table,
        &claim_request_table,
        &claim_answer_table,
        &claimed_stub_table,
        &fetch_request_table,
        &fetch_answer_table,
        &result_request_table,
        &result_answer_table,
        &heartbeat_request_table,
        &heartbeat_answer_table,
        &release_request_table,
        &release_answer_table,
        &enqueue_request_table,
        &job_state_answer_table,
        &payload_request_table,
        &cancel_request_table,
        &cancel_answer_table,
        &ack_request_table,
        &ack_answer_table,
        &pending_job_table,
        &pending_answer_table,
        &result_job_table,
        &results_answer_table,
        &relay_fixture_table,
        &fixture_site_table,
        &fixture_consent_table,
        &fixture_device_table,
        &fixture_roster_table,
        &fixture_revocation_table,
        &relay_policy_table,
        &relay_error_answer_table,
        &generate_payload_table,
        &chat_payload_table,
        &sealed_outcome_table,
        NULL,
};

const struct message_table *relay_table_named(struct lessor_slice name)
{
        for (size_t i = 0; relay_tables[i] != NULL; i++)
                if (lessor_slice_equal(name, lessor_slice_of(relay_tables[i]->name)))
                        return relay_tables[i];
        return NULL;
}
