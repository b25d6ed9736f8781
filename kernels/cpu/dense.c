/* Fully connected layer. Its input may be an image as it stands (row, column, channel in memory) while the weights of the
 * flat block count the flattened input channel, row, column: as a product over four dimensions both orders are only
 * formats, and nothing is permuted but the weights.
 */
#include "kernels/cpu/weighted.h"

static dnnl_status_t describe(const struct layer *l, const struct weighted_mds *md, enum weighted_pass pass,
                              union weighted_desc *desc)
{
    const dnnl_memory_desc_t *bias = md->has_bias ? &md->bias : NULL;
    switch (pass) {
    case WEIGHTED_FORWARD:
        return dnnl_inner_product_forward_desc_init(&desc->dense, dnnl_forward_training, &md->src, &md->weights, bias,
                                                    &md->dst);
    case WEIGHTED_DATA:
        return dnnl_inner_product_backward_data_desc_init(&desc->dense, &md->src, &md->weights, &md->dst);
    default:
        return dnnl_inner_product_backward_weights_desc_init(&desc->dense, &md->src, &md->weights, bias, &md->dst);
    }
}

static int prepare(struct cpu_program *p, struct cpu_step *s, struct err *e)
{
    const struct shape *in = &s->in[0]->shape;
    bool image = in->rank == 3;
    struct weighted_mds md = {.src = prim_value_md(p->head.batch, in),
                              .dst = prim_value_md(p->head.batch, &s->out->shape),
                              .has_bias = s->layer->bias};
    dnnl_dims_t weights = {s->layer->units, in->dim[image ? 2 : 0], in->dim[0], in->dim[1]}, bias = {s->layer->units};
    int rank = image ? 4 : 2;
    dnnl_status_t status =
        dnnl_memory_desc_init_by_tag(&md.flat, rank, weights, dnnl_f32, image ? dnnl_oihw : dnnl_oi);
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(&md.weights, rank, weights, dnnl_f32, dnnl_format_tag_any);
    }
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(&md.bias, 1, bias, dnnl_f32, dnnl_x);
    }
    int rc = prim_check(status, "describe the weights", e);
    return rc < 0 ? rc : weighted_prepare(p, s, &md, describe, e);
}

static double work(const struct cpu_step *s)
{
    return 2.0 * (double)s->in[0]->count * (double)s->out->count;
}

const struct cpu_op cpu_dense = {
    .name = "inner product",
    .takes_relu = true,
    .prepare = prepare,
    .forward = weighted_forward,
    .backward = weighted_backward,
    .release = weighted_release,
    .work = work,
};
