/* SPDX-License-Identifier: MIT */
#ifndef LESSORD_OPTIONS_H
#define LESSORD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* What concerns the rack plane; docs/rack.md says more of each. Times in ms. */
struct rack_settings {
        bool on;       /* serve it */
        char *origin;  /* of capability URLs, no trailing slash; NULL: the request's own */
        char *repos;   /* "NAME,NAME" that are granted, or NULL: all */
        char *sizes;   /* compute sizes that are granted, or NULL: all */
        char *version; /* of the runtime whose builds of environments are answered, or NULL */
        int64_t window_ms;
        int64_t poll_ms;
        int64_t poll_max_ms;
        int64_t policy_recheck_ms;
        int64_t watch_window_ms;
        int64_t watch_poll_ms;
        int64_t visibility_ms;
        int64_t healthy_ms;
        int64_t rotation_ms;
        int64_t reoffer_ms;
        int64_t grace_ms;
        int64_t capability_ms;
        int64_t retention_ms;
        int64_t expiry_ms;  /* 0: never */
        int64_t collect_ms; /* of objects that nobody needs; 0: never */
        int64_t collect_grace_ms;
        bool fair;
        bool heed_health;
};

/*
 * What lessord can be told. Every option has one name, which is its flag (`--lease-ms`), its key in the
 * configuration file (`lease-ms = 45000`) and its environment variable (`LESSOR_LEASE_MS`). The command line
 * counts before the environment, the environment before the file.
 */
struct options {
        char **listen; /* "ADDR:PORT"; at least one after options_read */
        size_t n_listen;
        char *data;             /* directory */
        char *store;            /* "sqlite" or "memory" */
        char *projection;       /* file, or NULL: the built-in tables */
        char *policy;           /* file, or NULL: the built-in tables */
        char *grant_key;        /* file, or NULL: no grants */
        char *grant_signer;     /* Unix socket of a process that signs, or NULL */
        bool grants;            /* author grants when there is a key */
        bool satisfiable;       /* ask the policy at enqueue */
        char *verification_url; /* or NULL: no pairing by code */
        char *base_path;        /* of the device plane, no trailing slash */
        char *update_offer;     /* version, or NULL */
        char *daemon_floor;     /* version, or NULL */
        char *tls_cert;         /* file, or NULL */
        char *tls_key;          /* file, or NULL */
        char *redirect_listen;  /* "ADDR:PORT" of plain HTTP that leads to https, or NULL */
        char *allow_from;       /* networks that the relay answers, or NULL: all */
        char *control_listen;   /* "ADDR:PORT" for the control API over TCP, or NULL */
        char *control_token;    /* file with the bearer token for it, or NULL */
        char *log_level;        /* debug, info, warning, error */
        char *config;           /* file, or NULL */
        int64_t lease_ms;
        int64_t threads; /* worker threads of the HTTP server; 0: one a core */
        int64_t max_connections;
        int64_t max_connections_per_address;
        int64_t low_disk_bytes; /* below this much free space no new work is taken */
        struct rack_settings rack;
        bool debug;        /* serve the debug page */
        bool check_config; /* check and leave */
        bool help;
        bool version;
};

/*
 * Reads the command line, the environment and the configuration file, checks every value, and fills what was
 * not said with its default.
 *
 * environment  NULL-terminated, as environ; borrowed
 * ret_options  to be given to options_done, on failure too
 * ret_problem  one sentence for stderr: which option, which value, what to do; written on failure
 *
 * Returns 0; LESSOR_E_INVALID; LESSOR_E_NOMEM.
 */
int options_read(int argc, char *const *argv, char *const *environment, struct options *ret_options,
                 struct buf *ret_problem);

void options_done(struct options *options);

/* The text of --help, from the same table that reads the options. */
int options_help(struct buf *out);

#endif
