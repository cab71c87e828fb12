/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "check.h"
#include "client/cache_index.h"
#include "client/object_cache.h"

/* --- The index: data only --- */

static struct lessor_slice hash_number(unsigned i)
{
        static char text[8][SHA256_HEX_LEN + 1];
        static unsigned at;
        char *p = text[at++ % 8];

        snprintf(p, SHA256_HEX_LEN + 1, "%064x", i);
        return (struct lessor_slice){p, SHA256_HEX_LEN};
}

static struct cache_entry *put(struct cache_index *index, unsigned i, int64_t size)
{
        struct cache_entry *entry = cache_index_add(index, hash_number(i));

        assert_non_null(entry);
        cache_index_arrived(index, entry, size, CACHE_PRESENT);
        return entry;
}

static void index_start(struct cache_index *index)
{
        static const unsigned char key[16] = {1};

        assert_int_equal(cache_index_init(index, key), 0);
}

static void the_least_recently_used_goes_first(void **state)
{
        struct cache_index index;
        struct cache_entry *first, *second, *third;

        (void)state;
        index_start(&index);
        first = put(&index, 1, 10);
        second = put(&index, 2, 10);
        third = put(&index, 3, 10);
        assert_null(cache_index_excess(&index, 30));
        assert_ptr_equal(cache_index_excess(&index, 29), first);
        cache_index_pin(&index, first);
        cache_index_unpin(&index, first); /* was used */
        assert_ptr_equal(cache_index_excess(&index, 0), second);
        cache_index_remove(&index, second);
        assert_int_equal(index.bytes, 20);
        assert_ptr_equal(cache_index_excess(&index, 0), third);
        cache_index_done(&index);
}

static void what_is_needed_stays_whatever_the_budget(void **state)
{
        struct cache_index index;
        struct cache_entry *entry, *other;

        (void)state;
        index_start(&index);
        entry = put(&index, 1, 100);
        other = put(&index, 2, 100);
        cache_index_pin(&index, entry);
        cache_index_pin(&index, entry);
        assert_ptr_equal(cache_index_excess(&index, 0), other);
        cache_index_remove(&index, other);
        assert_null(cache_index_excess(&index, 0));
        cache_index_unpin(&index, entry);
        assert_null(cache_index_excess(&index, 0));
        cache_index_unpin(&index, entry);
        assert_ptr_equal(cache_index_excess(&index, 0), entry);
        cache_index_done(&index);
}

static void what_is_coming_neither_counts_nor_goes(void **state)
{
        struct cache_index index;
        struct cache_entry *entry;

        (void)state;
        index_start(&index);
        entry = cache_index_add(&index, hash_number(1));
        assert_int_equal(entry->state, CACHE_COMING);
        assert_int_equal(index.bytes, 0);
        assert_null(cache_index_excess(&index, -1));
        cache_index_arrived(&index, entry, 5, CACHE_UNCHECKED);
        cache_index_check(&index, entry);
        assert_int_equal(index.bytes, 0);
        cache_index_remove(&index, entry);
        assert_int_equal(index.n_entries, 0);
        cache_index_done(&index);
}

/* Against a plain array that knows the order by a counter. */
static void histories_keep_the_order(void **state)
{
        enum { N = 12 };
        struct {
                struct cache_entry *entry;
                unsigned used, pins;
        } model[N] = {0};
        struct cache_index index;
        uint32_t seed = 12345;
        unsigned clock = 1;

        (void)state;
        index_start(&index);
        for (int step = 0; step < 20000; step++) {
                unsigned i, what;
                struct cache_entry *excess;
                unsigned oldest = N;

                seed = seed * 1664525 + 1013904223;
                i = seed >> 8 & 0xff;
                i %= N;
                what = seed >> 20 & 3;
                if (model[i].entry == NULL) {
                        model[i].entry = put(&index, i, (int64_t)i + 1);
                        model[i].used = clock++;
                } else if (what == 0) {
                        cache_index_pin(&index, model[i].entry);
                        model[i].pins++;
                } else if (what == 1 && model[i].pins > 0) {
                        cache_index_unpin(&index, model[i].entry);
                        if (--model[i].pins == 0)
                                model[i].used = clock++;
                } else if (what == 2 && model[i].pins == 0) {
                        cache_index_remove(&index, model[i].entry);
                        model[i].entry = NULL;
                }
                for (unsigned k = 0; k < N; k++)
                        if (model[k].entry != NULL && model[k].pins == 0 &&
                            (oldest == N || model[k].used < model[oldest].used))
                                oldest = k;
                excess = cache_index_excess(&index, -1);
                assert_ptr_equal(excess, oldest == N ? NULL : model[oldest].entry);
        }
        cache_index_done(&index);
}

/* --- The cache --- */

struct world {
        char *dir;
        struct object_cache *cache;
};

static struct object_cache *open_cache(const char *dir, int64_t budget)
{
        struct object_cache *cache = NULL;
        struct buf problem = {0};

