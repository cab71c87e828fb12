/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdio.h>

#include "base/file.h"
#include "base/macro.h"
#include "fuzz.h"
#include "lessor/error.h"

/*
 * Runs a fuzz target over every file of the directories given, without a fuzzer: what was once found stays
 * found. Prints each name before it is run, so that the last one printed is the one that failed.
 */

#define MAX_INPUT_BYTES (64u << 20)

static void close_directory(DIR **directory)
{
        if (*directory != NULL)
                closedir(*directory);
}

static int replay_file(const char *directory, const char *name)
{
        _cleanup_(buf_done) struct buf path;
        _cleanup_(buf_done) struct buf input;
        int r;

        buf_init(&path);
        buf_init(&input);
        r = buf_printf(&path, "%s/%s", directory, name);
        if (r < 0)
                return r;
        printf("%s\n", path.p);
        fflush(stdout);
        r = file_read(path.p, MAX_INPUT_BYTES, &input);
        if (r < 0) {
                fprintf(stderr, "cannot read %s: %s\n", path.p, lessor_error_text(r));
                return r;
        }
        return LLVMFuzzerTestOneInput((const uint8_t *)buf_view(&input).p, input.n);
}

static int replay_directory(const char *name, size_t *n_inputs)
{
        _cleanup_(close_directory) DIR *directory = opendir(name);
        struct dirent *entry;

        if (directory == NULL) {
                fprintf(stderr, "cannot open %s\n", name);
                return LESSOR_E_NOT_FOUND;
        }
        while ((entry = readdir(directory)) != NULL) {
                int r;

                if (entry->d_name[0] == '.')
                        continue;
                r = replay_file(name, entry->d_name);
                if (r < 0)
                        return r;
                ++*n_inputs;
        }
        return 0;
}

int main(int argc, char **argv)
{
        size_t n_inputs = 0;

        for (int i = 1; i < argc; i++) {
                if (replay_directory(argv[i], &n_inputs) < 0)
                        return 1;
        }
        if (n_inputs == 0) {
                fprintf(stderr, "usage: replay DIRECTORY...: there was nothing to replay\n");
                return 1;
        }
        printf("%zu inputs\n", n_inputs);
        return 0;
}
