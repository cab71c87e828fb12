/* SPDX-License-Identifier: MIT */
#include "store_support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "objects/log_file.h"

#define SLICE(text) LESSOR_SLICE(text)
#define HASH        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct log_key key = {SLICE("main"), SLICE(HASH), SLICE(HASH),
                                   SLICE("0191e1a0-0000-7000-8000-000000000001")};

static struct log_files *open_logs(const struct world *w, const struct object_io *io, int64_t limit)
{
        const struct log_files_options options = {.io = io, .limit_bytes = limit, .low_space_bytes = 0};
        struct log_files *logs;
        char *path;

        assert_true(asprintf(&path, "%s/logs", w->dir) > 0);
        assert_int_equal(log_files_open(path, &options, &logs), 0);
        free(path);
        return logs;
}

static int append(struct log_files *logs, enum log_stream stream, struct lessor_slice bytes)
{
        const struct log_chunk chunk = {stream, bytes};

        return log_files_append(logs, &key, &chunk, 1);
}

static void assert_log(struct log_files *logs, enum log_stream stream, struct lessor_slice expected)
{
        struct log_window window;
        struct buf out;

        buf_init(&out);
        assert_int_equal(log_files_read(logs, &key, stream, 0, 1u << 20, true, &out, &window), 0);
        if (!lessor_slice_equal(buf_view(&out), expected))
                fail_msg("\"%.*s\" is not \"%.*s\"", (int)out.n, out.p, (int)expected.n, expected.p);
        assert_int_equal(window.length, expected.n);
        buf_done(&out);
}

/* R124 */
static void chunks_are_read_in_order_and_by_stream(void **state)
{
        static const struct log_chunk chunks[] = {
                {LOG_STDOUT, SLICE("one\n")},
                {LOG_STDERR, SLICE("oops\n")},
                {LOG_STDOUT, SLICE("two\0\xef\xbb\xbf\n")}, /* byte for byte: NUL and U+FEFF too */
        };
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);

        assert_log(logs, LOG_STDOUT, SLICE("")); /* never written */
        assert_int_equal(log_files_append(logs, &key, chunks, 3), 0);
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("three")), 0);
        logs = log_files_free(logs);
        logs = open_logs(w, NULL, 0);
        assert_log(logs, LOG_STDOUT, SLICE("one\ntwo\0\xef\xbb\xbf\nthree"));
        assert_log(logs, LOG_STDERR, SLICE("oops\n"));
        log_files_free(logs);
}

/* R125 */
static void attempts_are_apart(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        struct log_key other = key;
        struct log_window window;
        struct buf out;

        buf_init(&out);
        other.execution_id = SLICE("0191e1a0-0000-7000-8000-000000000002");
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("first")), 0);
        assert_int_equal(log_files_read(logs, &other, LOG_STDOUT, 0, 100, true, &out, &window), 0);
        assert_int_equal(out.n, 0);
        assert_int_equal(log_files_remove(logs, &other), 0);
        assert_log(logs, LOG_STDOUT, SLICE("first"));
        assert_int_equal(log_files_remove(logs, &key), 0);
        assert_log(logs, LOG_STDOUT, SLICE(""));
        assert_int_equal(world_count(w, "logs"), 0);
        buf_done(&out);
        log_files_free(logs);
}

static void keys_that_are_none_are_refused(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        const struct log_chunk chunk = {LOG_STDOUT, SLICE("x")};
        struct log_key bad[4] = {key, key, key, key};

        bad[0].repo = SLICE("..");
        bad[1].task_hash = SLICE("");
        bad[2].inputs_hash = SLICE("../x");
        bad[3].execution_id = SLICE("a/b");
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                assert_int_equal(log_files_append(logs, &bad[i], &chunk, 1), LESSOR_E_INVALID);
                assert_int_equal(log_files_say(logs, &bad[i], chunk.bytes), LESSOR_E_INVALID);
                assert_int_equal(log_files_remove(logs, &bad[i]), LESSOR_E_INVALID);
        }
        assert_int_equal(world_count(w, "logs"), 0);
        log_files_free(logs);
}

