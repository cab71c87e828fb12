/* SPDX-License-Identifier: MIT */
#include "verification.h"

#include <sodium.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lessor/error.h"
#include "machine.h"

#define RAW_NS       300000000u
#define RAW_MESSAGES 1000

/* As a server meets them: no two alike, or the processor would learn the one by heart. */
struct signed_message {
        uint8_t key[crypto_sign_PUBLICKEYBYTES];
        uint8_t signature[crypto_sign_BYTES];
        uint8_t message[128]; /* about as long as a canonical request */
};

static void sign_messages(struct signed_message *messages, size_t n)
{
        uint8_t secret[crypto_sign_SECRETKEYBYTES];

        for (size_t i = 0; i < n; i++) {
                struct signed_message *m = &messages[i];

                crypto_sign_keypair(m->key, secret);
                randombytes_buf(m->message, sizeof(m->message));
                crypto_sign_detached(m->signature, NULL, m->message, sizeof(m->message), secret);
        }
}

static void verify_for_a_while(int out)
{
        static struct signed_message messages[RAW_MESSAGES];
        uint64_t begin_ns, begin_cpu_ns, n = 0;
        struct rate rate;

        pin_to_core(CORE_SERVER);
        sign_messages(messages, RAW_MESSAGES);
        begin_ns = now_ns();
        begin_cpu_ns = own_cpu_ns();
        while (now_ns() - begin_ns < RAW_NS)
                for (unsigned i = 0; i < 100; i++, n++) {
                        const struct signed_message *m = &messages[n % RAW_MESSAGES];

                        if (crypto_sign_verify_detached(m->signature, m->message, sizeof(m->message),
                                                        m->key) < 0)
                                _exit(1);
                }
        rate.wall = (double)n * 1e9 / (double)(now_ns() - begin_ns);
        rate.cpu = (double)n * 1e9 / (double)(own_cpu_ns() - begin_cpu_ns);
        _exit(write(out, &rate, sizeof(rate)) == (ssize_t)sizeof(rate) ? 0 : 1);
}

int verification_measure(struct rate *ret_rate)
{
        int ends[2], status;
        ssize_t n;
        pid_t pid;

        if (pipe(ends) < 0)
                return LESSOR_E_IO;
        pid = fork();
        if (pid == 0)
                verify_for_a_while(ends[1]);
        close(ends[1]);
        n = pid < 0 ? -1 : read(ends[0], ret_rate, sizeof(*ret_rate));
        close(ends[0]);
        if (pid > 0)
                waitpid(pid, &status, 0);
        return n == (ssize_t)sizeof(*ret_rate) ? 0 : LESSOR_E_IO;
}
