/* SPDX-License-Identifier: MIT */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/*
 * Every bound that lessor puts on what comes from outside, in one place. Past a bound there is an error,
 * never a truncation. Those of the protocol cite their section; the rest are our own.
 */

/* Relay protocol */
#define LIMIT_ENVELOPE_UNITS      6291456 /* UTF-16 units of an envelope's JSON text; relay-protocol 6.7 */
#define LIMIT_CLOCK_SKEW_MS       120000  /* relay-protocol 4 */
#define LIMIT_SUCCESSION_LINKS    64      /* relay-protocol 9 and 13 */
#define LIMIT_CLAIM_MAX           64      /* jobs a claim may ask for; relay-protocol 6.2 */
#define LIMIT_ACK_JOBS            1000    /* results acknowledged at once; our own endpoint */
#define LIMIT_PAIRING_OUTSTANDING 500     /* relay-protocol 6.1 */
#define LIMIT_PAIRING_LABEL       120     /* code points; relay-protocol 6.1 */
#define LIMIT_UNSEALED_PER_PAIR   2       /* relay-protocol 10, UNSEALED_PER_PAIR */
#define LIMIT_SEAL_ATTEMPTS       3       /* relay-protocol 10, SEAL_ATTEMPTS_BEFORE_EVICTION */
#define LIMIT_PAYLOAD_TEXT        1000000 /* code points of one text of a payload; relay-protocol 6.7 */
#define LIMIT_PAYLOAD_MESSAGES    256     /* relay-protocol 6.7 */
#define LIMIT_PAYLOAD_UNITS       4000000 /* UTF-16 units of all texts of a payload; relay-protocol 6.7 */
#define LIMIT_SIZE_SMALL          4000    /* UTF-16 units of text of a small job; relay-protocol 6.7 */
#define LIMIT_SIZE_MEDIUM         64000   /* of a medium one */

/* Rack protocol */
#define LIMIT_RACK_ENROLL        65536   /* bytes of the body of enroll; rack-protocol 4 */
#define LIMIT_RACK_BODY          2097152 /* and of every other call */
#define LIMIT_RACK_WATCHED       256     /* leases that one watch names; rack-protocol 6.8 */
#define LIMIT_RACK_TRANSFERS     256     /* outputs, and commits, of one storage request; rack-protocol 6.6 */
#define LIMIT_RACK_TARGETS       4096    /* distinct hashes issued on one lease; rack-protocol 6.6 */
#define LIMIT_RACK_OBJECT_BYTES  INT64_C(5368709120) /* rack-protocol 6.6 */
#define LIMIT_RACK_TIER          64                  /* bytes of a tier's name in a submission */
#define LIMIT_RACK_INLINE_ANSWER 4194304 /* bytes of objects that come inline in one answer; more by URL */
#define LIMIT_RACK_TRANSFER_MS   600000  /* of one object, either way; rack-protocol 7 */

/* HTTP bodies, bytes. An envelope at its ceiling written wholly in \u escapes is 38 MB (relay-protocol 5). */
#define LIMIT_BODY_ENVELOPE  41943040
#define LIMIT_BODY_CONTROL   1048576
#define LIMIT_BODY_PAIRING   262144    /* from anybody, and kept until the code expires */
#define LIMIT_ANSWER         16777216  /* results and pending stop before this, oldest first */
#define LIMIT_RESULTS_READ   268435456 /* what a site reads of a relay that does not stop at LIMIT_ANSWER */
#define LIMIT_HELD_WAIT_MS   25000     /* longest `wait` of pending and results */
#define LIMIT_HTTP_HEADERS   100
#define LIMIT_HTTP_DISCARD   8388608 /* bytes of a refused body that are read before, or after, the answer */
#define LIMIT_CONTROL_JOBS   10000   /* jobs that one answer of the control API looks at */
#define LIMIT_CONTROL_LEASES 10000   /* leases likewise, but for those of one run */
#define LIMIT_BODY_LEASE     4194304 /* a new lease with its event */

/* Requests that stream, or wait for a disk */
#define LIMIT_HTTP_LINGERING     256    /* refused connections that are read on at once */
#define LIMIT_HTTP_UPLOADS       256    /* streamed bodies at once */
#define LIMIT_HTTP_UPLOAD_MEMORY 262144 /* bytes that one of them holds in memory */
#define LIMIT_HTTP_OFFLOADS      1024   /* requests that wait for, or do, blocking work */

/* JSON from outside */
#define LIMIT_JSON_DEPTH  64
#define LIMIT_JSON_VALUES 524288 /* what a control body can hold; each costs up to about 80 bytes */

/* BEAST2: logical bytes of a message unless its reader says otherwise, and never more; beast2 10 */
#define LIMIT_BEAST2_LOGICAL      16777216
#define LIMIT_BEAST2_LOGICAL_MOST 1073741824
/* ... and the memory that its lists, options and containers may take beside the bytes themselves */
#define LIMIT_BEAST2_MEMORY 67108864

/* The projection: records of one kind; the indexes number them with 30 bits */
#define LIMIT_PROJECTION_RECORDS 1000000

/* Ids, purposes, services and labels in the built-in tables, bytes */
#define LIMIT_ID_BYTES 256

/* One answer of a grant signer, bytes */
#define LIMIT_SIGNER_LINE 65536

/* What a producer may ask of a lease; and how long an enrolment token may live, rack-protocol 2 */
#define LIMIT_LEASE_SPAN_MS    INT64_C(31536000000)
#define LIMIT_LEASE_ATTEMPTS   1000
#define LIMIT_ENROLMENT_MS     86400000
#define LIMIT_ENROLMENT_MIN_MS 60000

/* Objects and logs of the rack plane */
#define LIMIT_OBJECT_BYTES       INT64_C(5368709120) /* rack-protocol 6.6, step 7 */
#define LIMIT_REPO_BYTES         128                 /* of a repository's name */
#define LIMIT_LOG_BYTES          67108864            /* of one stream of an attempt, before it is cut */
#define LIMIT_LOG_TAIL_BYTES     65536               /* of the server's own words after that */
#define LIMIT_TREE_BYTES         16777216            /* a tree object; larger trees are trees of trees */
#define LIMIT_TREE_ENTRIES       65536
#define LIMIT_TREE_PATH          3072 /* bytes of a path in a tree or task, and of a link's target */
#define LIMIT_TREE_NAME          255  /* bytes of one of its parts */
#define LIMIT_TASK_BYTES         1048576
#define LIMIT_GRAPH_OBJECTS      1000000 /* that one output may name, at all depths */
#define LIMIT_GRAPH_DEPTH        32
#define LIMIT_ENVIRONMENT_LAYERS 256     /* of one published environment */
#define LIMIT_TREE_PLACED        4194304 /* entries that unpacking one tree makes, however often they are named */

/* Events and webhooks */
#define LIMIT_EVENTS               8192 /* that are kept for whoever reads along */
#define LIMIT_WEBHOOKS             64
#define LIMIT_WEBHOOK_URL          2048 /* bytes */
#define LIMIT_WEBHOOK_SECRET_LEAST 16   /* characters */

/* Files that people write: projection, policy, configuration, keys; bytes */
#define LIMIT_FILE_BYTES     67108864
#define LIMIT_KEY_FILE_BYTES 65536

#endif
