/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/table.h"

struct entry {
        struct table_node node;
        unsigned number;
};

static const unsigned char key[16] = "a key for tests";

static struct lessor_slice name_of(const unsigned *number)
{
        return (struct lessor_slice){(const char *)number, sizeof(*number)};
}

static struct entry *find(const struct table *t, unsigned number)
{
        uint64_t hash = table_hash(t, name_of(&number));

        for (struct table_node *n = table_first(t, hash); n != NULL; n = table_next(n))
                if (container_of(n, struct entry, node)->number == number)
                        return container_of(n, struct entry, node);
        return NULL;
}

static void what_is_added_is_found_until_removed(void **state)
{
        static struct entry entries[5000];
        struct table t;

        (void)state;
        assert_int_equal(table_init(&t, key), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(entries); i++) {
                entries[i].number = i;
                table_add(&t, &entries[i].node, table_hash(&t, name_of(&i)));
        }
        assert_true(t.n_chains >= ARRAY_SIZE(entries) / 2); /* it grew */
        for (unsigned i = 0; i < ARRAY_SIZE(entries); i += 2)
                table_remove(&t, &entries[i].node);
        assert_int_equal(t.n, ARRAY_SIZE(entries) / 2);
        for (unsigned i = 0; i < ARRAY_SIZE(entries); i++)
                assert_ptr_equal(find(&t, i), i % 2 == 0 ? NULL : &entries[i]);
        table_done(&t);
}

static void entries_of_one_hash_are_all_found(void **state)
{
        struct entry entries[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
        struct table t;
        unsigned seen = 0;

        (void)state;
        assert_int_equal(table_init(&t, key), 0);
        for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
                table_add(&t, &entries[i].node, 42);
        for (struct table_node *n = table_first(&t, 42); n != NULL; n = table_next(n))
                seen |= 1u << container_of(n, struct entry, node)->number;
        assert_int_equal(seen, 7);
        assert_null(table_first(&t, 42 + t.n_chains)); /* the same chain, another hash */
        table_done(&t);
}

static void the_hash_hangs_on_the_key_and_on_the_split(void **state)
{
        static const unsigned char other[16] = "another key";
        struct table a, b;

        (void)state;
        assert_int_equal(table_init(&a, key), 0);
        assert_int_equal(table_init(&b, other), 0);
        assert_true(table_hash(&a, LESSOR_SLICE("x")) != table_hash(&b, LESSOR_SLICE("x")));
        assert_true(table_hash_pair(&a, LESSOR_SLICE("ab"), LESSOR_SLICE("c")) !=
                    table_hash_pair(&a, LESSOR_SLICE("a"), LESSOR_SLICE("bc")));
        assert_true(table_hash_pair(&a, LESSOR_SLICE("a"), LESSOR_SLICE("b")) !=
                    table_hash_pair(&a, LESSOR_SLICE("b"), LESSOR_SLICE("a")));
        table_done(&a);
        table_done(&b);
}

static void free_entry(struct table_node *node, void *context)
{
        *(unsigned *)context += container_of(node, struct entry, node)->number;
        free(container_of(node, struct entry, node));
}

static void each_entry_may_be_freed_as_it_is_met(void **state)
{
        struct table t;
        unsigned sum = 0;

        (void)state;
        assert_int_equal(table_init(&t, key), 0);
        for (unsigned i = 1; i <= 100; i++) {
                struct entry *e = calloc(1, sizeof(*e));

                assert_non_null(e);
                e->number = i;
                table_add(&t, &e->node, table_hash(&t, name_of(&i)));
        }
        table_each(&t, free_entry, &sum);
        assert_int_equal(sum, 5050);
        table_done(&t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_added_is_found_until_removed),
                cmocka_unit_test(entries_of_one_hash_are_all_found),
                cmocka_unit_test(the_hash_hangs_on_the_key_and_on_the_split),
                cmocka_unit_test(each_entry_may_be_freed_as_it_is_met),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
