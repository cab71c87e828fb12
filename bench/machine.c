/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <inttypes.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "lessor/error.h"

static uint64_t clock_ns(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t now_ns(void)
{
        return clock_ns(CLOCK_MONOTONIC);
}

int64_t wall_ms(void)
{
        return (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000u);
}

uint64_t own_cpu_ns(void)
{
        return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void pin_to_core(unsigned core)
{
        cpu_set_t set;
        long n = sysconf(_SC_NPROCESSORS_ONLN);

        CPU_ZERO(&set);
        CPU_SET(n > (long)core ? core : 0, &set);
        (void)sched_setaffinity(0, sizeof(set), &set);
}

int process_cpu_ns(pid_t pid, uint64_t *ret_ns)
{
        clockid_t clock;
        struct timespec t;

        /* The same figure as utime + stime of /proc/PID/stat, in ns instead of ticks of 10 ms. */
        if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
                return LESSOR_E_NOT_FOUND;
        *ret_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
        return 0;
}

int process_memory(pid_t pid, struct process_memory *ret_memory)
{
        struct process_memory memory = {0};
        char path[64], line[256];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
        file = fopen(path, "re");
        if (file == NULL)
                return LESSOR_E_NOT_FOUND;
        while (fgets(line, sizeof(line), file) != NULL) {
                (void)sscanf(line, "VmRSS: %" SCNu64, &memory.rss_bytes);
                (void)sscanf(line, "VmHWM: %" SCNu64, &memory.peak_bytes);
        }
        fclose(file);
        memory.rss_bytes *= 1024;
        memory.peak_bytes *= 1024;
        *ret_memory = memory;
        return 0;
}

int process_reset_peak(pid_t pid)
{
        char path[64];
        FILE *file;
        int e = 0;

        snprintf(path, sizeof(path), "/proc/%ld/clear_refs", (long)pid);
        file = fopen(path, "we");
        if (file == NULL)
                return LESSOR_E_PERMISSION;
        if (fputs("5", file) < 0)
                e = LESSOR_E_PERMISSION;
        if (fclose(file) != 0)
                e = LESSOR_E_PERMISSION;
        return e;
}

uint64_t raise_open_files(uint64_t wanted)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return 0;
        if (limit.rlim_cur < wanted) {
                limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
                (void)getrlimit(RLIMIT_NOFILE, &limit);
        }
        return limit.rlim_cur;
}

static void processor_name(struct buf *out)
{
        char line[512];
        FILE *file = fopen("/proc/cpuinfo", "re");

        if (file == NULL)
                return;
        while (fgets(line, sizeof(line), file) != NULL) {
                char *colon = strchr(line, ':');

                if (strncmp(line, "model name", 10) != 0 || colon == NULL)
                        continue;
                line[strcspn(line, "\n")] = '\0';
                buf_printf(out, "%s, ", colon + 2);
                break;
        }
        fclose(file);
}

int machine_facts(struct buf *out)
{
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        struct utsname system;

        processor_name(out);
        buf_printf(out, "%ld cores, %.0f GB memory, ", sysconf(_SC_NPROCESSORS_ONLN),
                   (double)pages * (double)page / 1e9);
        if (uname(&system) == 0)
                buf_printf(out, "%s %.*s, ", system.sysname, (int)strcspn(system.release, "-+"),
                           system.release); /* what follows names whoever built it */
        buf_printf(out, "compiler %s, libsodium %s", __VERSION__, sodium_version_string());
        return buf_failed(out);
}
