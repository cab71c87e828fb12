/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdio.h>

#include "wire/relay_device.h"
#include "wire/relay_documents.h"
#include "wire/relay_errors.h"
#include "wire/relay_site.h"

/*
 * The bodies of the recorded exchanges (relay-http.json), held against the tables: what the reference
 * answered is what our tables read and write, what it took they take, what it refused for its shape they
 * refuse.
 */

static struct json *vectors;
static struct lessor_arena *arena; /* of the values made here */

static int load(void **state)
{
        (void)state;
        vectors = vectors_load("relay-http.json");
        arena = lessor_arena_new();
        return arena == NULL;
}

static int unload(void **state)
{
        (void)state;
        arena = lessor_arena_free(arena);
        return 0;
}

static struct json *public_identity(const char *key)
{
        const struct json *keys = json_member_named(json_member_named(vectors, "keys"), key);
        struct json *identity = json_make(JSON_OBJECT, arena);

        json_add(identity, LESSOR_SLICE("identity"),
                 json_make_text(vectors_text(keys, "identityPublic"), arena));
        json_add(identity, LESSOR_SLICE("encryption"),
                 json_make_text(vectors_text(keys, "encryptionPublic"), arena));
        json_add(identity, LESSOR_SLICE("encryptionSig"),
                 json_make_text(vectors_text(keys, "encryptionSig"), arena));
        return identity;
}

static struct json *repeated(const struct json *pair)
{
        struct lessor_slice copy;
        struct buf text;

        buf_init(&text);
        for (int64_t n = json_number(json_item(pair, 1)); n > 0; n--)
                buf_slice(&text, json_text(json_item(pair, 0)));
        assert_int_equal(lessor_arena_copy(arena, buf_view(&text), &copy), 0);
        buf_done(&text);
        return json_make_text(copy, arena);
}

/* Some text that fits the member. */
static struct json *any_text(struct lessor_slice key)
{
        return json_make_text(lessor_slice_equal(key, LESSOR_SLICE("userCode"))
                                      ? LESSOR_SLICE("ABCD-EFGH")
                                      : LESSOR_SLICE("01234567890123456789"),
                              arena);
}

/* A value of the kind that a placeholder object stands for, or NULL when the object is none. */
static struct json *stand_in(const struct json *object)
{
        const struct json *value;

        if (json_count(object) != 1)
                return NULL;
        if (json_member_named(object, "$clock") != NULL || json_member_named(object, "$now") != NULL)
                return json_make_int(1767225600000, arena);
        if ((value = json_member_named(object, "$public")) != NULL)
                return public_identity(json_cstr(value));
        if (json_member_named(object, "$freshIdentity") != NULL)
                return public_identity("siteA");
        if ((value = json_member_named(object, "$repeat")) != NULL)
                return repeated(value);
        if (json_member_named(object, "$any") != NULL || json_member_named(object, "$match") != NULL)
                return any_text(object->key);
        return NULL;
}

/* A deep copy with stand-ins for placeholders. */
static struct json *filled(const struct json *value)
{
        struct json *copy;

        if (value == NULL)
                return NULL;
        if (json_is(value, JSON_STRING) && json_cstr(value)[0] == '$')
                return any_text(value->key);
        copy = json_is(value, JSON_OBJECT) ? stand_in(value) : NULL;
        if (copy != NULL)
                return copy;
        copy = json_make(value->type, arena);
        if (value->type != JSON_OBJECT && value->type != JSON_ARRAY) {
                *copy = *value;
                return copy;
        }
        json_each (part, value)
                json_add(copy, part->key, filled(part));
        return copy;
}

static struct lessor_slice last_segment(const char *path)
{
        const char *slash = strrchr(path, '/');
        const char *start = slash == NULL ? path : slash + 1;

        return (struct lessor_slice){start, strcspn(start, "?")};
}

static const struct message_table *pair_table(const struct json *body, bool is_answer)
{
        if (is_answer) {
                if (json_member_named(body, "deviceCode") != NULL)
                        return &pair_start_answer_table;
                return json_member_named(body, "status") != NULL ? &pair_poll_answer_table
                                                                 : &pair_fixture_answer_table;
        }
        if (json_member_named(body, "action") == NULL)
                return &pair_fixture_request_table;
        return strcmp(json_cstr(json_member_named(body, "action")), "start") == 0 ? &pair_start_request_table
                                                                                  : &pair_poll_request_table;
}

