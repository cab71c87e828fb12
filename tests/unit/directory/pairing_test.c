/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macro.h"
#include "routing/directory/pairing.h"

#define NOW INT64_C(1760000000000)

struct desk {
        struct world *w;
        struct pairing_table *t;
        struct projection *nobody; /* a projection without devices */
        unsigned next;             /* what makes the random bytes of the next code */
};

static void open_table(struct desk *k, const char *path)
{
        struct buf problem;

        buf_init(&problem);
        pairing_free(k->t);
        k->t = NULL;
        if (pairing_open(path, &k->t, &problem) < 0)
                fail_msg("%s", buf_view(&problem).p);
        buf_done(&problem);
}

static int desk_setup(void **state)
{
        struct desk *k = calloc(1, sizeof(*k));
        void *w;

        assert_non_null(k);
        world_setup(&w);
        k->w = w;
        k->nobody = projection_of(k->w->arena, "{'consents':[]}");
        open_table(k, ":memory:");
        *state = k;
        return 0;
}

static int desk_teardown(void **state)
{
        struct desk *k = *state;
        void *w = k->w;

        pairing_free(k->t);
        projection_unref(k->nobody);
        world_teardown(&w);
        free(k);
        return 0;
}

static struct pairing_request request_of(const struct lessor_public_identity *device)
{
        return (struct pairing_request){.device = *device,
                                        .version = S("0.1.1"),
                                        .label = S("a laptop"),
                                        .platform = S("linux"),
                                        .capabilities = S("[]")};
}

static int start_for(struct desk *k, const struct lessor_public_identity *device, int64_t now_ms,
                     struct pairing_codes *ret_codes)
{
        struct pairing_request request = request_of(device);
        unsigned char random[PAIRING_RANDOM_BYTES] = {0};
        unsigned n = k->next++;

        for (int i = 0; i < 4; i++) {
                random[i] = (unsigned char)(n >> (8 * i));
                random[PAIRING_RANDOM_BYTES - 1 - i] = (unsigned char)(n >> (8 * i));
        }
        return pairing_start(k->t, &request, random, now_ms, ret_codes);
}

/* A device of which only the identity's text matters. */
static struct lessor_public_identity device_of(const char *identity)
{
        return (struct lessor_public_identity){
                .identity = S(identity), .encryption = S("e"), .encryption_sig = S("s")};
}

static enum pairing_state poll_at(struct desk *k, const struct projection *p, const char *code,
                                  int64_t now_ms)
{
        enum pairing_state state = PAIRING_APPROVED;
        struct pairing pairing;
        const struct projection_device *device = NULL;

        assert_int_equal(pairing_poll(k->t, p, S(code), now_ms, k->w->arena, &state, &pairing, &device), 0);
        assert_int_equal(device != NULL, state == PAIRING_APPROVED);
        return state;
}

