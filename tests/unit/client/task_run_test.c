/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "check.h"
#include "client/task_run.h"
#include "client/task_spec.h"

/*
 * Commands under lessor-task (LESSOR_TASK), without a sandbox and, where bubblewrap works, within one: most
 * of these run in both.
 */

struct world {
        bool on;
        char *dir, *work, *tmp;
        struct sandbox *sandbox;
        struct lessor_stop *stop;
        struct buf out[N_TASK_STREAMS];
        struct task_limits limits;
        struct lessor_slice directory;
        struct task_variable *environment;
        size_t n_environment;
        bool network;
        bool is_full; /* nothing is taken */
};

static void take(void *context, enum task_stream stream, struct lessor_slice bytes)
{
        struct world *w = context;

        assert_int_equal(buf_slice(&w->out[stream], bytes), 0);
}

static bool room(void *context, enum task_stream stream)
{
        const struct world *w = context;

        (void)stream;
        return !w->is_full;
}

static int set_up(void **state, bool on)
{
        struct world *w = calloc(1, sizeof(*w));
        struct sandbox_options options = {.off = !on, .task_program = getenv("LESSOR_TASK")};
        struct buf problem = {0};

        w->on = on;
        w->dir = scratch_make();
        assert_true(asprintf(&w->work, "%s/work", w->dir) > 0);
        assert_true(asprintf(&w->tmp, "%s/tmp", w->dir) > 0);
        assert_int_equal(mkdir(w->work, 0755), 0);
        assert_int_equal(mkdir(w->tmp, 0700), 0);
        options.dir = w->dir;
        assert_int_equal(lessor_stop_new(&w->stop), 0);
        if (sandbox_new(&options, &w->sandbox, &problem) < 0)
                fail_msg("%s", problem.p);
        buf_done(&problem);
        w->directory = LESSOR_SLICE(".");
        w->limits.time_ms = 20000;
        *state = w;
        return 0;
}

static int set_up_off(void **state)
{
        return set_up(state, false);
}

static int set_up_on(void **state)
{
        return set_up(state, true);
}

/* Whatever a task did: no child is left. */
static int tear_down(void **state)
{
        struct world *w = *state;

        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        sandbox_free(w->sandbox);
        lessor_stop_free(w->stop);
        buf_done(&w->out[0]);
        buf_done(&w->out[1]);
        scratch_remove(w->dir);
        free(w->work);
        free(w->tmp);
        free(w);
        return 0;
}

static struct task_end run_argv(struct world *w, struct lessor_slice *argv, size_t n)
{
        struct task task = {.argv = argv,
                            .n_argv = n,
                            .environment = w->environment,
                            .n_environment = w->n_environment,
                            .directory = w->directory};
        struct task_run run = {.sandbox = w->sandbox,
                               .name = "t",
                               .work_dir = w->work,
                               .tmp_dir = w->tmp,
                               .task = &task,
                               .network = w->network,
                               .limits = w->limits,
                               .stop = w->stop,
                               .room = room,
                               .output = take,
                               .context = w};
        struct task_end end;

        task_run(&run, &end);
        return end;
}

static struct task_end run_script(struct world *w, const char *script)
{
        struct lessor_slice argv[] = {LESSOR_SLICE("/bin/sh"), LESSOR_SLICE("-c"), lessor_slice_of(script)};

        return run_argv(w, argv, 3);
}

static void assert_end(struct task_end end, enum task_how how, int number)
{
        if (end.how != how || end.number != number)
                fail_msg("ended as %d with %d instead of %d with %d: %s", end.how, end.number, how, number,
                         end.problem);
}

static void a_status_is_told(void **state)
{
        assert_end(run_script(*state, "exit 0"), TASK_END_EXIT, 0);
        assert_end(run_script(*state, "exit 137"), TASK_END_EXIT, 137);
        assert_end(run_script(*state, "exit 255"), TASK_END_EXIT, 255);
}

static void a_signal_is_told_from_a_status(void **state)
{
        assert_end(run_script(*state, "kill -9 $$"), TASK_END_SIGNAL, SIGKILL);
        assert_end(run_script(*state, "kill -SEGV $$"), TASK_END_SIGNAL, SIGSEGV);
}

