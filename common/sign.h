/* Signed messages: HMAC-SHA256 over the exact bytes that are sent, checked before their contents
 * are read.
 *
 * A sealed message is text: 64 hex digits, a newline, compact JSON. The same key serves several
 * kinds of message; the body's "kind" says which, and sign_open() is told which kind is expected,
 * so a message of one kind never passes for another.
 */
#ifndef COMMON_SIGN_H
#define COMMON_SIGN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum { SIGN_KEY = 32, SIGN_HEX = 65 };

struct sign_key {
    unsigned char bytes[SIGN_KEY];
};

int sign_random(struct sign_key *out, struct err *e); /* from the kernel; also for nonces */
void sign_hex(const struct sign_key *key, char out[SIGN_HEX]);
int sign_unhex(const char *text, struct sign_key *out, struct err *e); /* exactly 64 digits */
/* HMAC(key, label
 *
 * 0
 *
 * data): derives a key for one purpose from another key. */
void sign_derive(const struct sign_key *key, const char *label, const char *data,
                 struct sign_key *out);
/* Makes a key from the text of a secret. */
void sign_secret(const char *text, struct sign_key *out);
/* Reads a secret's file (its first line, at least 16 characters). With `make`, a missing file is
 * created with a random secret (mode 0600). */
int sign_read_secret(const char *path, bool make, struct sign_key *out, struct err *e);

/* Adds "kind" to `body`. The caller frees. */
char *sign_seal(const struct sign_key *key, const char *kind, json_t *body, struct err *e);
/* A new reference. NULL with ERR_FORBIDDEN if the signature is wrong, or ERR_SYNTAX if it is no
 * such message. */
json_t *sign_open(const struct sign_key *key, const char *kind, const char *text, struct err *e);
/* The body of a message without checking its signature, to find out whose key to try. A new
 * reference or NULL. */
json_t *sign_peek(const char *text);

/* Signs bytes other than JSON: *out is their HMAC. The key must serve nothing else
 * (sign_derive). */
void sign_bytes(const struct sign_key *key, const void *bytes, size_t n, struct sign_key *out);
/* Compares in constant time. */
bool sign_same(const struct sign_key *a, const struct sign_key *b);

/* Protects against replay: messages also carry "nonce" and "at" (ms since 1970). sign_fresh()
 * refuses a message that is more than SIGN_WINDOW_MS old or in the future, or older than
 * `not_before` (ERR_TIMEOUT), and a nonce that was seen before (ERR_CONFLICT). */
enum { SIGN_WINDOW_MS = 60000 };
struct sign_seen {
    struct sign_nonce *items; /* owned */
    int count, size;
    int64_t not_before; /* a previous process may have seen older messages */
};
void sign_seen_release(struct sign_seen *seen);
int sign_fresh(struct sign_seen *seen, const json_t *body, int64_t now_ms, struct err *e);
/* The nonce of a body, borrowed; "" if it has none. */
const char *sign_nonce_of(const json_t *body);
/* Puts a new nonce and the time into a body, and the nonce into nonce[SIGN_HEX]. */
int sign_stamp(json_t *body, int64_t now_ms, char nonce[SIGN_HEX], struct err *e);

#endif
