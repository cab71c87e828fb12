/* SPDX-License-Identifier: MIT */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* What the kernel tells of processes and of the machine. */

/* Where the two sides run. With one core only, both are 0 and every figure suffers. */
#define CORE_SERVER    0
#define CORE_GENERATOR 1

uint64_t now_ns(void);     /* monotonic */
int64_t wall_ms(void);     /* epoch ms */
uint64_t own_cpu_ns(void); /* of this process */

/* Lets this process (and what it starts) run on one core only; what cannot be done is left undone. */
void pin_to_core(unsigned core);

/* CPU time of all threads of a process, user and system, in ns. LESSOR_E_NOT_FOUND when it is gone. */
int process_cpu_ns(pid_t pid, uint64_t *ret_ns);

struct process_memory {
        uint64_t rss_bytes;
        uint64_t peak_bytes; /* highest rss since the start or process_reset_peak */
};

/* In bytes; below zero when it shrank. */
static inline double memory_growth(uint64_t before_bytes, uint64_t after_bytes)
{
        return (double)after_bytes - (double)before_bytes;
}

int process_memory(pid_t pid, struct process_memory *ret_memory);

/* Starts a new peak at what is resident now. LESSOR_E_PERMISSION where the kernel does not let us. */
int process_reset_peak(pid_t pid);

/* Raises the limit of open files to `wanted` if it can. Returns what it is now. */
uint64_t raise_open_files(uint64_t wanted);

/* Appends one line of facts: processor, cores, memory, kernel, compiler, libraries. Never the host's name. */
int machine_facts(struct buf *out);

#endif
