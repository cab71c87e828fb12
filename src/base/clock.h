/* SPDX-License-Identifier: MIT */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Where time comes from. Whoever needs the time is handed a clock; nobody reads one deep inside.
 *
 * Thread-safe. A clock lives as long as everything that was given it.
 */
struct clock {
        int64_t (*now_ms)(struct clock *clock); /* epoch ms */
};

static inline int64_t clock_now_ms(struct clock *clock)
{
        return clock->now_ms(clock);
}

/* The machine's wall clock, as it is, steps included. For the freshness of signatures (relay-protocol 4). */
struct clock *clock_wall(void);

/*
 * The wall clock at its first use plus the monotonic time since, drawn towards the wall clock by at most one
 * part in ten, so that a step of the wall clock neither ends nor stretches a lease. For stores.
 */
struct clock *clock_steady(void);

/* What clock_steady remembers; zeroed, it starts at the wall clock that it is first told. */
struct steady_time {
        bool started;
        int64_t at_ns;        /* the time it told last, epoch ns */
        int64_t monotonic_ns; /* the monotonic clock then */
};

/*
 * The arithmetic of clock_steady: moves on by what the monotonic clock did, give or take a tenth of that
 * where it is not at the wall clock. In ns, since a tenth of the time between two calls is often less than a
 * ms. Returns the new time, epoch ns, which is never before the last. Pure; one thread at a time.
 */
int64_t clock_steady_advance(struct steady_time *s, int64_t wall_ns, int64_t monotonic_ns);

/* Monotonic ms since some point in the past: for measuring how long something took. */
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_us(void);

/* A clock that moves only when told: for tests. */
struct clock_manual {
        struct clock clock;
        _Atomic int64_t at_ms;
};
void clock_manual_init(struct clock_manual *clock, int64_t at_ms);
void clock_manual_advance(struct clock_manual *clock, int64_t by_ms);

#endif
