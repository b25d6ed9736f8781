/* The configuration of `evenstep serve`, from its options (serve_options in config.c). */
#ifndef COORDINATOR_CONFIG_H
#define COORDINATOR_CONFIG_H

#include <limits.h>
#include <stdint.h>

#include "common/text/buf.h"
#include "common/json/jsonx.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/process/run_as.h"
#include "coordinator/planning/growth.h"

struct serve_config {
    struct opt_values *options; /* owned; strings below that are not arrays point into it */
    char data_dir[PATH_MAX];    /* absolute */
    char roots[4096];           /* of data sets, absolute, separated by colons */
    char static_dir[PATH_MAX], token_file[PATH_MAX];
    char worker[PATH_MAX], simulator[PATH_MAX]; /* programs beside ours */
    char host[256];
    char *password;         /* of the store; owned, or NULL */
    const char *store;      /* NULL: a private server */
    char keeper_store[512]; /* as the keeper's user of Redis; empty: it has none of its own */
    char *keeper_password;  /* owned, or NULL */
    const char *listen;
    const char **allow_hosts;    /* NULL-terminated; owned */
    const char **proxies;        /* the same, of --proxy-address */
    int virtual_jobs, keep_jobs; /* keep_jobs 0: all */
    struct growth_rules growth;  /* of elastic jobs */
    int64_t max_disk;            /* bytes; 0: no limit */
    int64_t data_uploads;        /* bytes of uploaded data sets; 0: none is taken */
    struct run_as as;            /* whom workers on this host run as */
    enum log_level log_level;
    json_t *nodes; /* array of node documents; owned */
};

/* Returns enum opt_begun, or negative with every mistake in the message, separated by "; ". */
int serve_config_read(struct serve_config *c, int argc, char **argv, struct err *e);
void serve_config_release(struct serve_config *c);
/* "NAME=cpu:THREADS|cuda:INDEX|auto[,slowdown=F]": a node document, or NULL with an error. `auto`
 * stays the device until serve_config_probe. */
json_t *serve_config_node(const char *text, const char *host, struct err *e);
/* Asks the worker's program about each device other than "cpu:THREADS". A device that cannot be
 * used is an error that says why; for `auto` the CPU is taken instead. */
int serve_config_probe(json_t *nodes, const char *worker, struct err *e);
/* The machine itself as one node, named after it: what `serve` offers if no node is named. */
json_t *serve_config_own_node(const struct serve_config *c, struct err *e);
/* Fills c->nodes; mistakes go into `bad`. */
void serve_config_nodes(struct serve_config *c, struct buf *bad);
void serve_config_complain(struct buf *bad, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The factor by which every slowdown must be multiplied so that the sum of threads/slowdown stays
 * below 0.7 of the cores (docs/semantics.md#time); 1 or less: all is well. */
double serve_config_overload(const json_t *nodes, int cores);

#endif
