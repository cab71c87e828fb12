/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/macro.h"
#include "plane/control_routes.h"
#include "plane/rack_call.h"
#include "plane/relay.h"
#include "relay_tables.h"
#include "wire/rack_types.h"
#include "wire/task_objects.h"

/*
 * Prints the tables that dispatch requests and read and write messages, as JSON: what docs/openapi.yaml is
 * made from and held to (tools/openapi). Not installed.
 */

/* --- Message tables --- */

#define TABLES_MOST 256

struct tables {
        const struct message_table *seen[TABLES_MOST];
        size_t n;
};

/* The place of a table; it is added if it is new. */
static size_t place_of(struct tables *t, const struct message_table *table)
{
        for (size_t i = 0; i < t->n; i++)
                if (t->seen[i] == table)
                        return i;
        if (t->n == TABLES_MOST)
                abort();
        t->seen[t->n] = table;
        return t->n++;
}

/* Two tables may have one name: the second is NAME2. */
static void put_name(struct json_writer *w, const char *key, struct tables *t,
                     const struct message_table *table)
{
        size_t at = place_of(t, table), n = 1;
        char name[96];

        for (size_t i = 0; i < at; i++)
                n += strcmp(t->seen[i]->name, table->name) == 0;
        snprintf(name, sizeof(name), n == 1 ? "%s" : "%s%zu", table->name, n);
        if (key == NULL)
                json_key_text(w, lessor_slice_of(name));
        else
                json_member_cstr(w, key, name);
}

static const char *const type_names[] = {"text", "url",  "word",   "literal", "enum",
                                         "int",  "bool", "object", "list",    "map"};

static void put_words(struct json_writer *w, const char *key, const struct message_words *words,
                      unsigned mask)
{
        json_key(w, key);
        json_open_array(w);
        for (size_t i = 0; i < words->n; i++)
                if (mask == 0 || (mask & 1u << i) != 0)
                        json_put_cstr(w, words->names[i]);
        json_close_array(w);
}

static void put_field(struct json_writer *w, struct tables *t, const struct message_table *table,
                      const struct message_field *f)
{
        json_open_object(w);
        json_member_cstr(w, "name", f->name);
        json_member_cstr(w, "type", type_names[f->type]);
        json_member_bool(w, "optional", (f->flags & (MESSAGE_OPTIONAL | MESSAGE_NULLABLE)) != 0);
        json_member_bool(w, "nullable", (f->flags & MESSAGE_NULLABLE) != 0);
        if (f->type == MESSAGE_TEXT || f->type == MESSAGE_INT || f->type == MESSAGE_LIST ||
            f->type == MESSAGE_MAP) {
                json_member_int(w, "min", f->min);
                if (f->max != INT64_MAX)
                        json_member_int(w, "max", f->max);
        }
        json_member_cstr(w, "literal", f->literal);
        if (f->words != NULL)
                put_words(w, "words", f->words, 0);
        if (f->when != 0)
                put_words(w, "when", table->fields[0].words, f->when);
        if (f->table != NULL)
                put_name(w, "table", t, f->table);
        if (f->item != NULL) {
                json_key(w, "item");
                put_field(w, t, table, f->item);
        }
        json_close_object(w);
}

static void put_table(struct json_writer *w, struct tables *t, const struct message_table *table)
{
        put_name(w, NULL, t, table);
        json_open_object(w);
        json_member_bool(w, "open", table->open);
        json_member_bool(w, "forms", table->has_forms);
        json_key(w, "fields");
        json_open_array(w);
        for (size_t i = 0; i < table->n_fields; i++)
                put_field(w, t, table, &table->fields[i]);
        json_close_array(w);
        json_close_object(w);
}

/* Writing a table may add others. */
static void put_tables(struct json_writer *w, struct tables *t)
{
        json_key(w, "tables");
        json_open_object(w);
        for (size_t i = 0; i < t->n; i++)
                put_table(w, t, t->seen[i]);
        json_close_object(w);
}

/* --- Rack types --- */

static const char *const kind_names[] = {"null",   "boolean", "integer", "datetime", "string", "blob",
                                         "struct", "variant", "option",  "array",    "dict"};

static void put_type(struct json_writer *w, const struct beast2_type *type);

/* A type that has a name of its own in rack_types is referred to by it. */
static bool is_named(const struct beast2_type *type)
{
        return (type->kind == BEAST2_STRUCT || type->kind == BEAST2_VARIANT) && type->name != NULL &&
               rack_type_named(lessor_slice_of(type->name)) == type;
}

static void put_type_or_name(struct json_writer *w, const struct beast2_type *type)
{
        if (!is_named(type)) {
                put_type(w, type);
                return;
        }
        json_open_object(w);
        json_member_cstr(w, "ref", type->name);
        json_close_object(w);
}

