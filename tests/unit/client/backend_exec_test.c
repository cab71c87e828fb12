/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "lessor/backend.h"

#define PAYLOAD "{\"prompt\":\"hello\"}"

struct world {
        char *scratch;
        struct lessor_arena *arena;
        struct lessor_stop *stop;
};

static int set_up(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        w->scratch = scratch_make();
        w->arena = lessor_arena_new();
        assert_int_equal(lessor_stop_new(&w->stop), 0);
        *state = w;
        return 0;
}

/* Whatever a program did: no scratch directory and no child is left. */
static int tear_down(void **state)
{
        struct world *w = *state;

        assert_int_equal(scratch_count(w->scratch), 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        scratch_remove(w->scratch);
        lessor_arena_free(w->arena);
        lessor_stop_free(w->stop);
        free(w);
        return 0;
}

static struct lessor_outcome run_with(struct world *w, struct lessor_exec_options options)
{
        struct lessor_prompt prompt = {.job_id = LESSOR_SLICE("job_1"),
                                       .prompt = LESSOR_SLICE("hello"),
                                       .json = LESSOR_SLICE(PAYLOAD)};
        struct lessor_backend *backend = NULL;
        struct lessor_outcome outcome;

        options.scratch_dir = w->scratch;
        assert_int_equal(lessor_backend_exec_new(&options, &backend), 0);
        assert_int_equal(backend->ops->run(backend, &prompt, w->stop, w->arena, &outcome), 0);
        lessor_backend_free(backend);
        return outcome;
}

/* Runs a shell script: the test's shell, not the backend's. */
static struct lessor_outcome run_script(struct world *w, const char *script, int64_t timeout_ms,
                                        size_t max_output)
{
        const char *argv[] = {"/bin/sh", "-c", script, NULL};

        return run_with(w, (struct lessor_exec_options){
                                   .argv = argv, .timeout_ms = timeout_ms, .max_output_bytes = max_output});
}

static void expect_text(struct world *w, const char *script, const char *text)
{
        struct lessor_outcome outcome = run_script(w, script, 10000, 0);

        assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_OK);
        assert_text_equal(outcome.text, text);
}

static struct lessor_outcome expect_error(struct world *w, const char *script, int64_t timeout_ms,
                                          size_t max_output, const char *code)
{
        struct lessor_outcome outcome = run_script(w, script, timeout_ms, max_output);

        assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_ERROR);
        assert_text_equal(outcome.code, code);
        return outcome;
}

static void the_payload_comes_in_and_the_answer_goes_out(void **state)
{
        const char *argv[] = {"cat", NULL};
        struct lessor_outcome outcome = run_with(*state, (struct lessor_exec_options){.argv = argv});

        assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_OK);
        assert_text_equal(outcome.text, PAYLOAD);
        expect_text(*state, "exit 0", "");
}

static void arguments_are_no_shell_words(void **state)
{
        const char *argv[] = {"/bin/echo", "-n", "$HOME; `id` && *", NULL};
        struct lessor_outcome outcome = run_with(*state, (struct lessor_exec_options){.argv = argv});

        assert_text_equal(outcome.text, "$HOME; `id` && *");
}

static void the_environment_is_stripped(void **state)
{
        setenv("LESSOR_TEST_SECRET", "hush", 1);
        expect_text(*state,
                    "env | cut -d= -f1 | grep -v -e '^PWD$' -e '^_$' -e '^SHLVL$' -e '^OLDPWD$' | sort | tr "
                    "'\\n' ' '",
                    "HOME LANG PATH TMPDIR ");
        expect_text(*state,
                    "[ \"$HOME\" = \"$PWD\" ] && [ \"$TMPDIR\" = \"$PWD\" ] && ls -ld . | cut -c1-10 | tr -d "
                    "'\\n'",
                    "drwx------");
}

static void no_descriptor_is_inherited(void **state)
{
        int fd = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, on purpose */

        assert_true(fd > 2);
        /* The shell's own listing opens one more, which is gone when it is looked at. */
        expect_text(*state,
                    "for f in /proc/$$/fd/*; do case ${f##*/} in 0|1|2) ;; *) [ -e $f ] && echo $f;; esac; "
                    "done; exit 0",
                    "");
        close(fd);
}

