/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <string.h>

#include "bench.h"
#include "lessor/error.h"
#include "machine.h"
#include "requests.h"
#include "traffic.h"

/* What connections cost on which nothing happens. */

#define IDLE_NS 5000000000u

static int make_requests(const struct bench *bench, struct request_list *list)
{
        int e = 0;

        for (unsigned i = 0; i < bench->connections && e == 0; i++) {
                buf_text(&list->text, "GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
                e = request_list_close(list);
        }
        return e;
}

/* Nothing at all for five seconds. */
static int idle_cpu(pid_t pid, uint64_t *ret_ns)
{
        uint64_t before_ns, after_ns;
        int e = process_cpu_ns(pid, &before_ns);

        if (e < 0)
                return e;
        poll(NULL, 0, (int)(IDLE_NS / 1000000u));
        e = process_cpu_ns(pid, &after_ns);
        if (e == 0)
                *ret_ns = after_ns - before_ns;
        return e;
}

static int measure(struct bench *bench, struct subject *subject, const struct request_list *list,
                   struct request_outcome *outcome)
{
        _cleanup_(traffic_freep) struct traffic *traffic = NULL;
        struct process_memory before, after;
        uint64_t none_ns, idle_ns;
        int e;

        e = idle_cpu(subject->pid, &none_ns);
        if (e == 0)
                e = process_memory(subject->pid, &before);
        if (e == 0)
                e = traffic_open(subject->port, bench->connections, &traffic);
        if (e == 0)
                e = request_list_send(list, traffic, outcome);
        if (e == 0)
                e = idle_cpu(subject->pid, &idle_ns);
        if (e == 0)
                e = process_memory(subject->pid, &after);
        if (e == 0) /* they are all still there */
                e = request_list_send(list, traffic, outcome);
        if (e == 0)
                e = report_target(&bench->report, memory_growth(before.rss_bytes, after.rss_bytes) / 1e6,
                                  "MB", REPORT_AT_MOST, 200, "memory of %u idle connections",
                                  bench->connections);
        if (e == 0)
                e = report_value(&bench->report, (double)none_ns / 1e6, "ms",
                                 "CPU time in 5 s without connections");
        if (e == 0) /* a tick of the kernel's usual accounting, in five seconds */
                e = report_target(&bench->report, (double)idle_ns / 1e6, "ms", REPORT_AT_MOST, 10,
                                  "CPU time in 5 s with %u idle connections", bench->connections);
        return e;
}

int bench_idle(struct bench *bench)
{
        _cleanup_(world_freep) struct world *world = NULL;
        _cleanup_(subject_freep) struct subject *subject = NULL;
        static struct request_outcome outcome;
        struct request_list list = {0};
        int e;

        e = report_section(&bench->report, "idle", "Idle connections",
                           "Connections that have been answered once and are kept alive: how much larger the "
                           "resident memory of the server is than without them, and the CPU time it uses "
                           "while nothing happens. Afterwards each is used again, to see that none was "
                           "dropped.");
        if (e == 0 && raise_open_files(bench->connections + 100) < bench->connections + 100) {
                fprintf(stderr, "load: the limit of open files is too low for %u connections\n",
                        bench->connections);
                e = LESSOR_E_PERMISSION;
        }
        if (e == 0)
                e = world_new(1, 1, &world);
        if (e == 0)
                e = make_requests(bench, &list);
        if (e == 0)
                e = bench_start(bench, "memory", world, &subject);
        if (e == 0)
                e = measure(bench, subject, &list, &outcome);
        request_list_done(&list);
        return e < 0 ? bench_failed(e, "idle") : 0;
}
