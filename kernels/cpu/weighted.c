/* Layers with weights (see weighted.h). The master weights and their gradients are in the flat
 * block, in PyTorch's order; oneDNN's kernels for convolutions need blocked formats, which differ
 * between the passes. So each step copies the weights once per format (little work compared with
 * the products) and copies their gradient back; dense layers need no copies (cpu/dense.c). Copies
 * are made once per pass: weights before its first tile, gradients after its last. The gradient of
 * the network's input is never computed.
 */
#include "kernels/cpu/weighted.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/pointwise.h"
#include "kernels/flat.h"

struct weighted {
    struct prim forward, data, weights;
    struct prim_tensor forward_weights, data_weights, weights_grad;
    float *sum;               /* NULL, or the gradient over the tiles so far: weights, then bias */
    size_t n_weights, n_bias; /* floats of it */
    bool flattens;
    void *flattened; /* the input as a vector, if it has to be made one; its gradient replaces it,
                        once the weights have theirs */
};

/* The precision in which a pass reads its weights or writes their gradient. */
static dnnl_data_type_t type_of(const struct cpu_program *p, enum weighted_pass pass)
{
    return p->bf16 && pass != WEIGHTED_WEIGHTS ? dnnl_bf16 : dnnl_f32;
}

int weighted_layout(struct weighted_mds *md, const struct cpu_program *p, int rank,
                    const dnnl_dims_t weights, dnnl_format_tag_t flat,
                    const dnnl_format_tag_t formats[WEIGHTED_PASSES], struct err *e)
{
    const dnnl_dims_t bias = {weights[0]};
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&md->flat, rank, weights, dnnl_f32, flat);
    for (int pass = 0; pass < WEIGHTED_PASSES && status == dnnl_success; pass++) {
        status = dnnl_memory_desc_init_by_tag(&md->weights[pass], rank, weights, type_of(p, pass),
                                              formats[pass]);
    }
    if (status == dnnl_success) {
        status = dnnl_memory_desc_init_by_tag(&md->bias, 1, bias, dnnl_f32, dnnl_x);
    }
    return prim_check(status, "describe the weights", e);
}

static void **source(struct weighted *w, struct cpu_step *s)
{
    return w->flattens ? &w->flattened : &s->in[0]->data;
}

static int prepare_forward(struct cpu_program *p, struct cpu_step *s, struct weighted *w,
                           const struct weighted_mds *md, weighted_describe_fn *describe,
                           dnnl_primitive_desc_t *pd, struct err *e)
{
    union weighted_desc desc;
    int rc =
        prim_check(describe(s->layer, md, WEIGHTED_FORWARD, &desc), "describe the operation", e);
    if (rc < 0 || (rc = prim_new(p, &w->forward, &desc, s->relu, NULL, pd, e)) < 0) {
        return rc;
    }
    const dnnl_memory_desc_t *weights = prim_md(*pd, dnnl_query_weights_md);
    rc = prim_tensor_new(p, &w->forward_weights, &md->flat, cpu_param(p, s, 0), weights, false, e);
    if (rc < 0 ||
        (rc = prim_variable(p, &w->forward, DNNL_ARG_SRC, &md->src, source(w, s), e)) < 0 ||
        (rc = prim_fixed(p, &w->forward, DNNL_ARG_WEIGHTS, weights, w->forward_weights.data, e)) <
            0 ||
        (rc = prim_variable(p, &w->forward, DNNL_ARG_DST, &md->dst, &s->out->data, e)) < 0) {
        return rc;
    }
    return md->has_bias
               ? prim_fixed(p, &w->forward, DNNL_ARG_BIAS, &md->bias, cpu_param(p, s, 1), e)
               : 0;
}

static int prepare_weights(struct cpu_program *p, struct cpu_step *s, struct weighted *w,
                           const struct weighted_mds *md, weighted_describe_fn *describe,
                           const_dnnl_primitive_desc_t hint, struct err *e)
{
    union weighted_desc desc;
    dnnl_primitive_desc_t pd = NULL;
    int rc = prim_check(describe(s->layer, md, WEIGHTED_WEIGHTS, &desc),
                        "describe the gradient of the weights", e);
    if (rc < 0 || (rc = prim_new(p, &w->weights, &desc, false, hint, &pd, e)) < 0) {
        goto out;
    }
    const dnnl_memory_desc_t *grad = prim_md(pd, dnnl_query_diff_weights_md);
    rc = prim_tensor_new(p, &w->weights_grad, &md->flat, cpu_param_grad(p, s, 0), grad, true, e);
    if (rc < 0 ||
        (rc = prim_variable(p, &w->weights, DNNL_ARG_SRC, &md->src, source(w, s), e)) < 0 ||
        (rc = prim_variable(p, &w->weights, DNNL_ARG_DIFF_DST, &md->dst, &s->out->grad, e)) < 0 ||
        (rc = prim_fixed(p, &w->weights, DNNL_ARG_DIFF_WEIGHTS, grad, w->weights_grad.data, e)) <
            0) {
        goto out;
    }
    if (md->has_bias && (rc = prim_fixed(p, &w->weights, DNNL_ARG_DIFF_BIAS, &md->bias,
                                         cpu_param_grad(p, s, 1), e)) < 0) {
        goto out;
    }
    if (p->samples < p->batch) {
        w->n_weights = dnnl_memory_desc_get_size(grad) / sizeof(float);
        w->n_bias = md->has_bias ? dnnl_memory_desc_get_size(&md->bias) / sizeof(float) : 0;
        w->sum = cpu_alloc(p, w->n_weights + w->n_bias, e);
        rc = w->sum ? 0 : -ERR_MEMORY;
    }
out:
    if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    return rc;
}

