/* The command line's way to the service: HTTP with a token, JSON in and out, problems printed as
 * sentences. The only code that includes curl. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <jansson.h>

#include "common/opt.h"

struct client {
    char url[512];
    char *token;    /* owned */
    char *problems; /* of the last refusal, a line each; owned, or NULL */
};

/* Options that every command has: --url, --token-file, --json. */
#define CLIENT_OPTIONS                                                                \
    {"url",                                                                           \
     "URL",                                                                           \
     OPT_STRING,                                                                      \
     "http://127.0.0.1:8080",                                                         \
     0,                                                                               \
     0,                                                                               \
     "address of the service (EVENSTEP_URL)"},                                        \
        {"token-file",                                                                \
         "FILE",                                                                      \
         OPT_STRING,                                                                  \
         NULL,                                                                        \
         0,                                                                           \
         0,                                                                           \
         "file with the token; else EVENSTEP_TOKEN, else ./evenstep-data/token"},     \
        {"json", NULL, OPT_FLAG, NULL, 0, 0, "prints the service's answer as it is"}, \
    {                                                                                 \
        "help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"                        \
    }

/* Reads address and token. Negative if there is no token. */
int client_open(struct client *c, const struct opt_values *options, struct err *e);
void client_close(struct client *c);
/* `body` may be NULL. The answer (new reference), json_null where it has no body; NULL after an
 * error. What a problem+json answer says of single places of the document is in c->problems. */
json_t *client_call(struct client *c, const char *method, const char *path, const json_t *body,
                    struct err *e);

#endif
