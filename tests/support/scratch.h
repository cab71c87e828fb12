/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

/* A new empty directory, in memory where that is to be had; NULL and a message on failure. From malloc. */
char *scratch_dir_new(const char *name);
/* Removes it with all that is in it, and frees it. */
void scratch_dir_free(char *dir);

/* Copies a database file and its log, as a crash at this moment would leave them, to a directory that is
 * there. */
void copy_database(const char *from_dir, const char *to_dir, const char *file);

#endif