static int prepare_data(struct cpu_program *p, struct cpu_step *s, struct weighted *w,
                        const struct weighted_mds *md, weighted_describe_fn *describe,
                        const_dnnl_primitive_desc_t hint, struct err *e)
{
    union weighted_desc desc;
    dnnl_primitive_desc_t pd = NULL;
    int rc = prim_check(describe(s->layer, md, WEIGHTED_DATA, &desc),
                        "describe the gradient of the input", e);
    if (rc < 0 || (rc = prim_new(p, &w->data, &desc, false, hint, &pd, e)) < 0) {
        goto out;
    }
    const dnnl_memory_desc_t *weights = prim_md(pd, dnnl_query_weights_md);
    if (dnnl_memory_desc_equal(weights, prim_md(hint, dnnl_query_weights_md))) {
        w->data_weights.data = w->forward_weights.data; /* the forward pass has copied them */
    } else {
        rc = prim_tensor_new(p, &w->data_weights, &md->flat, cpu_param(p, s, 0), weights, false, e);
    }
    if (rc < 0 ||
        (rc = prim_variable(p, &w->data, DNNL_ARG_DIFF_DST, &md->dst, &s->out->grad, e)) < 0 ||
        (rc = prim_fixed(p, &w->data, DNNL_ARG_WEIGHTS, weights, w->data_weights.data, e)) < 0) {
        goto out;
    }
    rc = prim_variable(p, &w->data, DNNL_ARG_DIFF_SRC, &md->src,
                       w->flattens ? &w->flattened : s->in_grad[0], e);
out:
    if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    return rc;
}

int weighted_prepare(struct cpu_program *p, struct cpu_step *s, const struct weighted_mds *md,
                     weighted_describe_fn *describe, struct err *e)
{
    struct weighted *w = calloc(1, sizeof(*w));
    dnnl_primitive_desc_t pd = NULL;
    if (!w) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = w;
    w->flattens = md->flatten;
    if (w->flattens) {
        cpu_plan_buffer(p, &w->flattened,
                        (size_t)p->samples * s->in[0]->count * element_size(p->bf16));
    }
    int rc = prepare_forward(p, s, w, md, describe, &pd, e);
    if (rc == 0 && s->backward) {
        rc = prepare_weights(p, s, w, md, describe, pd, e);
    }
    if (rc == 0 && s->in_grad[0]) {
        rc = prepare_data(p, s, w, md, describe, pd, e);
    }
    if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    return rc;
}

int weighted_forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                     struct err *e)
{
    struct weighted *w = s->state;
    if (w->flattens) {
        pointwise_flatten(p, w->flattened, s->in[0]->data, &s->in[0]->shape, true);
    }
    int rc = p->from == 0 ? prim_run(p, &w->forward_weights.copy, e) : 0;
    if (rc < 0) {
        return rc;
    }
    return prim_run(p, &w->forward, e);
}

/* Makes grad, which the current tile has written, the sum over all tiles so far. */
static void add_tiles(const struct cpu_program *p, float *grad, float *sum, size_t n)
{
    if (p->from > 0) {
        flat_add(grad, sum, n);
    }
    memcpy(sum, grad, n * sizeof(*sum));
}

static int weights_gradient(struct cpu_program *p, struct cpu_step *s, struct weighted *w,
                            struct err *e)
{
    int rc = prim_run(p, &w->weights, e);
    if (rc == 0 && w->sum) {
        add_tiles(p, w->weights_grad.copy.handle ? w->weights_grad.data : cpu_param_grad(p, s, 0),
                  w->sum, w->n_weights);
    }
    if (rc == 0 && w->n_bias > 0) {
        add_tiles(p, cpu_param_grad(p, s, 1), w->sum + w->n_weights, w->n_bias);
    }
    bool last = p->from + p->samples == p->batch;
    return rc < 0 || !last ? rc : prim_run(p, &w->weights_grad.copy, e);
}

int weighted_backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                      struct err *e)
{
    struct weighted *w = s->state;
    int rc;
    if (s->relu) {
        pointwise_relu_mask(p, s->out->grad, s->out->data, (size_t)p->samples * s->out->count);
    }
    if ((rc = weights_gradient(p, s, w, e)) < 0 ||
        (p->from == 0 && (rc = prim_run(p, &w->data_weights.copy, e)) < 0)) {
        return rc;
    }
    rc = prim_run(p, &w->data, e);
    if (w->flattens && s->in_grad[0]) {
        pointwise_flatten(p, *s->in_grad[0], w->flattened, &s->in[0]->shape, false);
    }
    return rc;
}

void weighted_release(struct cpu_step *s)
{
    struct weighted *w = s->state;
    if (!w) {
        return;
    }
    prim_release(&w->forward);
    prim_release(&w->data);
    prim_release(&w->weights);
    prim_tensor_release(&w->forward_weights);
    prim_tensor_release(&w->data_weights);
    prim_tensor_release(&w->weights_grad);
    free(w);
    s->state = NULL;
}
