/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include "crypto/grant.h"
#include "lessor/error.h"

static struct lessor_grant grant_of(const struct json *value)
{
        return (struct lessor_grant){
                .grant_id = vector_text(value, "grantId"),
                .job_id = vector_text(value, "jobId"),
                .site = vector_text(value, "site"),
                .user = vector_text(value, "user"),
                .owner = vector_text(value, "owner"),
                .purpose = vector_text(value, "purpose"),
                .kind = vector_text(value, "kind"),
                .service = vector_text(value, "service"),
                .issued_ms = vector_int(value, "issuedAt"),
                .signature = vector_text(value, "signature"),
        };
}

static void grants_are_judged_as_the_vectors_say(void **state)
{

        (void)state;
        json_each (vector, vectors_list("grants")) {
                const struct json *given = json_member_named(vector, "check");
                struct lessor_grant grant = grant_of(json_member_named(vector, "grant"));
                struct grant_check check = {
                        .owner = vector_text(given, "owner"),
                        .job_id = vector_text(given, "jobId"),
                        .control_plane = vector_public(vector_text(given, "controlPlane").p),
                        .now_ms = vector_int(given, "now"),
                };

                check_code(vector_note(vector), grant_verify(&grant, &check),
                           vector_verdict(json_member_named(vector, "verdict")));
        }
}

static void statements_and_signatures_are_those_of_the_reference(void **state)
{

        (void)state;
        json_each (vector, vectors_list("grants")) {
                struct lessor_grant grant = grant_of(json_member_named(vector, "grant"));
                struct lessor_slice signature = grant.signature;
                struct buf statement;

                buf_init(&statement);
                assert_int_equal(grant_statement(&grant, &statement), 0);
                check_text(vector_note(vector), buf_view(&statement), vector_text(vector, "statement"));
                buf_done(&statement);

                assert_int_equal(grant_sign(&grant, vector_signing("control"), vectors_arena()), 0);
                if (json_is(json_member_named(vector, "verdict"), JSON_NULL))
                        check_text(vector_note(vector), grant.signature, signature);
        }
}

static void a_changed_field_breaks_the_signature(void **state)
{
        struct lessor_grant signed_one =
                grant_of(json_member_named(json_item(vectors_part("grants"), 0), "grant"));
        struct lessor_slice other = LESSOR_SLICE("other");

        (void)state;
        for (int field = 0; field < 9; field++) {
                struct lessor_grant grant = signed_one;
                struct lessor_slice *texts[] = {&grant.grant_id, &grant.job_id,  &grant.site, &grant.user,
                                                &grant.owner,    &grant.purpose, &grant.kind, &grant.service};
                struct grant_check check;

                if (field < 8)
                        *texts[field] = other;
                else
                        grant.issued_ms++;
                check = (struct grant_check){grant.owner, grant.job_id, vector_public("control"),
                                             grant.issued_ms};
                assert_int_equal(grant_verify(&grant, &check), LESSOR_E_BAD_SIGNATURE);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(grants_are_judged_as_the_vectors_say),
                cmocka_unit_test(statements_and_signatures_are_those_of_the_reference),
                cmocka_unit_test(a_changed_field_breaks_the_signature),
        };

        return cmocka_run_group_tests_name("grant", tests, NULL, NULL);
}
