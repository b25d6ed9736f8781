/* A worker process's configuration: its command line and the attempt's plan. The worker reads the
 * plan from the store or, with --local, makes it from a spec.
 */
#ifndef WORKER_CONFIG_H
#define WORKER_CONFIG_H

#include "common/opt.h"
#include "common/sign.h"
#include "job/documents/coordinator/plan.h"
#include "worker/data/files/received.h"

/* The most that stays unpacked on the coordinator's host. */
#define WORKER_UNPACKED_BYTES INT64_C(20000000000)

/* What a rank's first process keeps in shared memory for its next ones, which are started after it
 * has died (worker/process/guard.h). */
struct worker_kept {
    struct sign_key among; /* seat_far.among of an attempt on several hosts */
    char data_key[68];     /* received_find() of its data set; empty: the host has it itself */
};

enum worker_mode {
    WORKER_JOB,
    WORKER_LOCAL,
    WORKER_CHECK,
    WORKER_PROBE,
    WORKER_DATASETS,
    WORKER_EVALUATE,
    WORKER_EXPORT,
    WORKER_COMPARE
};

struct worker_config {
    enum worker_mode mode;
    struct opt_values *options;                                    /* owned */
    const char *store_url, *job, *roots, *out, *lines, *spec_file; /* from the options */
    int attempt;
    int seat;    /* how often this rank's worker was started again, this time included; mostly 0 */
    int joining; /* if seat > 0: a descriptor to close once this worker has joined */
    struct worker_kept *kept; /* shared memory; NULL: workers are not started again */
    /* the plan, as it was read or made */
    struct plan plan;         /* owned */
    struct jobspec *spec;     /* the plan's spec, for as many workers as it has; owned */
    const char *cache;        /* where received data sets are kept; NULL: nowhere */
    int64_t cache_bytes;      /* its limit */
    struct received unpacked; /* where data sets are kept unpacked */
    json_t *order; /* with --local: the order in which a server takes gradients; owned, or NULL */
};

/* Parses the command line. The struct is about 24 KB. Returns enum opt_begun, or negative. */
int config_parse(struct worker_config *c, int argc, char **argv, struct err *e);
/* Takes the plan document (job/documents/coordinator/plan.h). Gives the spec as many workers as the
 * attempt has nodes. Refuses the plan of another attempt: this rank is left over from an earlier
 * one. */
int config_read_plan(struct worker_config *c, const json_t *plan, struct err *e);
/* --local: one node per worker of the spec, all on this machine. */
int config_make_local(struct worker_config *c, struct err *e);
/* Loads and validates a spec; every problem goes into `problems`. The caller frees with
 * jobspec_release and free. NULL on failure. */
struct jobspec *config_load_spec(const char *path, struct jsonx_problems *problems, struct err *e);
/* Sets the first minibatches once a program has told its global batch, which the spec left to it.
 * Does nothing if they are known already. */
int config_size_batches(struct worker_config *c, struct err *e);
void config_release(struct worker_config *c);

#endif
