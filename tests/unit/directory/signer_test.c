/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/macro.h"
#include "crypto/grant.h"
#include "json_values.h"
#include "routing/directory/grant_author.h"
#include "routing/directory/signer.h"

/*
 * A signer of the test's own (docs/signer.md): one thread that serves one connection after another, as it is
 * told.
 */
enum manner {
        MANNER_GOOD,
        MANNER_OTHER_KEY, /* signs with a key that is not the one it names */
        MANNER_ERROR,
        MANNER_JUNK,
        MANNER_TWO_LINES,
        MANNER_HALF_LINE, /* and closes */
        MANNER_SILENT,
        MANNER_CLOSE_EACH, /* answers, and closes the connection */
};

struct test_signer {
        const struct stored_keys *keys;
        const struct stored_keys *other;
        _Atomic int manner;
        atomic_int n_connections;
        int listener;
        pthread_t thread;
        char path[128];
};

static void answer_text(int fd, const char *text)
{
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void answer_good(struct test_signer *s, int fd, struct lessor_slice line, int manner)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct buf out;
        struct json *question;
        const struct json *statement;

        buf_init(&out);
        assert_int_equal(json_read_copy(line, arena, &question), 0);
        statement = json_member_named(question, "statement");
        if (statement == NULL) {
                assert_string_equal(json_cstr(json_member_named(question, "op")), "public");
                (void)buf_printf(&out, "{\"public\":\"%s\"}\n", identity_of(s->keys)->identity.p);
        } else {
                (void)buf_text(&out, "{\"signature\":\"");
                (void)signing_key_sign_text(
                        stored_keys_signing(manner == MANNER_OTHER_KEY ? s->other : s->keys),
                        json_text(statement), &out);
                (void)buf_text(&out, "\",\"more\":\"than was asked\"}\n");
        }
        answer_text(fd, out.p);
        buf_done(&out);
        lessor_arena_free(arena);
}

/* False when the connection is to end. */
static bool answer(struct test_signer *s, int fd, struct lessor_slice line)
{
        int manner = s->manner;

        switch (manner) {
        case MANNER_ERROR:
                answer_text(fd, "{\"error\":\"no\"}\n");
                return true;
        case MANNER_JUNK:
                answer_text(fd, "[1]\n");
                return true;
        case MANNER_TWO_LINES:
                answer_text(fd, "{\"error\":\"no\"}\n{\"error\":\"no\"}\n");
                return true;
        case MANNER_HALF_LINE:
                answer_text(fd, "{\"signature\":");
                return false;
        case MANNER_SILENT:
                return true;
        default:
                answer_good(s, fd, line, manner);
                return manner != MANNER_CLOSE_EACH;
        }
}

static void serve(struct test_signer *s, int fd)
{
        char line[4096];
        size_t n = 0;
        bool on = true;

        while (on) {
                ssize_t got = recv(fd, line + n, sizeof(line) - n, 0);
                char *end;

                if (got <= 0)
                        break;
                n += (size_t)got;
                end = memchr(line, '\n', n);
                if (end == NULL)
                        continue;
                on = answer(s, fd, (struct lessor_slice){line, (size_t)(end - line)});
                n = 0;
        }
        close(fd);
}

static void *run(void *context)
{
        struct test_signer *s = context;

        for (;;) {
                int fd = accept(s->listener, NULL, NULL);

                if (fd < 0)
                        return NULL; /* shut down */
                atomic_fetch_add(&s->n_connections, 1);
                serve(s, fd);
        }
}

