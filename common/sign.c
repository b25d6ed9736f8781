/* Signed messages: see sign.h. The construction is HMAC-SHA256 (RFC 2104) from OpenSSL; comparison
 * takes constant time. OpenSSL looks the algorithm up once per process: ranks seal several messages
 * a second, and a look-up costs as much as sealing.
 */
#include "common/sign.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/text/hex.h"
#include "common/json/jsonx.h"
#include "common/path.h"
#include "common/process/proc.h"

enum { MESSAGE_BYTES = 1 << 20, SECRET_BYTES = 4096, SECRET_LEAST = 16 };

int sign_random(struct sign_key *out, struct err *e)
{
    size_t have = 0;
    while (have < sizeof out->bytes) {
        ssize_t n = getrandom(out->bytes + have, sizeof out->bytes - have, 0);
        if (n < 0 && errno != EINTR) {
            return err_errno(e, ERR_IO, "cannot draw random bytes");
        }
        have += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

void sign_hex(const struct sign_key *key, char out[SIGN_HEX])
{
    hex_of(out, key->bytes, SIGN_KEY);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sign_unhex(const char *text, struct sign_key *out, struct err *e)
{
    for (size_t i = 0; i < SIGN_KEY; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0) {
            return err_set(e, ERR_SYNTAX, "expected 64 hex digits");
        }
        out->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return text[SIGN_HEX - 1] == 0 ? 0 : err_set(e, ERR_SYNTAX, "expected 64 hex digits, not more");
}

static EVP_MAC_CTX *keyless; /* copied for each message; does not change once it is made */

static void find_hmac(void)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                 OSSL_PARAM_construct_end()};
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
    keyless = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    EVP_MAC_free(hmac);
    BUG_ON(!keyless || !EVP_MAC_CTX_set_params(keyless, params));
}

static void mac(const void *key, size_t key_bytes, const void *text, size_t n, struct sign_key *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t length = 0;
    pthread_once(&once, find_hmac);
    EVP_MAC_CTX *c = EVP_MAC_CTX_dup(keyless);
    BUG_ON(!c || !EVP_MAC_init(c, key, key_bytes, NULL) || !EVP_MAC_update(c, text, n) ||
           !EVP_MAC_final(c, out->bytes, &length, SIGN_KEY) || length != SIGN_KEY);
    EVP_MAC_CTX_free(c);
}

void sign_derive(const struct sign_key *key, const char *label, const char *data,
                 struct sign_key *out)
{
    char text[512];
    size_t n = strlen(label) + 1, m = strlen(data);
    BUG_ON(n + m > sizeof text);
    memcpy(text, label, n);
    memcpy(text + n, data, m);
    mac(key->bytes, SIGN_KEY, text, n + m, out);
}

void sign_secret(const char *text, struct sign_key *out)
{
    static const char label[] = "evenstep cluster secret";
    mac(label, sizeof label - 1, text, strlen(text), out);
}

static int make_secret(const char *path, struct err *e)
{
    struct sign_key key;
    char hex[SIGN_HEX + 1];
    int rc = sign_random(&key, e);
    if (rc < 0) {
        return rc;
    }
    sign_hex(&key, hex);
    hex[SIGN_HEX - 1] = '\n';
    return proc_write_file(path, hex, SIGN_HEX, 0600, e);
}

int sign_read_secret(const char *path, bool make, struct sign_key *out, struct err *e)
{
    struct err why = {0};
    char *text = path_read_line(path, SECRET_BYTES, &why);
    if (!text && why.code == ERR_NOT_FOUND && make) {
        int rc = make_secret(path, e);
        text = rc < 0 ? NULL : path_read_line(path, SECRET_BYTES, &why);
        if (rc < 0) {
            return rc;
        }
    }
    if (!text) {
        return err_set(e, why.code, "cannot read the cluster's secret: %s", why.message);
    }
    int rc =
        strlen(text) >= SECRET_LEAST
            ? 0
            : err_set(e, ERR_INVALID, "the cluster's secret in '%s' has less than %d characters",
                      path, (int)SECRET_LEAST);
    if (rc == 0) {
        sign_secret(text, out);
    }
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return rc;
}

void sign_bytes(const struct sign_key *key, const void *bytes, size_t n, struct sign_key *out)
{
    mac(key->bytes, SIGN_KEY, bytes, n, out);
}

bool sign_same(const struct sign_key *a, const struct sign_key *b)
{
    return CRYPTO_memcmp(a->bytes, b->bytes, SIGN_KEY) == 0;
}

char *sign_seal(const struct sign_key *key, const char *kind, json_t *body, struct err *e)
{
    size_t n = 0;
    json_object_set_new(body, "kind", json_string(kind));
    char *text = jsonx_dump(body, false, &n), *out = text ? malloc(SIGN_HEX + n + 1) : NULL;
    if (out) {
        struct sign_key sum;
        mac(key->bytes, SIGN_KEY, text, n, &sum);
        sign_hex(&sum, out);
        out[SIGN_HEX - 1] = '\n';
        memcpy(out + SIGN_HEX, text, n + 1);
    } else {
        err_set(e, ERR_MEMORY, "cannot sign a message: memory ran out");
    }
    free(text);
    return out;
}

json_t *sign_open(const struct sign_key *key, const char *kind, const char *text, struct err *e)
{
    struct sign_key sum;
    char wanted[SIGN_HEX];
    size_t n = strnlen(text, MESSAGE_BYTES + 1);
    if (n <= SIGN_HEX || n > MESSAGE_BYTES || text[SIGN_HEX - 1] != '\n') {
        err_set(e, ERR_SYNTAX, "a message is malformed");
        return NULL;
    }
    mac(key->bytes, SIGN_KEY, text + SIGN_HEX, n - SIGN_HEX, &sum);
    sign_hex(&sum, wanted);
    if (CRYPTO_memcmp(wanted, text, SIGN_HEX - 1) != 0) {
        err_set(e, ERR_FORBIDDEN, "a message is not signed with the key that both sides share");
        return NULL;
    }
    json_t *body = jsonx_parse(text + SIGN_HEX, n - SIGN_HEX, e);
    const char *is = json_string_value(json_object_get(body, "kind"));
    if (body && (!is || strcmp(is, kind) != 0)) {
        err_set(e, ERR_FORBIDDEN, "a message is of the kind '%.40s', not '%s'", is ? is : "", kind);
        json_decref(body);
        return NULL;
    }
    return body;
}

json_t *sign_peek(const char *text)
{
    size_t n = strnlen(text, MESSAGE_BYTES + 1);
    if (n <= SIGN_HEX || n > MESSAGE_BYTES || text[SIGN_HEX - 1] != '\n') {
        return NULL;
    }
    return jsonx_parse(text + SIGN_HEX, n - SIGN_HEX, NULL);
}

/* ---- nonces ---------------------------------------------------------------------------------- */

enum { NONCES_MOST = 65536 };

struct sign_nonce {
    char text[SIGN_HEX];
    int64_t until; /* after that, the time alone refuses the message */
};

void sign_seen_release(struct sign_seen *seen)
{
    free(seen->items);
    *seen = (struct sign_seen){0};
}

static void forget_old(struct sign_seen *seen, int64_t now)
{
    int kept = 0;
    for (int i = 0; i < seen->count; i++) {
        if (seen->items[i].until >= now) {
            seen->items[kept++] = seen->items[i];
        }
    }
    seen->count = kept;
}

static int remember(struct sign_seen *seen, const char *nonce, int64_t until, struct err *e)
{
    if (seen->count == seen->size) {
        int size = seen->size ? 2 * seen->size : 64;
        struct sign_nonce *grown =
            size <= NONCES_MOST ? realloc(seen->items, sizeof *grown * (size_t)size) : NULL;
        if (!grown) {
            return err_set(e, ERR_MEMORY, "cannot take another message: %d are remembered already",
                           seen->count);
        }
        seen->items = grown;
        seen->size = size;
    }
    snprintf(seen->items[seen->count].text, SIGN_HEX, "%s", nonce);
    seen->items[seen->count++].until = until;
    return 0;
}

int sign_fresh(struct sign_seen *seen, const json_t *body, int64_t now_ms, struct err *e)
{
    const char *nonce = json_string_value(json_object_get(body, "nonce"));
    int64_t at = json_integer_value(json_object_get(body, "at"));
    struct sign_key ignored;
    if (!nonce || sign_unhex(nonce, &ignored, NULL) < 0) {
        return err_set(e, ERR_SYNTAX, "a message has no nonce");
    }
    if (at < now_ms - SIGN_WINDOW_MS || at > now_ms + SIGN_WINDOW_MS) {
        double off = (double)(now_ms - at) / 1000;
        err_set(e, ERR_TIMEOUT,
                "a message was made %.0f s %s by the sender's clock, at most %d s are allowed",
                off < 0 ? -off : off, off < 0 ? "in the future" : "ago",
                (int)SIGN_WINDOW_MS / 1000);
        err_hint(e, "set the clocks of both hosts (NTP)");
        return -ERR_TIMEOUT;
    }
    if (at < seen->not_before) {
        return err_set(e, ERR_TIMEOUT, "a message was made before this process started");
    }
    forget_old(seen, now_ms);
    for (int i = 0; i < seen->count; i++) {
        if (strcmp(seen->items[i].text, nonce) == 0) {
            return err_set(e, ERR_CONFLICT, "a message came a second time");
        }
    }
    return remember(seen, nonce, at + SIGN_WINDOW_MS + 1, e);
}

const char *sign_nonce_of(const json_t *body)
{
    return jsonx_string_at(body, "nonce");
}

int sign_stamp(json_t *body, int64_t now_ms, char nonce[SIGN_HEX], struct err *e)
{
    struct sign_key random;
    int rc = sign_random(&random, e);
    if (rc == 0) {
        sign_hex(&random, nonce);
        json_object_set_new(body, "nonce", json_string(nonce));
        json_object_set_new(body, "at", json_integer((json_int_t)now_ms));
    }
    return rc;
}