static void put_type(struct json_writer *w, const struct beast2_type *type)
{
        json_open_object(w);
        json_member_cstr(w, "kind", kind_names[type->kind]);
        if (type->n_members > 0) {
                json_key(w, "members");
                json_open_array(w);
                for (size_t i = 0; i < type->n_members; i++) {
                        json_open_object(w);
                        json_member_text(w, "name", type->members[i].name);
                        json_member_bool(w, "jsonOnly", (type->members[i].flags & BEAST2_JSON_ONLY) != 0);
                        json_key(w, "type");
                        put_type_or_name(w, type->members[i].type);
                        json_close_object(w);
                }
                json_close_array(w);
        }
        if (type->element != NULL) {
                json_key(w, "element");
                put_type_or_name(w, type->element);
        }
        json_close_object(w);
}

static void put_rack(struct json_writer *w)
{
        json_open_object(w);
        json_key(w, "routes");
        json_open_array(w);
        for (size_t i = 0; i < rack_n_endpoints; i++) {
                const struct rack_endpoint *e = &rack_endpoints[i];

                json_open_object(w);
                json_member_cstr(w, "path", e->path);
                json_member_cstr(w, "name", e->name);
                json_member_cstr(w, "summary", e->summary);
                json_member_bool(w, "open", e->open);
                json_member_int(w, "bodyLimit", (int64_t)e->body_limit);
                json_key(w, "request");
                put_type_or_name(w, e->request);
                json_key(w, "success");
                put_type_or_name(w, e->success);
                json_close_object(w);
        }
        json_close_array(w);
        json_key(w, "types");
        json_open_object(w);
        for (const struct beast2_type *const *type = rack_types; *type != NULL; type++) {
                if (!is_named(*type) || strncmp((*type)->name, "ResponseType(", 13) == 0)
                        continue;
                json_key(w, (*type)->name);
                put_type(w, *type);
        }
        json_close_object(w);
        json_close_object(w);
}

/* --- Control and relay --- */

static void put_control(struct json_writer *w)
{
        struct tables t = {.n = 0};

        json_open_object(w);
        json_key(w, "routes");
        json_open_array(w);
        for (size_t i = 0; i < control_n_endpoints; i++) {
                const struct control_endpoint *e = &control_endpoints[i];

                json_open_object(w);
                json_member_cstr(w, "method", e->method);
                json_member_cstr(w, "path", e->path);
                json_member_cstr(w, "name", e->name);
                json_member_cstr(w, "summary", e->summary);
                json_member_bool(w, "streamed", e->streamed);
                if (e->serve == control_lease_create)
                        put_name(w, "body", &t, &control_lease_create_body); /* which it reads itself */
                else if (e->body != NULL)
                        put_name(w, "body", &t, e->body);
                json_close_object(w);
        }
        json_close_array(w);
        put_tables(w, &t);
        json_close_object(w);
}

static void put_relay(struct json_writer *w)
{
        const struct relay_options options = {.base_path = "/byollm"};
        const struct relay_parts parts = {.store = NULL};
        struct tables t = {.n = 0};
        struct relay *relay;

        if (relay_new(&options, &parts, &relay) < 0)
                abort();
        for (const struct message_table *const *table = relay_tables; *table != NULL; table++)
                place_of(&t, *table);
        json_open_object(w);
        json_key(w, "routes");
        json_open_array(w);
        for (const struct http_route *route = relay_routes(relay); route->handler != NULL; route++) {
                json_open_object(w);
                json_member_cstr(w, "method", route->method);
                json_member_cstr(w, "path", route->path);
                json_member_cstr(w, "name", route->name);
                json_member_cstr(w, "summary", route->summary);
                json_close_object(w);
        }
        json_close_array(w);
        put_tables(w, &t);
        json_close_object(w);
        relay_free(relay);
}

static void put_objects(struct json_writer *w)
{
        struct tables t = {.n = 0};

        place_of(&t, &tree_table);
        place_of(&t, &task_table);
        json_open_object(w);
        put_tables(w, &t);
        json_close_object(w);
}

int main(void)
{
        struct buf out = {0};
        struct json_writer w;

        json_writer_init(&w, &out);
        json_open_object(&w);
        json_key(&w, "rack");
        put_rack(&w);
        json_key(&w, "control");
        put_control(&w);
        json_key(&w, "relay");
        put_relay(&w);
        json_key(&w, "objects");
        put_objects(&w);
        json_close_object(&w);
        if (buf_failed(&out) < 0 || fwrite(out.p, 1, out.n, stdout) != out.n)
                return 1;
        putchar('\n');
        buf_done(&out);
        return 0;
}