static void listen_at(struct test_signer *s)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        memcpy(address.sun_path, s->path, strlen(s->path) + 1);
        s->listener = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_true(s->listener >= 0);
        (void)unlink(s->path);
        assert_int_equal(bind(s->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(s->listener, 8), 0);
        assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void test_signer_start(struct world *w, struct test_signer *s)
{
        memset(s, 0, sizeof(*s));
        s->keys = fresh_keys(w->arena);
        s->other = fresh_keys(w->arena);
        (void)snprintf(s->path, sizeof(s->path), "%s", path_in(w, "signer.sock"));
        listen_at(s);
}

/* Every connection to it must have been closed, since it serves one to its end. */
static void test_signer_stop(struct test_signer *s)
{
        (void)shutdown(s->listener, SHUT_RDWR);
        pthread_join(s->thread, NULL);
        close(s->listener);
}

#define LONG_ENOUGH_MS 10000

static void another_process_signs(void **state)
{
        struct world *w = *state;
        struct test_signer other;
        struct signer *s;
        struct lessor_slice signature;
        struct lessor_slice statement = S("[\"quoted \\ \xe2\x82\xac\"]\n");

        test_signer_start(w, &other);
        assert_int_equal(signer_open_socket(other.path, LONG_ENOUGH_MS, &s), 0);
        assert_true(lessor_slice_equal(signer_public(s), identity_of(other.keys)->identity));
        for (int i = 0; i < 3; i++) {
                assert_int_equal(signer_sign(s, statement, w->arena, &signature), 0);
                assert_int_equal(identity_key_verify(signing_key_public(stored_keys_signing(other.keys)),
                                                     statement, signature),
                                 0);
        }
        assert_int_equal(other.n_connections, 1); /* one is kept */
        signer_free(s);
        test_signer_stop(&other);
}

static void what_a_signer_answers_wrongly_is_not_believed(void **state)
{
        static const struct {
                enum manner manner;
                int error;
        } cases[] = {
                {MANNER_OTHER_KEY, LESSOR_E_PROTOCOL}, {MANNER_ERROR, LESSOR_E_REFUSED},
                {MANNER_JUNK, LESSOR_E_PROTOCOL},      {MANNER_TWO_LINES, LESSOR_E_PROTOCOL},
                {MANNER_HALF_LINE, LESSOR_E_PROTOCOL}, {MANNER_GOOD, 0},
        };
        struct world *w = *state;
        struct test_signer other;
        struct signer *s;

        test_signer_start(w, &other);
        assert_int_equal(signer_open_socket(other.path, LONG_ENOUGH_MS, &s), 0);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct lessor_slice signature;
                int r;

                other.manner = cases[i].manner;
                r = signer_sign(s, S("[]"), w->arena, &signature);
                if (r != cases[i].error)
                        fail_msg("manner %d: %d", (int)cases[i].manner, r);
        }
        signer_free(s);
        test_signer_stop(&other);
}

static void a_silent_signer_is_given_up(void **state)
{
        struct world *w = *state;
        struct test_signer other;
        struct signer *s;
        struct lessor_slice signature;

        test_signer_start(w, &other);
        assert_int_equal(signer_open_socket(other.path, 50, &s), 0);
        other.manner = MANNER_SILENT;
        assert_int_equal(signer_sign(s, S("[]"), w->arena, &signature), LESSOR_E_UNAVAILABLE);
        /* Its late answer cannot be taken for the next one's: that is asked over another connection. */
        other.manner = MANNER_GOOD;
        assert_int_equal(signer_sign(s, S("[]"), w->arena, &signature), 0);
        assert_int_equal(other.n_connections, 2);
        signer_free(s);
        test_signer_stop(&other);
}