static void what_does_not_exist_is_told(void **state)
{
        struct world *w = *state;
        struct lessor_slice none[] = {LESSOR_SLICE("no-such-command-here")};
        struct lessor_slice closed[] = {LESSOR_SLICE("/usr")};

        assert_end(run_argv(w, none, 1), TASK_END_NO_COMMAND, ENOENT);
        assert_end(run_argv(w, closed, 1), TASK_END_NO_COMMAND, EACCES);
        w->directory = LESSOR_SLICE("not/here");
        assert_end(run_script(w, "true"), TASK_END_NO_DIRECTORY, ENOENT);
}

static void both_streams_come_whole_and_byte_for_byte(void **state)
{
        struct world *w = *state;

        assert_end(run_script(w, "printf 'a\\0\\377b'; printf 'err' >&2; head -c 3000000 /dev/zero"),
                   TASK_END_EXIT, 0);
        assert_int_equal(w->out[TASK_STDOUT].n, 3000004);
        assert_memory_equal(w->out[TASK_STDOUT].p,
                            "a\0\xff"
                            "b\0",
                            5);
        assert_text_equal(buf_view(&w->out[TASK_STDERR]), "err");
}

static void it_starts_where_it_is_told_with_nothing_to_read(void **state)
{
        struct world *w = *state;

        assert_int_equal(mkdir(scratch_path(w->work, "sub dir"), 0755), 0);
        w->directory = LESSOR_SLICE("sub dir");
        assert_end(run_script(w, "basename \"$PWD\"; cat; echo made >../out"), TASK_END_EXIT, 0);
        assert_text_equal(buf_view(&w->out[TASK_STDOUT]), "sub dir\n");
        assert_int_equal(access(scratch_path(w->work, "out"), F_OK), 0);
}

/* Nothing of the agent's environment, and what the task says comes last. */
static void the_environment_is_the_tasks(void **state)
{
        struct task_variable variables[] = {{LESSOR_SLICE("EMPTY"), LESSOR_SLICE("")},
                                            {LESSOR_SLICE("LANG"), LESSOR_SLICE("de\nDE")},
                                            {LESSOR_SLICE("LD_PRELOAD"), LESSOR_SLICE("")}};
        struct world *w = *state;

        setenv("SECRET", "1", 1);
        w->environment = variables;
        w->n_environment = 3;
        assert_end(run_script(w, "echo \"${SECRET-unset} [$EMPTY] [$LANG] ${HOME:+home} ${TMPDIR:+tmp}\"; "
                                 "env | grep -c ."),
                   TASK_END_EXIT, 0);
        /* PATH, LANG on two lines, HOME, TMPDIR, EMPTY, LD_PRELOAD, PWD; some shells add OLDPWD, SHLVL, _. */
        assert_memory_equal(w->out[TASK_STDOUT].p, "unset [] [de\nDE] home tmp\n", 26);
}

static void time_is_limited(void **state)
{
        struct world *w = *state;
        int64_t before_ms = clock_monotonic_ms();

        w->limits.time_ms = 300;
        assert_end(run_script(w, "trap '' TERM INT HUP; while :; do sleep 5; done"), TASK_END_TIMEOUT, 0);
        assert_in_range(clock_monotonic_ms() - before_ms, 300, 4000);
}

static void room_on_disk_is_limited(void **state)
{
        struct world *w = *state;

        w->limits.disk_bytes = 1000000;
        /* A single file is stopped at the limit by the kernel, */
        assert_end(run_script(w, "trap '' XFSZ; head -c 2000000 /dev/zero >one; exit 3"), TASK_END_DISK, 0);
        assert_end(run_script(w, "rm one; exit 0"), TASK_END_EXIT, 0);
        /* many by the agent, wherever they are. */
        assert_end(
                run_script(w,
                           "for i in 1 2 3 4; do head -c 300000 /dev/zero >\"$TMPDIR/$i\"; done; sleep 20"),
                TASK_END_DISK, 0);
}

static void memory_of_a_process_is_limited(void **state)
{
        struct world *w = *state;
        struct task_end end;

        w->limits.memory_bytes = 64 << 20;
        end = run_script(w, "head -c 200000000 /dev/zero | tail -c 150000000 | wc -c");
        assert_int_equal(end.how, TASK_END_EXIT);
        assert_null(memmem(w->out[TASK_STDOUT].p, w->out[TASK_STDOUT].n, "150000000", 9));
        assert_in_range(end.peak_bytes, 100000, 100 << 20);
}

