/* Samples kept on the GPU (samples.cu), as run.cu uses them. */
#ifndef KERNELS_CUDA_SAMPLES_H
#define KERNELS_CUDA_SAMPLES_H

#include "kernels/cuda/cuda.h"
#include "kernels/samples.h"

/* The kernel's view of them. */
struct cuda_kept {
    const uint8_t *x;
    const float *table;
    uint32_t stored[2], out[2], channels; /* height, width */
    int tables;
};
/* Do the samples fit the network, and does the device have them? */
int cuda_samples_check(const struct cuda_program *p, const struct dev_input *in, struct err *e);
/* Puts the gathering of a minibatch on the main stream, after the copy of the program's input. */
int cuda_samples_take(struct cuda_program *p, const struct dev_input *in, struct err *e);

#endif