static void a_lost_connection_is_made_again(void **state)
{
        struct world *w = *state;
        struct test_signer other;
        struct signer *s;
        struct lessor_slice signature;

        test_signer_start(w, &other);
        other.manner = MANNER_CLOSE_EACH;
        assert_int_equal(signer_open_socket(other.path, LONG_ENOUGH_MS, &s), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(signer_sign(s, S("[]"), w->arena, &signature), 0);
        assert_int_equal(other.n_connections, 4);
        test_signer_stop(&other);
        assert_int_equal(signer_sign(s, S("[]"), w->arena, &signature), LESSOR_E_UNAVAILABLE);
        /* Restarted, it is found again. */
        listen_at(&other);
        assert_int_equal(signer_sign(s, S("[]"), w->arena, &signature), 0);
        signer_free(s);
        test_signer_stop(&other);
}

static void a_server_whose_signer_is_missing_does_not_start(void **state)
{
        struct world *w = *state;
        struct signer *s;
        char long_path[200];
        const char *problem = NULL;

        memset(long_path, 'x', sizeof(long_path) - 1);
        long_path[sizeof(long_path) - 1] = '\0';
        assert_int_equal(signer_open_socket(path_in(w, "none.sock"), LONG_ENOUGH_MS, &s),
                         LESSOR_E_UNAVAILABLE);
        assert_int_equal(signer_open_socket(long_path, LONG_ENOUGH_MS, &s), LESSOR_E_INVALID);
        assert_int_equal(signer_open_file(path_in(w, "none.json"), w->arena, &s, &problem),
                         LESSOR_E_NOT_FOUND);
        assert_non_null(problem);
}

/* --- Grants, signed with a key file --- */

static struct signer *file_signer(struct world *w, const struct stored_keys *keys)
{
        const char *path = path_in(w, "grant-key.json");
        const char *problem = NULL;
        struct signer *s;

        assert_int_equal(stored_keys_create(keys, path), 0);
        if (signer_open_file(path, w->arena, &s, &problem) < 0)
                fail_msg("%s", problem);
        assert_true(lessor_slice_equal(signer_public(s), identity_of(keys)->identity));
        return s;
}

static const struct lessor_device_capability echo_capability = {
        .kind = LESSOR_KIND_LLM_GENERATE, .service = {"echo", 4}, .offer_scope = LESSOR_OFFER_PRIVATE};

static const struct policy_question ann_asks = {.site_id = {"s", 1},
                                                .user = {"ann", 3},
                                                .owner = {"ann", 3},
                                                .kind = LESSOR_KIND_LLM_GENERATE,
                                                .capabilities = &echo_capability,
                                                .n_capabilities = 1};

#define ANN_HAS_ECHO                                           \
        "{'consents':[{'siteId':'s','user':'ann','mappings':[" \
        "{'purpose':'default','kind':'llm.generate','service':'echo'}]}]}"

static void a_granted_job_carries_a_grant_that_verifies(void **state)
{
        struct world *w = *state;
        const struct stored_keys *keys = fresh_keys(w->arena);
        _cleanup_(signer_freep) struct signer *s = file_signer(w, keys);
        struct policy_cell cell;
        struct grant_author author = {.policy = &cell, .signer = s};
        struct grant_check check = {.owner = S("ann"),
                                    .job_id = S("job"),
                                    .control_plane = signing_key_public(stored_keys_signing(keys)),
                                    .now_ms = 1000};
        enum policy_decline decline;
        struct lessor_grant grant;
        struct lessor_grant second;

        policy_cell_init(&cell);
        policy_cell_put(&cell, policy_of(w->arena, ANN_HAS_ECHO));
        assert_int_equal(grant_author_decide(&author, &ann_asks, S("job"), S("BYOLLM-X"), 1000, w->arena,
                                             &decline, &grant),
                         0);
        assert_int_equal(decline, POLICY_GRANTED);
        assert_int_equal(grant_verify(&grant, &check), 0);
        assert_memory_equal(grant.grant_id.p, "grant_", 6);
        assert_int_equal(grant.grant_id.n, 6 + 36);
        assert_text(grant.site, "BYOLLM-X");
        assert_text(grant.user, "ann");
        assert_text(grant.purpose, "default");
        assert_text(grant.kind, "llm.generate");
        assert_text(grant.service, "echo");
        assert_int_equal(grant.issued_ms, 1000);
        assert_int_equal(grant_author_decide(&author, &ann_asks, S("job"), S("BYOLLM-X"), 1000, w->arena,
                                             &decline, &second),
                         0);
        assert_false(lessor_slice_equal(grant.grant_id, second.grant_id)); /* used once each */
        policy_cell_done(&cell);
}

static void a_declined_job_is_not_signed_for(void **state)
{
        struct world *w = *state;
        struct policy_cell cell;
        _cleanup_(signer_freep) struct signer *s = file_signer(w, fresh_keys(w->arena));
        struct grant_author author = {.policy = &cell, .signer = s};
        enum policy_decline decline;
        struct lessor_grant grant = {0};

        policy_cell_init(&cell);
        assert_int_equal(
                grant_author_decide(&author, &ann_asks, S("job"), S("k"), 1, w->arena, &decline, &grant), 0);
        assert_int_equal(decline, POLICY_STORE_UNAVAILABLE); /* there is no policy yet */
        policy_cell_put(&cell, policy_of(w->arena, "{}"));
        assert_int_equal(
                grant_author_decide(&author, &ann_asks, S("job"), S("k"), 1, w->arena, &decline, &grant), 0);
        assert_int_equal(decline, POLICY_NOT_CONSENTED);
        assert_null(grant.signature.p);
        author.signer = NULL;
        assert_int_equal(
                grant_author_decide(&author, &ann_asks, S("job"), S("k"), 1, w->arena, &decline, &grant),
                LESSOR_E_INVALID);
        policy_cell_done(&cell);
}

static void a_grant_that_cannot_be_signed_fails_the_request(void **state)
{
        struct world *w = *state;
        struct test_signer other;
        struct policy_cell cell;
        struct grant_author author = {.policy = &cell};
        enum policy_decline decline = POLICY_UNMAPPED;
        struct lessor_grant grant;

        test_signer_start(w, &other);
        assert_int_equal(signer_open_socket(other.path, LONG_ENOUGH_MS, &author.signer), 0);
        other.manner = MANNER_ERROR;
        policy_cell_init(&cell);
        policy_cell_put(&cell, policy_of(w->arena, ANN_HAS_ECHO));
        assert_int_equal(
                grant_author_decide(&author, &ann_asks, S("job"), S("k"), 1, w->arena, &decline, &grant),
                LESSOR_E_REFUSED);
        assert_int_equal(decline, POLICY_UNMAPPED); /* outputs are written on success alone */
        policy_cell_done(&cell);
        signer_free(author.signer);
        test_signer_stop(&other);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
        const struct CMUnitTest tests[] = {
                CASE(another_process_signs),
                CASE(what_a_signer_answers_wrongly_is_not_believed),
                CASE(a_silent_signer_is_given_up),
                CASE(a_lost_connection_is_made_again),
                CASE(a_server_whose_signer_is_missing_does_not_start),
                CASE(a_granted_job_carries_a_grant_that_verifies),
                CASE(a_declined_job_is_not_signed_for),
                CASE(a_grant_that_cannot_be_signed_fails_the_request),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