static void *raise_later(void *stop)
{
        usleep(200000);
        lessor_stop_raise(stop);
        return NULL;
}

static void it_ends_at_once_when_told(void **state)
{
        struct world *w = *state;
        int64_t before_ms = clock_monotonic_ms();
        pthread_t thread;

        pthread_create(&thread, NULL, raise_later, w->stop);
        assert_end(run_script(w, "trap '' TERM INT HUP; (trap '' TERM INT HUP; while :; do sleep 1; done) & "
                                 "setsid sleep 100 & while :; do sleep 1; done"),
                   TASK_END_STOPPED, 0);
        pthread_join(thread, NULL);
        assert_in_range(clock_monotonic_ms() - before_ms, 200, 2000);
}

static void a_stop_before_the_start_starts_nothing(void **state)
{
        struct world *w = *state;

        lessor_stop_raise(w->stop);
        assert_end(run_script(w, "echo hi"), TASK_END_STOPPED, 0);
        assert_int_equal(w->out[TASK_STDOUT].n, 0);
}

/* How many processes on this machine have this in their command line. */
static int count_processes(const char *mark)
{
        char command[128];
        FILE *pipe;
        int n = -1;

        snprintf(command, sizeof(command),
                 "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -ao '%s' | wc -l", mark);
        pipe = popen(command, "r");
        assert_non_null(pipe);
        assert_int_equal(fscanf(pipe, "%d", &n), 1);
        pclose(pipe);
        return n;
}

/* Background processes, in sessions of their own, whose parents are gone. */
static void nothing_is_left_running(void **state)
{
        struct world *w = *state;
        char script[256];
        unsigned mark = (unsigned)getpid() * 7 + w->on;
        char sleep_for[32];

        snprintf(sleep_for, sizeof(sleep_for), "sleep 77[%u]%u", mark / 10 % 10, mark);
        snprintf(script, sizeof(script),
                 "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; sleep 77%u%u & sleep 77%u%u' &) ; "
                 "done; "
                 "sleep 0.2; echo up",
                 mark / 10 % 10, mark, mark / 10 % 10, mark);
        assert_end(run_script(w, script), TASK_END_EXIT, 0);
        assert_text_equal(buf_view(&w->out[TASK_STDOUT]), "up\n");
        assert_int_equal(count_processes(sleep_for), 0);
}

/* The process that stands over it is of the same user, and can be killed by it. */
static void killing_the_one_above_is_no_success(void **state)
{
        struct world *w = *state;

        assert_end(run_script(w, "kill -9 $PPID; sleep 0.3; exit 0"), TASK_END_SIGNAL, SIGKILL);
}

static void *empty_later(void *context)
{
        struct world *w = context;

        usleep(300000);
        w->is_full = false;
        return NULL;
}

static void a_slow_reader_loses_nothing(void **state)
{
        struct world *w = *state;
        pthread_t thread;

        w->is_full = true;
        pthread_create(&thread, NULL, empty_later, w);
        assert_end(run_script(w, "head -c 500000 /dev/zero"), TASK_END_EXIT, 0);
        pthread_join(thread, NULL);
        assert_int_equal(w->out[TASK_STDOUT].n, 500000);
}

/* --- Only within a sandbox --- */

static void assert_prints(struct world *w, const char *script, const char *text)
{
        buf_clear(&w->out[TASK_STDOUT]);
        buf_clear(&w->out[TASK_STDERR]);
        assert_end(run_script(w, script), TASK_END_EXIT, 0);
        if (!lessor_slice_equal(buf_view(&w->out[TASK_STDOUT]), lessor_slice_of(text)))
                fail_msg("%s\nprinted %s%s", script, buf_view(&w->out[TASK_STDOUT]).p,
                         buf_view(&w->out[TASK_STDERR]).p);
}

