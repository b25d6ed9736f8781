/* Certificates and their renewal; see tls.h. A handshake uses its pair until it ends, and nothing
 * tells when that is. So a replaced pair is freed only with the service, which costs some kilobytes
 * at each renewal.
 */
#include "http/access/tls.h"

#include <gnutls/abstract.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/path.h"

enum { CHAIN = 10, FILE_BYTES = 1 << 20 };

struct pair {
    gnutls_pcert_st chain[CHAIN]; /* ours first */
    unsigned n;
    gnutls_privkey_t key;
    char pin[TLS_PIN];
    struct pair *before; /* the pair that it replaced */
};

struct tls {
    char cert_file[512], key_file[512];
    pthread_mutex_t lock; /* of everything below */
    struct pair *now;     /* owned, with the pairs that it replaced */
    struct stat seen[2];  /* certificate and key as they were read */
    double checked;       /* clock_now() */
};

static struct tls *serving; /* the last one opened; set before the daemon starts */

/* ---- a pair ---------------------------------------------------------------------------------- */

static void pair_free(struct pair *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        gnutls_pcert_deinit(&p->chain[i]);
    }
    if (p->key) {
        gnutls_privkey_deinit(p->key);
    }
    free(p);
}

static int refuse(struct err *e, const char *file, int code)
{
    return err_set(e, ERR_INVALID, "cannot use '%s' for TLS: %s", file, gnutls_strerror(code));
}

static int read_chain(struct pair *p, const char *file, struct err *e)
{
    gnutls_datum_t pem = {0};
    int rc = gnutls_load_file(file, &pem);
    unsigned n = CHAIN;
    if (rc >= 0) {
        rc = gnutls_pcert_list_import_x509_raw(p->chain, &n, &pem, GNUTLS_X509_FMT_PEM, 0);
        gnutls_free(pem.data);
    }
    if (rc < 0) {
        return refuse(e, file, rc);
    }
    p->n = n;
    return 0;
}

static int read_key(struct pair *p, const char *file, struct err *e)
{
    gnutls_datum_t pem = {0};
    int rc = gnutls_load_file(file, &pem);
    if (rc >= 0) {
        if ((rc = gnutls_privkey_init(&p->key)) >= 0) {
            rc = gnutls_privkey_import_x509_raw(p->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
        }
        gnutls_memset(pem.data, 0, pem.size);
        gnutls_free(pem.data);
    }
    return rc < 0 ? refuse(e, file, rc) : 0;
}

/* Checks that the key is the certificate's. Its public half becomes the pin. */
static int check_pair(struct pair *p, const struct tls *t, struct err *e)
{
    gnutls_datum_t ours = {0}, theirs = {0};
    gnutls_pubkey_t public = NULL;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    int rc = gnutls_pubkey_init(&public);
    if (rc < 0 || (rc = gnutls_pubkey_import_privkey(public, p->key, 0, 0)) < 0 ||
        (rc = gnutls_pubkey_export2(public, GNUTLS_X509_FMT_DER, &ours)) < 0 ||
        (rc = gnutls_pubkey_export2(p->chain[0].pubkey, GNUTLS_X509_FMT_DER, &theirs)) < 0) {
        rc = refuse(e, t->key_file, rc);
    } else if (ours.size != theirs.size || memcmp(ours.data, theirs.data, ours.size) != 0) {
        rc = err_set(e, ERR_INVALID, "cannot use '%s' for TLS: it is not the key of '%s'",
                     t->key_file, t->cert_file);
    } else {
        SHA256(ours.data, ours.size, digest);
        size_t n = (size_t)snprintf(p->pin, sizeof(p->pin), "sha256//");
        EVP_EncodeBlock((unsigned char *)p->pin + n, digest, sizeof(digest));
        rc = 0;
    }
    gnutls_free(ours.data);
    gnutls_free(theirs.data);
    if (public) {
        gnutls_pubkey_deinit(public);
    }
    return rc;
}

/* Reads both files; the pair becomes the one in use. */
static int read_pair(struct tls *t, struct err *e)
{
    struct pair *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_set(e, ERR_MEMORY, "cannot read the certificate: memory ran out");
    }
    int rc;
    if ((rc = read_chain(p, t->cert_file, e)) < 0 || (rc = read_key(p, t->key_file, e)) < 0 ||
        (rc = check_pair(p, t, e)) < 0) {
        pair_free(p);
        return rc;
    }
    p->before = t->now;
    t->now = p;
    return 0;
}

/* ---- renewal --------------------------------------------------------------------------------- */

/* Notes which files there are. true: one of them has changed. */
static bool note_files(struct tls *t)
{
    struct stat cert, key;
    if (stat(t->cert_file, &cert) < 0 || stat(t->key_file, &key) < 0 ||
        (path_is_same(&cert, &t->seen[0]) && path_is_same(&key, &t->seen[1]))) {
        return false;
    }
    t->seen[0] = cert;
    t->seen[1] = key;
    return true;
}

/* Reads the files again if they have changed. `lock` is held. */
static void read_again(struct tls *t)
{
    struct err e;
    double now = clock_now();
    if (now < t->checked + 1) {
        return;
    }
    t->checked = now;
    if (!note_files(t)) {
        return;
    }
    if (read_pair(t, &e) < 0) {
        log_warn("http", "the certificate stays the one before", "reason=\"%s\"", e.message);
    } else {
        log_info("http", "the certificate was read again", "pin=%s", t->now->pin);
    }
}

void tls_read_again(struct tls *t)
{
    pthread_mutex_lock(&t->lock);
    t->checked = -1;
    read_again(t);
    pthread_mutex_unlock(&t->lock);
}

static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                    const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                    gnutls_pcert_st **chain, unsigned *n, gnutls_privkey_t *key)
{
    struct tls *t = serving;
    (void)session;
    (void)authorities;
    (void)n_authorities;
    (void)algorithms;
    (void)n_algorithms;
    pthread_mutex_lock(&t->lock);
    read_again(t);
    *chain = t->now->chain;
    *n = t->now->n;
    *key = t->now->key;
    pthread_mutex_unlock(&t->lock);
    return 0;
}

void *tls_callback(void)
{
    gnutls_certificate_retrieve_function2 *f = retrieve;
    void *out;
    memcpy(&out, &f, sizeof(out)); /* C has no cast from a function pointer to an object pointer */
    return out;
}

/* ---- open and close -------------------------------------------------------------------------- */

struct tls *tls_open(const char *cert_file, const char *key_file, struct err *e)
{
    struct tls *t = calloc(1, sizeof(*t));
    if (!t) {
        err_set(e, ERR_MEMORY, "cannot read the certificate: memory ran out");
        return NULL;
    }
    snprintf(t->cert_file, sizeof(t->cert_file), "%s", cert_file);
    snprintf(t->key_file, sizeof(t->key_file), "%s", key_file);
    t->checked = clock_now();
    note_files(t);
    if (read_pair(t, e) < 0) {
        free(t);
        return NULL;
    }
    pthread_mutex_init(&t->lock, NULL);
    serving = t;
    return t;
}

void tls_close(struct tls *t)
{
    if (t) {
        for (struct pair *p = t->now, *before; p; p = before) {
            before = p->before;
            pair_free(p);
        }
        pthread_mutex_destroy(&t->lock);
        serving = serving == t ? NULL : serving;
        free(t);
    }
}

void tls_pin(struct tls *t, char out[TLS_PIN])
{
    pthread_mutex_lock(&t->lock);
    memcpy(out, t->now->pin, TLS_PIN);
    pthread_mutex_unlock(&t->lock);
}
