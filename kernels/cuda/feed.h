/* Samples that are copied from the host ahead of their step (feed.cu), as run.cu uses them. */
#ifndef KERNELS_CUDA_FEED_H
#define KERNELS_CUDA_FEED_H

#include "kernels/cuda/cuda.h"

/* Does this run read as many floats as were sent? */
int cuda_feed_check(const struct cuda_program *p, const struct dev_input *in, struct err *e);
/* Puts a copy on the main stream: once the samples have arrived, it moves them to where the graphs
 * read them. */
int cuda_feed_take(struct cuda_program *p, const struct dev_input *in, struct err *e);

#endif
