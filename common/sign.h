/* Signed messages: HMAC-SHA256 over the very bytes that are sent, checked before anything in them
 * is read.
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
/* HMAC(key, label || 0 || data): keys for one purpose out of another key. */
void sign_derive(const struct sign_key *key, const char *label, const char *data,
                 struct sign_key *out);
/* The key that a secret's text stands for. */
void sign_secret(const char *text, struct sign_key *out);
/* Reads a secret's file (its first line, at least 16 characters). With `make` it is written (mode
 * 0600, random) where it is not there. */
int sign_read_secret(const char *path, bool make, struct sign_key *out, struct err *e);

/* `body` gets "kind". The caller frees. */
char *sign_seal(const struct sign_key *key, const char *kind, json_t *body, struct err *e);
/* A new reference; NULL with ERR_FORBIDDEN where the signature is wrong, ERR_SYNTAX where it is no
 * such message. */
json_t *sign_open(const struct sign_key *key, const char *kind, const char *text, struct err *e);
/* The body of a message whose signature is not checked: it says whose key to try. New reference or
 * NULL. */
json_t *sign_peek(const char *text);

/* Signs bytes that are no JSON: *out is their HMAC, under a key that serves nothing else
 * (sign_derive). */
void sign_bytes(const struct sign_key *key, const void *bytes, size_t n, struct sign_key *out);
/* Compares in a time that does not depend on where the two differ. */
bool sign_same(const struct sign_key *a, const struct sign_key *b);

/* Messages also carry "nonce" and "at" (ms since 1970). sign_fresh() refuses a message that is
 * older than SIGN_WINDOW_MS, that is further in the future than that, or that was made before
 * `not_before` (ERR_TIMEOUT), and one that was seen before (ERR_CONFLICT). */
enum { SIGN_WINDOW_MS = 60000 };
struct sign_seen {
    struct sign_nonce *items; /* owned */
    int count, size;
    int64_t not_before; /* what is older may have been seen by a process before us */
};
void sign_seen_release(struct sign_seen *seen);
int sign_fresh(struct sign_seen *seen, const json_t *body, int64_t now_ms, struct err *e);
/* The nonce of a body, borrowed; "": it has none. */
const char *sign_nonce_of(const json_t *body);
/* Puts a new nonce and the time into a body; nonce[SIGN_HEX] gets it too. */
int sign_stamp(json_t *body, int64_t now_ms, char nonce[SIGN_HEX], struct err *e);

#endif
