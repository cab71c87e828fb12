/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <ftw.h>

#include "check.h"

char *scratch_make(void)
{
        const char *tmp = getenv("TMPDIR");
        char *dir = NULL;

        if (asprintf(&dir, "%s/lessor-test-XXXXXX", tmp == NULL ? "/tmp" : tmp) < 0 || mkdtemp(dir) == NULL)
                abort();
        return dir;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
        (void)st;
        (void)type;
        (void)where;
        return remove(path);
}

void scratch_remove(char *dir)
{
        nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(dir);
}

const char *scratch_path(const char *dir, const char *name)
{
        static char path[512];

        snprintf(path, sizeof(path), "%s/%s", dir, name);
        return path;
}

size_t scratch_count(const char *dir)
{
        DIR *d = opendir(dir);
        size_t n = 0;

        assert_non_null(d);
        for (struct dirent *entry; (entry = readdir(d)) != NULL;)
                n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        closedir(d);
        return n;
}