static void codes_are_made_from_the_random_bytes(void **state)
{
        struct desk *k = *state;
        struct lessor_public_identity device = device_of("i");
        struct pairing_request request = request_of(&device);
        unsigned char random[PAIRING_RANDOM_BYTES];
        struct pairing_codes codes;

        for (unsigned char i = 0; i < sizeof(random); i++)
                random[i] = i;
        memcpy(random + 32, "\x00\x44\x32\x14\xff", 5); /* 00000 00001 00010 00011 00100 00101 00111 11111 */
        assert_int_equal(pairing_start(k->t, &request, random, NOW, &codes), 0);
        assert_string_equal(codes.device_code, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
        assert_string_equal(codes.user_code, "0123-457Z");
        assert_int_equal(codes.expires_ms, NOW + 600000);
        /* Another device with the same bytes: they have to be drawn again. */
        request.device.identity = S("j");
        assert_int_equal(pairing_start(k->t, &request, random, NOW, &codes), LESSOR_E_EXISTS);
        random[0] ^= 1; /* the user code alone is in use */
        assert_int_equal(pairing_start(k->t, &request, random, NOW, &codes), LESSOR_E_EXISTS);
        random[36] ^= 1;
        assert_int_equal(pairing_start(k->t, &request, random, NOW, &codes), 0);
}

static void a_code_is_pending_until_it_expires(void **state)
{
        struct desk *k = *state;
        struct lessor_public_identity device = device_of("i");
        struct pairing_codes codes;

        assert_int_equal(start_for(k, &device, NOW, &codes), 0);
        assert_int_equal(poll_at(k, k->nobody, codes.device_code, NOW), PAIRING_PENDING);
        assert_int_equal(poll_at(k, k->nobody, codes.device_code, NOW + 599999), PAIRING_PENDING);
        assert_int_equal(poll_at(k, k->nobody, codes.device_code, NOW + 600000), PAIRING_EXPIRED);
        assert_int_equal(poll_at(k, k->nobody, "AAAAAAAAAAAAAAAAAAAAAAAA", NOW), PAIRING_EXPIRED);
        assert_int_equal(poll_at(k, k->nobody, codes.user_code, NOW), PAIRING_EXPIRED);
}

static void an_approved_code_is_used_once(void **state)
{
        struct desk *k = *state;
        _cleanup_(projection_unrefp) struct projection *p = projection_of(
                k->w->arena,
                "{'consents':[],'devices':[{'owner':'ann','runnerId':'r','device':{@5},'revoked':true}]}");
        struct lessor_public_identity device = device_of(key_text(k->w->arena, 5).p);
        const struct projection_device *projected;
        enum pairing_state answer;
        struct pairing pairing;
        struct pairing_codes codes;

        device.encryption = S("another one than was projected");
        assert_int_equal(start_for(k, &device, NOW, &codes), 0);
        assert_int_equal(
                pairing_poll(k->t, p, S(codes.device_code), NOW, k->w->arena, &answer, &pairing, &projected),
                0);
        assert_int_equal(answer, PAIRING_APPROVED); /* a revocation is not looked at while pairing */
        assert_text(projected->runner_id, "r");
        assert_text(pairing.request.device.encryption, "another one than was projected");
        assert_text(pairing.request.capabilities, "[]");
        assert_text(pairing.request.version, "0.1.1");
        assert_int_equal(pairing_spend(k->t, S(codes.device_code)), 0);
        assert_int_equal(pairing_spend(k->t, S(codes.device_code)), LESSOR_E_NOT_FOUND);
        assert_int_equal(poll_at(k, p, codes.device_code, NOW), PAIRING_EXPIRED);
}

static void a_device_that_starts_again_drops_its_old_code(void **state)
{
        struct desk *k = *state;
        struct lessor_public_identity device = device_of("i");
        struct lessor_public_identity other = device_of("j");
        struct pairing_codes first;
        struct pairing_codes second;
        struct pairing_codes third;

        assert_int_equal(start_for(k, &device, NOW, &first), 0);
        assert_int_equal(start_for(k, &other, NOW, &second), 0);
        device.encryption = S("another"); /* the identity decides */
        assert_int_equal(start_for(k, &device, NOW + 1, &third), 0);
        assert_int_equal(poll_at(k, k->nobody, first.device_code, NOW + 1), PAIRING_EXPIRED);
        assert_int_equal(poll_at(k, k->nobody, second.device_code, NOW + 1), PAIRING_PENDING);
        assert_int_equal(poll_at(k, k->nobody, third.device_code, NOW + 1), PAIRING_PENDING);
}

static void so_many_pairings_at_once_and_no_more(void **state)
{
        struct desk *k = *state;
        struct pairing_codes codes;
        struct pairing_list list;
        struct lessor_public_identity late = device_of("late");
        struct lessor_public_identity known = device_of("device-8");
        char identity[32];

        for (int i = 0; i < LIMIT_PAIRING_OUTSTANDING; i++) {
                struct lessor_public_identity device;

                (void)snprintf(identity, sizeof(identity), "device-%d", i);
                device = device_of(identity);
                assert_int_equal(start_for(k, &device, NOW + (i == 7 ? 0 : 1), &codes), 0);
        }
        assert_int_equal(start_for(k, &late, NOW + 1, &codes), LESSOR_E_BUSY);
        /* Its own code makes room for its next. */
        assert_int_equal(start_for(k, &known, NOW + 1, &codes), 0);
        assert_int_equal(start_for(k, &late, NOW + 1, &codes), LESSOR_E_BUSY);
        /* So does one that has expired. */
        assert_int_equal(start_for(k, &late, NOW + 600000, &codes), 0);
        assert_int_equal(pairing_list(k->t, NOW + 600000, k->w->arena, &list), 0);
        assert_int_equal(list.n, LIMIT_PAIRING_OUTSTANDING);
        assert_int_equal(pairing_list(k->t, NOW + 600001, k->w->arena, &list), 0);
        assert_int_equal(list.n, 1);
        assert_text(list.items[0].request.device.identity, "late");
        assert_int_equal(list.items[0].started_ms, NOW + 600000);
}

static void a_user_code_may_be_typed_in_many_ways(void **state)
{
        static const struct {
                const char *typed;
                int error;
        } cases[] = {
                {"0123-4571", 0},
                {"01234571", 0},
                {"o i23 45 7 l", 0},
                {"OL23-457I", 0},
                {"0123-4572", LESSOR_E_NOT_FOUND},
                {"0123-457", LESSOR_E_INVALID},
                {"0123-45711", LESSOR_E_INVALID},
                {"0123-457U", LESSOR_E_INVALID}, /* not in the alphabet */
                {"0123_4571", LESSOR_E_INVALID},
                {"", LESSOR_E_INVALID},
        };
        struct desk *k = *state;
        struct lessor_public_identity device = device_of("i");
        struct pairing_request request = request_of(&device);
        unsigned char random[PAIRING_RANDOM_BYTES] = {0};
        struct pairing_codes codes;
        struct pairing pairing;

        memcpy(random + 32, "\x00\x44\x32\x14\xe1", 5);
        assert_int_equal(pairing_start(k->t, &request, random, NOW, &codes), 0);
        assert_string_equal(codes.user_code, "0123-4571");
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                int r = pairing_find(k->t, S(cases[i].typed), NOW, k->w->arena, &pairing);

                if (r != cases[i].error)
                        fail_msg("\"%s\": %d", cases[i].typed, r);
        }
        assert_int_equal(
                pairing_find(k->t, (struct lessor_slice){"0123-457\0", 9}, NOW, k->w->arena, &pairing),
                LESSOR_E_INVALID);
        assert_int_equal(pairing_find(k->t, S("0123-4571"), NOW + 600000, k->w->arena, &pairing),
                         LESSOR_E_NOT_FOUND);
        assert_int_equal(pairing_find(k->t, S("0123-4571"), NOW, k->w->arena, &pairing), 0);
        assert_text(pairing.request.label, "a laptop");
        assert_text(pairing.user_code, "0123-4571");
}