static const struct {
        const char *name;
        const struct message_table *request; /* NULL: has no body */
        const struct message_table *answer;
} endpoints[] = {
        {"claim", &claim_request_table, &claim_answer_table},
        {"fetch", &fetch_request_table, &fetch_answer_table},
        {"result", &result_request_table, &result_answer_table},
        {"heartbeat", &heartbeat_request_table, &heartbeat_answer_table},
        {"release", &release_request_table, &release_answer_table},
        {"enqueue", &enqueue_request_table, &job_state_answer_table},
        {"payload", &payload_request_table, &job_state_answer_table},
        {"cancel", &cancel_request_table, &cancel_answer_table},
        {"pending", NULL, &pending_answer_table},
        {"results", NULL, &results_answer_table},
};

static const struct message_table *table_of(const char *path, const struct json *body, bool is_answer)
{
        struct lessor_slice name = last_segment(path);

        if (lessor_slice_equal(name, LESSOR_SLICE("pair")))
                return pair_table(body, is_answer);
        for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++)
                if (lessor_slice_equal(name, lessor_slice_of(endpoints[i].name)))
                        return is_answer ? endpoints[i].answer : endpoints[i].request;
        return NULL;
}

static int round_trip(const struct message_table *table, const struct json *body, const char *note)
{
        return vectors_round_trip(table, json_spelled(body, arena), note);
}

/* The text at the place of `{}` in a message made from a template, if it is one. */
static bool find_subject(const char *template, const char *message, struct lessor_slice *ret_subject)
{
        const char *place = strstr(template, "{}");
        size_t before = place == NULL ? strlen(template) : (size_t)(place - template);
        size_t after = place == NULL ? 0 : strcspn(place + 2, "{");
        const char *end;

        if (strncmp(template, message, before) != 0)
                return false;
        *ret_subject = (struct lessor_slice){message + before, 0};
        if (place == NULL)
                return message[before] == '\0';
        for (end = message + before; *end != '\0'; end++)
                if (strncmp(end, place + 2, after) == 0)
                        break;
        ret_subject->n = (size_t)(end - message) - before;
        return strncmp(end, place + 2, after) == 0;
}

static const char *const templates[] = {
#define TEMPLATE(name, status, code, message) message,
        RELAY_REFUSALS(TEMPLATE)
#undef TEMPLATE
};

static bool refusal_matches(enum relay_refusal refusal, const struct json *body, unsigned status,
                            struct relay_refusal_details *details)
{
        const char *message = json_cstr(json_member_named(body, "message"));

        if (relay_refusal_status(refusal) != status ||
            strcmp(relay_refusal_code(refusal), json_cstr(json_member_named(body, "error"))) != 0)
                return false;
        if (message == NULL || templates[refusal] == NULL)
                return message == templates[refusal];
        return find_subject(templates[refusal], message, &details->subject);
}

/* Some refusal of ours, with the right subject, is exactly this answer. */
static void check_refusal(const struct json *body, unsigned status, const char *note)
{
        bool found = false;

        for (int refusal = 0; refusal < RELAY_N_REFUSALS && !found; refusal++) {
                struct relay_refusal_details details = {.server_time_ms = 1767225600000};
                const struct json *floor = json_member_named(body, "floor");
                struct buf out;

                if (!refusal_matches((enum relay_refusal)refusal, body, status, &details))
                        continue;
                if (floor != NULL)
                        details.floor = json_text(floor);
                buf_init(&out);
                assert_int_equal(relay_refusal_append((enum relay_refusal)refusal, &details, &out), 0);
                found = json_same(vectors_parse(arena, buf_view(&out)), body);
                buf_done(&out);
        }
        if (!found)
                fail_msg("%s: no refusal of ours says %u %s", note, status,
                         json_cstr(json_member_named(body, "message")));
        assert_int_equal(round_trip(&relay_error_answer_table, body, note), 0);
}

static bool refused_for_its_shape(const struct json *answer)
{
        const char *message = json_cstr(json_member_named(answer, "message"));

        return message != NULL && strstr(message, "failed schema validation") != NULL;
}

static size_t n_answers, n_requests, n_refused, n_errors;

