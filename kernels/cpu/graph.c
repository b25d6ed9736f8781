/* From layers to steps (see cpu.h).
 *
 *   layers   conv1 ─ relu1 ─ pool1 ─ flatten1 ─ fc1
 *   steps    conv1+relu1 ─── pool1 ──────────── fc1
 *
 * A relu becomes a part of the step before it. A flatten that only dense layers read moves nothing
 * and is no step. The first pass, upwards, finds steps and values; the second, downwards, finds
 * where each gradient goes. A new operator is a line of the table.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/steps.h"

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

/* ---- up: steps and values -------------------------------------------------------------------- */

const struct cpu_op *cpu_op_of(int layer_type)
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
    const struct cpu_op *op = cpu_op_of(layer_type);
    return op && op->keeps_shape;
}

static struct cpu_value *value_of(struct cpu_program *p, int layer)
{
    return layer < 0 ? &p->values[0] : p->of_layer[layer];
}

/* The step that can include a relu of this layer, or NULL. */
static struct cpu_step *step_before(struct cpu_program *p, const struct layer *l)
{
    int before = l->inputs[0];
    if (before < 0 || p->n_steps == 0 || steps_readers(p->net, before) != 1) {
        return NULL;
    }
    struct cpu_step *s = &p->steps[p->n_steps - 1];
    return s->op->takes_relu && s->index == before ? s : NULL;
}

static int add_step(struct cpu_program *p, int layer, int *n_values, struct err *e)
{
    const struct layer *l = &p->net->layers[layer];
    const struct cpu_op *op = cpu_op_of(l->type);
    if (!op) {
        return err_set(e, ERR_UNSUPPORTED, "the CPU device has no operator for layer '%s' (%s)",
                       l->name, catalog_get(l->type)->name);
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
        } else if (l->type == CAT_LAYER_FLATTEN &&
                   steps_flatten_is_none(p->net, i, &in->shape, keeps_shape)) {
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

/* ---- down: gradients ------------------------------------------------------------------------- */

/* The last reader of a value comes first in the backward pass: it writes the gradient, and earlier
 * readers add to it. */
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
            s->in_grad[k] = v->has_grad ? &s->spare[k] : &v->grad;
            v->has_grad = true;
        }
    }
}

int cpu_graph_build(struct cpu_program *p, struct err *e)
{
    int n_values = build_steps(p, e);
    if (n_values > 0) {
        route_gradients(p);
    }
    return n_values;
}
