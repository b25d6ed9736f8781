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

/* strategy_ops.alone of a strategy that uses this: no other rank's gradients are added. */
bool gradients_are_alone(const struct comm *c);

/* Bucket `index` is ready on the device; `share` weighs this rank's gradient among all. The first
 * step sets the limits of the buckets; they are the same in every step. */
int gradients_add(struct gradients *g, const struct dev_bucket *b, int index, int n_buckets,
                  double share, struct err *e);
/* [words] room for the caller's words of this step, once all buckets were added. */
float *gradients_words(struct gradients *g);
/* Ends the sums and makes one update of the replica with them, at w's learning rate, unless the
 * device has made it already. *sums: [words] the sums of the words, until the next step. */
int gradients_update(struct gradients *g, const struct work *w, double share, const float **sums,
                     struct err *e);
/* Bytes that a rank sends in a step. */
uint64_t gradients_bytes(const struct gradients *g);

/* What the object keeps in memory, and that its sums go by bucket: for strategy_ops.footprint. */
struct footprint;
void gradients_footprint(struct footprint *f);

#endif
