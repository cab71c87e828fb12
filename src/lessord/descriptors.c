/* SPDX-License-Identifier: MIT */
#include "lessord/descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"

/*
 * What is open besides connections: the database with its readers, its log and a backup under way (about 30),
 * standard streams, certificate, projection, policy and signer while they are read; the rest is for a rush of
 * control connections. A worker has an epoll set for each engine and an event.
 */
#define OWN_FILES        96
#define FILES_FOR_EACH   4 /* listener or worker */
#define RESERVED_PORTION 2 /* with a very low limit, half of it is kept */

static rlim_t at_most(rlim_t a, rlim_t b)
{
        return a < b ? a : b;
}

int64_t descriptors_reserve(int64_t n_connections, int64_t n_own)
{
        int64_t own = OWN_FILES + FILES_FOR_EACH * n_own, allowed, room;
        rlim_t needed = (rlim_t)(n_connections + own);
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
                return n_connections;
        if (limit.rlim_cur < needed) {
                rlim_t before = limit.rlim_cur;

                limit.rlim_cur = at_most(needed, limit.rlim_max);
                if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
                        log_warning("open-files-not-raised", LOG_CSTR("problem", strerror(errno)));
                        limit.rlim_cur = before;
                }
        }
        if (limit.rlim_cur >= needed)
                return n_connections;
        allowed = (int64_t)limit.rlim_cur;
        room = allowed - own < allowed / RESERVED_PORTION ? allowed / RESERVED_PORTION : allowed - own;
        room = room < 1 ? 1 : room;
        room = room > n_connections ? n_connections : room;
        log_warning("too-few-open-files", LOG_INT("max_connections", n_connections),
                    LOG_INT("served_connections", room), LOG_INT("open_files_needed", (int64_t)needed),
                    LOG_INT("open_files_allowed", allowed),
                    LOG_CSTR("way_out", "raise the hard limit on open files (LimitNOFILE=, ulimit -Hn)"));
        return room;
}
