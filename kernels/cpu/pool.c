/* Max and average pooling. The forward pass of a max pool keeps the position of each maximum
 * (oneDNN's workspace), so the backward pass sends a gradient to one element of its window, the
 * first one where several are equal. A mean counts the zeros of the padding (PyTorch's default).
 */
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

struct pool {
    struct prim forward, backward;
};

struct pool_shape {
    dnnl_memory_desc_t src, dst;
    dnnl_dims_t stride, size, near, far;
    dnnl_alg_kind_t kind;
};

static struct pool_shape shape_of(const struct cpu_program *p, const struct cpu_step *s)
{
    const struct layer *l = s->layer;
    struct pool_shape shape = {
        .kind = l->type == CAT_LAYER_MAX_POOL ? dnnl_pooling_max : dnnl_pooling_avg_include_padding,
        .src = prim_value_md(p, &s->in[0]->shape),
        .dst = prim_value_md(p, &s->out->shape)};
    for (int i = 0; i < 2; i++) {
        shape.stride[i] = l->stride[i];
        shape.size[i] = l->kernel[i];
        shape.near[i] = l->padding[i];
        shape.far[i] =
            (l->out.dim[i] - 1) * l->stride[i] + l->kernel[i] - l->in.dim[i] - l->padding[i];
    }
    return shape;
}

static int prepare_backward(struct cpu_program *p, struct cpu_step *s, struct pool *pool,
                            const struct pool_shape *shape, const_dnnl_primitive_desc_t hint,
                            const dnnl_memory_desc_t *workspace, float *argmax, struct err *e)
{
    dnnl_pooling_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    int rc = prim_check(dnnl_pooling_backward_desc_init(&desc, shape->kind, &shape->src,
                                                        &shape->dst, shape->stride, shape->size,
                                                        shape->near, shape->far),
                        "describe the gradient of pooling", e);
    if (rc < 0 || (rc = prim_new(p, &pool->backward, &desc, false, hint, &pd, e)) < 0 ||
        (rc = prim_variable(p, &pool->backward, DNNL_ARG_DIFF_DST, &shape->dst, &s->out->grad, e)) <
            0 ||
        (rc = prim_variable(p, &pool->backward, DNNL_ARG_DIFF_SRC, &shape->src, s->in_grad[0], e)) <
            0) {
        goto out;
    }
    rc = argmax ? prim_fixed(p, &pool->backward, DNNL_ARG_WORKSPACE, workspace, argmax, e) : 0;
out:
    if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    return rc;
}

static int prepare(struct cpu_program *p, struct cpu_step *s, struct err *e)
{
    struct pool_shape shape = shape_of(p, s);
    struct pool *pool = calloc(1, sizeof(*pool));
    dnnl_pooling_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    if (!pool) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = pool;
    int rc = prim_check(dnnl_pooling_forward_desc_init(&desc, dnnl_forward_training, shape.kind,
                                                       &shape.src, &shape.dst, shape.stride,
                                                       shape.size, shape.near, shape.far),
                        "describe pooling", e);
    if (rc < 0 || (rc = prim_new(p, &pool->forward, &desc, false, NULL, &pd, e)) < 0) {
        goto out;
    }
    const dnnl_memory_desc_t *workspace = prim_md(pd, dnnl_query_workspace_md);
    size_t bytes = workspace ? dnnl_memory_desc_get_size(workspace) : 0;
    float *argmax = bytes > 0 ? cpu_alloc(p, (bytes + 3) / 4, e) : NULL;
    if (bytes > 0 && !argmax) {
        rc = -ERR_MEMORY;
        goto out;
    }
    if ((rc = prim_variable(p, &pool->forward, DNNL_ARG_SRC, &shape.src, &s->in[0]->data, e)) < 0 ||
        (rc = prim_variable(p, &pool->forward, DNNL_ARG_DST, &shape.dst, &s->out->data, e)) < 0 ||
        (argmax &&
         (rc = prim_fixed(p, &pool->forward, DNNL_ARG_WORKSPACE, workspace, argmax, e)) < 0)) {
        goto out;
    }
    if (s->in_grad[0]) {
        rc = prepare_backward(p, s, pool, &shape, pd, workspace, argmax, e);
    }
out:
    if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    return rc;
}

static int forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   struct err *e)
{
    struct pool *pool = s->state;
    return prim_run(p, &pool->forward, e);
}

static int backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                    struct err *e)
{
    struct pool *pool = s->state;
    return prim_run(p, &pool->backward, e);
}

static void release(struct cpu_step *s)
{
    struct pool *pool = s->state;
    if (pool) {
        prim_release(&pool->forward);
        prim_release(&pool->backward);
        free(pool);
        s->state = NULL;
    }
}

#define POOL(title)                                                                  \
    {                                                                                \
        .name = title, .prepare = prepare, .forward = forward, .backward = backward, \
        .release = release                                                           \
    }

const struct cpu_op cpu_max_pool = POOL("max pooling");
const struct cpu_op cpu_average_pool = POOL("average pooling");
