/* SPDX-License-Identifier: MIT */
#include "scratch.h"

#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

char *scratch_dir_new(const char *name)
{
        const char *tmp = getenv("TMPDIR");
        char *dir;

        if (tmp == NULL)
                tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        if (asprintf(&dir, "%s/lessor-%s-XXXXXX", tmp, name) < 0)
                return NULL;
        if (mkdtemp(dir) != NULL)
                return dir;
        perror(dir);
        free(dir);
        return NULL;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
        (void)info, (void)type, (void)at;
        return remove(path);
}

void scratch_dir_free(char *dir)
{
        if (dir != NULL)
                (void)nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        free(dir);
}

void copy_database(const char *from_dir, const char *to_dir, const char *file)
{
        static const char *const ends[] = {"", "-wal"};

        for (size_t i = 0; i < 2; i++) {
                char *from, *to;
                struct buf bytes;

                if (asprintf(&from, "%s/%s%s", from_dir, file, ends[i]) < 0 ||
                    asprintf(&to, "%s/%s%s", to_dir, file, ends[i]) < 0)
                        abort();
                buf_init(&bytes);
                (void)unlink(to);
                if (file_read(from, SIZE_MAX / 2, &bytes) == 0 && file_create(to, buf_view(&bytes), 0600) < 0)
                        abort();
                buf_done(&bytes);
                free(from);
                free(to);
        }
}
