/* SPDX-License-Identifier: MIT */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "client/device_link.h"
#include "client/rack.h"

/* Objects that a task needs, from the server into the cache (rack-protocol 6.6, 7 and 14). */

#define N_DOWNLOADS   4
#define FAILURES_MOST 3     /* of one object, refused or not what it should be */
#define STALL_MS      30000 /* a transfer that moves nothing for so long is dead */
#define ANSWER_MOST   65536 /* of a refusal */

DEFINE_CLEANUP(struct lessor_arena, lessor_arena_free)

/* One object that this slot is to fetch. */
struct piece {
        struct lessor_slice hash;
        bool done;
        bool begun; /* the writer is open; with what came before a connection broke */
        struct cache_writer writer;
        unsigned failures;
};

/* One transfer under way. */
struct download {
        struct rack_slot *slot;
        const struct rack_job *job;
        struct piece *piece; /* NULL: none */
        struct http_transfer *transfer;
        int64_t from; /* where it goes on */
        bool began;   /* something came */
};

struct fetch {
        struct rack_slot *slot;
        struct rack_job *job;
        struct piece *pieces;
        size_t n;
        struct buf *problem;
        bool trouble; /* something of this round is to be tried again, after a pause */
        int64_t retry_after_ms;
};

static int pin(struct rack_slot *slot, struct lessor_slice hash)
{
        return buf_slice(&slot->pins, hash);
}

void rack_unpin_all(struct rack_slot *slot)
{
        for (size_t at = 0; at + SHA256_HEX_LEN <= slot->pins.n; at += SHA256_HEX_LEN)
                object_cache_unpin(slot->agent->cache,
                                   (struct lessor_slice){slot->pins.p + at, SHA256_HEX_LEN});
        buf_clear(&slot->pins);
}

/* The writer of a piece, open. Where it cannot be opened the object is given up already. */
static int begin(struct fetch *f, struct piece *piece)
{
        int r;

        if (piece->begun)
                return 0;
        r = object_cache_begin(f->slot->agent->cache, piece->hash, &piece->writer);
        piece->begun = r == 0;
        piece->done = r < 0;
        return r;
}

static int finish(struct fetch *f, struct piece *piece)
{
        int r = cache_writer_commit(&piece->writer);

        piece->begun = false;
        piece->done = r == 0;
        if (r == 0)
                return pin(f->slot, piece->hash);
        if (r != LESSOR_E_MISMATCH)
                piece->done = true; /* given up */
        return r;
}

/*
 * After bytes that were not the object's: the commit gave the object up, so that it has to be asked for
 * again. Somebody else may have it by now.
 */
static int after_mismatch(struct fetch *f, struct piece *piece)
{
        enum cache_want want;
        int r;

        if (++piece->failures >= FAILURES_MOST) {
                piece->done = true;
                buf_printf(f->problem, "object %.*s: what the server sends is something else",
                           (int)piece->hash.n, piece->hash.p);
                return LESSOR_E_MISMATCH;
        }
        f->trouble = true;
        r = object_cache_want(f->slot->agent->cache, piece->hash, true, f->job->stop, &want);
        if (r < 0) {
                piece->done = true;
                return r;
        }
        if (want == CACHE_HAVE) {
                piece->done = true;
                return pin(f->slot, piece->hash);
        }
        return 0;
}

static int take_inline(struct fetch *f, struct piece *piece, struct lessor_slice data)
{
        int r = begin(f, piece);

        if (r == 0)
                r = cache_writer_restart(&piece->writer);
        if (r == 0)
                r = cache_writer_add(&piece->writer, data);
        if (r < 0)
                return r;
        f->slot->done_bytes += (int64_t)data.n;
        r = finish(f, piece);
        return r == LESSOR_E_MISMATCH ? after_mismatch(f, piece) : r;
}

static int take_piece(void *context, long status, struct lessor_slice bytes)
{
        struct download *d = context;
        int r = 0;

        /* Whoever does not know Range sends it from the beginning. */
        if (!d->began && status != 206 && d->piece->writer.size > 0) {
                d->slot->done_bytes -= d->piece->writer.size;
                r = cache_writer_restart(&d->piece->writer);
        }
        d->began = true;
        if (r == 0)
                r = cache_writer_add(&d->piece->writer, bytes);
        if (r == 0) {
                d->slot->done_bytes += (int64_t)bytes.n;
                rack_tell_progress(d->slot, d->job, LESSOR_RACK_FETCHING);
        }
        return r;
}

