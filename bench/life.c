/* SPDX-License-Identifier: MIT */
#include "life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/envelope_seal.h"
#include "lessor/error.h"
#include "machine.h"
#include "requests.h"

const char *const life_step_names[LIFE_STEPS] = {"enqueue", "claim", "payload", "fetch", "result"};

#define DEADLINE_MS 7200000

static int write_envelope(struct buf *out, const char *ciphertext, size_t n, const struct party *sender,
                          const struct party *recipient, const char *direction, int64_t deadline_ms)
{
        buf_text(out, "{\"ciphertext\":\"");
        buf_append(out, ciphertext, n);
        return buf_printf(out,
                          "\",\"recipientKeyId\":\"%s\",\"senderKeyId\":\"%s\",\"direction\":\"%s\","
                          "\"deadlineAt\":%lld}",
                          recipient->key_id.text, sender->key_id.text, direction, (long long)deadline_ms);
}

static int seal(struct buf *out, const struct party *sender, const struct party *recipient,
                enum lessor_direction direction, struct lessor_slice text)
{
        const struct envelope_terms terms = {.job_id = LESSOR_SLICE("job"),
                                             .direction = direction,
                                             .deadline_ms = wall_ms() + DEADLINE_MS};
        const struct lessor_public_identity from = party_identity(sender), to = party_identity(recipient);
        struct lessor_arena *arena = lessor_arena_new();
        struct lessor_sealed_envelope envelope;
        _cleanup_(signing_key_freep) struct signing_key *key = NULL;
        int e = arena == NULL ? LESSOR_E_NOMEM : signing_key_new(sender->secret, &from, &key);

        if (e == 0)
                e = envelope_seal(key, &to, &terms, text, arena, &envelope);
        if (e == 0)
                e = write_envelope(out, envelope.ciphertext.p, envelope.ciphertext.n, sender, recipient,
                                   direction == LESSOR_DIRECTION_PAYLOAD ? "payload" : "result",
                                   terms.deadline_ms);
        lessor_arena_free(arena);
        return e;
}

static void begin(struct life *life, const struct world *world, unsigned device, const char *tag)
{
        memset(life, 0, sizeof(*life));
        life->world = world;
        life->device = &world->devices[device];
        life->tag = tag;
}

int life_init(struct life *life, const struct world *world, unsigned device, const char *tag,
              size_t text_bytes)
{
        const struct party *site;
        char *text = malloc(text_bytes + 1);
        struct lessor_slice plaintext = {text, text_bytes};
        int e;

        begin(life, world, device, tag);
        if (text == NULL)
                return LESSOR_E_NOMEM;
        memset(text, 'x', text_bytes);
        site = &world->sites[life->device->site];
        e = seal(&life->payload, site, life->device, LESSOR_DIRECTION_PAYLOAD, plaintext);
        if (e == 0)
                e = seal(&life->result, life->device, site, LESSOR_DIRECTION_RESULT, plaintext);
        free(text);
        return e;
}

int life_init_sized(struct life *life, const struct world *world, unsigned device, const char *tag,
                    size_t envelope_bytes)
{
        const struct party *site;
        int64_t deadline_ms = wall_ms() + DEADLINE_MS;
        _cleanup_(buf_done) struct buf empty = {0};
        char *text;
        size_t n;
        int e;

        begin(life, world, device, tag);
        site = &world->sites[life->device->site];
        e = write_envelope(&empty, "", 0, site, life->device, "payload", deadline_ms);
        if (e < 0)
                return e;
        n = envelope_bytes - empty.n;
        text = malloc(n);
        if (text == NULL)
                return LESSOR_E_NOMEM;
        memset(text, 'A', n);
        e = write_envelope(&life->payload, text, n, site, life->device, "payload", deadline_ms);
        if (e == 0) /* "result" is a letter shorter */
                e = write_envelope(&life->result, text, n, life->device, site, "result", deadline_ms);
        free(text);
        return e;
}

void life_done(struct life *life)
{
        buf_done(&life->payload);
        buf_done(&life->result);
        buf_done(&life->request);
}

static int make_payload(struct life *life, const struct party *site)
{
        _cleanup_(buf_done) struct buf body = {0};

        buf_printf(&body,
                   "{\"protocolVersion\":\"2\",\"siteId\":\"%s\",\"jobId\":\"%s\",\"envelope\":", site->id,
                   life->job_id);
        buf_slice(&body, buf_view(&life->payload));
        buf_char(&body, '}');
        if (buf_failed(&body) < 0)
                return LESSOR_E_NOMEM;
        return party_request(site, REQUEST_PLANE_SITE, "payload", buf_view(&body), &life->request);
}

/* The requests of the holder: fetch, and result with its envelope. */
static int make_holder(struct life *life, const char *endpoint, bool with_result)
{
        _cleanup_(buf_done) struct buf body = {0};

        buf_printf(&body,
                   "{\"protocolVersion\":\"2\",\"runnerId\":\"%s\",\"jobId\":\"%s\",\"leaseId\":\"%s\"",
                   life->device->id, life->job_id, life->lease_id);
        if (with_result) {
                buf_text(&body, ",\"disposition\":\"ok\",\"envelope\":");
                buf_slice(&body, buf_view(&life->result));
        }
        buf_char(&body, '}');
        if (buf_failed(&body) < 0)
                return LESSOR_E_NOMEM;
        return party_request(life->device, REQUEST_PLANE_DEVICE, endpoint, buf_view(&body), &life->request);
}

int life_next(struct life *life)
{
        const struct party *site = &life->world->sites[life->device->site];

        buf_clear(&life->request);
        switch (life->step) {
        case LIFE_ENQUEUE:
                snprintf(life->job_id, sizeof(life->job_id), "%s-%s-%u", life->tag, life->device->id,
                         life->n_jobs++);
                return request_enqueue(life->world, life->device->site, life->device->owner, life->job_id,
                                       JOB_KIND, &life->request);
        case LIFE_CLAIM:
                return request_claim(life->device, 1, &life->request);
        case LIFE_PAYLOAD:
                return make_payload(life, site);
        case LIFE_FETCH:
                return make_holder(life, "fetch", false);
        case LIFE_RESULT:
                return make_holder(life, "result", true);
        case LIFE_STEPS:
                break;
        }
        return LESSOR_E_INVALID;
}

static int wrong(struct life *life, int status, struct lessor_slice body)
{
        snprintf(life->why, sizeof(life->why), "%s of %s answered %d %.*s", life_step_names[life->step],
                 life->job_id, status, (int)(body.n > 150 ? 150 : body.n), body.p);
        return LESSOR_E_PROTOCOL;
}

int life_answered(struct life *life, int status, struct lessor_slice body)
{
        if (status != 200)
                return wrong(life, status, body);
        if (life->step == LIFE_CLAIM) {
                struct lessor_slice job = text_after(body, "{\"jobs\":[{\"id\":\"");
                struct lessor_slice lease = text_after(body, "\"lease\":{\"id\":\"");

                if (!lessor_slice_equal(job, lessor_slice_of(life->job_id)) || lease.n == 0 ||
                    lease.n >= sizeof(life->lease_id))
                        return wrong(life, status, body);
                memcpy(life->lease_id, lease.p, lease.n);
                life->lease_id[lease.n] = '\0';
        } else if (life->step == LIFE_FETCH && body.n < life->payload.n) {
                return wrong(life, status, body);
        }
        life->step = life->step == LIFE_RESULT ? LIFE_ENQUEUE : life->step + 1;
        return 0;
}