static void windows_never_split_a_character(void **state)
{
        static const struct lessor_slice text =
                SLICE("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\x89z\xc3\xa4\xf0\x9f\x8e\x89");
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);

        assert_int_equal(append(logs, LOG_STDOUT, text), 0);
        for (size_t max = 4; max < 20; max++) {
                struct log_window window = {.offset = 0};
                struct buf all;
                size_t before;

                buf_init(&all);
                do {
                        before = all.n;
                        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, (int64_t)before, max, false,
                                                        &all, &window),
                                         0);
                        assert_true(all.n - before <= max);
                        assert_true(all.n == text.n || ((unsigned char)text.p[all.n] & 0xc0) != 0x80);
                } while (all.n > before);
                assert_true(lessor_slice_equal(buf_view(&all), text));
                buf_done(&all);
        }
        log_files_free(logs);
}

static void a_character_that_is_not_whole_yet_waits(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        struct log_window window;
        struct buf out;

        buf_init(&out);
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("x\xf0\x9f\x8e")), 0);
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 0, 100, false, &out, &window), 0);
        assert_true(lessor_slice_equal(buf_view(&out), SLICE("x")));
        assert_int_equal(window.length, 4);
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 1, 100, false, &out, &window), 0);
        assert_int_equal(out.n, 1);
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("\x89")), 0);
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 1, 100, false, &out, &window), 0);
        assert_true(lessor_slice_equal(buf_view(&out), SLICE("x\xf0\x9f\x8e\x89")));
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("\xc3")), 0);
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 5, 100, true, &out, &window), 0);
        assert_int_equal(out.n, 6); /* nothing will come */
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 1000, 100, true, &out, &window), 0);
        assert_int_equal(out.n, 6); /* beyond the end */
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 0, 3, true, &out, &window), LESSOR_E_INVALID);
        buf_done(&out);
        log_files_free(logs);
}

static void a_log_is_cut_at_its_limit_with_a_line_that_says_so(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 10);
        struct log_window window;
        struct buf out;

        buf_init(&out);
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("12345678")), 0);
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("9\xe2\x82\xac")), 0); /* 12 bytes in all */
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("more")), 0);
        assert_log(logs, LOG_STDOUT,
                   SLICE("123456789\n[lessor: cut here: the log has reached its limit of 10 bytes]\n"));
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 0, 5, true, &out, &window), 0);
        assert_true(window.cut);
        buf_done(&out);

        /* The other stream has a limit of its own, and the server's own words still come through. */
        assert_int_equal(append(logs, LOG_STDERR, SLICE("exactly 10")), 0);
        assert_log(logs, LOG_STDERR, SLICE("exactly 10"));
        assert_int_equal(append(logs, LOG_STDERR, SLICE("!")), 0);
        assert_int_equal(log_files_say(logs, &key, SLICE("e3: cancelled")), 0);
        assert_log(logs, LOG_STDERR,
                   SLICE("exactly 10\n[lessor: cut here: the log has reached its limit of 10 bytes]\n"
                         "e3: cancelled\n"));
        log_files_free(logs);
}

static void the_servers_line_is_on_a_line_of_its_own(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);

        assert_int_equal(log_files_say(logs, &key, SLICE("e3: first")), 0);
        assert_int_equal(append(logs, LOG_STDERR, SLICE("half a line")), 0);
        assert_int_equal(log_files_say(logs, &key, SLICE("e3: second")), 0);
        assert_int_equal(log_files_say(logs, &key, SLICE("e3: third")), 0);
        assert_log(logs, LOG_STDERR, SLICE("e3: first\nhalf a line\ne3: second\ne3: third\n"));
        assert_log(logs, LOG_STDOUT, SLICE(""));
        log_files_free(logs);
}