static int start_download(struct fetch *f, struct download *d, struct piece *piece, struct lessor_slice url)
{
        char range[64], *address;
        const char *headers[] = {range};
        struct http_request request = {.method = "GET",
                                       .headers = headers,
                                       .max_answer_bytes = ANSWER_MOST,
                                       .stall_ms = STALL_MS,
                                       .take = take_piece,
                                       .context = d};
        int r = begin(f, piece);

        if (r < 0)
                return r;
        *d = (struct download){.slot = f->slot, .job = f->job, .piece = piece, .from = piece->writer.size};
        if (d->from > 0) {
                snprintf(range, sizeof(range), "range: bytes=%lld-", (long long)d->from);
                request.n_headers = 1;
        }
        address = strndup(url.p, url.n);
        if (address == NULL)
                return LESSOR_E_NOMEM;
        request.url = address;
        r = http_client_start(f->slot->http, &request, &d->transfer);
        free(address);
        return r;
}

/* What became of a transfer. Returns 0 when the round goes on. */
static int end_download(struct fetch *f, struct download *d)
{
        struct piece *piece = d->piece;
        int error = http_transfer_error(d->transfer), r = 0;
        long status = http_transfer_status(d->transfer);
        int64_t retry_after_ms = http_transfer_retry_after_ms(d->transfer);

        if (error == 0 && (status == 200 || status == 206)) {
                if (!d->began && status == 200)
                        r = cache_writer_restart(&piece->writer); /* it is empty */
                if (r == 0)
                        r = finish(f, piece);
                return r == LESSOR_E_MISMATCH ? after_mismatch(f, piece) : r;
        }
        f->trouble = true;
        if (retry_after_ms > f->retry_after_ms)
                f->retry_after_ms = retry_after_ms;
        if (error == LESSOR_E_LOW_SPACE || error == LESSOR_E_IO) {
                buf_printf(f->problem, "the cache: %s", lessor_error_text(error));
                return error;
        }
        if (error < 0 || status == 408 || status == 429 || status >= 500)
                return 0;
        if (status == 416) /* there is more here than there is of it */
                r = cache_writer_restart(&piece->writer);
        if (r == 0 && ++piece->failures >= FAILURES_MOST) {
                buf_printf(f->problem, "object %.*s: its address answers with HTTP status %ld",
                           (int)piece->hash.n, piece->hash.p, status);
                r = LESSOR_E_REFUSED;
        }
        return r;
}

static int collect(struct fetch *f, struct download *downloads)
{
        int r = 0;

        for (size_t i = 0; i < N_DOWNLOADS; i++) {
                struct download *d = &downloads[i];

                if (d->transfer == NULL || !http_transfer_done(d->transfer))
                        continue;
                if (r == 0)
                        r = end_download(f, d);
                d->transfer = http_transfer_free(d->transfer);
        }
        return r;
}

static struct download *idle_download(struct download *downloads)
{
        for (size_t i = 0; i < N_DOWNLOADS; i++)
                if (downloads[i].transfer == NULL)
                        return &downloads[i];
        return NULL;
}

static bool any_under_way(const struct download *downloads)
{
        for (size_t i = 0; i < N_DOWNLOADS; i++)
                if (downloads[i].transfer != NULL)
                        return true;
        return false;
}

/* Fetches what one answer says how to get. */
static int follow(struct fetch *f, struct piece **asked, const struct rack_storage_response *answer)
{
        struct download downloads[N_DOWNLOADS] = {0};
        size_t next = 0;
        int r = 0;

        while (r == 0 && (next < answer->n_objects || any_under_way(downloads))) {
                struct download *idle = idle_download(downloads);

                if (next < answer->n_objects && idle != NULL) {
                        const struct rack_object_descriptor *o = &answer->objects[next];
                        struct piece *piece = asked[next++];

                        r = o->kind == RACK_DESCRIPTOR_INLINE ? take_inline(f, piece, o->inlined.data)
                                                              : start_download(f, idle, piece, o->url.url);
                        continue;
                }
                r = http_client_wait(f->slot->http, f->job->stop, STALL_MS);
                if (r == LESSOR_E_TIMEOUT)
                        r = 0;
                if (r == 0)
                        r = collect(f, downloads);
        }
        for (size_t i = 0; i < N_DOWNLOADS; i++)
                http_transfer_free(downloads[i].transfer);
        rack_tell_progress(f->slot, f->job, LESSOR_RACK_FETCHING);
        return r;
}

