/* A network compiled for one minibatch size: the graph of layers becomes an array of steps (see cpu.h).
 *
 *   layers   conv1 ─ relu1 ─ pool1 ─ flatten1 ─ fc1          a relu becomes a part of the step before it, a flatten
 *   steps    conv1+relu1 ─── pool1 ──────────── fc1          that only dense layers read moves nothing and is none
 *
 * Building goes through the layers three times: up, to find steps and values; down, to find where each gradient goes and
 * to cut buckets; up again, to prepare the operators, which now know what they must compute. Memory comes last, so that
 * all scratch memory is one piece.
 *
 * What a newcomer would get wrong: a minibatch may have fewer samples than the program. The rest of the input is zero and
 * the loss gives it no gradient, so sums over the minibatch are right; an operator that mixes samples (batch norm) must
 * look at in->count itself.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

struct cpu_chunk {
    struct cpu_chunk *next;
    void *memory;
};

static const struct {
    int layer;
    const struct cpu_op *op;
} ops[] = {
    {CAT_LAYER_DENSE, &cpu_dense},
    {CAT_LAYER_CONV2D, &cpu_conv},
    {CAT_LAYER_MAX_POOL, &cpu_max_pool},
    {CAT_LAYER_AVERAGE_POOL, &cpu_average_pool},
    {CAT_LAYER_GLOBAL_AVERAGE_POOL, &cpu_global_pool},
    {CAT_LAYER_BATCH_NORM, &cpu_batch_norm},
    {CAT_LAYER_LRN, &cpu_lrn},
    {CAT_LAYER_RELU, &cpu_relu},
    {CAT_LAYER_LEAKY_RELU, &cpu_leaky},
    {CAT_LAYER_TANH, &cpu_tanh},
    {CAT_LAYER_SIGMOID, &cpu_sigmoid},
    {CAT_LAYER_DROPOUT, &cpu_dropout},
    {CAT_LAYER_FLATTEN, &cpu_flatten},
    {CAT_LAYER_ADD, &cpu_add},
    {CAT_LAYER_CONCAT, &cpu_concat},
};

/* ---- memory ------------------------------------------------------------------------------------------------ */

float *cpu_alloc(struct cpu_program *p, size_t floats, struct err *e)
{
    struct cpu_chunk *chunk = malloc(sizeof(*chunk));
    size_t bytes = ((floats ? floats : 1) * sizeof(float) + 63) / 64 * 64;
    void *memory = chunk ? aligned_alloc(64, bytes) : NULL;
    if (!memory) {
        free(chunk);
        err_set(e, ERR_MEMORY, "a minibatch of %d does not fit into memory: %zu bytes more were not there", p->head.batch, bytes);
        return NULL;
    }
    memset(memory, 0, bytes);
    chunk->memory = memory;
    chunk->next = p->chunks;
    p->chunks = chunk;
    return memory;
}

float *cpu_param(struct cpu_program *p, const struct cpu_step *s, int tensor)
{
    return p->head.replica->host[DEV_PARAMS] + p->net->tensors[s->layer->first_tensor + tensor].first;
}

float *cpu_param_grad(struct cpu_program *p, const struct cpu_step *s, int tensor)
{
    return p->head.replica->host[DEV_GRADS] + p->net->tensors[s->layer->first_tensor + tensor].first;
}

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

static const struct cpu_op *op_of(const struct layer *l)
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
            const struct cpu_op *op = op_of(l);
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

static struct cpu_value *value_of(struct cpu_program *p, int layer)
{
    return layer < 0 ? &p->values[0] : p->of_layer[layer];
}

/* The step that a relu of this layer can become a part of, or NULL. */
static struct cpu_step *step_before(struct cpu_program *p, const struct layer *l)
{
    int before = l->inputs[0];
    if (before < 0 || p->n_steps == 0 || count_readers(p->net, before) != 1) {
        return NULL;
    }
    struct cpu_step *s = &p->steps[p->n_steps - 1];
    return s->op->takes_relu && s->index == before ? s : NULL;
}

static int add_step(struct cpu_program *p, int layer, int *n_values, struct err *e)
{
    const struct layer *l = &p->net->layers[layer];
    const struct cpu_op *op = op_of(l);
    if (!op) {
        return err_set(e, ERR_UNSUPPORTED, "the CPU device has no operator for layer '%s' (%s)", l->name, catalog_get(l->type)->name);
    }
    struct cpu_step *s = &p->steps[p->n_steps++];
    struct cpu_value *out = &p->values[(*n_values)++];
    *s = (struct cpu_step){.op = op, .layer = l, .index = layer, .n_in = l->n_inputs, .out = out};
    s->backward = l->n_tensors > 0;
    for (int k = 0; k < l->n_inputs; k++) {
        s->in[k] = value_of(p, l->inputs[k]);
        s->backward = s->backward || s->in[k]->needs_grad;
    }
    out->shape = op->keeps_shape ? s->in[0]->shape : l->out;
    out->count = shape_count(&out->shape);
    out->needs_grad = s->backward;
    p->of_layer[layer] = out;
    return 0;
}

