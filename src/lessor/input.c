/* SPDX-License-Identifier: MIT */
#include "lessor/input.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "lessor/error.h"

int input_read(struct cli *cli, const char *path, size_t limit, struct buf *out)
{
        char block[16384];
        size_t n;
        int e;

        if (strcmp(path, "-") != 0) {
                e = file_read(path, limit, out);
                return e < 0 ? cli_fail_error(cli, e, path, NULL) : CLI_EXIT_OK;
        }
        while ((n = fread(block, 1, sizeof(block), stdin)) > 0) {
                if (n > limit - out->n)
                        return cli_fail(cli, CLI_EXIT_FAILED, "stdin: more than %zu bytes", limit);
                if (buf_append(out, block, n) < 0)
                        return cli_fail_nomem(cli);
        }
        if (ferror(stdin))
                return cli_fail(cli, CLI_EXIT_FAILED, "cannot read stdin");
        return CLI_EXIT_OK;
}

int output_print(struct cli *cli, struct buf *text)
{
        struct lessor_slice view = buf_view(text);
        bool ok = fwrite(view.p, 1, view.n, stdout) == view.n && fflush(stdout) == 0;
        int failed = buf_failed(text);

        buf_done(text);
        if (failed < 0)
                return cli_fail_nomem(cli);
        return ok ? CLI_EXIT_OK : cli_fail(cli, CLI_EXIT_FAILED, "cannot write to stdout");
}

bool input_is_terminal(void)
{
        return isatty(STDIN_FILENO) == 1;
}

bool input_confirm(const char *question)
{
        char answer[16];

        fprintf(stderr, "%s [y/N] ", question);
        fflush(stderr);
        if (fgets(answer, sizeof(answer), stdin) == NULL)
                return false;
        answer[strcspn(answer, "\r\n")] = '\0';
        return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}
