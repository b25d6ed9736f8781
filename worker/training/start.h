/* How a run starts. The keeper reads a checkpoint or `init`, or makes fresh parameters. It hands
 * the start to every rank in three broadcasts: what comes (or why nothing comes), the progress
 * (progress.h), and the blocks of floats.
 */
#ifndef WORKER_TRAINING_START_H
#define WORKER_TRAINING_START_H

#include "worker/checkpoint/checkpoint.h"
#include "worker/training/trainer.h"

struct start {
    struct checkpoint from; /* blocks and progress; state.version 0: a fresh run */
    bool restored;          /* from a checkpoint */
    double elapsed;         /* seconds of the job before this attempt */
    double began; /* comm_now() when all ranks had the start: the attempt's time 0 on all ranks */
};

/* On rank W: finds the start and sends it. Elsewhere: receives it. A fresh cursor gets `samples`,
 * the size of the training part. */
int start_give(struct start *s, struct trainer_env *env, int64_t samples, struct err *e);
int start_receive(struct start *s, struct trainer_env *env, struct err *e);
/* For a worker that takes a dead worker's seat. start_fresh() makes a fresh start; the server's
 * first answer replaces its parameters. start_join(), once the worker has reached the keeper,
 * receives its counters and the job's time; local_step: steps that the rank has made in this
 * attempt. */
int start_fresh(struct start *s, struct trainer_env *env, struct err *e);
int start_join(struct start *s, struct trainer_env *env, int64_t *local_step, struct err *e);
void start_release(struct start *s);
/* Before a job runs: each reason why it cannot start from the file at `init_path` is a problem at
 * /init. samples: of the training part; 0: unknown and not compared. */
void start_check_init(const struct jobspec *spec, const char *init_path, int64_t samples,
                      struct jsonx_problems *problems);
/* Rank 0 sends its data set's digest to all ranks; an error if ours differs (NULL: we have
 * none). */
int start_compare_data(struct trainer_env *env, const char *digest, struct err *e);
/* Fills the fields that workers and keeper share. */
void start_rank_env(struct rank_env *out, struct trainer_env *env, const struct start *s,
                    int64_t train, int64_t test, uint8_t *decay, int32_t *mean_of);
/* [n_params], 1 where weight decay applies; the caller frees. */
uint8_t *start_decay(const struct network *net, struct err *e);
/* [n_stats]: for a running variance the index of its mean, for a mean -1; the caller frees. */
int32_t *start_mean_of(const struct network *net, struct err *e);

#endif
