/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <stdio.h>

/* relay.json, key `schemas`: which texts are which messages. */
static void each_schema_vector_has_its_verdict(void **state)
{
        struct json *vectors = vectors_load("relay.json");
        size_t n_seen = 0;

        (void)state;
        json_each (entry, json_member_named(vectors, "schemas")) {
                const struct message_table *table = relay_table_named(vectors_text(entry, "schema"));
                bool ok = json_is(json_member_named(entry, "ok"), JSON_TRUE);
                char note[32];
                int e;

                snprintf(note, sizeof(note), "schemas[%zu]", n_seen);
                if (table == NULL)
                        fail_msg("%s: there is no such table", note);
                e = vectors_round_trip(table, vectors_text(entry, "json"), note);
                if (e != (ok ? 0 : LESSOR_E_INVALID))
                        fail_msg("%s: %s answers %s to %s", note, table->name, lessor_error_name(e),
                                 json_cstr(json_member_named(entry, "json")));
                n_seen++;
        }
        assert_int_equal(n_seen, 130);
}

/* What the macros cannot check at compile time. */
static void check_field(const struct message_table *table, const struct message_field *f)
{
        const char *what = table->name;
        bool many = f->type == MESSAGE_LIST || f->type == MESSAGE_MAP;

        if (f->name_len == 0 || f->name_len != strlen(f->name))
                fail_msg("%s has a field with a bad name", what);
        if (f->type != MESSAGE_LITERAL && f->offset >= table->size)
                fail_msg("%s.%s lies outside its struct", what, f->name);
        if ((f->flags & MESSAGE_HAS) && f->has_offset >= table->size)
                fail_msg("%s.%s: its bool lies outside its struct", what, f->name);
        if ((f->flags & MESSAGE_OPTIONAL) && !(f->flags & MESSAGE_HAS) &&
            (f->type == MESSAGE_ENUM || f->type == MESSAGE_OBJECT || f->type == MESSAGE_LITERAL))
                fail_msg("%s.%s: nothing says whether it is there", what, f->name);
        if ((f->type == MESSAGE_ENUM || f->type == MESSAGE_WORD) && (f->words == NULL || f->words->n == 0))
                fail_msg("%s.%s has no words", what, f->name);
        if (f->type == MESSAGE_OBJECT && f->table == NULL)
                fail_msg("%s.%s has no table", what, f->name);
        if (f->when != 0 && !table->has_forms)
                fail_msg("%s.%s depends on a form, but there is only one", what, f->name);
        if (many && (f->item == NULL || f->item_size == 0 || f->max < f->min))
                fail_msg("%s.%s has no items", what, f->name);
        if (many && f->item->type == MESSAGE_OBJECT && f->item->offset + f->item->table->size > f->item_size)
                fail_msg("%s.%s: its items are larger than their struct", what, f->name);
}

static void each_table_is_well_formed(void **state)
{
        (void)state;
        for (size_t t = 0; relay_tables[t] != NULL; t++) {
                const struct message_table *table = relay_tables[t];

                assert_true(table->n_fields > 0 && table->n_fields <= MESSAGE_FIELDS_MAX);
                if (table->has_forms)
                        assert_true(table->fields[0].type == MESSAGE_ENUM && table->fields[0].flags == 0);
                for (size_t i = 0; i < table->n_fields; i++) {
                        check_field(table, &table->fields[i]);
                        for (size_t j = 0; j < i; j++)
                                assert_string_not_equal(table->fields[i].name, table->fields[j].name);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_schema_vector_has_its_verdict),
                cmocka_unit_test(each_table_is_well_formed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