static void check_exchange(const struct json *step, const char *note)
{
        const struct json *request = json_member_named(step, "request");
        const struct json *expect = json_member_named(step, "expect");
        const char *path = json_cstr(json_member_named(request, "path"));
        unsigned status = (unsigned)json_number(json_member_named(expect, "status"));
        struct json *answer = filled(json_member_named(expect, "json"));
        struct json *body = filled(json_member_named(request, "json"));
        const struct message_table *table;

        if (answer != NULL && status == 200) {
                table = table_of(path, answer, true);
                if (table == NULL || round_trip(table, answer, note) < 0)
                        fail_msg("%s: the answer of %s is not read: %s", note, path,
                                 json_spelled(answer, arena).p);
                n_answers++;
        } else if (answer != NULL) {
                check_refusal(answer, status, note);
                n_errors++;
        }
        table = json_is(body, JSON_OBJECT) ? table_of(path, body, false) : NULL;
        if (table != NULL && status == 200) {
                if (round_trip(table, body, note) < 0)
                        fail_msg("%s: %s was taken by the reference and is refused", note, table->name);
                n_requests++;
        } else if (table != NULL && refused_for_its_shape(answer)) {
                if (round_trip(table, body, note) != LESSOR_E_INVALID)
                        fail_msg("%s: %s was refused by the reference and is taken", note, table->name);
                n_refused++;
        }
}

static void recorded_exchanges_fit_the_tables(void **state)
{
        (void)state;
        json_each (scenario, json_member_named(vectors, "scenarios")) {
                size_t at = 0;

                json_each (step, json_member_named(scenario, "steps")) {
                        char note[128];

                        snprintf(note, sizeof(note), "%s, step %zu",
                                 json_cstr(json_member_named(scenario, "id")), at++);
                        if (json_member_named(step, "request") != NULL)
                                check_exchange(step, note);
                }
        }
        print_message("%zu answers, %zu requests, %zu refused for their shape, %zu errors\n", n_answers,
                      n_requests, n_refused, n_errors);
        assert_true(n_answers > 300 && n_requests > 200 && n_refused > 50 && n_errors > 200);
}

static void projections_and_policies_are_read(void **state)
{
        const struct json *value;
        size_t n_policies = 0;

        (void)state;
        json_each (fixture, json_member_named(vectors, "fixtures"))
                assert_int_equal(round_trip(&relay_fixture_table, fixture, fixture->key.p), 0);
        json_each (scenario, json_member_named(vectors, "scenarios")) {
                const struct json *plane =
                        json_member_named(json_member_named(scenario, "config"), "controlPlane");

                value = json_member_named(plane, "policy");
                if (value != NULL) {
                        assert_int_equal(round_trip(&relay_policy_table, value, "policy"), 0);
                        n_policies++;
                }
                json_each (step, json_member_named(scenario, "steps")) {
                        value = json_member_named(step, "policy");
                        if (value != NULL)
                                assert_int_equal(round_trip(&relay_policy_table, value, "policy"), 0);
                }
        }
        assert_true(n_policies > 0);
}

static void store_failures_have_their_refusal(void **state)
{
        (void)state;
        assert_int_equal(relay_refusal_of_store(LESSOR_E_NOT_FOUND), RELAY_REFUSAL_UNKNOWN_JOB);
        assert_int_equal(relay_refusal_of_store(LESSOR_E_NOT_HOLDER), RELAY_REFUSAL_NOT_HOLDER);
        assert_int_equal(relay_refusal_of_store(LESSOR_E_STALE_LEASE), RELAY_REFUSAL_STALE_LEASE);
        assert_int_equal(relay_refusal_of_store(LESSOR_E_NOT_READY), RELAY_REFUSAL_NOT_READY);
        assert_int_equal(relay_refusal_of_store(LESSOR_E_TERMINAL), RELAY_REFUSAL_FINISHED);
        assert_int_equal(relay_refusal_of_store(LESSOR_E_TOO_LATE), RELAY_REFUSAL_NOT_AWAITING);
        assert_int_equal(relay_refusal_status(relay_refusal_of_store(LESSOR_E_LOW_SPACE)), 503);
        assert_int_equal(relay_refusal_status(relay_refusal_of_store(LESSOR_E_UNAVAILABLE)), 503);
        assert_int_equal(relay_refusal_status(relay_refusal_of_store(LESSOR_E_NOMEM)), 500);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(recorded_exchanges_fit_the_tables),
                cmocka_unit_test(projections_and_policies_are_read),
                cmocka_unit_test(store_failures_have_their_refusal),
        };

        return cmocka_run_group_tests(tests, load, unload);
}