        assert_int_equal(object_cache_open(scratch_path(dir, "cache"), budget, &cache, &problem), 0);
        buf_done(&problem);
        return cache;
}

static int set_up(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        w->dir = scratch_make();
        w->cache = open_cache(w->dir, 100);
        *state = w;
        return 0;
}

static int tear_down(void **state)
{
        struct world *w = *state;

        object_cache_free(w->cache);
        scratch_remove(w->dir);
        free(w);
        return 0;
}

static void reopen(struct world *w)
{
        w->cache = object_cache_free(w->cache);
        w->cache = open_cache(w->dir, 100);
}

static struct lessor_slice hash_of(const char *text)
{
        static _Thread_local char hex[4][SHA256_HEX_LEN + 1];
        static _Thread_local unsigned at;
        char *p = hex[at++ % 4];

        sha256_hex_of(lessor_slice_of(text), p);
        return (struct lessor_slice){p, SHA256_HEX_LEN};
}

static enum cache_want want(struct world *w, const char *text)
{
        enum cache_want want;

        assert_int_equal(object_cache_want(w->cache, hash_of(text), false, NULL, &want), 0);
        return want;
}

static void fetch(struct world *w, const char *text)
{
        struct cache_writer writer;

        assert_int_equal(want(w, text), CACHE_FETCH);
        assert_int_equal(object_cache_begin(w->cache, hash_of(text), &writer), 0);
        assert_int_equal(cache_writer_add(&writer, lessor_slice_of(text)), 0);
        assert_int_equal(cache_writer_commit(&writer), 0);
}

static char *path_of(struct world *w, const char *text)
{
        char *path;
        struct lessor_slice hash = hash_of(text);

        assert_true(asprintf(&path, "%s/cache/objects/%.2s/%.62s", w->dir, hash.p, hash.p + 2) > 0);
        return path;
}

static void what_was_fetched_is_there(void **state)
{
        struct world *w = *state;
        char text[16] = {0};
        int fd;

        fetch(w, "hello");
        assert_int_equal(want(w, "hello"), CACHE_HAVE);
        fd = object_cache_read(w->cache, hash_of("hello"));
        assert_true(fd >= 0);
        assert_int_equal(read(fd, text, sizeof(text)), 5);
        assert_string_equal(text, "hello");
        close(fd);
        assert_int_equal(object_cache_bytes(w->cache), 5);
}

static void other_bytes_than_the_name_says_are_not_taken(void **state)
{
        struct world *w = *state;
        struct cache_writer writer;

        assert_int_equal(want(w, "hello"), CACHE_FETCH);
        assert_int_equal(object_cache_begin(w->cache, hash_of("hello"), &writer), 0);
        cache_writer_add(&writer, LESSOR_SLICE("hellp"));
        assert_int_equal(cache_writer_commit(&writer), LESSOR_E_MISMATCH);
        assert_int_equal(want(w, "hello"), CACHE_FETCH); /* it was given up */
        assert_int_equal(scratch_count(scratch_path(w->dir, "cache/tmp")), 0);
        object_cache_give_up(w->cache, hash_of("hello"));
}

static void a_writer_can_start_again(void **state)
{
        struct world *w = *state;
        struct cache_writer writer;

        assert_int_equal(want(w, "hello"), CACHE_FETCH);
        assert_int_equal(object_cache_begin(w->cache, hash_of("hello"), &writer), 0);
        cache_writer_add(&writer, LESSOR_SLICE("jel"));
        assert_int_equal(cache_writer_restart(&writer), 0);
        cache_writer_add(&writer, LESSOR_SLICE("hel"));
        cache_writer_add(&writer, LESSOR_SLICE("lo"));
        assert_int_equal(cache_writer_commit(&writer), 0);
}

static void what_is_not_used_goes_when_there_is_too_much(void **state)
{
        struct world *w = *state;
        char big[3][61];

        for (int i = 0; i < 3; i++) {
                memset(big[i], 'a' + i, 60);
                big[i][60] = '\0';
        }
        fetch(w, big[0]);
        fetch(w, big[1]); /* over the budget, but both are in use */
        assert_int_equal(object_cache_bytes(w->cache), 120);
        object_cache_unpin(w->cache, hash_of(big[0]));
        assert_int_equal(object_cache_bytes(w->cache), 60);
        fetch(w, big[2]);
        assert_int_equal(want(w, big[0]), CACHE_FETCH);
        object_cache_give_up(w->cache, hash_of(big[0]));
        assert_int_equal(want(w, big[1]), CACHE_HAVE);
}

static void a_restart_knows_what_was_used_last(void **state)
{
        struct world *w = *state;
        const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        char *path, big[61];

        fetch(w, "one");
        fetch(w, "two");
        memset(big, 'x', 60);
        big[60] = '\0';
        fetch(w, big);
        path = path_of(w, "two");
        utimensat(AT_FDCWD, path, old, 0);
        free(path);
        w->cache = object_cache_free(w->cache);
        w->cache = open_cache(w->dir, 63); /* room for all but one */
        assert_int_equal(want(w, "two"), CACHE_FETCH);
        object_cache_give_up(w->cache, hash_of("two"));
        assert_int_equal(want(w, "one"), CACHE_HAVE);
        assert_int_equal(want(w, big), CACHE_HAVE);
}

