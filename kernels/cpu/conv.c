/* Two-dimensional convolution on NHWC activations. The padding on the far side follows from the
 * output's shape (it may be negative: a last row or column that no window reaches).
 */
#include "kernels/cpu/weighted.h"

static dnnl_status_t describe(const struct layer *l, const struct weighted_mds *md,
                              enum weighted_pass pass, union weighted_desc *desc)
{
    dnnl_dims_t stride = {l->stride[0], l->stride[1]}, near = {l->padding[0], l->padding[1]}, far;
    const dnnl_memory_desc_t *bias = md->has_bias ? &md->bias : NULL;
    for (int i = 0; i < 2; i++) {
        far[i] = (l->out.dim[i] - 1) * l->stride[i] + l->kernel[i] - l->in.dim[i] - l->padding[i];
    }
    switch (pass) {
    case WEIGHTED_FORWARD:
        return dnnl_convolution_forward_desc_init(
            &desc->conv, dnnl_forward_training, dnnl_convolution_direct, &md->src,
            &md->weights[pass], bias, &md->dst, stride, near, far);
    case WEIGHTED_DATA:
        return dnnl_convolution_backward_data_desc_init(&desc->conv, dnnl_convolution_direct,
                                                        &md->src, &md->weights[pass], &md->dst,
                                                        stride, near, far);
    default:
        return dnnl_convolution_backward_weights_desc_init(&desc->conv, dnnl_convolution_direct,
                                                           &md->src, &md->weights[pass], bias,
                                                           &md->dst, stride, near, far);
    }
}

static int prepare(struct cpu_program *p, struct cpu_step *s, struct err *e)
{
    const struct layer *l = s->layer;
    struct weighted_mds md = {.src = prim_value_md(p, &s->in[0]->shape),
                              .dst = prim_value_md(p, &s->out->shape),
                              .has_bias = l->bias};
    const dnnl_dims_t weights = {l->units, s->in[0]->shape.dim[2], l->kernel[0], l->kernel[1]};
    const dnnl_format_tag_t any[] = {dnnl_format_tag_any, dnnl_format_tag_any, dnnl_format_tag_any};
    int rc = weighted_layout(&md, p, 4, weights, dnnl_oihw, any, e);
    return rc < 0 ? rc : weighted_prepare(p, s, &md, describe, e);
}

const struct cpu_op cpu_conv = {
    .name = "convolution",
    .by_tiles = true,
    .takes_relu = true,
    .backward_reads = CPU_READS_IN | CPU_READS_RELU,
    .prepare = prepare,
    .forward = weighted_forward,
    .backward = weighted_backward,
    .release = weighted_release,
};
