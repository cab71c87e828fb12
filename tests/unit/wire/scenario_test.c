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

static json_t *vectors;

static int load(void **state)
{
        (void)state;
        vectors = vectors_load("relay-http.json");
        return 0;
}

static int unload(void **state)
{
        (void)state;
        json_decref(vectors);
        return 0;
}

static json_t *public_identity(const char *key)
{
        const json_t *keys = json_object_get(json_object_get(vectors, "keys"), key);

        return json_pack("{s:O,s:O,s:O}", "identity", json_object_get(keys, "identityPublic"), "encryption",
                         json_object_get(keys, "encryptionPublic"), "encryptionSig",
                         json_object_get(keys, "encryptionSig"));
}

static json_t *repeated(const json_t *pair)
{
        struct buf text;
        json_t *value;

        buf_init(&text);
        for (json_int_t n = json_integer_value(json_array_get(pair, 1)); n > 0; n--)
                buf_slice(&text, json_text(json_array_get(pair, 0)));
        value = json_stringn(text.p, text.n);
        buf_done(&text);
        return value;
}

/* Some text that fits the member. */
static json_t *any_text(const char *key)
{
        return json_string(strcmp(key, "userCode") == 0 ? "ABCD-EFGH" : "01234567890123456789");
}

/* A value of the kind that a placeholder object stands for, or NULL when the object is none. */
static json_t *stand_in(const json_t *object, const char *key)
{
        const json_t *value;

        if (json_object_size(object) != 1)
                return NULL;
        if (json_object_get(object, "$clock") != NULL || json_object_get(object, "$now") != NULL)
                return json_integer(1767225600000);
        if ((value = json_object_get(object, "$public")) != NULL)
                return public_identity(json_string_value(value));
        if (json_object_get(object, "$freshIdentity") != NULL)
                return public_identity("siteA");
        if ((value = json_object_get(object, "$repeat")) != NULL)
                return repeated(value);
        if (json_object_get(object, "$any") != NULL || json_object_get(object, "$match") != NULL)
                return any_text(key);
        return NULL;
}

/* A deep copy with stand-ins for placeholders. */
static json_t *filled(const json_t *value, const char *key)
{
        const char *name;
        const json_t *part;
        json_t *copy;
        size_t i;

        if (json_is_object(value)) {
                copy = stand_in(value, key);
                if (copy != NULL)
                        return copy;
                copy = json_object();
                json_object_foreach ((json_t *)value, name, part)
                        json_object_set_new(copy, name, filled(part, name));
                return copy;
        }
        if (json_is_array(value)) {
                copy = json_array();
                json_array_foreach (value, i, part)
                        json_array_append_new(copy, filled(part, ""));
                return copy;
        }
        if (json_is_string(value) && json_string_value(value)[0] == '$')
                return any_text(key);
        return json_deep_copy(value);
}

static struct lessor_slice last_segment(const char *path)
{
        const char *slash = strrchr(path, '/');
        const char *start = slash == NULL ? path : slash + 1;

        return (struct lessor_slice){start, strcspn(start, "?")};
}

static const struct message_table *pair_table(const json_t *body, bool is_answer)
{
        if (is_answer) {
                if (json_object_get(body, "deviceCode") != NULL)
                        return &pair_start_answer_table;
                return json_object_get(body, "status") != NULL ? &pair_poll_answer_table
                                                               : &pair_fixture_answer_table;
        }
        if (json_object_get(body, "action") == NULL)
                return &pair_fixture_request_table;
        return strcmp(json_string_value(json_object_get(body, "action")), "start") == 0
                       ? &pair_start_request_table
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

static const struct message_table *table_of(const char *path, const json_t *body, bool is_answer)
{
        struct lessor_slice name = last_segment(path);

        if (lessor_slice_equal(name, LESSOR_SLICE("pair")))
                return pair_table(body, is_answer);
        for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++)
                if (lessor_slice_equal(name, lessor_slice_of(endpoints[i].name)))
                        return is_answer ? endpoints[i].answer : endpoints[i].request;
        return NULL;
}

