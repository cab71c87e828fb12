/* SPDX-License-Identifier: MIT */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H

#include <gnutls/abstract.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "http/server.h"

/*
 * Threads: MHD's workers receive, run handlers and send. The keeper (keeper.c) accepts, fires the waits'
 * timers, watches the sockets of waiting requests, and cuts off what is overdue. A connection belongs to one
 * worker.
 */

struct keeper;
struct tls_identity;

/* What an event of the keeper's epoll is about; every object that is registered there begins with one. */
enum keeper_event { KEEPER_WAKE, KEEPER_LISTENER, KEEPER_CONNECTION, KEEPER_LINGERER };

struct route_slot {
        const struct http_route *route;
        size_t path_len; /* without the `*` */
        bool prefix;
        unsigned counter; /* index of its counters at each worker */
};

struct listener {
        enum keeper_event event;
        struct http_server *server;
        char *address;
        char *name;
        char *unix_path; /* NULL for TCP */
        void *context;
        bool tls;
        int fd; /* -1 once closed */
        unsigned port;
        struct route_slot *slots;
        size_t n_slots;
        unsigned no_route_counter;
        struct network *allowed; /* NULL: everybody */
        size_t n_allowed;
};

/*
 * How a suspension stands. Only the worker of the connection enters the states before `woken`; anybody may
 * move a prepared or sleeping one to a woken one, by compare and swap, and whoever moves it away from a
 * sleeping one, and nobody else, sends it to its worker to be resumed. Waiting and holding have states of
 * their own, so that what wakes the one (a timer, a drain, a late http_resume()) can never let go a held
 * answer.
 */
enum suspension {
        SUSPENSION_NONE,
        SUSPENSION_WAIT_PREPARED, /* may be woken, MHD does not know yet */
        SUSPENSION_WAIT,          /* MHD has suspended the connection */
        SUSPENSION_HOLD_PREPARED,
        SUSPENSION_HOLD,
        SUSPENSION_JOB_PREPARED, /* a job of the pool has it: nothing but its end wakes */
        SUSPENSION_JOB,
        SUSPENSION_WOKEN, /* by http_resume(), `told` or a job; the ones below are woken too */
        SUSPENSION_TIME,
        SUSPENSION_GONE,
        SUSPENSION_DRAIN,
        SUSPENSION_ABORT, /* the drain's deadline: the request ends without running anything */
};

/* What other threads tell a worker, by connection. */
enum queue {
        QUEUE_ARRIVING, /* to be added to MHD */
        QUEUE_WOKEN,    /* to be resumed */
        QUEUE_LEFT,     /* the peer has closed its side */
        QUEUE_ORPHANED, /* the job of a request that has lost its connection is over */
        N_QUEUES,
};

#define PEER_TEXT_LEN (INET6_ADDRSTRLEN + 1)

/*
 * A connection. Its memory is reused for other connections but not given back before the server is freed, so
 * that a late `told` finds something that says "not asleep".
 */
struct connection {
        enum keeper_event event;
        struct connection *next; /* live list, or free list; under server->lock */
        struct connection *prev;
        bool admitted;                       /* counts among the connections; under server->lock */
        bool live;                           /* in the live list; under server->lock */
        struct connection *queued[N_QUEUES]; /* next in the queues to its worker */
        struct worker *worker;
        struct listener *listener;
        struct MHD_Connection *mhd;
        int fd;
        union {
                struct sockaddr any;
                struct sockaddr_in v4;
                struct sockaddr_in6 v6;
        } peer;
        char peer_text[PEER_TEXT_LEN]; /* for the log, as soon as it was wanted; worker only */
        uint32_t peer_uid;             /* Unix sockets */
        bool counted;                  /* in the table of addresses */
        _Atomic bool busy;             /* has a request */
        _Atomic bool read_closed;      /* we have shut its reading side ourselves */
        _Atomic bool left;             /* the peer has closed its side, as the keeper saw */
        _Atomic bool overdue;          /* cut off for being slow */
        _Atomic bool sending;          /* an answer is on its way: being overdue closes both sides */
        _Atomic bool aborted;          /* by http_abort() */
        _Atomic int64_t due_ms;        /* clock_monotonic_ms() at which it is overdue; 0: never */
        _Atomic int64_t idle_since_ms; /* while it is not busy */
        _Atomic int suspension;
        _Atomic int held_result;
        struct request *request;  /* worker only, like the next four */
        bool asleep;              /* MHD has it suspended */
        bool on_job;              /* for SUSPENSION_JOB */
        struct request *detained; /* which has lost this connection, and waits for a job; see orphan.c */
        bool ended;               /* MHD has closed it, but it is detained */
        /* of the keeper, under its lock */
        size_t heap_at; /* index + 1; 0: not in the heap */
        int64_t wake_ms;
        struct tls_identity *identity; /* reference, from the handshake on */
};