static void it_sees_only_its_own(void **state)
{
        struct world *w = *state;

        assert_prints(w, "pwd; echo $HOME", "/task\n/tmp\n");
        assert_prints(w, "id -u; id -un; hostname 2>/dev/null || uname -n", "1000\ntask\ntask\n");
        assert_prints(w,
                      "ls /tmp /run /home /root /var/lib /srv 2>/dev/null | grep -v -e lessor-task -e : -e "
                      "'^$'; true",
                      "");
        assert_prints(w,
                      "for f in /etc/shadow /etc/ssh /root /proc/kcore; do cat $f >/dev/null 2>&1 && echo "
                      "$f; done; true",
                      "");
        assert_prints(w,
                      "touch /usr/x /bin/x /etc/x /x /run/x /dev/x 2>/dev/null; ls /usr/x /etc/x /bin/x /x "
                      "/run/x /dev/x 2>/dev/null; true",
                      "");
        /* Its own processes: lessor-task, the shell and what lists them; bwrap's init. */
        assert_prints(w, "[ $(ls -d /proc/[0-9]* | wc -l) -le 8 ] && echo few", "few\n");
        assert_prints(w, "grep CapEff /proc/self/status | tr -d '0\\t'", "CapEff:\n");
        assert_prints(w, "unshare -U true 2>/dev/null && echo yes || echo no", "no\n");
}

static void there_is_no_network_unless_asked_for(void **state)
{
        struct world *w = *state;
        const char *script =
                "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -v '^lo$' | head -1 | wc -l";
        char host[32];
        FILE *pipe;

        assert_prints(w, script, "0\n");
        pipe = popen(script, "r");
        assert_non_null(fgets(host, sizeof(host), pipe));
        pclose(pipe);
        w->network = true;
        assert_prints(w, script, host);
}