static int build_steps(struct cpu_program *p, struct err *e)
{
    int n_values = 1;
    p->values[0].shape = p->net->input;
    p->values[0].count = shape_count(&p->net->input);
    for (int i = 0; i < p->net->n_layers; i++) {
        const struct layer *l = &p->net->layers[i];
        struct cpu_value *in = value_of(p, l->inputs[0]);
        struct cpu_step *before = l->type == CAT_LAYER_RELU ? step_before(p, l) : NULL;
        if (before) {
            before->relu = true;
            p->of_layer[i] = in;
        } else if (l->type == CAT_LAYER_FLATTEN && moves_nothing(p->net, i, &in->shape)) {
            p->of_layer[i] = in;
        } else {
            int rc = add_step(p, i, &n_values, e);
            if (rc < 0) {
                return rc;
            }
        }
    }
    p->output = p->of_layer[p->net->n_layers - 1];
    return n_values;
}

/* ---- down: gradients and buckets ----------------------------------------------------------------------------- */

/* The last reader of a value is the first in the backward pass: it writes the gradient, those before it add. */
static void route_gradients(struct cpu_program *p)
{
    p->output->has_grad = true;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        struct cpu_step *s = &p->steps[i];
        for (int k = 0; k < s->n_in; k++) {
            struct cpu_value *v = s->in[k];
            if (!v->needs_grad) {
                continue;
            }
            s->adds[k] = v->has_grad;
            s->in_grad[k] = v->has_grad ? &p->spare[k] : &v->grad;
            size_t floats = (size_t)p->head.batch * v->count;
            if (v->has_grad && p->spare_floats[k] < floats) {
                p->spare_floats[k] = floats;
            }
            v->has_grad = true;
        }
    }
}

static double backward_work(const struct cpu_step *s)
{
    double forward = s->op->work ? s->op->work(s) : 0, work = 0;
    if (!s->backward) {
        return 0;
    }
    if (s->layer->n_tensors > 0) {
        work += forward;
    }
    for (int k = 0; k < s->n_in; k++) {
        if (s->in_grad[k]) {
            return work + forward;
        }
    }
    return work;
}

static void cut_buckets(struct cpu_program *p, size_t bucket_bytes)
{
    double total = 0, done = 0;
    size_t end = p->net->n_params;
    for (int i = 0; i < p->n_steps; i++) {
        const struct cpu_step *s = &p->steps[i];
        double forward = s->op->work ? s->op->work(s) : 0;
        total += forward + backward_work(s);
        done += forward;
    }
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const struct cpu_step *s = &p->steps[i];
        done += backward_work(s);
        if (s->layer->n_tensors == 0) {
            continue;
        }
        size_t first = p->net->tensors[s->layer->first_tensor].first;
        if ((end - first) * sizeof(float) >= bucket_bytes || first == 0) {
            int b = p->head.n_buckets++;
            double share = total > 0 ? done / total : 1;
            p->head.buckets[b] = (struct dev_bucket){.first = first, .count = end - first, .work_done = share < 1 ? share : 1};
            p->bucket_step[b] = i;
            end = first;
        }
    }
}

/* ---- up again: operators, then memory -------------------------------------------------------------------------- */

static int prepare_steps(struct cpu_program *p, struct err *e)
{
    for (int i = 0; i < p->n_steps; i++) {
        struct cpu_step *s = &p->steps[i];
        int rc = s->op->prepare ? s->op->prepare(p, s, e) : 0;
        if (rc < 0) {
            return err_prefix(e, "cannot prepare layer '%s' (%s)", s->layer->name, s->op->name);
        }
    }
    return 0;
}

static int give_memory(struct cpu_program *p, int n_values, struct err *e)
{
    size_t batch = (size_t)p->head.batch;
    for (int i = 0; i < n_values; i++) {
        struct cpu_value *v = &p->values[i];
        if (i > 0 && !(v->data = cpu_alloc(p, batch * v->count, e))) {
            return -ERR_MEMORY;
        }
        if (v->needs_grad && !(v->grad = cpu_alloc(p, batch * v->count, e))) {
            return -ERR_MEMORY;
        }
    }
    for (int k = 0; k < NET_INPUTS; k++) {
        if (p->spare_floats[k] > 0 && !(p->spare[k] = cpu_alloc(p, p->spare_floats[k], e))) {
            return -ERR_MEMORY;
        }
    }
    p->padded = cpu_alloc(p, batch * p->values[0].count, e);
    p->scratch = p->padded ? cpu_alloc(p, (p->scratch_bytes + 3) / 4, e) : NULL;
    return p->scratch ? 0 : -ERR_MEMORY;
}

