/* The gradients of one step. This object decides where they are summed over the ranks (host memory,
 * device memory, memory of the transport) and when the sums may be used (all at the end, or part by
 * part). A strategy knows neither.
 *
 *      backward pass      bucket 0         bucket 1         …   last bucket
 *      gradients_add      sum starts       sum starts           waits for the words
 *      gradients_update                                         last sum starts, sums end, update
 *
 * In one step the caller calls gradients_add for each bucket, writes gradients_words, and calls
 * gradients_update. The update uses the weighted sum of all ranks' gradients. The running
 * statistics are merged along with them, and the words are summed for the caller. All workers make
 * these calls in the same order. The results have the same bits wherever the sums are made. */
#ifndef WORKER_EXCHANGE_GRADIENTS_H
#define WORKER_EXCHANGE_GRADIENTS_H

#include "worker/exchange/strategy.h"

struct gradients;

/* words: how many floats of the caller are summed with the gradients of each step. NULL: memory ran
 * out. */
struct gradients *gradients_new(struct rank_env *env, size_t words, struct err *e);
void gradients_free(struct gradients *g); /* NULL is allowed */
/* Where ranks give weights (program.weighed), this function is called in each step before the
 * update, with the sums of the words. It may set *scale, a factor for the gradients, which is 1
 * else. False: no update is made. */
typedef bool gradients_judge_fn(void *ctx, const float *sums, double *scale);
void gradients_set_judge(struct gradients *g, gradients_judge_fn *judge, void *ctx);

/* strategy_ops.alone of a strategy that uses this: no other rank's gradients are added. */
bool gradients_are_alone(const struct comm *c);

/* Bucket `index` is ready on the device. share: the weight of this rank's gradient, a part of 1.
 * The buckets have the same limits in every step. */
int gradients_add(struct gradients *g, const struct dev_bucket *b, int index, int n_buckets,
                  double share, struct err *e);
/* Where the caller writes its words [words] of this step, after all buckets were added. */
float *gradients_words(struct gradients *g);
/* Completes the sums and updates the replica with them at w's learning rate, unless the device has
 * made the update already. share: the weight of this rank's statistics. *sums [words]: the sums of
 * the words, valid until the next step. */
int gradients_update(struct gradients *g, const struct work *w, double share, const float **sums,
                     struct err *e);

/* ---- ranks that join late -------------------------------------------------------------------- */

/* Where gradients_keeps_sums, gradients_update calls this function with the sums of the words,
 * before the sums are used. */
typedef int gradients_late_fn(void *ctx, float *words, struct err *e);
void gradients_set_late(struct gradients *g, gradients_late_fn *late, void *ctx);
/* What that function calls to add the parts of ranks that are late: on all ranks
 * gradients_join_begin, then the caller fills gradients_join_words [words], then gradients_join
 * with this rank's part; NULL: it is not late. Before these calls the replica may be used to
 * compute the late gradient. */
struct late_part {
    double share, stats_share; /* the weights of its gradient and of its statistics */
    int given;                 /* buckets that it had added before it was late */
};
int gradients_join_begin(struct gradients *g, struct err *e);
float *gradients_join_words(struct gradients *g);
int gradients_join(struct gradients *g, const struct late_part *mine, struct err *e);

/* ---- steps that are not made ----------------------------------------------------------------- */

/* From now on gradients_undo can undo a step, which is needed when a worker is lost. It works for a
 * device that computes in host memory, and not with MPI's own all-reduce. Does nothing where sums
 * are kept. ERR_MEMORY. */
int gradients_keep(struct gradients *g, struct err *e);
/* Cancels the sums that are under way. The replica is as it was when the step began, except for its
 * gradients; where sums are kept, these are this rank's own. The next sums may have other members.
 *  */
int gradients_undo(struct gradients *g, struct err *e);
/* Call it when somebody else has set the replica's statistics: the next step begins with these. */
void gradients_keep_stats(struct gradients *g);

/* ---- sums that are received, or made again (kept.c) ------------------------------------------ */

/* Is each rank's own gradient kept until the sum is complete, and the last sum for ranks that lack
 * it? That is so where a user's program computes, because it does not compute a gradient twice. */
bool gradients_keeps_sums(const struct gradients *g);
/* After gradients_undo: begins the same sums again with another share. The caller writes
 * gradients_words and calls gradients_update, as for any step. */
int gradients_add_again(struct gradients *g, double share, struct err *e);
enum which_sum { SUM_ENDED, SUM_UNDER_WAY };
enum { SUM_PARTS = 2 };
/* One of the SUM_PARTS parts of the last complete sum, to be sent, or of the current one, to be
 * received: [*n] floats, statistics and words included. */
float *gradients_sum_part(struct gradients *g, enum which_sum which, int part, size_t *n);
/* Does the rest of gradients_update when the current sum was received from another rank. */
int gradients_use_given(struct gradients *g, const struct work *w, const float **sums,
                        struct err *e);

/* Bytes that a rank sends in a step. */
uint64_t gradients_bytes(const struct gradients *g);

/* For strategy_ops.footprint: the object's memory, and its all-reduces, one for each bucket. */
struct footprint;
void gradients_footprint(struct footprint *f);

#endif