/* As a crash leaves it where nothing was synced: the right name and size, and zeros. */
static void what_a_crash_damaged_is_fetched_again(void **state)
{
        struct world *w = *state;
        char *path;
        int fd;

        fetch(w, "hello");
        path = path_of(w, "hello");
        w->cache = object_cache_free(w->cache);
        fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, "\0\0\0\0\0", 5, 0), 5);
        close(fd);
        w->cache = open_cache(w->dir, 100);
        assert_int_equal(want(w, "hello"), CACHE_FETCH);
        assert_int_equal(access(path, F_OK), -1);
        object_cache_give_up(w->cache, hash_of("hello"));
        free(path);
}

static void halves_of_a_crash_are_removed(void **state)
{
        struct world *w = *state;

        assert_int_equal(file_replace(scratch_path(w->dir, "cache/tmp/7"), LESSOR_SLICE("half"), 0600), 0);
        reopen(w);
        assert_int_equal(scratch_count(scratch_path(w->dir, "cache/tmp")), 0);
}

static void one_agent_at_a_time_has_it(void **state)
{
        struct world *w = *state;
        struct object_cache *other = NULL;
        struct buf problem = {0};

        assert_int_equal(object_cache_open(scratch_path(w->dir, "cache"), 100, &other, &problem),
                         LESSOR_E_BUSY);
        assert_non_null(strstr(problem.p, "another agent"));
        buf_done(&problem);
}

struct waiter {
        struct world *w;
        enum cache_want got;
        int code;
        struct lessor_stop *stop;
};

static void *wait_for_it(void *context)
{
        struct waiter *waiter = context;

        waiter->code =
                object_cache_want(waiter->w->cache, hash_of("hello"), true, waiter->stop, &waiter->got);
        return NULL;
}

/* Two slots that need the same object: it is fetched once. */
static void what_one_fetches_the_other_gets(void **state)
{
        struct world *w = *state;
        struct waiter waiter = {.w = w};
        struct cache_writer writer;
        pthread_t thread;

        assert_int_equal(want(w, "hello"), CACHE_FETCH);
        assert_int_equal(want(w, "hello"), CACHE_WAIT);
        pthread_create(&thread, NULL, wait_for_it, &waiter);
        assert_int_equal(object_cache_begin(w->cache, hash_of("hello"), &writer), 0);
        cache_writer_add(&writer, LESSOR_SLICE("hello"));
        assert_int_equal(cache_writer_commit(&writer), 0);
        pthread_join(thread, NULL);
        assert_int_equal(waiter.code, 0);
        assert_int_equal(waiter.got, CACHE_HAVE);
}

static void what_one_gives_up_the_other_fetches(void **state)
{
        struct world *w = *state;
        struct waiter waiter = {.w = w};
        pthread_t thread;

        assert_int_equal(want(w, "hello"), CACHE_FETCH);
        pthread_create(&thread, NULL, wait_for_it, &waiter);
        object_cache_give_up(w->cache, hash_of("hello"));
        pthread_join(thread, NULL);
        assert_int_equal(waiter.code, 0);
        assert_int_equal(waiter.got, CACHE_FETCH);
        object_cache_give_up(w->cache, hash_of("hello"));
}

static void waiting_can_be_stopped(void **state)
{
        struct world *w = *state;
        struct waiter waiter = {.w = w};
        pthread_t thread;

        assert_int_equal(lessor_stop_new(&waiter.stop), 0);
        assert_int_equal(want(w, "hello"), CACHE_FETCH);
        pthread_create(&thread, NULL, wait_for_it, &waiter);
        lessor_stop_raise(waiter.stop);
        pthread_join(thread, NULL);
        assert_int_equal(waiter.code, LESSOR_E_CLOSED);
        lessor_stop_free(waiter.stop);
        object_cache_give_up(w->cache, hash_of("hello"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_least_recently_used_goes_first),
                cmocka_unit_test(what_is_needed_stays_whatever_the_budget),
                cmocka_unit_test(what_is_coming_neither_counts_nor_goes),
                cmocka_unit_test(histories_keep_the_order),
                cmocka_unit_test_setup_teardown(what_was_fetched_is_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(other_bytes_than_the_name_says_are_not_taken, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(a_writer_can_start_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_is_not_used_goes_when_there_is_too_much, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(a_restart_knows_what_was_used_last, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_a_crash_damaged_is_fetched_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(halves_of_a_crash_are_removed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(one_agent_at_a_time_has_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_one_fetches_the_other_gets, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_one_gives_up_the_other_fetches, set_up, tear_down),
                cmocka_unit_test_setup_teardown(waiting_can_be_stopped, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