static void approval_by_user_code_answers_the_next_poll(void **state)
{
        struct desk *k = *state;
        const struct lessor_public_identity *device = identity_of(fresh_keys(k->w->arena));
        struct projection_cell cell;
        struct directory_device approved;
        struct directory *d;
        struct projection *p;
        struct pairing_codes codes;
        struct buf problem;

        buf_init(&problem);
        projection_cell_init(&cell);
        assert_int_equal(directory_open(":memory:", &cell, NULL, &d, &problem), 0);
        assert_int_equal(start_for(k, device, NOW, &codes), 0);
        p = projection_cell_get(&cell);
        assert_int_equal(poll_at(k, p, codes.device_code, NOW), PAIRING_PENDING);
        projection_unref(p);
        assert_int_equal(pairing_approve(k->t, d, S("ZZZZ-ZZZZ"), S("ann"), NOW, k->w->arena, &approved),
                         LESSOR_E_NOT_FOUND);
        assert_int_equal(
                pairing_approve(k->t, d, S(codes.user_code), S("ann"), NOW + 1, k->w->arena, &approved), 0);
        assert_text(approved.label, "a laptop");
        assert_text(approved.owner, "ann");
        p = projection_cell_get(&cell);
        assert_int_equal(poll_at(k, p, codes.device_code, NOW), PAIRING_APPROVED);
        assert_true(lessor_slice_equal(projection_device_by_identity(p, device->identity)->runner_id,
                                       approved.runner_id));
        projection_unref(p);
        directory_free(d);
        projection_cell_done(&cell);
        buf_done(&problem);
}

static void a_restart_loses_no_pairing(void **state)
{
        struct desk *k = *state;
        struct lessor_public_identity device = device_of("i");
        const char *path = path_in(k->w, "lessor.db");
        struct pairing_codes codes;
        struct pairing pairing;

        open_table(k, path);
        assert_int_equal(start_for(k, &device, NOW, &codes), 0);
        open_table(k, path);
        assert_int_equal(poll_at(k, k->nobody, codes.device_code, NOW + 1), PAIRING_PENDING);
        assert_int_equal(pairing_find(k->t, S(codes.user_code), NOW + 1, k->w->arena, &pairing), 0);
}

/* Whoever reads the database cannot finish somebody's pairing. */
static void the_device_code_itself_is_not_kept(void **state)
{
        struct desk *k = *state;
        struct lessor_public_identity device = device_of("i");
        const char *path = path_in(k->w, "lessor.db");
        struct pairing_codes codes;
        sqlite3_stmt *rows;
        sqlite3 *db;

        open_table(k, path);
        assert_int_equal(start_for(k, &device, NOW, &codes), 0);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM directory_pairing", -1, &rows, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        for (int i = 0; i < sqlite3_column_count(rows); i++) {
                const void *bytes = sqlite3_column_blob(rows, i);

                if (bytes != NULL)
                        assert_null(memmem(bytes, (size_t)sqlite3_column_bytes(rows, i), codes.device_code,
                                           PAIRING_DEVICE_CODE_LEN));
        }
        sqlite3_finalize(rows);
        sqlite3_close(db);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, desk_setup, desk_teardown)
        const struct CMUnitTest tests[] = {
                CASE(codes_are_made_from_the_random_bytes),
                CASE(a_code_is_pending_until_it_expires),
                CASE(an_approved_code_is_used_once),
                CASE(a_device_that_starts_again_drops_its_old_code),
                CASE(so_many_pairings_at_once_and_no_more),
                CASE(a_user_code_may_be_typed_in_many_ways),
                CASE(approval_by_user_code_answers_the_next_poll),
                CASE(a_restart_loses_no_pairing),
                CASE(the_device_code_itself_is_not_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
