/* SPDX-License-Identifier: MIT */
#include "base/uuid.h"
#include "crypto/key_id.h"
#include "crypto/public_identity.h"
#include "routing/directory/directory_internal.h"

#define RUNNER_ID_PREFIX "runner_"
/*
 * Of a removed device only the runner id counts. With its identity still in the projection, pairing would
 * find it approved, hand out the revoked runner id, and never show a code to approve anew.
 */
#define DEVICE_COLUMNS                                                                         \
        "runner_id, owner, CASE removed WHEN 0 THEN identity ELSE 'removed' END, encryption, " \
        "encryption_sig, key_id, label, platform, revoked, created_ms"

static int read_device(const struct sql_rows *rows, struct lessor_arena *arena,
                       struct directory_device *device)
{
        int r;

        if ((r = sql_text(rows, 0, arena, &device->runner_id)) < 0 ||
            (r = sql_text(rows, 1, arena, &device->owner)) < 0 ||
            (r = sql_text(rows, 2, arena, &device->device.identity)) < 0 ||
            (r = sql_text(rows, 3, arena, &device->device.encryption)) < 0 ||
            (r = sql_text(rows, 4, arena, &device->device.encryption_sig)) < 0 ||
            (r = sql_text(rows, 5, arena, &device->key_id)) < 0 ||
            (r = sql_text(rows, 6, arena, &device->label)) < 0 ||
            (r = sql_text(rows, 7, arena, &device->platform)) < 0)
                return r;
        device->revoked = sql_int(rows, 8) != 0;
        device->created_ms = sql_int(rows, 9);
        return 0;
}

/* The device that has a key. Returns 1, 0 when there is none, or an error. */
static int find_by_key(struct directory *d, struct lessor_slice key_id, struct lessor_arena *arena,
                       struct directory_device *ret_device)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        int r = sql_query(&d->sql, &rows,
                          "SELECT " DEVICE_COLUMNS " FROM directory_device WHERE key_id = ?1 AND removed = 0",
                          "t", key_id);

        if (r < 0 || (r = sql_next(&rows)) <= 0)
                return r;
        r = read_device(&rows, arena, ret_device);
        return r < 0 ? r : 1;
}

/*
 * The same text, not just the same key: polls find a device by the text of its identity, so another spelling
 * of a known key would wait for ever.
 */
static bool is_same(const struct directory_device *known, struct lessor_slice owner,
                    const struct lessor_public_identity *device)
{
        return !known->revoked && lessor_slice_equal(known->owner, owner) &&
               lessor_slice_equal(known->device.identity, device->identity);
}

static int add(struct directory *d, struct directory_device *device, struct lessor_arena *arena)
{
        struct directory_device known = {0};
        int r = find_by_key(d, device->key_id, arena, &known);

        if (r < 0)
                return r;
        if (r == 1) {
                if (!is_same(&known, device->owner, &device->device))
                        return LESSOR_E_EXISTS;
                *device = known;
                return 0;
        }
        return sql_run(&d->sql, NULL,
                       "INSERT INTO directory_device(runner_id, owner, identity, encryption, encryption_sig,"
                       " key_id, label, platform, created_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                       "tttttttti", device->runner_id, device->owner, device->device.identity,
                       device->device.encryption, device->device.encryption_sig, device->key_id,
                       device->label, device->platform, device->created_ms);
}

/* A new record in the arena, with a runner id of its own. */
static int make_device(struct lessor_slice owner, const struct lessor_public_identity *device,
                       struct lessor_slice key_id, struct lessor_slice label, struct lessor_slice platform,
                       struct lessor_arena *arena, struct directory_device *d)
{
        char runner_id[sizeof(RUNNER_ID_PREFIX) + UUID_TEXT_LEN] = RUNNER_ID_PREFIX;

        uuid_v4(runner_id + sizeof(RUNNER_ID_PREFIX) - 1);
        if (lessor_arena_copy(arena, lessor_slice_of(runner_id), &d->runner_id) < 0 ||
            lessor_arena_copy(arena, owner, &d->owner) < 0 ||
            lessor_arena_copy(arena, device->identity, &d->device.identity) < 0 ||
            lessor_arena_copy(arena, device->encryption, &d->device.encryption) < 0 ||
            lessor_arena_copy(arena, device->encryption_sig, &d->device.encryption_sig) < 0 ||
            lessor_arena_copy(arena, key_id, &d->key_id) < 0 ||
            lessor_arena_copy(arena, label.p == NULL ? LESSOR_SLICE("") : label, &d->label) < 0)
                return LESSOR_E_NOMEM;
        return lessor_arena_copy(arena, platform.p == NULL ? LESSOR_SLICE("") : platform, &d->platform);
}

int directory_device_add(struct directory *d, struct lessor_slice owner,
                         const struct lessor_public_identity *device, struct lessor_slice label,
                         struct lessor_slice platform, int64_t now_ms, struct lessor_arena *arena,
                         struct directory_device *ret_device)
{
        struct directory_device made = {.created_ms = now_ms};
        struct identity_key key;
        struct key_id key_id;
        int r;

        if ((r = directory_check_id(owner)) < 0 || (r = directory_check_label(platform)) < 0)
                return r;
        r = public_identity_check(device, &key);
        if (r < 0)
                return r;
        key_id_of(&key, &key_id);
        r = make_device(owner, device, key_id_text(&key_id), label, platform, arena, &made);
        if (r < 0)
                return r;
        r = directory_change(d);
        if (r == 0)
                r = add(d, &made, arena);
        r = directory_settle(d, r);
        if (r == 0)
                *ret_device = made;
        return r;
}

int directory_device_revoke(struct directory *d, struct lessor_slice runner_id)
{
        int64_t n = 0;
        int r = directory_change(d);

        if (r == 0)
                r = sql_run(&d->sql, &n,
                            "UPDATE directory_device SET revoked = 1 WHERE runner_id = ?1 AND removed = 0",
                            "t", runner_id);
        return directory_settle(d, found(r, n));
}

int directory_device_remove(struct directory *d, struct lessor_slice runner_id)
{
        int64_t n = 0;
        int r = directory_change(d);

        if (r == 0)
                r = sql_run(&d->sql, &n,
                            "UPDATE directory_device SET revoked = 1, removed = 1"
                            " WHERE runner_id = ?1 AND removed = 0",
                            "t", runner_id);
        return directory_settle(d, found(r, n));
}

int read_devices(struct sql *s, bool removed, struct lessor_arena *arena,
                 struct directory_device_list *ret_devices)
{
        _cleanup_(sql_rows_done) struct sql_rows rows = {NULL};
        struct directory_device_list devices;
        size_t n_most;
        int r = directory_rows(s, "SELECT count(*) FROM directory_device", sizeof(*devices.items), arena,
                               &devices.items, &n_most);

        if (r < 0)
                return r;
        devices.n = 0;
        r = sql_query(s, &rows,
                      "SELECT " DEVICE_COLUMNS
                      " FROM directory_device WHERE removed <= ?1 ORDER BY removed, seq",
                      "i", (int64_t)removed);
        while (r == 0 && devices.n < n_most && (r = sql_next(&rows)) == 1)
                r = read_device(&rows, arena, &devices.items[devices.n++]);
        if (r == 0)
                *ret_devices = devices;
        return r;
}

int directory_devices(struct directory *d, struct lessor_arena *arena,
                      struct directory_device_list *ret_devices)
{
        int r;

        pthread_mutex_lock(&d->lock);
        r = read_devices(&d->sql, false, arena, ret_devices);
        pthread_mutex_unlock(&d->lock);
        return r;
}
