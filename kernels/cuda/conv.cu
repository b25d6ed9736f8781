/* Two-dimensional convolution on NHWC activations, twin of cpu/conv.c: cuDNN with weights O,H,W,I,
 * the device's order.
 *
 *   x [batch][h][w][c]   w [units][kh][kw][c]   y [batch][oh][ow][units]
 *   and their gradients in the same shapes
 *
 * Which of cuDNN's engines runs each pass (plan.h) is measured once per shape, at the next power of
 * two of the minibatch, and kept with the device and in the node's profile (tuning.cu): a changed
 * minibatch and the next job need not measure again. Measuring may take half a second of preparing
 * a minibatch; what is left then is measured for the next one, if engines of another minibatch can
 * be borrowed meanwhile. Engines that give the same bits each time are preferred; for fp32 only
 * those without TF32 are used.
 */
#include <stdlib.h>
#include <string.h>

#include <new>

#include "kernels/cuda/plan.h"
#include "kernels/cuda/pointwise.h"

enum { PASSES = CUDA_PASSES };
static const char *const pass_names[] = {"the convolution", "the gradient of its input",
                                         "the gradient of its weights"};

struct conv {
    struct plan_graph graph[PASSES];
    struct plan plan[PASSES];
};

/* Bits of the passes that this step has. A first layer computes no gradient of its input, so cuDNN
 * needs no engine for it. */
static unsigned passes_of(const struct cuda_step *s)
{
    return 1u << PLAN_FORWARD | 1u << PLAN_FILTER | (s->in_grad[0] ? 1u << PLAN_DATA : 0);
}

static bool needs(const struct cuda_step *s, int pass)
{
    return passes_of(s) >> pass & 1;
}

static struct plan_shape shape_of(const struct cuda_step *s, int batch)
{
    const struct layer *l = s->layer;
    const int *in = s->in[0]->shape.dim, *out = s->out->shape.dim;
    return {batch,
            {in[0], in[1], in[2]},
            {out[0], out[1], out[2]},
            {l->kernel[0], l->kernel[1]},
            {l->stride[0], l->stride[1]},
            {l->padding[0], l->padding[1]},
            false};
}

/* ---- the choice of engines ------------------------------------------------------------------- */

static int power_of_two(int n)
{
    int p = 1;
    while (p < n && p < 1 << 29) {
        p *= 2;
    }
    return p;
}

/* The choice for this shape, measured if it is new. If no time is left for measuring, it is the
 * choice of another minibatch, if there is one, which is not kept for this one. The caller holds
 * `building`. */
static int choice_of(struct cuda_program *p, const struct cuda_step *s, struct cuda_choice *out,
                     struct err *e)
{
    const struct plan_shape shape = shape_of(s, power_of_two(p->head.batch));
    const int key[CUDA_CHOICE_KEY] = {p->precision,    shape.batch,      shape.in[0],
                                      shape.in[1],     shape.in[2],      shape.out[2],
                                      shape.kernel[0], shape.kernel[1],  shape.stride[0],
                                      shape.stride[1], shape.padding[0], shape.padding[1]};
    const struct cuda_choice *known = cuda_choice_find(p->dev, key);
    bool measured = false;
    if (!known && clock_now() > p->measure_until) {
        known = cuda_choice_nearest(p->dev, key, passes_of(s));
    }
    *out = known ? *known : cuda_no_choice;
    memcpy(out->key, key, sizeof(key));
    for (int i = 0; i < PASSES; i++) {
        if (needs(s, i) && out->engine[i].index < 0) {
            if (plan_fastest(p->dev, (enum plan_pass)i, &shape, p->precision, &out->engine[i], e) <
                0) {
                return err_prefix(e, "%s", pass_names[i]);
            }
            measured = true;
        }
    }
    return measured ? cuda_choice_keep(p->dev, out, e) : 0;
}

/* Makes a plan of the engine chosen at the power of two. If that engine cannot run this minibatch,
 * or cannot add (or does not exist: a profile may be old), makes a plan of one that can, and puts
 * it into *chosen. */
static int make_plan(struct cuda_program *p, struct conv *c, int pass,
                     const struct plan_shape *shape, struct cuda_engine *chosen, struct err *e)
{
    struct plan_graph *g = &c->graph[pass];
    struct err ignored;
    TRY(plan_describe(g, (enum plan_pass)pass, shape, p->precision, e));
    if (plan_make(&c->plan[pass], p->dev->properties, g, p->precision, chosen, &ignored) == 0) {
        return 0;
    }
    TRY(plan_fastest(p->dev, (enum plan_pass)pass, shape, p->precision, chosen, e));
    return plan_make(&c->plan[pass], p->dev->properties, g, p->precision, chosen, e);
}