enum phase {
        PHASE_HEADERS, /* until MHD's first call */
        PHASE_BODY,
        PHASE_UPLOAD,  /* the body goes to a sink */
        PHASE_DISCARD, /* refused; the rest of the body is read and forgotten */
        PHASE_RUN,     /* the handler or a continuation is next */
        PHASE_WAIT,    /* suspended, `next` is the continuation */
        PHASE_HOLD,    /* suspended, the answer is ready */
        PHASE_JOB,     /* suspended, `next` runs when the job is over */
        PHASE_ANSWERED,
        PHASE_STREAM, /* suspended, the answer goes on when there is more of it */
};

struct header {
        struct lessor_slice name;
        struct lessor_slice value;
};

struct answer_header {
        struct answer_header *next;
        const char *name;
        const char *value;
};

struct request {
        struct http_request public;
        struct request *next_free;
        struct http_server *server;
        struct connection *connection;
        struct route_slot *slot;
        enum phase phase;

        /* receiving */
        struct lessor_slice target; /* as sent, in the arena */
        const char *target_at;      /* where MHD has it; only to compare with */
        struct lessor_slice host;
        struct header *headers; /* in the arena; texts are MHD's, valid as long as the request */
        size_t n_headers;
        bool head; /* method HEAD */
        bool has_length;
        bool chunked;
        bool expects_continue;
        bool wrong_method;   /* of a path that takes all of them as far as its gate */
        bool early;          /* MHD stands before the body: an answer now goes out without it */
        bool admitted;       /* by its gate */
        bool broken;         /* MHD stands in the middle of a body: an answer now is written past it */
        bool due_fixed;      /* the body's time does not grow with it */
        bool raw;            /* the answer was written past MHD */
        bool foreign;        /* from an address that the listener does not answer: told so in plain text */
        bool upload_told;    /* the upload's `done` or `failed` has been called */
        int64_t deadline_ms; /* http_deadline() that nothing has used yet, clock_monotonic_ms(); 0: none */
        uint64_t content_length;
        uint64_t received; /* bytes of body */
        uint64_t discarded;
        struct buf body;
        size_t charged; /* of server->body_memory */
        int receive_error;
        unsigned refusal; /* status with which it is refused after PHASE_DISCARD; 0: not refused */
        const char *refusal_why;
        struct upload *upload; /* in the arena; see upload.c */

        /* running */
        http_handler *next;
        void *next_context;
        int64_t wait_ms;
        bool prepared;      /* in this run: http_suspend_prepare() */
        bool suspend_asked; /* in this run: http_suspend() */
        bool wait_over;
        bool gone; /* the peer, as far as we have found out */
        http_when *when;
        http_handler *failed;
        void *when_context;
        struct offload *offload; /* in this run: http_offload(); in the arena */

        /* answering */
        bool answered; /* an answer is there */
        unsigned status;
        const char *content_type;
        struct buf answer;
        struct buf spare;                /* empty, of an earlier request's answer */
        struct lessor_slice answer_text; /* what is sent: the buffer's or somebody else's */
        struct MHD_Response *(*answer_response)(struct request *r); /* NULL: answer_text is what is sent */
        void *answer_object;                                        /* of answer_response; in the arena */
        uint64_t answer_bytes;                                      /* how long it is, or was */
        struct answer_header *answer_headers;
        http_handler *undelivered;
        void *undelivered_context;
        struct lessor_slice caller;
};

/* One route's counters at one worker. */
struct counters {
        _Atomic uint64_t answers[HTTP_N_CLASSES];
        _Atomic uint64_t bytes_in;
        _Atomic uint64_t bytes_out;
        _Atomic uint64_t duration_us;
};

/* Each worker has two of MHD's daemons at most, since MHD does TLS on all of a daemon's connections or on
 * none. */
enum engine_kind { ENGINE_PLAIN, ENGINE_SECURE, N_ENGINES };

struct engine {
        struct MHD_Daemon *mhd; /* NULL when no listener needs it */
        bool due;               /* has something to do */
};

