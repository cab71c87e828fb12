/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "base/macro.h"
#include "routing/contract/probe.h"

/* More than there are cases; the contract test of our own stores counts them. */
#define CASES_MAX 128

static struct lessor_contract_case joined[CASES_MAX];
static size_t n_joined;

static void join(void)
{
        const struct case_list *const lists[] = {&queue_cases, &holder_cases, &time_cases, &store_cases};

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                for (size_t k = 0; k < lists[i]->n && n_joined < CASES_MAX; k++)
                        joined[n_joined++] = lists[i]->cases[k];
        }
}

const struct lessor_contract_case *lessor_routing_contract(size_t *ret_n)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, join);
        *ret_n = n_joined;
        return joined;
}