static int make_plans(struct cuda_program *p, const struct cuda_step *s, struct conv *c,
                      struct err *e)
{
    struct plan_shape shape = shape_of(s, p->head.batch);
    struct cuda_choice choice, known;
    shape.adds = s->adds[0];
    TRY(choice_of(p, s, &choice, e));
    known = choice;
    for (int i = 0; i < PASSES; i++) {
        if (needs(s, i) && make_plan(p, c, i, &shape, &choice.engine[i], e) < 0) {
            return err_prefix(e, "%s", pass_names[i]);
        }
    }
    bool news = memcmp(&choice, &known, sizeof(choice)) != 0 &&
                shape.batch == power_of_two(shape.batch) && !shape.adds;
    return news && cuda_choice_find(p->dev, choice.key) ? cuda_choice_keep(p->dev, &choice, e) : 0;
}

/* ---- the operator ---------------------------------------------------------------------------- */

static size_t rows_of(const struct cuda_program *p, const struct cuda_step *s)
{
    return (size_t)p->head.batch * (size_t)(s->out->shape.dim[0] * s->out->shape.dim[1]);
}

static int prepare(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    struct conv *c = new (std::nothrow) struct conv();
    if (!c) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = c;
    TRY(make_plans(p, s, c, e));
    size_t forward = c->plan[PLAN_FORWARD].workspace, data = c->plan[PLAN_DATA].workspace,
           most = forward > data ? forward : data;
    p->workspace_bytes = most > p->workspace_bytes ? most : p->workspace_bytes;
    cuda_branch_workspace(p, c->plan[PLAN_FILTER].workspace);
    size_t weights = cuda_tensor_of(p, s, 0)->count * sizeof(struct bf16);
    p->scratch_bytes = p->weights && weights > p->scratch_bytes ? weights : p->scratch_bytes;
    pointwise_reserve_bias(p, s);
    return 0;
}

/* All passes make the same number of multiplications. */
static void meter(const struct cuda_program *p, const struct cuda_step *s, const char *pass,
                  cudaStream_t stream)
{
    cuda_meter_begin(__FILE__, pass, 0, layer_flops(s->layer) * p->head.batch, stream);
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    struct conv *c = (struct conv *)s->state;
    meter(p, s, "forward", p->dev->build);
    TRY(plan_run(&c->plan[PLAN_FORWARD], p->dev->dnn, s->in[0]->data, cuda_weights(p, s),
                 s->out->data, p->workspace, e));
    cuda_meter_end(p->dev->build, cudaSuccess);
    return s->leaves ? 0
                     : pointwise_bias(p, s->out->data, s->layer->bias ? cuda_param(p, s, 1) : NULL,
                                      s->relu, rows_of(p, s), (size_t)s->layer->units, e);
}

static int filter_gradient(struct cuda_program *p, struct cuda_step *s, cudaStream_t stream,
                           struct err *e)
{
    struct conv *c = (struct conv *)s->state;
    if (!pointwise_masks(s)) {
        TRY(pointwise_bias_backward(p, s, stream, e));
    }
    void *dw = p->weights ? p->scratch : cuda_param_grad(p, s, 0);
    meter(p, s, "filter", stream);
    TRY(plan_run(&c->plan[PLAN_FILTER], p->dev->dnn, s->in[0]->data, dw, s->out->grad,
                 p->branch.memory, e));
    cuda_meter_end(stream, cudaSuccess);
    if (!p->weights) {
        return 0;
    }
    return pointwise_widen(p, cuda_param_grad(p, s, 0), (const struct bf16 *)dw,
                           cuda_tensor_of(p, s, 0)->count, stream, e);
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    struct conv *c = (struct conv *)s->state;
    if (pointwise_masks(s)) {
        TRY(pointwise_bias_backward(p, s, p->dev->build, e));
    }
    TRY(cuda_branch(p, s, filter_gradient, e));
    if (!s->in_grad[0]) {
        return 0;
    }
    meter(p, s, "data", p->dev->build);
    int rc = plan_run(&c->plan[PLAN_DATA], p->dev->dnn, *s->in_grad[0], cuda_weights(p, s),
                      s->out->grad, p->workspace, e);
    cuda_meter_end(p->dev->build, cudaSuccess);
    return rc;
}

static void release(struct cuda_step *s)
{
    delete (struct conv *)s->state;
    s->state = NULL;
}

const struct cuda_op cuda_conv = {
    .name = "convolution",
    .takes_relu = true,
    .leaves = true,
    .branch = true,
    .adds = 1u << 0,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};
