/* SPDX-License-Identifier: MIT */
#ifndef BENCH_VERIFICATION_H
#define BENCH_VERIFICATION_H

/* Something a second, by the clock on the wall and by the CPU time it took. */
struct rate {
        double wall, cpu;
};

/*
 * How often crypto_sign_verify_detached can be called in a second, in a process of its own on the server's
 * core, while we sleep: what no server that checks every request can be faster than. 0 or LESSOR_E_IO.
 */
int verification_measure(struct rate *ret_rate);

#endif