/* Rounds of appends to one stream, the other, and both; each adds letters of its own. */
static int round_of(struct log_files *logs, int round)
{
        const char letter = (char)('a' + round % 26);
        const struct lessor_slice piece = {(const char[]){letter, letter, letter, letter}, 4};
        const struct log_chunk both[] = {{LOG_STDOUT, piece}, {LOG_STDERR, piece}};

        return round % 3 == 2 ? log_files_append(logs, &key, both, 2)
                              : append(logs, round % 3 == 0 ? LOG_STDOUT : LOG_STDERR, piece);
}

static void expect_rounds(int n, enum log_stream stream, struct buf *out)
{
        for (int round = 0; round < n; round++)
                if (round % 3 == 2 || (round % 3 == 0) == (stream == LOG_STDOUT))
                        for (int i = 0; i < 4; i++)
                                buf_char(out, (char)('a' + round % 26));
}

/* Both streams hold exactly the first n rounds. */
static bool holds_rounds(struct log_files *logs, int n)
{
        bool same = true;

        for (int stream = 0; stream < N_LOG_STREAMS; stream++) {
                struct log_window window;
                struct buf is, should;

                buf_init(&is);
                buf_init(&should);
                expect_rounds(n, (enum log_stream)stream, &should);
                assert_int_equal(
                        log_files_read(logs, &key, (enum log_stream)stream, 0, 1u << 20, true, &is, &window),
                        0);
                same = same && lessor_slice_equal(buf_view(&is), buf_view(&should));
                buf_done(&is);
                buf_done(&should);
        }
        return same;
}

/* A round that failed has left nothing, and can be repeated; whatever call it was that failed. */
static void a_fault_at_any_step_undoes_the_append(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, &faulty_io, 0);

        for (unsigned step = 1; step < 60; step++) {
                int round = 0;
                int n_failed = 0;

                assert_int_equal(log_files_remove(logs, &key), 0);
                faults = (struct faults){.error = step % 2 ? ENOSPC : EIO, .fail_at = step};
                while (round < 9) {
                        int r = round_of(logs, round);

                        if (r < 0) {
                                n_failed++;
                                assert_int_equal(r,
                                                 faults.error == ENOSPC ? LESSOR_E_LOW_SPACE : LESSOR_E_IO);
                        }
                        round += r == 0;
                        if (!holds_rounds(logs, round))
                                fail_msg("step %u, round %d", step, round);
                }
                assert_int_equal(n_failed, faults.n_calls >= step);
                faults.fail_at = 0;
        }
        log_files_free(logs);
}

/* After a crash the log holds all that was answered, and of what was not all or nothing. */
static void a_crash_at_any_step_tears_no_append(void **state)
{
        struct world *w = *state;
        unsigned step = 0;
        int status;

        do {
                struct log_files *logs;
                int pipes[2];
                int answered = 0, round;
                char byte;
                pid_t child;

                world_shell(w, "rm -rf logs");
                assert_int_equal(pipe(pipes), 0);
                step++;
                child = fork();
                assert_true(child >= 0);
                if (child == 0) {
                        logs = open_logs(w, &faulty_io, 0);
                        faults = (struct faults){.fail_at = step, .kill = true};
                        for (round = 0; round < 9; round++)
                                if (round_of(logs, round) < 0 || write(pipes[1], "x", 1) != 1)
                                        _exit(1);
                        _exit(0);
                }
                close(pipes[1]);
                while (read(pipes[0], &byte, 1) == 1)
                        answered++;
                close(pipes[0]);
                assert_int_equal(waitpid(child, &status, 0), child);
                assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
                logs = open_logs(w, NULL, 0);
                if (!holds_rounds(logs, answered)) {
                        if (!holds_rounds(logs, answered + 1))
                                fail_msg("step %u: neither %d rounds nor one more", step, answered);
                        answered++;
                }
                for (round = answered; round < 12; round++)
                        assert_int_equal(round_of(logs, round), 0);
                assert_true(holds_rounds(logs, 12));
                log_files_free(logs);
        } while (WIFSIGNALED(status));
        assert_true(step > 40);
}

