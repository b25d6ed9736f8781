/* What the HTTP room asks: would this job run, where, with which minibatches; and which data sets
 * are there. Any thread may ask; every call has its own connection and its own process of
 * evenstep-worker. */
#ifndef COORDINATOR_DRYRUN_H
#define COORDINATOR_DRYRUN_H

#include <stdbool.h>

#include "common/jsonx.h"

struct dryrun {
    const char *store_url, *store_password, *data_dir, *roots, *local_host, *worker,
        *simulator;      /* borrowed; simulator NULL: none */
    bool allow_programs; /* of users, beyond those that an operator put there */
    bool alone; /* the store is this service's own: what nodes there are, its own options say,
                       unless an agent of this machine joined */
};

/* As http_hooks.plan and .datasets; ctx is a struct dryrun. */
json_t *dryrun_plan(void *ctx, const json_t *spec, struct jsonx_problems *problems, struct err *e);
json_t *dryrun_datasets(void *ctx, struct err *e);

#endif
