/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_FAULT_VFS_H
#define TESTS_FAULTS_FAULT_VFS_H

#include <stdbool.h>

/*
 * A disk that breaks on request: a VFS of SQLite that passes everything on to the default one, and counts the
 * steps that can lose data (write, sync, truncate, delete, opening for writing). Thread-safe.
 */
#define FAULT_VFS_NAME "lessor-faults"

enum fault_kind { FAULT_IO, FAULT_FULL };

/* Makes the VFS known to SQLite. Once. */
void fault_vfs_register(void);

/*
 * The step numbered `at` (from 1, counted from now) fails, and if `lasting` all later ones do too, until
 * fault_vfs_heal. 0: none does.
 */
void fault_vfs_arm(long at, enum fault_kind kind, bool lasting);
void fault_vfs_heal(void);

/* Steps since fault_vfs_arm. */
long fault_vfs_steps(void);

/* Whether the fault has happened. */
bool fault_vfs_struck(void);

#endif
