/* SPDX-License-Identifier: MIT */
#include "routing/directory/projection.h"
#include "base/json_read.h"
#include "fuzz.h"
#include "wire/relay_documents.h"

/* A projection as a file that people write. What can be read is written, reads again, and can be asked. */

static int read_fixture(struct lessor_slice text, struct lessor_arena *arena,
                        struct relay_fixture *ret_fixture)
{
        const char *problem = NULL;
        struct json *value;
        int e = json_read_file_text(text, arena, &value, &problem);

        if (e == 0)
                e = message_read(&relay_fixture_table, value, arena, ret_fixture, &problem);
        FUZZ_CHECK(e == 0 || problem != NULL);
        return e;
}

static void ask(const struct relay_fixture *fixture)
{
        struct projection *p;
        struct projection_routes routes;

        FUZZ_CHECK(projection_new(fixture, &p) == 0);
        for (size_t i = 0; i < fixture->n_consents; i++) {
                struct lessor_slice owner = fixture->consents[i].owner;

                FUZZ_CHECK(projection_routes(p, owner, &routes) == 0);
                for (size_t j = 0; j < routes.n; j++)
                        FUZZ_CHECK(projection_may_route(p, owner, routes.items[j].site_id) &&
                                   projection_may_route(p, routes.items[j].owner, routes.items[j].site_id));
        }
        projection_unref(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct lessor_arena *arena = lessor_arena_new();
        struct relay_fixture fixture, again;
        struct buf text;

        FUZZ_CHECK(arena != NULL);
        buf_init(&text);
        if (read_fixture((struct lessor_slice){(const char *)data, size}, arena, &fixture) == 0) {
                FUZZ_CHECK(message_append(&relay_fixture_table, &fixture, &text) == 0);
                FUZZ_CHECK(read_fixture(buf_view(&text), arena, &again) == 0);
                FUZZ_CHECK(again.n_sites == fixture.n_sites && again.n_consents == fixture.n_consents &&
                           again.n_devices == fixture.n_devices && again.n_rosters == fixture.n_rosters &&
                           again.n_revoked == fixture.n_revoked);
                ask(&fixture);
        }
        buf_done(&text);
        lessor_arena_free(arena);
        return 0;
}
