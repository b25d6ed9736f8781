/* The configuration of evenstep-agent, from its options. */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include <limits.h>

#include "common/machine/gpu.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/process/run_as.h"
#include "common/sign.h"

struct agent_config {
    struct opt_values *options; /* owned; strings that are not arrays point into it */
    char host[48];
    char data_dir[PATH_MAX]; /* absolute */
    char roots[4096];        /* of data sets, absolute, separated by colons */
    char address[64], network[72];
    const char *store, *ports;                   /* ports: "FIRST-LAST" or NULL */
    char *password;                              /* of the store; owned, or NULL */
    char worker_store[512], *worker_password;    /* the same for workers; owned, or NULL */
    char own_store[512], own_password[SIGN_HEX]; /* address and password of this host's own user of
                                                    the store, known once it has joined; empty: it
                                                    has none */
    struct sign_key secret;
    int64_t cache_bytes;
    struct run_as as; /* the user that ranks run as */
    enum log_level log_level;
    json_t *versions, *nodes; /* owned; nodes: documents of store_node_put */
};

/* Returns enum opt_begun, or negative with every mistake in the message. */
int agent_config_read(struct agent_config *c, const struct gpus *gpus, int argc, char **argv,
                      struct err *e);
void agent_config_release(struct agent_config *c);
/* Finds this host's address on the way to the store; fills address and network. It may fail for a
 * while, since the store's name may not be known yet. */
int agent_config_find_address(struct agent_config *c, struct err *e);
/* A connection to the store, as this host's own user if it has one. NULL after an error. */
struct store *agent_config_open_store(const struct agent_config *c, struct err *e);

#endif