static void a_damaged_file_is_called_so(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        struct log_window window;
        struct buf out;

        buf_init(&out);
        for (int round = 0; round < 9; round++)
                assert_int_equal(round_of(logs, round), 0);
        world_shell(w, "f=$(find logs -name '*.stdout') && "
                       "dd if=/dev/urandom of=$f bs=1024 count=1 conv=notrunc 2>/dev/null");
        assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 0, 100, true, &out, &window),
                         LESSOR_E_CORRUPT);
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("x")), LESSOR_E_CORRUPT);
        buf_done(&out);
        log_files_free(logs);
}

struct appender {
        struct log_files *logs;
        char letter;
        int r;
};

static void *append_many(void *context)
{
        struct appender *a = context;
        char line[9];

        memset(line, a->letter, sizeof(line));
        line[8] = '\n';
        for (int i = 0; a->r == 0 && i < 100; i++)
                a->r = append(a->logs, i % 2 ? LOG_STDOUT : LOG_STDERR, (struct lessor_slice){line, 9});
        return NULL;
}

static void appends_of_many_threads_stay_whole(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        struct appender appenders[4];
        pthread_t threads[4];
        struct log_window window;
        struct buf out;

        for (int i = 0; i < 4; i++) {
                appenders[i] = (struct appender){logs, (char)('a' + i), 0};
                assert_int_equal(pthread_create(&threads[i], NULL, append_many, &appenders[i]), 0);
        }
        /* Read beside them: what is there grows, and is made of whole lines. */
        buf_init(&out);
        do {
                buf_clear(&out);
                assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, 0, 1u << 20, false, &out, &window),
                                 0);
                assert_int_equal(out.n % 9, 0);
                for (size_t i = 0; i < out.n; i += 9)
                        assert_true(out.p[i] == out.p[i + 7] && out.p[i + 8] == '\n');
        } while (window.length < 4 * 50 * 9);
        buf_done(&out);
        for (int i = 0; i < 4; i++) {
                pthread_join(threads[i], NULL);
                assert_int_equal(appenders[i].r, 0);
        }
        log_files_free(logs);
}

/* For whoever sends a piece without reading it: the same bytes as reading gives, wherever it is cut. */
static void a_place_is_where_reading_finds_the_bytes(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        const struct lessor_slice text =
                SLICE("a\xc3\xa4\xf0\x9f\x8c\xb2z\xe2\x82"); /* the last is not whole */
        struct log_place place = {.fd = -1};
        struct log_window window;

        assert_int_equal(log_files_locate(logs, &key, LOG_STDOUT, 0, 100, false, &place, &window), 0);
        assert_int_equal(place.fd, -1); /* never written */
        assert_int_equal(append(logs, LOG_STDOUT, text), 0);
        for (int64_t from = 0; from <= (int64_t)text.n + 1; from++)
                for (size_t max = 4; max < text.n + 2; max++)
                        for (int ended = 0; ended < 2; ended++) {
                                struct buf read = {0};
                                char found[32];

                                assert_int_equal(log_files_read(logs, &key, LOG_STDOUT, from, max, ended == 1,
                                                                &read, &window),
                                                 0);
                                assert_int_equal(log_files_locate(logs, &key, LOG_STDOUT, from, (int64_t)max,
                                                                  ended == 1, &place, &window),
                                                 0);
                                assert_int_equal(place.n, read.n);
                                assert_int_equal(place.fd >= 0, read.n > 0);
                                assert_int_equal(window.length, text.n);
                                if (place.fd >= 0) {
                                        assert_int_equal(pread(place.fd, found, read.n, place.at), read.n);
                                        assert_memory_equal(found, read.p, read.n);
                                        close(place.fd);
                                }
                                buf_done(&read);
                        }
        log_files_free(logs);
}

/* What the sweep asked about, and its answer. */
struct asked {
        unsigned n;
        int answer;
        char texts[256]; /* of the last key */
};

