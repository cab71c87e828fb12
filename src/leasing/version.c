/* SPDX-License-Identifier: MIT */
/* What leases and agents say as text and stores compare: versions and the hash of inputs. */
#include <sodium.h>

#include "lessor/lease_store.h"

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

/* --- versions --- */

/* What comes before the first `-` or `+`. */
static struct lessor_slice plain(struct lessor_slice version)
{
        for (size_t i = 0; i < version.n; i++)
                if (version.p[i] == '-' || version.p[i] == '+')
                        return (struct lessor_slice){version.p, i};
        return version;
}

/* Takes the next part off a version, as digits without leading zeros; a part that is not a number is 0, thus
 * empty. */
static struct lessor_slice next_part(struct lessor_slice *rest)
{
        struct lessor_slice part = {rest->p, 0};
        bool number = true;

        while (part.n < rest->n && rest->p[part.n] != '.') {
                number = number && is_digit(rest->p[part.n]);
                part.n++;
        }
        if (part.n < rest->n)
                *rest = (struct lessor_slice){rest->p + part.n + 1, rest->n - part.n - 1};
        else
                rest->n = 0;
        if (!number)
                part.n = 0;
        while (part.n > 0 && part.p[0] == '0') {
                part.p++;
                part.n--;
        }
        return part;
}

/* R044 */
int lessor_agent_version_cmp(struct lessor_slice a, struct lessor_slice b)
{
        a = plain(a);
        b = plain(b);
        while (a.n > 0 || b.n > 0) {
                struct lessor_slice x = next_part(&a), y = next_part(&b);
                int order;

                if (x.n != y.n)
                        return x.n < y.n ? -1 : 1;
                order = lessor_slice_cmp(x, y);
                if (order != 0)
                        return order;
        }
        return 0;
}

/* Takes `X.Y.Z` off the front; false if it is not there. */
static bool skip_triple(struct lessor_slice *text)
{
        for (int i = 0; i < 3; i++) {
                size_t n = 0;

                if (i > 0) {
                        if (text->n == 0 || text->p[0] != '.')
                                return false;
                        text->p++;
                        text->n--;
                }
                while (n < text->n && is_digit(text->p[n]))
                        n++;
                if (n == 0)
                        return false;
                text->p += n;
                text->n -= n;
        }
        return true;
}

/* Takes a `-pre` off the front, if one is there: letters, digits, dots and dashes, at least one. */
static bool skip_pre(struct lessor_slice *text)
{
        size_t n = 1;

        if (text->n == 0 || text->p[0] != '-')
                return true;
        while (n < text->n &&
               (is_digit(text->p[n]) || (text->p[n] >= 'a' && text->p[n] <= 'z') ||
                (text->p[n] >= 'A' && text->p[n] <= 'Z') || text->p[n] == '.' || text->p[n] == '-'))
                n++;
        if (n == 1)
                return false;
        text->p += n;
        text->n -= n;
        return true;
}

struct lessor_slice lessor_agent_bundled_e3(struct lessor_slice agent_version)
{
        static const struct lessor_slice mark = {"+e3.", 4};
        struct lessor_slice rest = agent_version, bundled;

        if (!skip_triple(&rest) || !skip_pre(&rest) || rest.n < mark.n || memcmp(rest.p, mark.p, mark.n) != 0)
                return (struct lessor_slice){0};
        rest.p += mark.n;
        rest.n -= mark.n;
        bundled = rest;
        if (!skip_triple(&rest) || !skip_pre(&rest) || rest.n > 0)
                return (struct lessor_slice){0};
        return bundled;
}

/* --- hashes --- */

void lessor_lease_inputs_hash(const struct lessor_slice *inputs, size_t n, char ret_hex[65])
{
        unsigned char hash[crypto_hash_sha256_BYTES];
        crypto_hash_sha256_state state;

        crypto_hash_sha256_init(&state);
        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        crypto_hash_sha256_update(&state, (const unsigned char *)"", 1);
                crypto_hash_sha256_update(&state, (const unsigned char *)inputs[i].p, inputs[i].n);
        }
        crypto_hash_sha256_final(&state, hash);
        sodium_bin2hex(ret_hex, 65, hash, sizeof(hash));
}
