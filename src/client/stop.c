/* SPDX-License-Identifier: MIT */
#include "lessor/stop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lessor/error.h"

struct lessor_stop {
        atomic_bool raised;
        int fd;
};

int lessor_stop_new(struct lessor_stop **ret_stop)
{
        struct lessor_stop *stop = calloc(1, sizeof(*stop));

        if (stop == NULL)
                return LESSOR_E_NOMEM;
        stop->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (stop->fd < 0) {
                free(stop);
                return LESSOR_E_IO;
        }
        atomic_init(&stop->raised, false);
        *ret_stop = stop;
        return 0;
}

struct lessor_stop *lessor_stop_free(struct lessor_stop *stop)
{
        if (stop != NULL) {
                close(stop->fd);
                free(stop);
        }
        return NULL;
}

void lessor_stop_raise(struct lessor_stop *stop)
{
        int saved = errno;
        uint64_t one = 1;
        ssize_t n;

        atomic_store(&stop->raised, true);
        /* Fails only when it is readable already, which is all that is wanted. */
        n = write(stop->fd, &one, sizeof(one));
        (void)n;
        errno = saved;
}

bool lessor_stop_raised(const struct lessor_stop *stop)
{
        return stop != NULL && atomic_load(&stop->raised);
}

int lessor_stop_fd(const struct lessor_stop *stop)
{
        return stop == NULL ? -1 : stop->fd;
}
