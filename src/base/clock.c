/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <pthread.h>
#include <time.h>

#include "base/macro.h"

static int64_t read_ns(clockid_t id)
{
        struct timespec t = {0};

        clock_gettime(id, &t); /* cannot fail for the clocks that this file names */
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t wall_now_ms(struct clock *clock)
{
        (void)clock;
        return read_ns(CLOCK_REALTIME) / 1000000;
}

struct clock *clock_wall(void)
{
        static struct clock wall = {.now_ms = wall_now_ms};

        return &wall;
}

int64_t clock_steady_advance(struct steady_time *s, int64_t wall_ns, int64_t monotonic_ns)
{
        int64_t elapsed, apart, most;

        if (!s->started) {
                *s = (struct steady_time){.started = true, .at_ns = wall_ns, .monotonic_ns = monotonic_ns};
                return s->at_ns;
        }
        elapsed = monotonic_ns - s->monotonic_ns;
        if (elapsed <= 0)
                return s->at_ns;
        s->monotonic_ns = monotonic_ns;
        s->at_ns += elapsed;

        most = elapsed / 10;
        apart = wall_ns - s->at_ns;
        if (apart > most)
                apart = most;
        else if (apart < -most)
                apart = -most;
        s->at_ns += apart;
        return s->at_ns;
}

static pthread_mutex_t steady_lock = PTHREAD_MUTEX_INITIALIZER;
static struct steady_time steady_time;

/*
 * CLOCK_BOOTTIME is CLOCK_MONOTONIC that goes on while the machine sleeps: the holders of leases do not sleep
 * with the server, and a clock that had stood still for a night would take days to be drawn back.
 */
static int64_t steady_now_ms(struct clock *clock)
{
        int64_t ns;

        (void)clock;
        pthread_mutex_lock(&steady_lock);
        ns = clock_steady_advance(&steady_time, read_ns(CLOCK_REALTIME), read_ns(CLOCK_BOOTTIME));
        pthread_mutex_unlock(&steady_lock);
        return ns / 1000000;
}

struct clock *clock_steady(void)
{
        static struct clock steady = {.now_ms = steady_now_ms};

        return &steady;
}

int64_t clock_monotonic_ms(void)
{
        return read_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_monotonic_us(void)
{
        return read_ns(CLOCK_MONOTONIC) / 1000;
}

static int64_t manual_now_ms(struct clock *clock)
{
        return container_of(clock, struct clock_manual, clock)->at_ms;
}

void clock_manual_init(struct clock_manual *clock, int64_t at_ms)
{
        clock->clock.now_ms = manual_now_ms;
        clock->at_ms = at_ms;
}

void clock_manual_advance(struct clock_manual *clock, int64_t by_ms)
{
        clock->at_ms += by_ms;
}
