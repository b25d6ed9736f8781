/* The loss of a program's output (loss.cu). */
#ifndef KERNELS_CUDA_LOSS_H
#define KERNELS_CUDA_LOSS_H

#include "kernels/cuda/cuda.h"

int cuda_loss(struct cuda_program *p, bool training, struct err *e);
/* Checks labels in host memory, before anything runs. */
int cuda_check_labels(const struct cuda_program *p, const struct dev_input *in, struct err *e);

#endif
