/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <malloc.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "lessor/error.h"
#include "lessord/options.h"
#include "lessord/server.h"

/* Exit codes, as lessord(8) lists them. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int print(const struct buf *text)
{
        return fwrite(text->p, 1, text->n, stdout) == text->n && fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

static int complain(const struct buf *problem, int error)
{
        fprintf(stderr, "lessord: %s\n", problem->n > 0 ? problem->p : lessor_error_text(error));
        return error == LESSOR_E_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

static void set_log_level(const char *name)
{
        static const char *const names[] = {"debug", "info", "warning", "error"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(names[i], name) == 0)
                        log_set_level((enum log_level)i);
}

/*
 * malloc gives the end of a heap back to the system as soon as it is free and asks for it again in small
 * steps, page by page for every heap but the first, so a busy server would spend its time on that. Small
 * blocks come from each thread's own cache; what is left to share is little beside a signature a request.
 */
static void keep_memory(void)
{
        mallopt(M_ARENA_MAX, 1);
        mallopt(M_TRIM_THRESHOLD, 64 << 20);
        mallopt(M_TOP_PAD, 1 << 20);
}

int main(int argc, char **argv)
{
        _cleanup_(options_done) struct options options = {0};
        _cleanup_(buf_done) struct buf text = {0};
        int e;

        if (sodium_init() < 0) {
                fputs("lessord: the system's random source does not work\n", stderr);
                return EXIT_FAILED;
        }
        e = options_read(argc, argv, environ, &options, &text);
        if (e < 0)
                return complain(&text, e);
        if (options.help)
                return options_help(&text) < 0 ? EXIT_FAILED : print(&text);
        if (options.version) {
                buf_text(&text, "lessord " LESSOR_VERSION "\n");
                return print(&text);
        }
        set_log_level(options.log_level);
        if (options.check_config) {
                e = server_check(&options, &text);
        } else {
                keep_memory();
                (void)log_delay_start(); /* without it every line is written by itself */
                e = server_run(&options, &text);
                log_delay_stop();
        }
        if (e < 0)
                return complain(&text, e);
        if (options.check_config) {
                buf_clear(&text);
                buf_text(&text, "the configuration is valid\n");
                return print(&text);
        }
        return EXIT_OK;
}