static int build(struct cpu_program *p, size_t bucket_bytes, struct err *e)
{
    size_t n = (size_t)p->net->n_layers;
    p->steps = calloc(n, sizeof(*p->steps));
    p->values = calloc(n + 1, sizeof(*p->values));
    p->of_layer = calloc(n, sizeof(struct cpu_value *));
    p->bucket_step = calloc(n, sizeof(*p->bucket_step));
    p->head.buckets = calloc(n, sizeof(*p->head.buckets));
    if (!p->steps || !p->values || !p->of_layer || !p->bucket_step || !p->head.buckets) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    int rc = prim_check(dnnl_stream_create(&p->stream, p->dev->engine, dnnl_stream_default_flags), "create a stream", e);
    int n_values = rc < 0 ? rc : build_steps(p, e);
    if (n_values < 0) {
        return n_values;
    }
    route_gradients(p);
    cut_buckets(p, bucket_bytes);
    rc = prepare_steps(p, e);
    return rc < 0 ? rc : give_memory(p, n_values, e);
}

struct dev_program *cpu_program_new(struct dev_replica *r, int batch, size_t bucket_bytes, struct err *e)
{
    struct cpu_program *p = calloc(1, sizeof(*p));
    if (!p) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    p->head.replica = r;
    p->head.batch = batch;
    p->dev = (struct cpu_device *)r->dev;
    p->net = r->net;
    omp_set_num_threads(p->dev->threads); /* of the calling thread; kernels are made for a number of threads */
    if (build(p, bucket_bytes, e) < 0) {
        err_prefix(e, "cannot compile the network for a minibatch of %d", batch);
        cpu_program_free((struct dev_program *)p);
        return NULL;
    }
    return (struct dev_program *)p;
}

void cpu_program_free(struct dev_program *program)
{
    struct cpu_program *p = (struct cpu_program *)program;
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].op->release) {
            p->steps[i].op->release(&p->steps[i]);
        }
    }
    if (p->stream) {
        dnnl_stream_destroy(p->stream);
    }
    while (p->chunks) {
        struct cpu_chunk *chunk = p->chunks;
        p->chunks = chunk->next;
        free(chunk->memory);
        free(chunk);
    }
    free(p->steps);
    free(p->values);
    free(p->of_layer);
    free(p->bucket_step);
    free(p->head.buckets);
    free(p);
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

static void bind_input(struct cpu_program *p, const struct dev_input *in)
{
    size_t n = p->values[0].count, used = (size_t)in->count * n, all = (size_t)p->head.batch * n;
    if (in->count == p->head.batch) {
        p->values[0].data = (float *)in->x; /* nobody writes to it: its gradient is never made */
        return;
    }
    memcpy(p->padded, in->x, used * sizeof(float));
    memset(p->padded + used, 0, (all - used) * sizeof(float));
    p->values[0].data = p->padded;
}

static int run_backward(struct cpu_program *p, const struct dev_input *in, dev_mark_fn *mark, void *ctx, struct err *e)
{
    int bucket = 0;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        struct cpu_step *s = &p->steps[i];
        int rc = s->backward && s->op->backward ? s->op->backward(p, s, in, e) : 0;
        if (rc < 0) {
            return err_prefix(e, "gradient of layer '%s'", s->layer->name);
        }
        for (int k = 0; k < s->n_in; k++) {
            if (s->adds[k]) {
                pointwise_add(s->in[k]->grad, p->spare[k], (size_t)p->head.batch * s->in[k]->count);
            }
        }
        if (bucket < p->head.n_buckets && p->bucket_step[bucket] == i) {
            if (mark) {
                mark(ctx, bucket);
            }
            bucket++;
        }
    }
    return 0;
}

int cpu_program_compute(struct dev_program *program, const struct dev_input *in, struct dev_result *out, float *logits,
                        dev_mark_fn *mark, void *ctx, struct err *e)
{
    struct cpu_program *p = (struct cpu_program *)program;
    if (in->count < 1 || in->count > p->head.batch) {
        return err_set(e, ERR_INTERNAL, "a minibatch of %d does not fit a program for %d", in->count, p->head.batch);
    }
    omp_set_num_threads(p->dev->threads);
    bind_input(p, in);
    for (int i = 0; i < p->n_steps; i++) {
        int rc = p->steps[i].op->forward(p, &p->steps[i], in, e);
        if (rc < 0) {
            return err_prefix(e, "layer '%s'", p->steps[i].layer->name);
        }
    }
    int rc = 0;
    if (in->y) {
        rc = cpu_loss(p->net->loss, p->output, p->head.batch, in, out, e);
    } else {
        *out = (struct dev_result){.finite = true};
    }
    if (rc < 0) {
        return rc;
    }
    if (logits) {
        memcpy(logits, p->output->data, (size_t)in->count * p->output->count * sizeof(float));
    }
    return in->training ? run_backward(p, in, mark, ctx, e) : 0;
}