/* Asks for what is missing, at most a request's worth, and fetches it. */
static int fetch_round(struct fetch *f)
{
        _cleanup_(lessor_arena_freep) struct lessor_arena *arena = lessor_arena_new();
        struct lessor_slice need[LIMIT_RACK_TRANSFERS];
        struct piece *asked[LIMIT_RACK_TRANSFERS];
        struct rack_storage_request request = {
                .repo = f->job->repo, .lease_id = f->job->lease_id, .attempt = f->job->attempt, .need = need};
        struct rack_storage_response answer;
        int r;

        if (arena == NULL)
                return LESSOR_E_NOMEM;
        for (size_t i = 0; i < f->n && request.n_need < LIMIT_RACK_TRANSFERS; i++)
                if (!f->pieces[i].done) {
                        asked[request.n_need] = &f->pieces[i];
                        need[request.n_need++] = f->pieces[i].hash;
                }
        r = rack_job_call(f->slot, f->job, "storage", &rack_storage_request_type, &request,
                          &rack_storage_response_type, arena, &answer);
        if (r < 0) {
                if (r != LESSOR_E_CLOSED)
                        buf_text(f->problem, rack_failure_message(&f->slot->failure));
                return r;
        }
        if (answer.n_objects != request.n_need) {
                buf_text(f->problem, "the server answered about other objects than it was asked for");
                return LESSOR_E_PROTOCOL;
        }
        return follow(f, asked, &answer);
}

static bool all_done(const struct fetch *f)
{
        for (size_t i = 0; i < f->n; i++)
                if (!f->pieces[i].done)
                        return false;
        return true;
}

/* Fetches the pieces, which are all this slot's to fetch. Those that do not come are given up. */
static int fetch_pieces(struct fetch *f)
{
        unsigned attempt = 0;
        int r = 0;

        while (r == 0 && !all_done(f)) {
                f->trouble = false;
                f->retry_after_ms = 0;
                r = fetch_round(f);
                if (r == 0 && f->trouble &&
                    device_pause(rack_backoff_ms(attempt++, f->retry_after_ms, randombytes_random()),
                                 f->job->stop, NULL))
                        r = LESSOR_E_CLOSED;
        }
        for (size_t i = 0; i < f->n; i++) {
                struct piece *piece = &f->pieces[i];

                if (piece->begun)
                        cache_writer_abort(&piece->writer);
                else if (!piece->done)
                        object_cache_give_up(f->slot->agent->cache, piece->hash);
        }
        return r;
}

/* Goes through the hashes: pins what is there, takes on what nobody fetches, and leaves the rest for later.
 */
static int sort_out(struct fetch *f, const struct lessor_slice *hashes, size_t n, size_t *ret_n_waiting)
{
        *ret_n_waiting = 0;
        for (size_t i = 0; i < n; i++) {
                enum cache_want want;
                int r = object_cache_want(f->slot->agent->cache, hashes[i], false, f->job->stop, &want);

                if (r < 0)
                        return r;
                if (want == CACHE_FETCH)
                        f->pieces[f->n++] = (struct piece){.hash = hashes[i]};
                else if (want == CACHE_WAIT)
                        (*ret_n_waiting)++;
                else if (pin(f->slot, hashes[i]) < 0)
                        return LESSOR_E_NOMEM;
        }
        return 0;
}

/* Waits for what others fetch. What they gave up is fetched here, one by one. */
static int wait_for_others(struct fetch *f, const struct lessor_slice *hashes, size_t n)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++) {
                enum cache_want want;

                r = object_cache_want(f->slot->agent->cache, hashes[i], true, f->job->stop, &want);
                if (r == 0 && want == CACHE_HAVE)
                        r = pin(f->slot, hashes[i]);
                else if (r == 0) {
                        f->pieces[0] = (struct piece){.hash = hashes[i]};
                        f->n = 1;
                        r = fetch_pieces(f);
                }
        }
        return r;
}

int rack_fetch(struct rack_slot *slot, struct rack_job *job, const struct lessor_slice *hashes, size_t n,
               struct buf *ret_problem)
{
        struct fetch f = {.slot = slot, .job = job, .problem = ret_problem};
        size_t n_waiting = 0;
        int r, fetched;

        if (n == 0)
                return 0;
        f.pieces = calloc(n, sizeof(*f.pieces));
        if (f.pieces == NULL)
                return LESSOR_E_NOMEM;
        r = sort_out(&f, hashes, n, &n_waiting);
        /* Also after a failure, so that whatever was taken on is given up. */
        fetched = r == 0 ? fetch_pieces(&f) : 0;
        if (r < 0)
                for (size_t i = 0; i < f.n; i++)
                        object_cache_give_up(slot->agent->cache, f.pieces[i].hash);
        if (r == 0)
                r = fetched;
        /* What this slot fetched itself is pinned twice then, which costs nothing. */
        if (r == 0 && n_waiting > 0)
                r = wait_for_others(&f, hashes, n);
        free(f.pieces);
        if (r < 0 && r != LESSOR_E_CLOSED && ret_problem->n == 0)
                buf_text(ret_problem, lessor_error_text(r));
        return r;
}