static void processes_are_limited(void **state)
{
        struct world *w = *state;

        if (geteuid() == 0)
                skip(); /* root is not bound by RLIMIT_NPROC */
        w->limits.processes = 10;
        assert_end(run_script(w, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done; wait"),
                   TASK_END_EXIT, 2);
}

static void what_cannot_be_started_is_no_failure_of_the_task(void **state)
{
        struct world *w = *state;
        struct sandbox_options options = {
                .bwrap = "/bin/false", .task_program = getenv("LESSOR_TASK"), .dir = w->dir};
        struct buf problem = {0};
        struct task_end end;

        w->sandbox = sandbox_free(w->sandbox);
        assert_int_equal(sandbox_new(&options, &w->sandbox, &problem), 0);
        end = run_script(w, "true");
        assert_int_equal(end.how, TASK_END_BROKEN);
        assert_non_null(strstr(end.problem, "could not be started"));
        buf_done(&problem);
}

static void shares_and_devices_are_added(void **state)
{
        struct world *w = *state;
        const char *shares[] = {w->dir}, *devices[] = {"/dev/loop-control"};
        struct sandbox_options options = {.task_program = getenv("LESSOR_TASK"),
                                          .dir = w->dir,
                                          .shares = shares,
                                          .n_shares = 1,
                                          .devices = devices,
                                          .n_devices = access(devices[0], F_OK) == 0};
        struct buf problem = {0};
        char script[512];

        w->sandbox = sandbox_free(w->sandbox);
        assert_int_equal(sandbox_new(&options, &w->sandbox, &problem), 0);
        snprintf(script, sizeof(script),
                 "cat %s/passwd | head -1 | cut -c1-5; touch %s/x 2>/dev/null || echo closed", w->dir,
                 w->dir);
        assert_prints(w, script, "root:\nclosed\n");
        options.shares = &(const char *){"relative"};
        assert_int_equal(sandbox_new(&options, &w->sandbox, &problem), LESSOR_E_INVALID);
        options.shares = &(const char *){"/not/here"};
        assert_int_equal(sandbox_new(&options, &w->sandbox, &problem), LESSOR_E_NOT_FOUND);
        assert_non_null(strstr(problem.p, "/not/here"));
        buf_done(&problem);
}

/* --- What lessor-task says --- */

static void a_status_line_is_read_or_is_silence(void **state)
{
        static const struct {
                const char *text;
                enum task_word word;
                int number;
                int64_t peak_bytes;
        } lines[] = {
                {"exit 3 4096\n", TASK_EXITED, 3, 4096},
                {"signal 9 0\n", TASK_SIGNALLED, 9, 0},
                {"exec 2\nexit 127 5\n", TASK_NO_EXEC, 2, 0},
                {"dir 20\n", TASK_NO_DIR, 20, 0},
                {"", TASK_SILENT, 0, 0},
                {"exit 3 4096", TASK_SILENT, 0, 0},
                {"exit\n", TASK_SILENT, 0, 0},
                {"exit 3\n", TASK_SILENT, 0, 0},
                {"exit -3 1\n", TASK_SILENT, 0, 0},
                {"exit 99999999999999999999 1\n", TASK_SILENT, 0, 0},
                {"exit 3 1 x\n", TASK_SILENT, 0, 0},
                {"exits 3 1\n", TASK_SILENT, 0, 0},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                struct task_status status = task_status_read(lessor_slice_of(lines[i].text));

                assert_int_equal(status.word, lines[i].word);
                if (status.word != TASK_SILENT) {
                        assert_int_equal(status.number, lines[i].number);
                        assert_int_equal(status.peak_bytes, lines[i].peak_bytes);
                }
        }
}

static void a_sandbox_says_what_is_missing(void **state)
{
        struct sandbox_options options = {.task_program = "/not/here", .dir = "/tmp"};
        struct sandbox *sandbox = NULL;
        struct buf problem = {0};

        (void)state;
        assert_int_equal(sandbox_new(&options, &sandbox, &problem), LESSOR_E_NOT_FOUND);
        assert_non_null(strstr(problem.p, "/not/here"));
        options.task_program = getenv("LESSOR_TASK");
        options.bwrap = "/not/there";
        assert_int_equal(sandbox_new(&options, &sandbox, &problem), LESSOR_E_NOT_FOUND);
        assert_non_null(strstr(problem.p, "/not/there"));
        buf_done(&problem);
}

static bool bwrap_works(void)
{
        struct lessor_slice argv[] = {LESSOR_SLICE("true")};
        struct task_end end;
        void *state;

        if (access("/usr/bin/bwrap", X_OK) < 0)
                return false;
        set_up_on(&state);
        end = run_argv(state, argv, 1);
        tear_down(&state);
        return end.how == TASK_END_EXIT && end.number == 0;
}

#define OFF(name)                                                   \
        {                                                           \
#name "_without", name, set_up_off, tear_down, NULL \
        }
#define ON(name)                                                  \
        {                                                         \
#name "_within", name, set_up_on, tear_down, NULL \
        }

int main(void)
{
        const struct CMUnitTest anywhere[] = {
                cmocka_unit_test(a_status_line_is_read_or_is_silence),
                cmocka_unit_test(a_sandbox_says_what_is_missing),
                OFF(a_status_is_told),
                OFF(a_signal_is_told_from_a_status),
                OFF(what_does_not_exist_is_told),
                OFF(both_streams_come_whole_and_byte_for_byte),
                OFF(it_starts_where_it_is_told_with_nothing_to_read),
                OFF(the_environment_is_the_tasks),
                OFF(time_is_limited),
                OFF(room_on_disk_is_limited),
                OFF(memory_of_a_process_is_limited),
                OFF(it_ends_at_once_when_told),
                OFF(a_stop_before_the_start_starts_nothing),
                OFF(nothing_is_left_running),
                OFF(killing_the_one_above_is_no_success),
                OFF(a_slow_reader_loses_nothing),
        };
        const struct CMUnitTest within[] = {
                ON(a_status_is_told),
                ON(a_signal_is_told_from_a_status),
                ON(what_does_not_exist_is_told),
                ON(both_streams_come_whole_and_byte_for_byte),
                ON(it_starts_where_it_is_told_with_nothing_to_read),
                ON(the_environment_is_the_tasks),
                ON(time_is_limited),
                ON(room_on_disk_is_limited),
                ON(memory_of_a_process_is_limited),
                ON(it_ends_at_once_when_told),
                ON(nothing_is_left_running),
                ON(killing_the_one_above_is_no_success),
                ON(a_slow_reader_loses_nothing),
                ON(it_sees_only_its_own),
                ON(there_is_no_network_unless_asked_for),
                ON(processes_are_limited),
                ON(what_cannot_be_started_is_no_failure_of_the_task),
                ON(shares_and_devices_are_added),
        };
        int failed = cmocka_run_group_tests(anywhere, NULL, NULL);

        if (bwrap_works())
                failed += cmocka_run_group_tests(within, NULL, NULL);
        else
                puts("bubblewrap does not work here: nothing was run within a sandbox");
        return failed;
}
