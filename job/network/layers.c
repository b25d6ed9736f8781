/* The layer types: attributes, output shape, tensors and their fans. See job/network/layers.h for
 * how to add one.
 *
 * Shapes are {h, w, c} or {n}. Tensors are in PyTorch's order (convolution O,I,H,W; dense out,in).
 * A dense layer after a picture orders its inputs by channel, row, column (C,H,W), while
 * activations are NHWC. So a layer notes in `flat_from` from which picture its vector came. Layers
 * that keep every element in place (relu, dropout) pass this on.
 */
#include "job/network/layers.h"

#include <stddef.h>
#include <string.h>

/* Large enough for any network that trains, small enough that products of two stay far from
 * overflow. */
static const int64_t most_elements = (int64_t)1 << 28;

/* ---- attributes ------------------------------------------------------------------------------ */

enum attribute_kind { ATTR_INT, ATTR_PAIR, ATTR_BOOL, ATTR_REAL };
static const struct attribute {
    const char *name; /* of the catalogue's parameter */
    enum attribute_kind kind;
    size_t at; /* in struct layer */
} attributes[] = {
    {"units", ATTR_INT, offsetof(struct layer, units)},
    {"filters", ATTR_INT, offsetof(struct layer, units)},
    {"kernel", ATTR_PAIR, offsetof(struct layer, kernel)},
    {"size", ATTR_PAIR, offsetof(struct layer, kernel)},
    {"stride", ATTR_PAIR, offsetof(struct layer, stride)},
    {"padding", ATTR_PAIR, offsetof(struct layer, padding)},
    {"bias", ATTR_BOOL, offsetof(struct layer, bias)},
    {"rate", ATTR_REAL, offsetof(struct layer, rate)},
    {"slope", ATTR_REAL, offsetof(struct layer, rate)},
    {"momentum", ATTR_REAL, offsetof(struct layer, rate)},
    {"eps", ATTR_REAL, offsetof(struct layer, eps)},
    {"window", ATTR_INT, offsetof(struct layer, window)},
    {"alpha", ATTR_REAL, offsetof(struct layer, alpha)},
    {"beta", ATTR_REAL, offsetof(struct layer, beta)},
    {"k", ATTR_REAL, offsetof(struct layer, k)},
};

static const struct attribute *attribute_find(const char *name)
{
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (strcmp(attributes[i].name, name) == 0) {
            return &attributes[i];
        }
    }
    err_bug(__FILE__, __LINE__, name); /* a parameter in catalog.def without a row above */
}

void layer_read(struct layer *l, const json_t *full)
{
    for (const struct catalog_param *p = catalog_get(l->type)->params; p->name != NULL; p++) {
        const struct attribute *a = attribute_find(p->name);
        const json_t *v = json_object_get(full, p->name);
        void *field = (char *)l + a->at;
        if (v == NULL) {
            continue; /* an optional pair, whose default the type's function sets */
        }
        switch (a->kind) {
        case ATTR_INT:
            *(int *)field = (int)json_integer_value(v);
            break;
        case ATTR_PAIR:
            ((int *)field)[0] = (int)json_integer_value(json_array_get(v, 0));
            ((int *)field)[1] = (int)json_integer_value(json_array_get(v, 1));
            break;
        case ATTR_BOOL:
            *(bool *)field = json_is_true(v);
            break;
        case ATTR_REAL:
            *(double *)field = json_number_value(v);
            break;
        }
    }
}

