/* SPDX-License-Identifier: MIT */
#include "routing/directory/pairing.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/encode.h"
#include "base/limits.h"
#include "routing/directory/directory_schema.h"
#include "routing/directory/sql.h"

#define CODE_HASH_BYTES 32
#define USER_SYMBOLS    8

struct pairing_table {
        pthread_mutex_t lock; /* guards the connection */
        struct sql sql;
};

static const char user_alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* of key ids, relay-protocol 3 */

int pairing_open(const char *path, struct pairing_table **ret_table, struct buf *ret_problem)
{
        struct pairing_table *t = calloc(1, sizeof(*t));
        int r;

        if (t == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_init(&t->lock, NULL);
        r = sql_open(&t->sql, path, &directory_migration, ret_problem);
        /*
         * Anybody may start a pairing, so it must not cost a wait for the disk. With the log's own ordering a
         * power cut can take back the last ones, but damages nothing.
         */
        if (r == 0)
                r = sql_run(&t->sql, NULL, "PRAGMA synchronous=NORMAL", "");
        if (r < 0) {
                pairing_free(t);
                return r;
        }
        *ret_table = t;
        return 0;
}

struct pairing_table *pairing_free(struct pairing_table *t)
{
        if (t == NULL)
                return NULL;
        sql_close(&t->sql);
        pthread_mutex_destroy(&t->lock);
        free(t);
        return NULL;
}

/* --- Codes --- */

static struct lessor_slice hash_code(struct lessor_slice device_code, unsigned char hash[CODE_HASH_BYTES])
{
        crypto_generichash(hash, CODE_HASH_BYTES, (const unsigned char *)device_code.p, device_code.n, NULL,
                           0);
        return (struct lessor_slice){(const char *)hash, CODE_HASH_BYTES};
}

/* 40 bits as eight symbols of five, most significant first, with a dash in the middle. */
static void write_user_code(const unsigned char random[5], char ret_code[PAIRING_USER_CODE_LEN + 1])
{
        uint64_t bits = 0;
        size_t n = 0;

        for (size_t i = 0; i < 5; i++)
                bits = bits << 8 | random[i];
        for (size_t i = 0; i < USER_SYMBOLS; i++) {
                if (i == USER_SYMBOLS / 2)
                        ret_code[n++] = '-';
                ret_code[n++] = user_alphabet[bits >> (5 * (USER_SYMBOLS - 1 - i)) & 31];
        }
        ret_code[n] = '\0';
}

static int make_codes(const unsigned char random[PAIRING_RANDOM_BYTES], int64_t now_ms,
                      struct pairing_codes *ret_codes)
{
        _cleanup_(buf_wipe) struct buf text;

        buf_init(&text);
        if (base64url_append(&text, random, 32) < 0)
                return LESSOR_E_NOMEM;
        memcpy(ret_codes->device_code, text.p, PAIRING_DEVICE_CODE_LEN + 1);
        write_user_code(random + 32, ret_codes->user_code);
        ret_codes->expires_ms = now_ms + PAIRING_CODE_MS;
        return 0;
}

/* What a person typed, as the table spells it. The letters that people take for digits are not in the
 * alphabet. */
static int read_user_code(struct lessor_slice typed, char ret_code[PAIRING_USER_CODE_LEN + 1])
{
        size_t n = 0;

        for (size_t i = 0; i < typed.n; i++) {
                char c = typed.p[i];

                if (c == '-' || c == ' ')
                        continue;
                if (c >= 'a' && c <= 'z')
                        c = (char)(c - 'a' + 'A');
                if (c == 'O')
                        c = '0';
                if (c == 'I' || c == 'L')
                        c = '1';
                if (c == '\0' || strchr(user_alphabet, c) == NULL || n == PAIRING_USER_CODE_LEN)
                        return LESSOR_E_INVALID;
                if (n == USER_SYMBOLS / 2)
                        ret_code[n++] = '-';
                ret_code[n++] = c;
        }
        if (n != PAIRING_USER_CODE_LEN)
                return LESSOR_E_INVALID;
        ret_code[n] = '\0';
        return 0;
}

/* --- Starting --- */

static int drop_old(struct pairing_table *t, struct lessor_slice identity, int64_t now_ms)
{
        int r = sql_run(&t->sql, NULL, "DELETE FROM directory_pairing WHERE expires_ms <= ?1", "i", now_ms);

        if (r < 0)
                return r;
        return sql_run(&t->sql, NULL, "DELETE FROM directory_pairing WHERE identity = ?1", "t", identity);
}

static int insert(struct pairing_table *t, const struct pairing_request *q, const struct pairing_codes *codes,
                  int64_t now_ms)
{
        unsigned char hash[CODE_HASH_BYTES];

        return sql_run(&t->sql, NULL,
                       "INSERT INTO directory_pairing VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                       "bttttttttii", hash_code(lessor_slice_of(codes->device_code), hash),
                       lessor_slice_of(codes->user_code), q->device.identity, q->device.encryption,
                       q->device.encryption_sig, q->version, q->label, q->platform, q->capabilities, now_ms,
                       codes->expires_ms);
}

/* Within a transaction. `ret_full`: what was dropped is to stay dropped, and nothing was added. */
static int start(struct pairing_table *t, const struct pairing_request *request,
                 const struct pairing_codes *codes, int64_t now_ms, bool *ret_full)
{
        int64_t n;
        int r = drop_old(t, request->device.identity, now_ms);

        if (r < 0 || (r = sql_number(&t->sql, &n, "SELECT count(*) FROM directory_pairing", "")) < 0)
                return r;
        *ret_full = n >= LIMIT_PAIRING_OUTSTANDING;
        return *ret_full ? 0 : insert(t, request, codes, now_ms);
}

int pairing_start(struct pairing_table *t, const struct pairing_request *request,
                  const unsigned char random[PAIRING_RANDOM_BYTES], int64_t now_ms,
                  struct pairing_codes *ret_codes)
{
        struct pairing_codes codes;
        bool full = false;
        int r = make_codes(random, now_ms, &codes);

        if (r < 0)
                return r;
        pthread_mutex_lock(&t->lock);
        r = sql_begin(&t->sql);
        if (r == 0) {
                r = start(t, request, &codes, now_ms, &full);
                if (r == 0)
                        r = sql_commit(&t->sql);
                else
                        sql_rollback(&t->sql);
        }
        pthread_mutex_unlock(&t->lock);
        if (r == 0 && full)
                r = LESSOR_E_BUSY;
        if (r == 0)
                *ret_codes = codes;
        sodium_memzero(&codes, sizeof(codes));
        return r;
}

/* --- Looking --- */

#define PAIRING_COLUMNS                                                                             \
        "user_code, identity, encryption, encryption_sig, version, label, platform, capabilities, " \
        "started_ms,"                                                                               \
        " expires_ms"

static int read_pairing(const struct sql_rows *rows, struct lessor_arena *arena, struct pairing *p)
{
        int r;

        if ((r = sql_text(rows, 0, arena, &p->user_code)) < 0 ||
            (r = sql_text(rows, 1, arena, &p->request.device.identity)) < 0 ||
            (r = sql_text(rows, 2, arena, &p->request.device.encryption)) < 0 ||
            (r = sql_text(rows, 3, arena, &p->request.device.encryption_sig)) < 0 ||
            (r = sql_text(rows, 4, arena, &p->request.version)) < 0 ||
            (r = sql_text(rows, 5, arena, &p->request.label)) < 0 ||
            (r = sql_text(rows, 6, arena, &p->request.platform)) < 0 ||
            (r = sql_text(rows, 7, arena, &p->request.capabilities)) < 0)
                return r;
        p->started_ms = sql_int(rows, 8);
        p->expires_ms = sql_int(rows, 9);
        return 0;
}

/* One row or LESSOR_E_NOT_FOUND. `key` is bound as `type` says. */
static int find_one(struct pairing_table *t, const char *query, const char *types, struct lessor_slice key,
                    int64_t now_ms, struct lessor_arena *arena, struct pairing *ret_pairing)
{
        struct sql_rows rows;
        int r;

        pthread_mutex_lock(&t->lock);
        r = sql_query(&t->sql, &rows, query, types, key, now_ms);
        if (r == 0)
                r = sql_next(&rows);
        if (r == 1)
                r = read_pairing(&rows, arena, ret_pairing);
        else if (r == 0)
                r = LESSOR_E_NOT_FOUND;
        sql_rows_done(&rows);
        pthread_mutex_unlock(&t->lock);
        return r;
}

int pairing_poll(struct pairing_table *t, const struct projection *projection,
                 struct lessor_slice device_code, int64_t now_ms, struct lessor_arena *arena,
                 enum pairing_state *ret_state, struct pairing *ret_pairing,
                 const struct projection_device **ret_device)
{
        unsigned char hash[CODE_HASH_BYTES];
        const struct projection_device *device;
        struct pairing pairing = {0};
        int r = find_one(t,
                         "SELECT " PAIRING_COLUMNS
                         " FROM directory_pairing WHERE code_hash = ?1 AND expires_ms > ?2",
                         "bi", hash_code(device_code, hash), now_ms, arena, &pairing);

        if (r == LESSOR_E_NOT_FOUND) {
                *ret_state = PAIRING_EXPIRED;
                return 0;
        }
        if (r < 0)
                return r;
        /* By the identity's exact text; a revocation is not looked at while pairing (relay-protocol 6.1). */
        device = projection_device_by_identity(projection, pairing.request.device.identity);
        *ret_state = device == NULL ? PAIRING_PENDING : PAIRING_APPROVED;
        if (device != NULL) {
                *ret_pairing = pairing;
                *ret_device = device;
        }
        return 0;
}

int pairing_spend(struct pairing_table *t, struct lessor_slice device_code)
{
        unsigned char hash[CODE_HASH_BYTES];
        int64_t n = 0;
        int r;

        pthread_mutex_lock(&t->lock);
        r = sql_run(&t->sql, &n, "DELETE FROM directory_pairing WHERE code_hash = ?1", "b",
                    hash_code(device_code, hash));
        pthread_mutex_unlock(&t->lock);
        return r == 0 && n == 0 ? LESSOR_E_NOT_FOUND : r;
}

int pairing_find(struct pairing_table *t, struct lessor_slice user_code, int64_t now_ms,
                 struct lessor_arena *arena, struct pairing *ret_pairing)
{
        char code[PAIRING_USER_CODE_LEN + 1];
        struct pairing pairing = {0};
        int r = read_user_code(user_code, code);

        if (r < 0)
                return r;
        r = find_one(t,
                     "SELECT " PAIRING_COLUMNS
                     " FROM directory_pairing WHERE user_code = ?1 AND expires_ms > ?2",
                     "ti", lessor_slice_of(code), now_ms, arena, &pairing);
        if (r == 0)
                *ret_pairing = pairing;
        return r;
}

int pairing_approve(struct pairing_table *t, struct directory *d, struct lessor_slice user_code,
                    struct lessor_slice owner, int64_t now_ms, struct lessor_arena *arena,
                    struct directory_device *ret_device)
{
        struct pairing pairing = {0};
        int r = pairing_find(t, user_code, now_ms, arena, &pairing);

        if (r < 0)
                return r;
        return directory_device_add(d, owner, &pairing.request.device, pairing.request.label,
                                    pairing.request.platform, now_ms, arena, ret_device);
}

static int read_all(struct pairing_table *t, int64_t now_ms, struct lessor_arena *arena,
                    struct pairing_list *ret_list)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct pairing_list list = {0};
        int64_t most;
        int r = sql_number(&t->sql, &most, "SELECT count(*) FROM directory_pairing", "");

        if (r < 0)
                return r;
        list.items = lessor_arena_array(arena, (size_t)most, sizeof(*list.items));
        if (list.items == NULL)
                return LESSOR_E_NOMEM;
        r = sql_query(&t->sql, &rows,
                      "SELECT " PAIRING_COLUMNS " FROM directory_pairing WHERE expires_ms > ?1"
                      " ORDER BY started_ms, user_code",
                      "i", now_ms);
        while (r == 0 && list.n < (size_t)most && (r = sql_next(&rows)) == 1)
                r = read_pairing(&rows, arena, &list.items[list.n++]);
        if (r == 0)
                *ret_list = list;
        return r;
}

int pairing_list(struct pairing_table *t, int64_t now_ms, struct lessor_arena *arena,
                 struct pairing_list *ret_list)
{
        int r;

        pthread_mutex_lock(&t->lock);
        r = read_all(t, now_ms, arena, ret_list);
        pthread_mutex_unlock(&t->lock);
        return r;
}
