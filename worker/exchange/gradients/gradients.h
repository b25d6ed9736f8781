/* The gradients of one step: an object that owns WHERE they are summed over the ranks (host memory,
 * device memory, memory of the transport) and WHEN the sums may be used (all at the end, or part by
 * part). A strategy knows neither.
 *
 *      backward pass      bucket 0         bucket 1         …   last bucket
 *      gradients_add      sum starts       sum starts           waits for the words
 *      gradients_update                                         last sum starts, sums end, update
 *
 * In one step: gradients_add for each bucket, then the caller writes gradients_words, then
 * gradients_update. An update uses the weighted sum of all ranks' gradients. With the gradients
 * travel the running statistics, which are merged, and the words, whose sums the caller gets. All
 * workers do the same in the same order. Results have the same bits in every way. */
#ifndef WORKER_EXCHANGE_GRADIENTS_H
#define WORKER_EXCHANGE_GRADIENTS_H

#include "worker/exchange/strategy.h"

struct gradients;

/* `words`: floats of the caller that are summed with the gradients of each step. NULL: memory ran
 * out. */
struct gradients *gradients_new(struct rank_env *env, size_t words, struct err *e);
void gradients_free(struct gradients *g); /* NULL is allowed */
/* Where ranks may say what their gradients weigh (rank_env.weighed): asked in each step, with the
 * sums of the words, before the update. *scale is what the gradients are multiplied with, 1 unless
 * it is set. False: the update is left out. */
typedef bool gradients_judge_fn(void *ctx, const float *sums, double *scale);
void gradients_set_judge(struct gradients *g, gradients_judge_fn *judge, void *ctx);

/* strategy_ops.alone of a strategy that uses this: no other rank's gradients are added. */
bool gradients_are_alone(const struct comm *c);

/* Bucket `index` is ready on the device; `share` weighs this rank's gradient among all. The first
 * step sets the limits of the buckets; they are the same in every step. */
int gradients_add(struct gradients *g, const struct dev_bucket *b, int index, int n_buckets,
                  double share, struct err *e);
/* [words] room for the caller's words of this step, once all buckets were added. */
float *gradients_words(struct gradients *g);
/* Ends the sums and makes one update of the replica with them, at w's learning rate, unless the
 * device has made it already. `share` weighs this rank's statistics. *sums: [words] the sums of the
 * words, until the next step. */
int gradients_update(struct gradients *g, const struct work *w, double share, const float **sums,
                     struct err *e);

/* ---- ranks that join late -------------------------------------------------------------------- */

/* Called within gradients_update with the sums of the words, before anything is used. Where
 * gradients_keeps_sums. */
typedef int gradients_late_fn(void *ctx, float *words, struct err *e);
void gradients_set_late(struct gradients *g, gradients_late_fn *late, void *ctx);
/* The calls for gradients_late_fn, in the same order on all ranks: they add the late ranks' parts
 * to the sums. Until then the replica may be used to compute the gradient that this rank lacked.
 * First _begin, then the caller fills gradients_join_words [words], then gradients_join with this
 * rank's part, or NULL. */
struct late_part {
    double share, stats_share; /* what its gradient and its statistics weigh */
    int given;                 /* buckets that it gave in the step */
};
int gradients_join_begin(struct gradients *g, struct err *e);
float *gradients_join_words(struct gradients *g);
int gradients_join(struct gradients *g, const struct late_part *mine, struct err *e);

/* ---- steps that are not made ----------------------------------------------------------------- */

/* From now on a step that a lost worker keeps from its end can be undone. For a device that
 * computes in host memory, and not with MPI's own sums. Nothing where sums are kept. */
int gradients_keep(struct gradients *g, struct err *e);
/* Gives up the sums under way. The replica is as it was when the step began, except for its
 * gradients, which are this rank's if sums are kept. Other workers may take part in the next sums.
 */
int gradients_undo(struct gradients *g, struct err *e);
/* The replica's statistics are those with which the next step begins: after somebody else has set
 * them. */
void gradients_keep_stats(struct gradients *g);

/* ---- sums that are given, or made again (kept.c) --------------------------------------------- */

/* This rank's gradients stay until the sum is there, and the last sum stays for ranks that lack it:
 * where a user's program computes, which does not compute a gradient twice. */
bool gradients_keeps_sums(const struct gradients *g);
/* After gradients_undo: begins the same sums again, weighed by another share. The caller writes
 * gradients_words then, and gradients_update follows. */
int gradients_add_again(struct gradients *g, double share, struct err *e);
enum which_sum { SUM_ENDED, SUM_UNDER_WAY };
enum { SUM_PARTS = 2 };
/* [*n] a part of the last sum that ended, or room for the one under way, with statistics and words.
 */
float *gradients_sum_part(struct gradients *g, enum which_sum which, int part, size_t *n);
/* As the end of gradients_update: the sum under way was given by another rank. */
int gradients_use_given(struct gradients *g, const struct work *w, const float **sums,
                        struct err *e);

/* Bytes that a rank sends in a step. */
uint64_t gradients_bytes(const struct gradients *g);

/* What the object keeps in memory, and that its sums go by bucket: for strategy_ops.footprint. */
struct footprint;
void gradients_footprint(struct footprint *f);

#endif
