/* From layers to steps, twin of cpu/graph.c. A relu becomes a part of the step before it, and so
 * does a sum of a batch norm with another value. A flatten that only dense layers read is no step
 * (their weights are in the order of the image). Each gradient gets its buffer, and buckets are cut
 * in the order of the backward pass.
 *
 * Nothing here depends on the minibatch: a replica builds the same graph to learn how the values
 * that dense layers read are stored.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

static const struct {
    int layer;
    const struct cuda_op *op;
} ops[] = {
    {CAT_LAYER_DENSE, &cuda_dense},
    {CAT_LAYER_CONV2D, &cuda_conv},
    {CAT_LAYER_MAX_POOL, &cuda_max_pool},
    {CAT_LAYER_AVERAGE_POOL, &cuda_average_pool},
    {CAT_LAYER_GLOBAL_AVERAGE_POOL, &cuda_global_pool},
    {CAT_LAYER_BATCH_NORM, &cuda_batch_norm},
    {CAT_LAYER_LRN, &cuda_lrn},
    {CAT_LAYER_RELU, &cuda_relu},
    {CAT_LAYER_LEAKY_RELU, &cuda_leaky},
    {CAT_LAYER_TANH, &cuda_tanh},
    {CAT_LAYER_SIGMOID, &cuda_sigmoid},
    {CAT_LAYER_DROPOUT, &cuda_dropout},
    {CAT_LAYER_FLATTEN, &cuda_flatten},
    {CAT_LAYER_ADD, &cuda_add},
    {CAT_LAYER_CONCAT, &cuda_concat},
};

/* ---- up: steps and values -------------------------------------------------------------------- */

static const struct cuda_op *op_of(int layer_type)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        if (ops[i].layer == layer_type) {
            return ops[i].op;
        }
    }
    return NULL;
}

static bool keeps_shape(int layer_type)
{
    const struct cuda_op *op = op_of(layer_type);
    return op && op->keeps_shape;
}

static struct cuda_value *value_of(struct cuda_graph *g, int layer)
{
    return layer < 0 ? &g->values[0] : g->of_layer[layer];
}

/* The step that can include a relu of this layer, or NULL. */
static struct cuda_step *step_before(struct cuda_graph *g, const struct layer *l)
{
    int before = l->inputs[0];
    if (before < 0 || g->n_steps == 0 || steps_readers(g->net, before) != 1) {
        return NULL;
    }
    struct cuda_step *s = &g->steps[g->n_steps - 1];
    return s->op->takes_relu && s->last == before && !s->relu ? s : NULL;
}

/* The step that can include this sum of two: it made one of the two values, and only the sum reads
 * that value. NULL: there is none. */
static struct cuda_step *step_of_sum(struct cuda_graph *g, const struct layer *l)
{
    struct cuda_step *s = g->n_steps > 0 ? &g->steps[g->n_steps - 1] : NULL;
    bool takes = s && s->op->takes_add && l->n_inputs == 2 && s->n_in == 1 && !s->relu &&
                 steps_readers(g->net, s->last) == 1;
    return takes && (l->inputs[0] == s->last || l->inputs[1] == s->last) ? s : NULL;
}

static void take_sum(struct cuda_graph *g, struct cuda_step *s, int layer)
{
    const struct layer *l = &g->net->layers[layer];
    s->in[1] = value_of(g, l->inputs[l->inputs[0] == s->last]);
    s->n_in = 2;
    s->last = layer;
    s->backward = s->backward || s->in[1]->needs_grad;
    s->out->needs_grad = s->backward;
    g->of_layer[layer] = s->out;
}

/* Adding a bias and taking a relu do not change which number of a window is the largest. So a max
 * pool applies both, to fewer numbers, if it is their only reader. */
static void finish_before(struct cuda_graph *g, struct cuda_step *pool)
{
    struct cuda_step *s = g->n_steps > 1 ? pool - 1 : NULL;
    if (s && s->op->leaves && s->out == pool->in[0] && steps_readers(g->net, s->last) == 1 &&
        (s->relu || s->layer->bias)) {
        s->leaves = true;
        pool->finishes = s;
    }
}

