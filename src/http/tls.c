/* SPDX-License-Identifier: MIT */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/macro.h"
#include "http/internal.h"
#include "http/problem.h"
#include "lessor/error.h"

#define CHAIN_MOST 16u

/* A certificate chain with its key. Each connection keeps the one that it began with. */
struct tls_identity {
        _Atomic unsigned refs;
        gnutls_pcert_st chain[CHAIN_MOST];
        unsigned n_chain;
        gnutls_privkey_t key;
};

struct tls {
        pthread_mutex_t lock;
        struct tls_identity *current;
};

struct tls_identity *tls_identity_unref(struct tls_identity *identity)
{
        if (identity == NULL || atomic_fetch_sub(&identity->refs, 1) > 1)
                return NULL;
        for (unsigned i = 0; i < identity->n_chain; i++)
                gnutls_pcert_deinit(&identity->chain[i]);
        if (identity->key != NULL)
                gnutls_privkey_deinit(identity->key);
        free(identity);
        return NULL;
}

static gnutls_datum_t datum(const struct buf *b)
{
        return (gnutls_datum_t){(unsigned char *)b->p, (unsigned)b->n};
}

/* GnuTLS finds out whether the two belong together when they are put into credentials. */
static int check_pair(const gnutls_datum_t *cert, const gnutls_datum_t *key)
{
        gnutls_certificate_credentials_t credentials;
        int r = gnutls_certificate_allocate_credentials(&credentials);

        if (r < 0)
                return r;
        r = gnutls_certificate_set_x509_key_mem(credentials, cert, key, GNUTLS_X509_FMT_PEM);
        gnutls_certificate_free_credentials(credentials);
        return r < 0 ? r : 0;
}

static int read_pem(const char *path, bool secret, struct buf *out, struct lessor_arena *arena,
                    const char **ret_problem)
{
        mode_t mode = 0;
        int r = secret ? file_read_private(path, LIMIT_KEY_FILE_BYTES, out, &mode)
                       : file_read(path, LIMIT_FILE_BYTES, out);

        if (r < 0)
                return problem(arena, ret_problem, r, "cannot read the TLS %s %s: %s",
                               secret ? "key" : "certificate", path, lessor_error_text(r));
        if ((mode & S_IRWXO) != 0)
                return problem(arena, ret_problem, LESSOR_E_PERMISSION,
                               "the TLS key %s is open to everybody: chmod 600 it", path);
        return 0;
}

static int identity_new(const gnutls_datum_t *cert, const gnutls_datum_t *key,
                        struct tls_identity **ret_identity)
{
        struct tls_identity *identity = calloc(1, sizeof(*identity));
        unsigned n = CHAIN_MOST;
        int r;

        if (identity == NULL)
                return GNUTLS_E_MEMORY_ERROR;
        atomic_store(&identity->refs, 1);
        r = gnutls_pcert_list_import_x509_raw(identity->chain, &n, cert, GNUTLS_X509_FMT_PEM,
                                              GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
        if (r >= 0) {
                identity->n_chain = n;
                r = gnutls_privkey_init(&identity->key);
        }
        if (r >= 0)
                r = gnutls_privkey_import_x509_raw(identity->key, key, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (r < 0) {
                tls_identity_unref(identity);
                return r;
        }
        *ret_identity = identity;
        return 0;
}

static int identity_read(const char *cert_path, const char *key_path, struct lessor_arena *arena,
                         struct tls_identity **ret_identity, const char **ret_problem)
{
        struct tls_identity *identity = NULL;
        gnutls_datum_t cert_pem, key_pem;
        struct buf cert, key;
        int r;

        buf_init(&cert);
        buf_init(&key);
        r = read_pem(cert_path, false, &cert, arena, ret_problem);
        if (r == 0)
                r = read_pem(key_path, true, &key, arena, ret_problem);
        if (r == 0) {
                cert_pem = datum(&cert);
                key_pem = datum(&key);
                /* In this order: GnuTLS leaks a certificate that it cannot read while it puts a pair
                 * together. */
                r = identity_new(&cert_pem, &key_pem, &identity);
                if (r == 0)
                        r = check_pair(&cert_pem, &key_pem);
                if (r == 0)
                        *ret_identity = TAKE(identity);
                tls_identity_unref(identity);
                if (r < 0)
                        r = problem(arena, ret_problem,
                                    r == GNUTLS_E_MEMORY_ERROR ? LESSOR_E_NOMEM : LESSOR_E_INVALID,
                                    "the TLS certificate %s and the key %s cannot be used together: %s",
                                    cert_path, key_path, gnutls_strerror(r));
        }
        buf_done(&cert);
        buf_wipe(&key);
        return r;
}

int http_tls_check(const char *cert_path, const char *key_path, struct lessor_arena *arena,
                   const char **ret_problem)
{
        struct tls_identity *identity = NULL;
        int r = identity_read(cert_path, key_path, arena, &identity, ret_problem);

        tls_identity_unref(identity);
        return r;
}

int tls_new(const char *cert_path, const char *key_path, struct lessor_arena *arena, struct tls **ret_tls,
            const char **ret_problem)
{
        struct tls *tls = calloc(1, sizeof(*tls));
        int r;

        if (tls == NULL)
                return LESSOR_E_NOMEM;
        pthread_mutex_init(&tls->lock, NULL);
        r = identity_read(cert_path, key_path, arena, &tls->current, ret_problem);
        if (r < 0) {
                tls_free(tls);
                return r;
        }
        *ret_tls = tls;
        return 0;
}

int tls_reload(struct tls *tls, const char *cert_path, const char *key_path, struct lessor_arena *arena,
               const char **ret_problem)
{
        struct tls_identity *identity = NULL, *old;
        int r = identity_read(cert_path, key_path, arena, &identity, ret_problem);

        if (r < 0)
                return r;
        pthread_mutex_lock(&tls->lock);
        old = tls->current;
        tls->current = identity;
        pthread_mutex_unlock(&tls->lock);
        tls_identity_unref(old);
        return 0;
}

struct tls *tls_free(struct tls *tls)
{
        if (tls == NULL)
                return NULL;
        tls_identity_unref(tls->current);
        pthread_mutex_destroy(&tls->lock);
        free(tls);
        return NULL;
}

int tls_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certs,
                    unsigned *n_certs, gnutls_ocsp_data_st **ocsp, unsigned *n_ocsp, gnutls_privkey_t *key,
                    unsigned *flags)
{
        struct MHD_Connection *mhd = gnutls_session_get_ptr(session); /* as MHD sets it */
        struct connection *c =
                MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        struct tls *tls = c->listener->server->tls;

        (void)info;
        if (c->identity == NULL) {
                pthread_mutex_lock(&tls->lock);
                c->identity = tls->current;
                atomic_fetch_add(&c->identity->refs, 1);
                pthread_mutex_unlock(&tls->lock);
        }
        *certs = c->identity->chain;
        *n_certs = c->identity->n_chain;
        *key = c->identity->key;
        *ocsp = NULL;
        *n_ocsp = 0;
        *flags = 0; /* all stays ours */
        return 0;
}