struct worker {
        struct http_server *server;
        pthread_t thread;
        bool running;
        int epoll_fd;
        int wake_fd;
        struct engine engines[N_ENGINES];
        _Atomic(struct connection *) queues[N_QUEUES]; /* each newest first */
        _Atomic bool stop;
        _Atomic size_t n_connections;
        /* the thread's own */
        struct connection *adding; /* what MHD_add_connection() is being called for */
        struct connection *left;   /* whose end MHD has yet to be shown */
        struct request *free;
        size_t n_free;
        size_t n_jobs; /* that connections of this worker wait for */
        /* written by the thread, read by anybody */
        struct counters *counters; /* server->n_counters */
        _Atomic int64_t n_requests;
        _Atomic int64_t n_parked;
};

struct address_table;
struct pool;

struct http_server {
        struct http_options options; /* strings and listeners not included */
        struct listener *listeners;
        size_t n_listeners;
        struct worker *workers; /* options.threads */
        struct keeper *keeper;
        struct tls *tls;
        char *tls_cert;
        char *tls_key;

        pthread_mutex_t lock; /* the lists of connections, the table of addresses */
        pthread_cond_t emptied;
        struct connection *live;
        struct connection *free;
        size_t n_live;
        size_t n_admitted;
        struct address_table *addresses;
        struct pool *pool;
        _Atomic size_t n_uploads;
        _Atomic size_t n_offloads;

        _Atomic bool draining;
        _Atomic bool aborting;
        bool started;
        bool stopped;
        _Atomic size_t body_memory;
        _Atomic uint64_t accepted;
        _Atomic uint64_t refused;
        _Atomic uint64_t timed_out;
        _Atomic uint64_t n_undelivered;
        unsigned n_counters;
};

static inline bool request_has_body(const struct request *r)
{
        return r->chunked || r->content_length > 0;
}

static inline struct request *request_of(struct http_request *public)
{
        return container_of(public, struct request, public);
}

/* What the functions of the request's route are given. */
static inline void *route_context(const struct request *r)
{
        void *own = r->public.route->context;

        return own != NULL ? own : r->connection->listener->context;
}

/* A number that only one thread writes: no locked instruction needed. */
static inline void bump(_Atomic uint64_t *number, uint64_t by)
{
        atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + by,
                              memory_order_relaxed);
}

static inline void move_gauge(_Atomic int64_t *number, int64_t by)
{
        atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + by,
                              memory_order_relaxed);
}

/* ---- worker.c */
int workers_new(struct http_server *server);
/* Starts MHD's daemons and the threads. What was started is stopped by workers_free(). */
int workers_start(struct http_server *server);
/* Ends the threads and closes what is left. No connection may be asleep. */
void workers_stop(struct http_server *server);
void workers_free(struct http_server *server);
/* Gives a connection to the worker that has the fewest. From the keeper. */
void worker_hand_over(struct http_server *server, struct connection *c);
/* Has MHD_resume_connection() called on the worker. Any thread; once for each suspension. */
void worker_resume(struct connection *c);
/* Has MHD shown that the peer has closed its side. Any thread, while the connection is live. */
void worker_left(struct connection *c);
/* The job of a request that has lost its connection is over. Any thread. */
void worker_orphaned(struct connection *c);
/* The connection is not live any more. On the worker. */
void worker_forget(struct connection *c);

/* ---- connection.c */

/* Takes a connection from the free list or makes one. NULL when memory is short. */
struct connection *connection_new(struct http_server *server);
/* Gives it back without its ever having been live. Server lock not held. */
void connection_discard(struct http_server *server, struct connection *c);
/* Frees all memory of connections; nobody may hold one any more. */
void connections_free(struct http_server *server);
/* MHD's notification of a connection's begin and end. */
void connection_notify(void *context, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);
/* Cuts off what is overdue. Returns when to look again, clock_monotonic_ms(). */
int64_t connections_cut_overdue(struct http_server *server, int64_t now_ms);
/* The peer of what may be this connection has closed its side. */
void connection_left(struct http_server *server, struct connection *c);
/* Cuts it off, if it still lives, whatever it is doing. Any thread. */
void connection_abort(struct http_server *server, struct connection *c);
/* For a drain: wakes the waiting, closes the idle; with `abort` cuts off everything. */
void connections_drain(struct http_server *server, bool abort);
/* Hangs a due time on the connection. */
static inline void connection_due(struct connection *c, int64_t due_ms)
{
        atomic_store_explicit(&c->due_ms, due_ms, memory_order_relaxed);
}