static int answer_wants(void *context, const struct log_key *about)
{
        struct asked *asked = context;

        asked->n++;
        snprintf(asked->texts, sizeof(asked->texts), "%.*s %.*s %.*s %.*s", (int)about->repo.n, about->repo.p,
                 (int)about->task_hash.n, about->task_hash.p, (int)about->inputs_hash.n, about->inputs_hash.p,
                 (int)about->execution_id.n, about->execution_id.p);
        return asked->answer;
}

/* Sweeps what is older than an hour; how many attempts went. */
static size_t sweep(struct log_files *logs, struct asked *asked)
{
        size_t n = 99;

        asked->n = 0;
        assert_int_equal(log_files_sweep(logs, 3600000, answer_wants, asked, &n), 0);
        return n;
}

static void old_logs_that_nobody_wants_are_swept(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        struct asked asked = {.answer = 0};
        size_t n;

        assert_int_equal(sweep(logs, &asked), 0); /* there are none */
        assert_int_equal(append(logs, LOG_STDOUT, SLICE("text")), 0);
        world_shell(w, "touch logs/main/e3/notes logs/notes");
        assert_int_equal(sweep(logs, &asked), 0);
        assert_int_equal(asked.n, 0); /* young */
        world_shell(w, "touch -d '2 hours ago' logs/main/e3/*");
        asked.answer = 1;
        assert_int_equal(sweep(logs, &asked), 0);
        assert_int_equal(asked.n, world_count(w, "logs/main/e3") - 1); /* of each stream that there is */
        assert_string_equal(asked.texts, "main " HASH " " HASH " 0191e1a0-0000-7000-8000-000000000001");
        assert_log(logs, LOG_STDOUT, SLICE("text"));
        asked.answer = LESSOR_E_UNAVAILABLE;
        assert_int_equal(log_files_sweep(logs, 3600000, answer_wants, &asked, &n), LESSOR_E_UNAVAILABLE);
        assert_log(logs, LOG_STDOUT, SLICE("text"));
        asked.answer = 0;
        assert_int_equal(sweep(logs, &asked), 1);
        assert_int_equal(asked.n, 1);
        assert_log(logs, LOG_STDOUT, SLICE(""));
        assert_int_equal(world_count(w, "logs"), 2); /* what is no log stays */
        log_files_free(logs);
}

/* One stream may have been silent for long. */
static void a_log_is_as_young_as_its_younger_stream(void **state)
{
        struct world *w = *state;
        struct log_files *logs = open_logs(w, NULL, 0);
        struct asked asked = {.answer = 0};

        assert_int_equal(append(logs, LOG_STDOUT, SLICE("out")), 0);
        assert_int_equal(append(logs, LOG_STDERR, SLICE("err")), 0);
        world_shell(w, "touch -d '2 hours ago' logs/main/e3/*.stdout");
        assert_int_equal(sweep(logs, &asked), 0);
        assert_int_equal(asked.n, 0);
        assert_log(logs, LOG_STDOUT, SLICE("out"));
        world_shell(w, "touch -d '2 hours ago' logs/main/e3/*");
        assert_int_equal(sweep(logs, &asked), 1);
        log_files_free(logs);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(chunks_are_read_in_order_and_by_stream),
                TEST(attempts_are_apart),
                TEST(keys_that_are_none_are_refused),
                TEST(windows_never_split_a_character),
                TEST(a_character_that_is_not_whole_yet_waits),
                TEST(a_log_is_cut_at_its_limit_with_a_line_that_says_so),
                TEST(the_servers_line_is_on_a_line_of_its_own),
                TEST(a_fault_at_any_step_undoes_the_append),
                TEST(a_crash_at_any_step_tears_no_append),
                TEST(a_damaged_file_is_called_so),
                TEST(appends_of_many_threads_stay_whole),
                TEST(a_place_is_where_reading_finds_the_bytes),
                TEST(old_logs_that_nobody_wants_are_swept),
                TEST(a_log_is_as_young_as_its_younger_stream),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
