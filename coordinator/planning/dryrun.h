/* What the HTTP room asks of the coordinator: whether a job would run, where and with which
 * minibatches; which data sets and programs there are; to keep or delete one. Any thread may ask;
 * every call has its own connection and its own process of evenstep-worker. */
#ifndef COORDINATOR_PLANNING_DRYRUN_H
#define COORDINATOR_PLANNING_DRYRUN_H

#include <stdbool.h>
#include <stdio.h>

#include "common/json/jsonx.h"
#include "coordinator/files/datasets.h"
#include "coordinator/files/quotas.h"
#include "coordinator/files/retention.h"

struct dryrun {
    const char *store_url, *store_password, *data_dir, *roots, *local_host, *worker,
        *simulator;      /* borrowed; simulator NULL: none */
    bool allow_programs; /* of users, beyond those that an operator put there */
    bool alone; /* the store is private to this service: all nodes come from its own options, unless
                   an agent of this machine joined */
    struct quotas *quotas;       /* borrowed; NULL: there are none */
    struct retention *retention; /* borrowed */
    struct datasets uploaded;
};

/* As http_hooks.plan and .datasets; ctx is a struct dryrun. */
json_t *dryrun_plan(void *ctx, const json_t *spec, bool programs, struct jsonx_problems *problems,
                    struct err *e);
json_t *dryrun_datasets(void *ctx, struct err *e);
json_t *dryrun_dataset(void *ctx, const char *path, struct err *e); /* as http_hooks.dataset */
/* As http_hooks.dataset_add and .dataset_delete. */
json_t *dryrun_dataset_add(void *ctx, const char *name, FILE *archive, const char *who, bool *fresh,
                           struct jsonx_problems *problems, struct err *e);
int dryrun_dataset_delete(void *ctx, const char *name, struct err *e);
/* As http_hooks.programs, .program_add and .program_delete. */
json_t *dryrun_programs(void *ctx, struct err *e);
json_t *dryrun_program_add(void *ctx, FILE *archive, const char *who, bool *fresh,
                           struct jsonx_problems *problems, struct err *e);
int dryrun_program_delete(void *ctx, const char *digest, struct err *e);

json_t *dryrun_disk(void *ctx); /* as http_hooks.disk */
/* As http_hooks.quota. */
void dryrun_quota(void *ctx, const char *owner, struct quota *out);

#endif