static void an_exit_status_is_an_error(void **state)
{
        struct lessor_outcome outcome =
                expect_error(*state, "echo partial; exit 3", 10000, 0, "backend-exit");

        assert_text_equal(outcome.message, "the program ended with status 3");
        assert_false(outcome.retryable);
        outcome = expect_error(*state, "exit 75", 10000, 0, "backend-exit");
        assert_true(outcome.retryable);
        outcome = expect_error(*state, "kill -9 $$", 10000, 0, "backend-exit");
        assert_text_equal(outcome.message, "the program was ended by signal 9");
}

static void too_much_output_ends_the_program(void **state)
{
        expect_error(*state, "while :; do echo 0123456789; done", 10000, 100000, "backend-output");
}

static void too_much_time_ends_the_whole_group(void **state)
{
        int64_t started_ms = clock_monotonic_ms();

        expect_error(*state, "trap '' TERM INT HUP; sleep 60 & sleep 60", 100, 0, "backend-timeout");
        assert_true(clock_monotonic_ms() - started_ms < 5000);
}

/* What a program leaves behind is killed, and does not keep the answer waiting. */
static void children_left_behind_are_killed(void **state)
{
        struct lessor_outcome outcome = run_script(*state, "sleep 60 & echo $!", 10000, 0);
        pid_t left;

        assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_OK);
        left = (pid_t)strtol(outcome.text.p, NULL, 10);
        assert_true(left > 1);
        /* It belongs to init now, which takes its time to bury it; but it is dead or a zombie at once. */
        for (int i = 0; i < 200 && kill(left, 0) == 0; i++) {
                char path[64], stat[256] = "";
                FILE *f;

                snprintf(path, sizeof(path), "/proc/%d/stat", (int)left);
                f = fopen(path, "r");
                if (f == NULL || fgets(stat, sizeof(stat), f) == NULL || strstr(stat, ") Z") != NULL) {
                        if (f != NULL)
                                fclose(f);
                        return;
                }
                fclose(f);
                usleep(10000);
        }
        assert_int_equal(kill(left, 0), -1);
}

static void *raise_when_started(void *context)
{
        struct world *w = context;

        while (access(scratch_path(w->scratch, "started"), F_OK) < 0)
                usleep(1000);
        lessor_stop_raise(w->stop);
        return NULL;
}

static void a_raised_stop_cancels(void **state)
{
        struct world *w = *state;
        int64_t started_ms = clock_monotonic_ms();
        struct lessor_outcome outcome;
        char script[600];
        pthread_t thread;

        snprintf(script, sizeof(script), "touch '%s'; sleep 60", scratch_path(w->scratch, "started"));
        assert_int_equal(pthread_create(&thread, NULL, raise_when_started, w), 0);
        outcome = run_script(w, script, 30000, 0);
        pthread_join(thread, NULL);
        assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_CANCELED);
        assert_true(clock_monotonic_ms() - started_ms < 10000);
        unlink(scratch_path(w->scratch, "started"));
        /* Raised before: nothing is started at all. */
        outcome = run_script(w, "exit 0", 30000, 0);
        assert_int_equal(outcome.disposition, LESSOR_DISPOSITION_CANCELED);
}

static void scratch_directories_go_whatever_is_in_them(void **state)
{
        expect_text(*state, "mkdir -p a/b && echo x > a/b/c && ln -s / a/root && chmod 0 a/b && chmod 0 a",
                    "");
}

static void only_programs_can_be_backends(void **state)
{
        struct lessor_backend *backend = NULL;

        (void)state;
        assert_int_equal(lessor_backend_parse("exec:/no/such/program", &backend), LESSOR_E_NOT_FOUND);
        assert_int_equal(lessor_backend_parse("exec:/etc", &backend), LESSOR_E_NOT_FOUND);
        assert_int_equal(lessor_backend_parse("exec:./relative", &backend), LESSOR_E_INVALID);
        assert_int_equal(lessor_backend_parse("exec:  ", &backend), LESSOR_E_INVALID);
        assert_int_equal(lessor_backend_parse("magic:x", &backend), LESSOR_E_INVALID);
        assert_int_equal(lessor_backend_parse("exec:cat -u  -", &backend), 0);
        lessor_backend_free(backend);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                CASE(the_payload_comes_in_and_the_answer_goes_out),
                CASE(arguments_are_no_shell_words),
                CASE(the_environment_is_stripped),
                CASE(no_descriptor_is_inherited),
                CASE(an_exit_status_is_an_error),
                CASE(too_much_output_ends_the_program),
                CASE(too_much_time_ends_the_whole_group),
                CASE(children_left_behind_are_killed),
                CASE(a_raised_stop_cancels),
                CASE(scratch_directories_go_whatever_is_in_them),
                CASE(only_programs_can_be_backends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
