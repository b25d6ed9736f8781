/* What a worker process is told: its command line, and the plan of the attempt that it reads from
 * the store (or, with
 * --local, makes itself from a spec).
 */
#ifndef WORKER_CONFIG_H
#define WORKER_CONFIG_H

#include "common/opt.h"
#include "job/spec.h"

enum worker_mode {
    WORKER_JOB,
    WORKER_LOCAL,
    WORKER_CHECK,
    WORKER_PROBE,
    WORKER_DATASETS,
    WORKER_EVALUATE
};

struct worker_node {
    char name[64], host[256], device[64];
    double slowdown; /* >= 1 */
    json_t *tuning;  /* what an earlier job measured on its device, or NULL; owned */
};

struct worker_config {
    enum worker_mode mode;
    struct opt_values *options;                            /* owned */
    const char *store_url, *job, *roots, *out, *spec_file; /* of the options */
    int attempt;
    /* the plan */
    struct jobspec *spec; /* owned */
    int servers;
    struct worker_node *nodes; /* [spec->workers], owned */
    char *job_dir, *init_path; /* owned; NULL: none */
    char *program_folder;      /* that a program runs in; owned; NULL: ours */
    char *data_roots;          /* owned */
    const char *cache;         /* where received data sets are kept; NULL: nowhere */
    int64_t cache_bytes;       /* at most */
    json_t *order; /* of --local: whose gradients a server takes, in this order; owned, or NULL */
    int first_version;
    int first_sizes[SPEC_WORKERS];
    double speeds[SPEC_WORKERS];
};

/* Parses the command line. The struct is about 13 KB. 1: help was printed. */
int config_parse(struct worker_config *c, int argc, char **argv, struct err *e);
/* The plan document (see the launcher). Replaces the job's worker count by the number of nodes that
 * the attempt has. */
int config_read_plan(struct worker_config *c, const json_t *plan, struct err *e);
/* --local: one node per worker of the spec, all on this machine. */
int config_make_local(struct worker_config *c, struct err *e);
/* Loads and validates a spec; every problem goes into `problems`. The caller frees with
 * jobspec_release and free. NULL on failure. */
struct jobspec *config_load_spec(const char *path, struct jsonx_problems *problems, struct err *e);
/* Once a program has told its global batch, which the spec had left to it: the first minibatches.
 * They stay where they are known already. */
int config_size_batches(struct worker_config *c, struct err *e);
void config_release(struct worker_config *c);

#endif
