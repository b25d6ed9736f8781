/* The common part of convolution and dense layers: weights, a bias, and three primitives (forward,
 * gradient of the input, gradient of the weights). conv.c and dense.c describe the operation, this
 * file runs it.
 */
#ifndef KERNELS_CPU_WEIGHTED_H
#define KERNELS_CPU_WEIGHTED_H

#include "kernels/cpu/cpu.h"

enum weighted_pass { WEIGHTED_FORWARD, WEIGHTED_DATA, WEIGHTED_WEIGHTS, WEIGHTED_PASSES };

struct weighted_mds {
    dnnl_memory_desc_t src, dst, bias;
    dnnl_memory_desc_t flat; /* weights in the flat block's format */
    /* the same, or their gradient, in the format that a pass prefers */
    dnnl_memory_desc_t weights[WEIGHTED_PASSES];
    bool has_bias;
    bool flatten; /* the input is an image, and src the vector of its elements counted channel, row,
                     column */
};
union weighted_desc {
    dnnl_convolution_desc_t conv;
    dnnl_inner_product_desc_t dense;
};
/* Fills in the oneDNN operation descriptor of one pass. */
typedef dnnl_status_t weighted_describe_fn(const struct layer *layer, const struct weighted_mds *md,
                                           enum weighted_pass pass, union weighted_desc *desc);

/* Describes weights of these dimensions, the first of which is the layer's units, and its bias:
 * `flat` in the flat block's format, formats[pass] in that of a pass. */
int weighted_layout(struct weighted_mds *md, const struct cpu_program *p, int rank,
                    const dnnl_dims_t weights, dnnl_format_tag_t flat,
                    const dnnl_format_tag_t formats[WEIGHTED_PASSES], struct err *e);
int weighted_prepare(struct cpu_program *p, struct cpu_step *s, const struct weighted_mds *md,
                     weighted_describe_fn *describe, struct err *e);
int weighted_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                     struct err *e);
int weighted_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                      struct err *e);
void weighted_release(struct cpu_step *s);

#endif
