/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/json_write.h"
#include "crypto/public_identity.h"
#include "lessor/error.h"
#include "machine.h"

static void to_text(const void *bytes, size_t n, char *ret_text, size_t cap)
{
        sodium_bin2base64(ret_text, cap, bytes, n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static int make_keys(struct party *party, unsigned number)
{
        uint8_t seed[crypto_sign_SEEDBYTES] = {0}, encryption[crypto_box_PUBLICKEYBYTES];
        uint8_t signature[crypto_sign_BYTES];
        struct identity_key identity;
        _cleanup_(buf_done) struct buf statement = {0};
        int e;

        memcpy(seed, &number, sizeof(number));
        crypto_sign_seed_keypair(identity.bytes, party->secret, seed);
        key_id_of(&identity, &party->key_id);
        to_text(identity.bytes, sizeof(identity.bytes), party->identity, sizeof(party->identity));
        crypto_box_seed_keypair(encryption, seed, seed);
        to_text(encryption, sizeof(encryption), party->encryption, sizeof(party->encryption));
        e = public_identity_statement(lessor_slice_of(party->encryption), &statement);
        if (e < 0)
                return e;
        crypto_sign_detached(signature, NULL, (const uint8_t *)statement.p, statement.n, party->secret);
        to_text(signature, sizeof(signature), party->encryption_sig, sizeof(party->encryption_sig));
        return 0;
}

int world_new(unsigned n_sites, unsigned n_devices, struct world **ret_world)
{
        _cleanup_(world_freep) struct world *world = calloc(1, sizeof(*world));
        int e = 0;

        if (world == NULL)
                return LESSOR_E_NOMEM;
        world->sites = calloc(n_sites, sizeof(*world->sites));
        world->devices = calloc(n_devices, sizeof(*world->devices));
        if (world->sites == NULL || world->devices == NULL)
                return LESSOR_E_NOMEM;
        world->n_sites = n_sites;
        world->n_devices = n_devices;
        for (unsigned i = 0; i < n_sites && e == 0; i++) {
                snprintf(world->sites[i].id, sizeof(world->sites[i].id), "site-%u", i);
                e = make_keys(&world->sites[i], i);
        }
        for (unsigned i = 0; i < n_devices && e == 0; i++) {
                struct party *device = &world->devices[i];

                snprintf(device->id, sizeof(device->id), "runner-%u", i);
                snprintf(device->owner, sizeof(device->owner), "owner-%u", i);
                device->site = i % n_sites;
                e = make_keys(device, n_sites + i);
        }
        if (e < 0)
                return e;
        *ret_world = TAKE(world);
        return 0;
}

struct world *world_free(struct world *world)
{
        if (world == NULL)
                return NULL;
        free(world->sites);
        free(world->devices);
        free(world);
        return NULL;
}

struct lessor_public_identity party_identity(const struct party *party)
{
        return (struct lessor_public_identity){lessor_slice_of(party->identity),
                                               lessor_slice_of(party->encryption),
                                               lessor_slice_of(party->encryption_sig)};
}

static void write_identity(struct json_writer *w, const char *key, const struct party *party)
{
        json_key(w, key);
        json_open_object(w);
        json_member_cstr(w, "identity", party->identity);
        json_member_cstr(w, "encryption", party->encryption);
        json_member_cstr(w, "encryptionSig", party->encryption_sig);
        json_close_object(w);
}

int world_projection(const struct world *world, struct buf *out)
{
        struct json_writer w;

        json_writer_init(&w, out);
        json_open_object(&w);
        json_key(&w, "sites");
        json_open_array(&w);
        for (unsigned i = 0; i < world->n_sites; i++) {
                json_open_object(&w);
                json_member_cstr(&w, "siteId", world->sites[i].id);
                write_identity(&w, "site", &world->sites[i]);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_key(&w, "consents");
        json_open_array(&w);
        for (unsigned i = 0; i < world->n_devices; i++) {
                json_open_object(&w);
                json_member_cstr(&w, "owner", world->devices[i].owner);
                json_member_cstr(&w, "siteId", world->sites[world->devices[i].site].id);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_key(&w, "devices");
        json_open_array(&w);
        for (unsigned i = 0; i < world->n_devices; i++) {
                json_open_object(&w);
                json_member_cstr(&w, "owner", world->devices[i].owner);
                json_member_cstr(&w, "runnerId", world->devices[i].id);
                write_identity(&w, "device", &world->devices[i]);
                json_close_object(&w);
        }
        json_close_array(&w);
        json_close_object(&w);
        return buf_failed(out);
}

static int append_signature(const struct party *party, const struct signed_request *request, struct buf *out)
{
        _cleanup_(buf_done) struct buf text = {0};
        uint8_t signature[crypto_sign_BYTES];
        int e = request_canonical(request, &text);

        if (e < 0)
                return e;
        crypto_sign_detached(signature, NULL, (const uint8_t *)text.p, text.n, party->secret);
        return base64url_append(out, signature, sizeof(signature));
}

int party_request(const struct party *party, enum request_plane plane, const char *endpoint,
                  struct lessor_slice body, struct buf *out)
{
        const char *prefix = plane == REQUEST_PLANE_SITE ? "/relay/site/" : "/byollm/";
        struct signed_request request = {.plane = plane,
                                         .endpoint = lessor_slice_of(endpoint),
                                         .caller = lessor_slice_of(party->id),
                                         .issued_ms = wall_ms()};
        int e;

        request_body_hash(body.p == NULL ? LESSOR_SLICE("") : body, request.body_hash);
        if (body.p == NULL)
                buf_printf(out, "GET %s%s?siteId=%s&protocolVersion=2 HTTP/1.1\r\n", prefix, endpoint,
                           party->id);
        else
                buf_printf(out,
                           "POST %s%s HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n",
                           prefix, endpoint, body.n);
        buf_printf(out, "Host: 127.0.0.1\r\n%s: %s\r\nx-byollm-issued-at: %lld\r\nx-byollm-signature: ",
                   plane == REQUEST_PLANE_SITE ? "x-byollm-site" : "x-byollm-runner", party->id,
                   (long long)request.issued_ms);
        e = append_signature(party, &request, out);
        if (e < 0)
                return e;
        buf_text(out, "\r\n\r\n");
        if (body.p != NULL)
                buf_slice(out, body);
        return buf_failed(out);
}