static int add_step(struct cuda_graph *g, int layer, struct err *e)
{
    const struct layer *l = &g->net->layers[layer];
    const struct cuda_op *op = op_of(l->type);
    if (!op) {
        return err_set(e, ERR_UNSUPPORTED, "the CUDA device has no operator for layer '%s' (%s)",
                       l->name, catalog_get(l->type)->name);
    }
    struct cuda_step *s = &g->steps[g->n_steps++];
    struct cuda_value *out = &g->values[g->n_values++];
    s->op = op;
    s->layer = l;
    s->index = s->last = layer;
    s->n_in = l->n_inputs;
    s->out = out;
    s->backward = l->n_tensors > 0;
    for (int k = 0; k < l->n_inputs; k++) {
        s->in[k] = value_of(g, l->inputs[k]);
        s->backward = s->backward || s->in[k]->needs_grad;
    }
    out->shape = op->keeps_shape ? s->in[0]->shape : l->out;
    out->count = shape_count(&out->shape);
    out->needs_grad = s->backward;
    g->of_layer[layer] = out;
    if (l->type == CAT_LAYER_MAX_POOL) {
        finish_before(g, s);
    }
    return 0;
}

static int build_steps(struct cuda_graph *g, struct err *e)
{
    g->n_values = 1;
    g->values[0].shape = g->net->input;
    g->values[0].count = shape_count(&g->net->input);
    for (int i = 0; i < g->net->n_layers; i++) {
        const struct layer *l = &g->net->layers[i];
        struct cuda_value *in = value_of(g, l->inputs[0]);
        struct cuda_step *before = l->type == CAT_LAYER_RELU ? step_before(g, l) : NULL;
        struct cuda_step *summed = l->type == CAT_LAYER_ADD ? step_of_sum(g, l) : NULL;
        if (before) {
            before->relu = true;
            before->last = i;
            g->of_layer[i] = in;
        } else if (summed) {
            take_sum(g, summed, i);
        } else if (l->type == CAT_LAYER_FLATTEN &&
                   steps_flatten_is_none(g->net, i, &in->shape, keeps_shape)) {
            g->of_layer[i] = in;
        } else {
            TRY(add_step(g, i, e));
        }
    }
    g->output = g->of_layer[g->net->n_layers - 1];
    return 0;
}

/* ---- down: gradients and buckets ------------------------------------------------------------- */

/* The last reader of a value comes first in the backward pass: it writes the gradient, and earlier
 * readers add to it. */
static void route_gradients(struct cuda_graph *g)
{
    g->output->has_grad = true;
    for (int i = g->n_steps - 1; i >= 0; i--) {
        struct cuda_step *s = &g->steps[i];
        for (int k = 0; k < s->n_in; k++) {
            struct cuda_value *v = s->in[k];
            if (!v->needs_grad) {
                continue;
            }
            s->adds[k] = v->has_grad;
            bool spare = v->has_grad && !(s->op->adds >> k & 1);
            s->in_grad[k] = spare ? &g->spare[k] : &v->grad;
            if (spare && g->spare_count[k] < v->count) {
                g->spare_count[k] = v->count;
            }
            v->has_grad = true;
        }
    }
}

int cuda_graph_init(struct cuda_graph *g, const struct network *net, struct err *e)
{
    size_t n = (size_t)net->n_layers;
    *g = {};
    g->net = net;
    g->steps = (struct cuda_step *)calloc(n, sizeof(*g->steps));
    g->values = (struct cuda_value *)calloc(n + 1, sizeof(*g->values));
    g->of_layer = (struct cuda_value **)calloc(n, sizeof(struct cuda_value *));
    if (!g->steps || !g->values || !g->of_layer) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    TRY(build_steps(g, e));
    route_gradients(g);
    return 0;
}

void cuda_graph_release(struct cuda_graph *g)
{
    for (int i = 0; i < g->n_steps; i++) {
        if (g->steps[i].op->release) {
            g->steps[i].op->release(&g->steps[i]);
        }
    }
    free(g->steps);
    free(g->values);
    free(g->of_layer);
    *g = {};
}
