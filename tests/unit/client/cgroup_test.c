/* SPDX-License-Identifier: MIT */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "check.h"
#include "client/cgroup.h"

/* A plain directory in the place of the kernel's: what is written where, and what is made of what is read. */

static int set_up(void **state)
{
        *state = scratch_make();
        return mkdir(scratch_path(*state, "own"), 0755);
}

static int tear_down(void **state)
{
        scratch_remove(*state);
        return 0;
}

static void put(void **state, const char *name, const char *text)
{
        assert_int_equal(file_replace(scratch_path(*state, name), lessor_slice_of(text), 0644), 0);
}

static void assert_file(void **state, const char *name, const char *text)
{
        struct buf found = {0};

        assert_int_equal(file_read(scratch_path(*state, name), 4096, &found), 0);
        assert_text_equal(buf_view(&found), text);
        buf_done(&found);
}

static struct cgroup_parent *open_parent(void **state)
{
        struct cgroup_parent *parent = NULL;

        put(state, "own/cgroup.controllers", "cpuset cpu memory pids\n");
        assert_int_equal(cgroup_parent_new(*state, "/own", &parent), 0);
        return parent;
}

static void without_controllers_there_is_none(void **state)
{
        static const char *const lists[] = {"", "cpu io\n", "memory\n", "pids\n", "memoryx pids\n"};
        struct cgroup_parent *parent = NULL;

        assert_int_equal(cgroup_parent_new(*state, "/own", &parent), LESSOR_E_UNAVAILABLE);
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                put(state, "own/cgroup.controllers", lists[i]);
                assert_int_equal(cgroup_parent_new(*state, "/own", &parent), LESSOR_E_UNAVAILABLE);
        }
        assert_null(parent);
}

static void the_agent_moves_out_of_the_way(void **state)
{
        struct cgroup_parent *parent = open_parent(state);

        assert_file(state, "own/lessor-agent/cgroup.procs", "0");
        assert_file(state, "own/cgroup.subtree_control", "+memory +pids");
        cgroup_parent_free(parent);
}

static void a_task_gets_a_group_with_its_limits(void **state)
{
        struct cgroup_parent *parent = open_parent(state);
        struct cgroup_limits limits = {.memory_bytes = 1048576, .processes = 12};
        struct cgroup cgroup;

        assert_int_equal(cgroup_make(parent, "t1", &limits, &cgroup), 0);
        assert_file(state, "own/lessor-task-t1/memory.max", "1048576");
        assert_file(state, "own/lessor-task-t1/memory.swap.max", "0");
        assert_file(state, "own/lessor-task-t1/pids.max", "12");
        assert_int_equal(write(cgroup.procs_fd, "0", 1), 1);
        assert_file(state, "own/lessor-task-t1/cgroup.procs", "0");
        cgroup_end(&cgroup);
        assert_file(state, "own/lessor-task-t1/cgroup.kill", "1");
        cgroup_parent_free(parent);
}

static void no_limit_is_not_written(void **state)
{
        struct cgroup_parent *parent = open_parent(state);
        struct cgroup_limits limits = {0};
        struct cgroup cgroup;

        assert_int_equal(cgroup_make(parent, "t1", &limits, &cgroup), 0);
        assert_int_equal(access(scratch_path(*state, "own/lessor-task-t1/memory.max"), F_OK), -1);
        assert_int_equal(access(scratch_path(*state, "own/lessor-task-t1/pids.max"), F_OK), -1);
        cgroup_end(&cgroup);
        assert_int_equal(cgroup_make(parent, "t1", &limits, &cgroup), LESSOR_E_IO); /* there is one already */
        cgroup_parent_free(parent);
}

static void what_happened_is_read(void **state)
{
        struct cgroup_parent *parent = open_parent(state);
        struct cgroup_limits limits = {0};
        struct cgroup_usage usage;
        struct cgroup cgroup;

        assert_int_equal(cgroup_make(parent, "t1", &limits, &cgroup), 0);
        usage = cgroup_usage(&cgroup);
        assert_false(usage.out_of_memory || usage.out_of_processes);
        assert_int_equal(usage.peak_bytes, 0);
        put(state, "own/lessor-task-t1/memory.peak", "4096000\n");
        put(state, "own/lessor-task-t1/memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 2\n");
        put(state, "own/lessor-task-t1/pids.events", "max 0\n");
        usage = cgroup_usage(&cgroup);
        assert_int_equal(usage.peak_bytes, 4096000);
        assert_true(usage.out_of_memory);
        assert_false(usage.out_of_processes);
        put(state, "own/lessor-task-t1/pids.events", "max 7\n");
        assert_true(cgroup_usage(&cgroup).out_of_processes);
        cgroup_end(&cgroup);
        cgroup_parent_free(parent);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(without_controllers_there_is_none),
                TEST(the_agent_moves_out_of_the_way),
                TEST(a_task_gets_a_group_with_its_limits),
                TEST(no_limit_is_not_written),
                TEST(what_happened_is_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