static int round_trip(const struct message_table *table, const json_t *body, const char *note)
{
        char *text = json_dumps(body, JSON_COMPACT);
        int e = vectors_round_trip(table, lessor_slice_of(text), note);

        free(text);
        return e;
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

static bool refusal_matches(enum relay_refusal refusal, const json_t *body, unsigned status,
                            struct relay_refusal_details *details)
{
        const char *message = json_string_value(json_object_get(body, "message"));

        if (relay_refusal_status(refusal) != status ||
            strcmp(relay_refusal_code(refusal), json_string_value(json_object_get(body, "error"))) != 0)
                return false;
        if (message == NULL || templates[refusal] == NULL)
                return message == templates[refusal];
        return find_subject(templates[refusal], message, &details->subject);
}

/* Some refusal of ours, with the right subject, is exactly this answer. */
static void check_refusal(const json_t *body, unsigned status, const char *note)
{
        struct lessor_arena *arena = lessor_arena_new();
        bool found = false;

        for (int refusal = 0; refusal < RELAY_N_REFUSALS && !found; refusal++) {
                struct relay_refusal_details details = {.server_time_ms = 1767225600000};
                const json_t *floor = json_object_get(body, "floor");
                char *want;
                struct buf out;

                if (!refusal_matches((enum relay_refusal)refusal, body, status, &details))
                        continue;
                if (floor != NULL)
                        details.floor = json_text(floor);
                buf_init(&out);
                want = json_dumps(body, JSON_COMPACT);
                assert_int_equal(relay_refusal_append((enum relay_refusal)refusal, &details, &out), 0);
                found = json_equal(vectors_parse(arena, buf_view(&out)),
                                   vectors_parse(arena, lessor_slice_of(want)));
                free(want);
                buf_done(&out);
        }
        lessor_arena_free(arena);
        if (!found)
                fail_msg("%s: no refusal of ours says %u %s", note, status,
                         json_string_value(json_object_get(body, "message")));
        assert_int_equal(round_trip(&relay_error_answer_table, body, note), 0);
}

static bool refused_for_its_shape(const json_t *answer)
{
        const char *message = json_string_value(json_object_get(answer, "message"));

        return message != NULL && strstr(message, "failed schema validation") != NULL;
}

static size_t n_answers, n_requests, n_refused, n_errors;

static void check_exchange(const json_t *step, const char *note)
{
        const json_t *request = json_object_get(step, "request");
        const json_t *expect = json_object_get(step, "expect");
        const char *path = json_string_value(json_object_get(request, "path"));
        unsigned status = (unsigned)json_integer_value(json_object_get(expect, "status"));
        json_t *answer = filled(json_object_get(expect, "json"), "");
        json_t *body = filled(json_object_get(request, "json"), "");
        const struct message_table *table;

        if (answer != NULL && status == 200) {
                table = table_of(path, answer, true);
                if (table == NULL || round_trip(table, answer, note) < 0)
                        fail_msg("%s: the answer of %s is not read: %s", note, path,
                                 json_dumps(answer, JSON_COMPACT));
                n_answers++;
        } else if (answer != NULL) {
                check_refusal(answer, status, note);
                n_errors++;
        }
        table = json_is_object(body) ? table_of(path, body, false) : NULL;
        if (table != NULL && status == 200) {
                if (round_trip(table, body, note) < 0)
                        fail_msg("%s: %s was taken by the reference and is refused", note, table->name);
                n_requests++;
        } else if (table != NULL && refused_for_its_shape(answer)) {
                if (round_trip(table, body, note) != LESSOR_E_INVALID)
                        fail_msg("%s: %s was refused by the reference and is taken", note, table->name);
                n_refused++;
        }
        json_decref(answer);
        json_decref(body);
}

static void recorded_exchanges_fit_the_tables(void **state)
{
        const json_t *scenario, *step;
        size_t i, j;

        (void)state;
        json_array_foreach (json_object_get(vectors, "scenarios"), i, scenario) {
                json_array_foreach (json_object_get(scenario, "steps"), j, step) {
                        char note[128];

                        snprintf(note, sizeof(note), "%s, step %zu",
                                 json_string_value(json_object_get(scenario, "id")), j);
                        if (json_object_get(step, "request") != NULL)
                                check_exchange(step, note);
                }
        }
        print_message("%zu answers, %zu requests, %zu refused for their shape, %zu errors\n", n_answers,
                      n_requests, n_refused, n_errors);
        assert_true(n_answers > 300 && n_requests > 200 && n_refused > 50 && n_errors > 200);
}

static void projections_and_policies_are_read(void **state)
{
        const json_t *value, *scenario, *step;
        const char *name;
        size_t i, j, n_policies = 0;

        (void)state;
        json_object_foreach (json_object_get(vectors, "fixtures"), name, value)
                assert_int_equal(round_trip(&relay_fixture_table, value, name), 0);
        json_array_foreach (json_object_get(vectors, "scenarios"), i, scenario) {
                const json_t *plane = json_object_get(json_object_get(scenario, "config"), "controlPlane");

                value = json_object_get(plane, "policy");
                if (value != NULL) {
                        assert_int_equal(round_trip(&relay_policy_table, value, "policy"), 0);
                        n_policies++;
                }
                json_array_foreach (json_object_get(scenario, "steps"), j, step) {
                        value = json_object_get(step, "policy");
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
