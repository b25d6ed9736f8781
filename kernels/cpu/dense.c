/* Fully connected layer. The weights of the flat block count a flattened image channel, row,
 * column, while the image is stored row, column, channel. One of the two must be permuted, and it
 * is the image: a minibatch of images is smaller than the weights. So the products read and write
 * the flat block in place; only the forward product of a large minibatch is worth a copy in another
 * format. In bf16 there is always one copy, rounded, which both products read.
 */
#include "kernels/cpu/weighted.h"

enum { LARGE_BATCH = 128 }; /* measured: from here on the faster product pays for the copy */

static dnnl_status_t describe(const struct layer *l, const struct weighted_mds *md,
                              enum weighted_pass pass, union weighted_desc *desc)
{
    const dnnl_memory_desc_t *bias = md->has_bias ? &md->bias : NULL, *weights = &md->weights[pass];
    switch (pass) {
    case WEIGHTED_FORWARD:
        return dnnl_inner_product_forward_desc_init(&desc->dense, dnnl_forward_training, &md->src,
                                                    weights, bias, &md->dst);
    case WEIGHTED_DATA:
        return dnnl_inner_product_backward_data_desc_init(&desc->dense, &md->src, weights,
                                                          &md->dst);
    default:
        return dnnl_inner_product_backward_weights_desc_init(&desc->dense, &md->src, weights, bias,
                                                             &md->dst);
    }
}

static int prepare(struct cpu_program *p, struct cpu_step *s, struct err *e)
{
    const struct shape *in = &s->in[0]->shape;
    struct shape vector = {.rank = 1, .dim = {(int)shape_count(in)}};
    struct weighted_mds md = {.src = prim_value_md(p, &vector),
                              .dst = prim_value_md(p, &s->out->shape),
                              .has_bias = s->layer->bias};
    md.flatten = in->rank == 3 && in->dim[2] > 1 && in->dim[0] * in->dim[1] > 1;
    const dnnl_dims_t weights = {s->layer->units, vector.dim[0]};
    bool copies = p->batch >= LARGE_BATCH && !p->bf16;
    const dnnl_format_tag_t formats[] = {copies ? dnnl_format_tag_any : dnnl_oi, dnnl_oi, dnnl_oi};
    int rc = weighted_layout(&md, p, 2, weights, dnnl_oi, formats, e);
    return rc < 0 ? rc : weighted_prepare(p, s, &md, describe, e);
}

const struct cpu_op cpu_dense = {
    .name = "inner product",
    .takes_relu = true,
    .backward_reads = CPU_READS_IN | CPU_READS_RELU,
    .prepare = prepare,
    .forward = weighted_forward,
    .backward = weighted_backward,
    .release = weighted_release,
};