/* ---- request.c: MHD's callbacks of a request */
void *request_begin(void *context, const char *target, struct MHD_Connection *mhd);
enum MHD_Result request_access(void *worker, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_len, void **context);
void request_completed(void *worker, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode why);
struct request *request_free(struct request *request);
/* Gives it back to its worker, when nothing needs it any more. */
void request_release(struct worker *worker, struct request *r);

/* ---- run.c: handlers, continuations, suspension */
enum MHD_Result request_run(struct request *r);
/* MHD called again for a request that was suspended. */
enum MHD_Result request_woken(struct request *r);
/* The connection ended under a suspended request: its continuation runs, and nobody hears its answer. */
void request_orphaned(struct request *r);
/* Ends a wait, or for SUSPENSION_ABORT a hold too. False if there is none, or it is over already. Any thread.
 */
bool connection_wake(struct connection *c, enum suspension why);
/* A job's end wakes its connection. Any thread. */
void connection_job_over(struct connection *c);
/* Announces that the connection will sleep until connection_job_over(), which may come from now on. */
void connection_job_prepare(struct connection *c);
/* ... puts it to sleep, ... */
void connection_job_sleep(struct connection *c);
/* ... or does not. */
void connection_job_forget(struct connection *c);
/* The reader of an answer says that it has ended. Called right before it tells MHD so. */
void connection_show_end(struct connection *c);
/* A stream can be woken from here on, ... */
void stream_prepare(struct request *r);
/* ... does not sleep, since it has something to send, ... */
void stream_forget(struct request *r);
/* ... or sleeps like a waiting request. False when it has been woken or ought not to sleep; then it may be
 * `gone`. */
bool stream_park(struct request *r, int64_t wait_ms);
/* A stream that slept runs again. Returns why. */
enum suspension stream_unpark(struct request *r);

/* ---- answer.c */
/* Answers with the error's own text. `why` is static. */
void answer_error(struct request *r, unsigned status, const char *why);
/* Refuses in the words of the route's gate, if it has any. */
void answer_refusal(struct request *r, unsigned status, const char *why);
/* Forgets the answer that there is. */
void answer_drop(struct request *r);
/* Hands the answer to MHD. */
enum MHD_Result answer_queue(struct request *r);
/* Writes the answer past MHD, which takes none in the middle of a body. Best effort. */
void answer_raw(struct request *r);

/* ---- admission.c */
/* MHD has the headers of a request whose route has a gate; or all of it, when it has no body, since MHD
 * closes the connection after an answer that it gets before. */
enum MHD_Result admission_begin(struct request *r);
/* A run before the body has neither answered nor suspended. True when there is something to run or to answer;
 * false when the body is next. */
bool admission_next(struct request *r);

/* ---- upload.c */
struct upload;
/* Takes what it can of n bytes; the rest is shown again. */
enum MHD_Result upload_take(struct request *r, const char *bytes, size_t *n);
/* The body is whole, or was when this was called first. */
enum MHD_Result upload_whole(struct request *r);
/* The request ends with its upload unfinished. True when a job still works on it, whose end orphan.c hears
 * of; `next` is what remains to be run either way. */
bool upload_cut(struct request *r);

/* ---- orphan.c: requests that have lost their connection, but not all their work */
/* Runs what is next. Suspending has no effect any more, but that the request ends; offloading has. */
void orphan_run(struct request *r);
/* Has the job done that the run has asked for, and keeps request and connection until then. */
void orphan_offload(struct request *r);
/* Keeps request and connection until the job that is under way is over. */
void orphan_detain(struct request *r);
/* That job is over. On the worker. */
void orphan_continue(struct connection *c);

/* ---- offload.c */
struct offload;
/* Hands the run's job to the pool, and has `over` told on whichever thread. */
void offload_start(struct request *r, bool orphaned);

/* ---- pool.c: threads that may wait for the disk */
struct job {
        struct job *next;
        void (*run)(struct job *job); /* which may free it */
};

struct pool *pool_new(void);
/* Waits until all jobs are done. */
struct pool *pool_free(struct pool *pool);
/* Has the job run. Never refuses: whoever submits bounds how many. Without a thread to be had it runs here.
 */
void pool_submit(struct pool *pool, struct job *job);

