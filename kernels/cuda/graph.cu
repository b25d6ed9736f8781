/* From layers to steps, twin of cpu/graph.c: a relu becomes a part of the step before it, a flatten that only dense layers read is none
 * (their weights stand in the order of the image), each gradient gets its place, and buckets are cut in the order of the backward pass.
 *
 * Nothing here depends on the minibatch: a replica builds the same graph to learn how the values that dense layers read are stored.
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

/* ---- up: steps and values ---------------------------------------------------------------------------------- */

static int count_readers(const struct network *net, int layer)
{
    int readers = 0;
    for (int i = layer + 1; i < net->n_layers; i++) {
        for (int k = 0; k < net->layers[i].n_inputs; k++) {
            readers += net->layers[i].inputs[k] == layer;
        }
    }
    return readers;
}

static const struct cuda_op *op_of(const struct layer *l)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        if (ops[i].layer == l->type) {
            return ops[i].op;
        }
    }
    return NULL;
}

/* Does every reader of this layer take an image as it stands for the vector that it is? */
static bool readers_take_image(const struct network *net, int layer)
{
    for (int i = layer + 1; i < net->n_layers; i++) {
        const struct layer *l = &net->layers[i];
        for (int k = 0; k < l->n_inputs; k++) {
            if (l->inputs[k] != layer || l->type == CAT_LAYER_DENSE) {
                continue;
            }
            const struct cuda_op *op = op_of(l);
            bool passes = l->type == CAT_LAYER_FLATTEN || (op && op->keeps_shape);
            if (!passes || !readers_take_image(net, i)) {
                return false;
            }
        }
    }
    return true;
}

static bool moves_nothing(const struct network *net, int layer, const struct shape *stored)
{
    return stored->rank == 1 || stored->dim[2] == 1 || stored->dim[0] * stored->dim[1] == 1 || readers_take_image(net, layer);
}

static struct cuda_value *value_of(struct cuda_graph *g, int layer)
{
    return layer < 0 ? &g->values[0] : g->of_layer[layer];
}

/* The step that a relu of this layer can become a part of, or NULL. */
static struct cuda_step *step_before(struct cuda_graph *g, const struct layer *l)
{
    int before = l->inputs[0];
    if (before < 0 || g->n_steps == 0 || count_readers(g->net, before) != 1) {
        return NULL;
    }
    struct cuda_step *s = &g->steps[g->n_steps - 1];
    return s->op->takes_relu && s->index == before && !s->relu ? s : NULL;
}

static int add_step(struct cuda_graph *g, int layer, struct err *e)
{
    const struct layer *l = &g->net->layers[layer];
    const struct cuda_op *op = op_of(l);
    if (!op) {
        return err_set(e, ERR_UNSUPPORTED, "the CUDA device has no operator for layer '%s' (%s)", l->name, catalog_get(l->type)->name);
    }
    struct cuda_step *s = &g->steps[g->n_steps++];
    struct cuda_value *out = &g->values[g->n_values++];
    s->op = op;
    s->layer = l;
    s->index = layer;
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
        if (before) {
            before->relu = true;
            g->of_layer[i] = in;
        } else if (l->type == CAT_LAYER_FLATTEN && moves_nothing(g->net, i, &in->shape)) {
            g->of_layer[i] = in;
        } else {
            TRY(add_step(g, i, e));
        }
    }
    g->output = g->of_layer[g->net->n_layers - 1];
    return 0;
}

/* ---- down: gradients and buckets ----------------------------------------------------------------------------- */

/* The last reader of a value is the first in the backward pass: it writes the gradient, those before it add. */
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
            s->in_grad[k] = v->has_grad ? &g->spare[k] : &v->grad;
            if (v->has_grad && g->spare_count[k] < v->count) {
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

static double forward_work(const struct cuda_step *s)
{
    return s->op->work ? s->op->work(s) : 0;
}

static double backward_work(const struct cuda_step *s)
{
    double forward = forward_work(s), work = s->layer->n_tensors > 0 ? forward : 0;
    if (!s->backward) {
        return 0;
    }
    for (int k = 0; k < s->n_in; k++) {
        if (s->in_grad[k]) {
            return work + forward;
        }
    }
    return work;
}

int cuda_graph_cut(const struct cuda_graph *g, size_t bucket_bytes, struct dev_bucket *buckets, int *bucket_step)
{
    double total = 0, done = 0;
    size_t end = g->net->n_params;
    int n = 0;
    for (int i = 0; i < g->n_steps; i++) {
        total += forward_work(&g->steps[i]) + backward_work(&g->steps[i]);
        done += forward_work(&g->steps[i]);
    }
    for (int i = g->n_steps - 1; i >= 0; i--) {
        const struct cuda_step *s = &g->steps[i];
        done += backward_work(s);
        if (s->layer->n_tensors == 0) {
            continue;
        }
        size_t first = g->net->tensors[s->layer->first_tensor].first;
        if ((end - first) * sizeof(float) >= bucket_bytes || first == 0) {
            double share = total > 0 ? done / total : 1;
            buckets[n] = {first, end - first, share < 1 ? share : 1};
            bucket_step[n++] = i;
            end = first;
        }
    }
    return n;
}
