/* The command line's way to the service: HTTP with a token, JSON in and out, problems printed as
 * sentences. Of cli/ only client.c includes curl. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/text/buf.h"
#include "common/opt.h"

struct client {
    char url[512];
    char *token;    /* owned */
    char *problems; /* problems of the last refusal, a line each; owned, or NULL */
    /* borrowed, or NULL: trusted authorities, and the one trusted public key */
    const char *cacert, *pin;
    int refusal;   /* HTTP status of the last answer that was not 2xx; 0: it was 2xx, or there was
                      none */
    char etag[96]; /* of the last answer; "": it had none */
};

/* Options for the service's address and our token. */
#define CLIENT_ADDRESS                                                                      \
    {"url",                                                                                 \
     "URL",                                                                                 \
     OPT_STRING,                                                                            \
     "http://127.0.0.1:8080",                                                               \
     0,                                                                                     \
     0,                                                                                     \
     "address of the service (EVENSTEP_URL)"},                                              \
        {"token-file",                                                                      \
         "FILE",                                                                            \
         OPT_STRING,                                                                        \
         NULL,                                                                              \
         0,                                                                                 \
         0,                                                                                 \
         "file with the token; else EVENSTEP_TOKEN, else ./evenstep-data/token"},           \
        {"cacert",                                                                          \
         "FILE",                                                                            \
         OPT_STRING,                                                                        \
         NULL,                                                                              \
         0,                                                                                 \
         0,                                                                                 \
         "certificates (PEM) that must have signed the service's (default: the system's)"}, \
    {                                                                                       \
        "pin", "KEY", OPT_STRING, NULL, 0, 0,                                               \
            "sha256//… of the service's public key, in place of an authority"             \
    }
#define CLIENT_HELP                                            \
    {                                                          \
        "help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text" \
    }
/* Reads address and token. Negative if the address is none or there is no token: wrong use. */
int client_open(struct client *c, const struct opt_values *options, struct err *e);
/* The same with the caller's address; token_file NULL: EVENSTEP_TOKEN, else ./evenstep-data/token.
 * *c needs client_close() in any case, as after client_open(). */
int client_open_at(struct client *c, const char *url, const char *token_file, struct err *e);
void client_close(struct client *c);
/* Does a service of ours answer at this address? No token is needed. */
bool client_is_there(const char *url);
/* Sends a request; `body` may be NULL. Returns the answer (new reference), json_null if it has no
 * body; NULL after an error. The single problems of a problem+json answer are in c->problems. */
json_t *client_call(struct client *c, const char *method, const char *path, const json_t *body,
                    struct err *e);
/* PATCH of a resource that still has this ETag. If it has another one, the service refuses with
 * 412. */
json_t *client_change(struct client *c, const char *path, const char *etag, const json_t *body,
                      struct err *e);
/* POST of n bytes of this type; the answer as client_call gives it. */
json_t *client_upload(struct client *c, const char *path, const char *type, const void *bytes,
                      size_t n, struct err *e);
/* A body that is made while it is sent. */
struct client_body {
    int64_t bytes;
    /* Writes the next bytes, up to n, to `to` and returns how many. Negative: it cannot, and *e
     * says why. */
    int64_t (*read)(void *ctx, char *to, size_t n, struct err *e);
    void *ctx;
    struct err err; /* the error of `read`; used by client_stream */
};
/* The same for such a body. */
json_t *client_stream(struct client *c, const char *path, const char *type,
                      struct client_body *body, struct err *e);
/* Appends the content at `path` to an open file. */
int client_download(struct client *c, const char *path, FILE *file, struct err *e);
/* The same for a stream without an end: bytes are written as they arrive. It ends the program once
 * nobody reads its stdout. */
int client_listen(struct client *c, const char *path, FILE *file, struct err *e);
/* The text at `path` from byte `from` on, "" if it is no longer than that: *n bytes and a NUL; the
 * caller frees. NULL after an error. */
char *client_text(struct client *c, const char *path, int64_t from, size_t *n, struct err *e);

/* Appends text as a part of an address, with everything but letters, digits and -._ escaped. */
void client_add_escaped(struct buf *address, const char *text);
/* Appends "?name=value", or "&name=value" where the address has a query; value NULL: nothing. */
void client_add_param(struct buf *address, const char *name, const char *value);
/* An empty address. */
void client_address(struct buf *address);

#endif