void layer_write(const struct layer *l, json_t *out)
{
    for (const struct catalog_param *p = catalog_get(l->type)->params; p->name != NULL; p++) {
        const struct attribute *a = attribute_find(p->name);
        const void *field = (const char *)l + a->at;
        json_t *v = NULL;
        switch (a->kind) {
        case ATTR_INT:
            v = json_integer(*(const int *)field);
            break;
        case ATTR_PAIR:
            v = json_pack("[i,i]", ((const int *)field)[0], ((const int *)field)[1]);
            break;
        case ATTR_BOOL:
            v = json_boolean(*(const bool *)field);
            break;
        case ATTR_REAL:
            v = json_real(*(const double *)field);
            break;
        }
        json_object_set_new(out, p->name, v);
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Height and width after a window has moved over the input; reports windows that do not fit. */
static bool slide(struct layer_work *w, int *height, int *width)
{
    const struct layer *l = w->layer;
    int out[2];
    char shown[48];
    for (int i = 0; i < 2; i++) {
        int room = l->in.dim[i] + 2 * l->padding[i] - l->kernel[i];
        if (room < 0) {
            jsonx_problem(
                w->problems, w->pointer,
                "layer '%s' has a window of %d x %d that does not fit its input %s with padding "
                "%d x %d",
                l->name, l->kernel[0], l->kernel[1], layer_show_shape(shown, &l->in), l->padding[0],
                l->padding[1]);
            return false;
        }
        out[i] = room / l->stride[i] + 1;
    }
    *height = out[0];
    *width = out[1];
    return true;
}

static void default_stride(struct layer *l, int height, int width)
{
    if (l->stride[0] == 0) {
        l->stride[0] = height;
        l->stride[1] = width;
    }
}

static bool too_large(struct layer_work *w, int64_t elements, const char *what)
{
    if (elements <= most_elements) {
        return false;
    }
    jsonx_problem(w->problems, w->pointer, "layer '%s' would have %lld %s, more than %lld",
                  w->layer->name, (long long)elements, what, (long long)most_elements);
    return true;
}

/* ---- the types ------------------------------------------------------------------------------- */

static bool build_dense(struct layer_work *w)
{
    struct layer *l = w->layer;
    int64_t in = (int64_t)shape_count(&l->in), out = l->units;
    if (too_large(w, in * out, "weights")) {
        return false;
    }
    l->flat_from = w->counted[0];
    l->out = (struct shape){.rank = 1, .dim = {l->units}};
    w->out_counted = l->out;
    layer_add_tensor(w, "weight", 2, (int64_t[]){out, in}, (int)in, (int)out);
    if (l->bias) {
        layer_add_tensor(w, "bias", 1, (int64_t[]){out}, (int)in, (int)out);
    }
    return true;
}

static double flops_dense(const struct layer *l)
{
    return 2.0 * (double)shape_count(&l->in) * l->units;
}

static bool build_conv2d(struct layer_work *w)
{
    struct layer *l = w->layer;
    int height, width;
    default_stride(l, 1, 1);
    if (!layer_need_image(w) || !slide(w, &height, &width)) {
        return false;
    }
    int64_t window = (int64_t)l->kernel[0] * l->kernel[1], channels = l->in.dim[2], out = l->units;
    if (too_large(w, window * channels * out, "weights") ||
        too_large(w, (int64_t)height * width * out, "outputs per sample")) {
        return false;
    }
    l->out = w->out_counted = (struct shape){.rank = 3, .dim = {height, width, l->units}};
    int fan_in = (int)(window * channels), fan_out = (int)(window * out);
    layer_add_tensor(w, "weight", 4, (int64_t[]){out, channels, l->kernel[0], l->kernel[1]}, fan_in,
                     fan_out);
    if (l->bias) {
        layer_add_tensor(w, "bias", 1, (int64_t[]){out}, fan_in, fan_out);
    }
    return true;
}

static double flops_conv2d(const struct layer *l)
{
    return 2.0 * (double)shape_count(&l->out) * l->kernel[0] * l->kernel[1] * l->in.dim[2];
}

static bool build_pool(struct layer_work *w)
{
    struct layer *l = w->layer;
    int height, width;
    default_stride(l, l->kernel[0], l->kernel[1]);
    if (!layer_need_image(w)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (2 * l->padding[i] > l->kernel[i]) { /* else a window could have only padding */
            jsonx_problem(w->problems, w->pointer,
                          "layer '%s' has padding %d, more than half its size %d", l->name,
                          l->padding[i], l->kernel[i]);
            return false;
        }
    }
    if (!slide(w, &height, &width)) {
        return false;
    }
    l->out = w->out_counted = (struct shape){.rank = 3, .dim = {height, width, l->in.dim[2]}};
    return true;
}

static double flops_pool(const struct layer *l)
{
    return (double)shape_count(&l->out) * l->kernel[0] * l->kernel[1];
}

/* Layers that keep shape and order of the elements. */
static bool build_same(struct layer_work *w)
{
    w->layer->out = w->layer->in;
    w->out_counted = w->counted[0];
    return true;
}

static double flops_same(const struct layer *l)
{
    return (double)shape_count(&l->out);
}

static bool build_flatten(struct layer_work *w)
{
    w->layer->flat_from = w->out_counted = w->counted[0];
    w->layer->out = (struct shape){.rank = 1, .dim = {(int)shape_count(&w->layer->in)}};
    return true;
}

static double flops_norm(const struct layer *l)
{
    return 8.0 * (double)shape_count(&l->out);
}

static double flops_lrn(const struct layer *l)
{
    return (double)shape_count(&l->out) * (8.0 + 2.0 * l->window);
}

static double flops_inputs(const struct layer *l)
{
    return (double)shape_count(&l->in) * l->n_inputs;
}

static double flops_none(const struct layer *l)
{
    return 0;
}

static const struct layer_type types[] = {
    {CAT_LAYER_DENSE, "dense", 1, 1, build_dense, flops_dense},
    {CAT_LAYER_CONV2D, "conv", 1, 1, build_conv2d, flops_conv2d},
    {CAT_LAYER_MAX_POOL, "pool", 1, 1, build_pool, flops_pool},
    {CAT_LAYER_AVERAGE_POOL, "average_pool", 1, 1, build_pool, flops_pool},
    {CAT_LAYER_GLOBAL_AVERAGE_POOL, "global_pool", 1, 1, layer_build_global_pool, flops_inputs},
    {CAT_LAYER_BATCH_NORM, "bn", 1, 1, layer_build_batch_norm, flops_norm},
    {CAT_LAYER_LRN, "lrn", 1, 1, layer_build_lrn, flops_lrn},
    {CAT_LAYER_RELU, "relu", 1, 1, build_same, flops_same},
    {CAT_LAYER_LEAKY_RELU, "leaky_relu", 1, 1, build_same, flops_same},
    {CAT_LAYER_TANH, "tanh", 1, 1, build_same, flops_norm},
    {CAT_LAYER_SIGMOID, "sigmoid", 1, 1, build_same, flops_norm},
    {CAT_LAYER_DROPOUT, "dropout", 1, 1, build_same, flops_same},
    {CAT_LAYER_FLATTEN, "flatten", 1, 1, build_flatten, flops_none},
    {CAT_LAYER_ADD, "add", 2, NET_INPUTS, layer_build_add, flops_inputs},
    {CAT_LAYER_CONCAT, "concat", 2, NET_INPUTS, layer_build_concat, flops_none},
};

const struct layer_type *layer_type_get(int id)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].id == id) {
            return &types[i];
        }
    }
    err_bug(__FILE__, __LINE__, "a layer in catalog.def has no row in job/network/layers.c");
}