/* ---- linger.c: connections that we have closed for writing, and whose peers may not have noticed yet */
struct lingerers;
struct lingerers *lingerers_new(int epoll_fd);
struct lingerers *lingerers_free(struct lingerers *l);
/* Reads on, on a descriptor of its own, after MHD has closed the connection. Any thread. */
void linger(struct lingerers *l, int fd, int64_t now_ms);
/* Something came. On the keeper. */
void linger_read(struct lingerers *l, void *lingerer);
/* Ends what is over. On the keeper. Returns when to call again, clock_monotonic_ms(). */
int64_t lingerers_expire(struct lingerers *l, int64_t now_ms);

/* ---- target.c */
/* Takes the request target apart: path, dot segments resolved; query; host. Returns 0 or the status with
 * which to refuse it. */
unsigned target_read(struct request *r);
void route_slot_init(struct route_slot *slot, const struct http_route *route, unsigned counter);
/* The route for method and path, or NULL. With http_gate.any_method it may be one of another method. */
struct route_slot *route_find(const struct listener *listener, struct lessor_slice method,
                              struct lessor_slice path);

/* ---- headers.c */
/* Collects the headers and checks what MHD does not. Returns 0 or a status, and then a reason in `ret_why`.
 */
unsigned headers_read(struct request *r, struct MHD_Connection *mhd, const char *version,
                      const char **ret_why);

/* ---- access_log.c */
void access_log_write(const struct request *r, unsigned status, bool delivered, int64_t duration_us);

/* ---- addresses.c: connections by peer address. Server lock held. */
struct address_table *address_table_new(void);
struct address_table *address_table_free(struct address_table *table);
/* Counts one in. False when the address has `max` already, or memory is short. Loopback is never counted. */
bool address_table_enter(struct address_table *table, struct connection *c, unsigned max);
void address_table_leave(struct address_table *table, struct connection *c);

/* ---- networks.c: who may ask */
struct network {
        unsigned char address[16]; /* IPv4 as ::ffff:0:0/96 */
        unsigned n_bits;           /* of it that count; the others are 0 */
};

/* Reads "NETWORK,NETWORK", each an address or ADDRESS/BITS. The caller frees. Returns 0, LESSOR_E_INVALID or
 * LESSOR_E_NOMEM. */
int networks_read(const char *text, struct network **ret_networks, size_t *ret_n);
/* Whether the peer is in one of them. False for Unix sockets. */
bool networks_have(const struct network *networks, size_t n, const struct connection *c);

/* ---- listener.c */
int listener_open(struct listener *l, struct lessor_arena *arena, const char **ret_problem);
void listener_close(struct listener *l);
/* Accepts what is there. Returns false when descriptors are short, and nothing more should be tried for a
 * while. */
bool listener_accept(struct listener *l);

/* ---- keeper.c */
int keeper_new(struct http_server *server, struct keeper **ret_keeper);
int keeper_start(struct keeper *k);
/* Closes the listeners on the keeper's thread and returns when that is done. */
void keeper_stop_listening(struct keeper *k);
struct keeper *keeper_free(struct keeper *k);
/* Has connection_left() called when the peer closes. */
void keeper_follow(struct keeper *k, struct connection *c);
/* Has connection_wake(SUSPENSION_TIME) called after `wait_ms`, unless keeper_forget() comes before. */
void keeper_time(struct keeper *k, struct connection *c, int64_t wait_ms);
void keeper_forget(struct keeper *k, struct connection *c);
/* A connection is overdue at a time that may be sooner than the next look (connection_due()). */
void keeper_due(struct keeper *k, int64_t due_ms);
/* Reads on a connection that MHD is about to close, so that its peer gets to read our answer. */
void keeper_linger(struct keeper *k, struct connection *c);

/* ---- tls.c */
int tls_new(const char *cert_path, const char *key_path, struct lessor_arena *arena, struct tls **ret_tls,
            const char **ret_problem);
int tls_reload(struct tls *tls, const char *cert_path, const char *key_path, struct lessor_arena *arena,
               const char **ret_problem);
struct tls *tls_free(struct tls *tls);
struct tls_identity *tls_identity_unref(struct tls_identity *identity);
/* GnuTLS asks for the certificate of one handshake. */
int tls_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certs,
                    unsigned *n_certs, gnutls_ocsp_data_st **ocsp, unsigned *n_ocsp, gnutls_privkey_t *key,
                    unsigned *flags);

#endif
