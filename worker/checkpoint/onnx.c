/* See onnx.h. ONNX (onnx.ai, onnx.proto) is a protocol buffer: a model has a graph, a graph has
 * nodes, which name their inputs and outputs, and initializers, which are the parameters.
 *
 *   input ─► Conv(conv1.weight, conv1.bias) ─► conv1 ─► Relu ─► relu1 ─► … ─► Gemm ─► output
 *
 * ONNX counts pictures as channels, height, width, as PyTorch does, and our tensors are in
 * PyTorch's order, so every tensor goes out as it stands. Operators are those of version 13, which
 * runtimes since 2020 know. Field numbers are those of onnx.proto.
 */
#include "worker/checkpoint/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/proc.h"
#include "common/version.h"
#include "worker/checkpoint/artifact.h"
#include "worker/checkpoint/protobuf.h"

enum { IR_VERSION = 7, OPSET = 13, TYPE_FLOAT = 1 };
static const size_t MOST_BYTES = (size_t)2000 << 20; /* a protocol buffer's limit is 2 GiB */

enum {
    MODEL_IR = 1,
    MODEL_PRODUCER = 2,
    MODEL_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_META = 14
};
enum { OPSET_VERSION = 2, META_KEY = 1, META_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_FLOAT = 2, ATTR_INT = 3, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_INTS = 7 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2 };

struct exporter {
    const struct network *net;
    struct buf graph, node, part; /* node: the current one; part: within it */
};

/* ---- nodes ----------------------------------------------------------------------------------- */

static void attribute_float(struct exporter *x, const char *name, double value)
{
    protobuf_text(&x->part, ATTR_NAME, name);
    protobuf_float(&x->part, ATTR_FLOAT, (float)value);
    protobuf_int(&x->part, ATTR_TYPE, ATTR_IS_FLOAT);
    protobuf_message(&x->node, NODE_ATTRIBUTE, &x->part);
}

static void attribute_int(struct exporter *x, const char *name, int64_t value)
{
    protobuf_text(&x->part, ATTR_NAME, name);
    protobuf_int(&x->part, ATTR_INT, value);
    protobuf_int(&x->part, ATTR_TYPE, ATTR_IS_INT);
    protobuf_message(&x->node, NODE_ATTRIBUTE, &x->part);
}

/* height, width; for n = 4 again height, width: ONNX pads at the beginning and at the end. */
static void attribute_ints(struct exporter *x, const char *name, const int v[2], int n)
{
    protobuf_text(&x->part, ATTR_NAME, name);
    for (int i = 0; i < n; i++) {
        protobuf_int(&x->part, ATTR_INTS, v[i % 2]);
    }
    protobuf_int(&x->part, ATTR_TYPE, ATTR_IS_INTS);
    protobuf_message(&x->node, NODE_ATTRIBUTE, &x->part);
}

static void attribute_window(struct exporter *x, const struct layer *l)
{
    attribute_ints(x, "kernel_shape", l->kernel, 2);
    attribute_ints(x, "strides", l->stride, 2);
    attribute_ints(x, "pads", l->padding, 4);
}

static const char *value_name(const struct exporter *x, int layer)
{
    return layer < 0                       ? "input"
           : layer == x->net->n_layers - 1 ? "output"
                                           : x->net->layers[layer].name;
}

static void end_node(struct exporter *x, const char *type, const char *output)
{
    protobuf_text(&x->node, NODE_OUTPUT, output);
    protobuf_text(&x->node, NODE_NAME, output);
    protobuf_text(&x->node, NODE_TYPE, type);
    protobuf_message(&x->graph, GRAPH_NODE, &x->node);
}

/* Adds a node that flattens a sample's values into a vector; puts its output's name into out. */
static void add_flatten(struct exporter *x, const char *input, const char *output)
{
    protobuf_text(&x->node, NODE_INPUT, input);
    attribute_int(x, "axis", 1);
    end_node(x, "Flatten", output);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static const struct {
    int layer; /* CAT_LAYER_… */
    const char *type;
} operators[] = {
    {CAT_LAYER_DENSE, "Gemm"},
    {CAT_LAYER_CONV2D, "Conv"},
    {CAT_LAYER_MAX_POOL, "MaxPool"},
    {CAT_LAYER_AVERAGE_POOL, "AveragePool"},
    {CAT_LAYER_GLOBAL_AVERAGE_POOL, "GlobalAveragePool"},
    {CAT_LAYER_BATCH_NORM, "BatchNormalization"},
    {CAT_LAYER_LRN, "LRN"},
    {CAT_LAYER_RELU, "Relu"},
    {CAT_LAYER_LEAKY_RELU, "LeakyRelu"},
    {CAT_LAYER_TANH, "Tanh"},
    {CAT_LAYER_SIGMOID, "Sigmoid"},
    {CAT_LAYER_DROPOUT, "Identity"}, /* drops nothing outside training */
    {CAT_LAYER_FLATTEN, "Flatten"},
    {CAT_LAYER_ADD, "Sum"},
    {CAT_LAYER_CONCAT, "Concat"},
};

static const char *operator_of(const struct layer *l)
{
    for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++) {
        if (operators[i].layer == l->type) {
            return operators[i].type;
        }
    }
    return NULL;
}

static void add_attributes(struct exporter *x, const struct layer *l)
{
    switch (l->type) {
    case CAT_LAYER_DENSE:
        attribute_int(x, "transB", 1);
        break;
    case CAT_LAYER_AVERAGE_POOL:
        attribute_int(x, "count_include_pad", 1);
        attribute_window(x, l);
        break;
    case CAT_LAYER_CONV2D:
    case CAT_LAYER_MAX_POOL:
        attribute_window(x, l);
        break;
    case CAT_LAYER_BATCH_NORM:
        attribute_float(x, "epsilon", l->eps);
        break;
    case CAT_LAYER_LRN:
        attribute_int(x, "size", l->window);
        attribute_float(x, "alpha", l->alpha);
        attribute_float(x, "beta", l->beta);
        attribute_float(x, "bias", l->k);
        break;
    case CAT_LAYER_LEAKY_RELU:
        attribute_float(x, "alpha", l->rate);
        break;
    case CAT_LAYER_FLATTEN:
    case CAT_LAYER_CONCAT:
        attribute_int(x, "axis", 1);
        break;
    default:
        break;
    }
}

/* ONNX's window of even size reaches one element further up than down, ours the other way. */
static int check_layer(const struct layer *l, struct err *e)
{
    if (!operator_of(l)) {
        return err_set(e, ERR_UNSUPPORTED, "ONNX has no operator for layer '%s' (%s)", l->name,
                       catalog_get(l->type)->name);
    }
    if (l->type == CAT_LAYER_LRN && l->window % 2 == 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "ONNX has no operator for layer '%s': its window of %d channels is even",
                       l->name, l->window);
    }
    return 0;
}

static int add_layer(struct exporter *x, int i, struct err *e)
{
    const struct layer *l = &x->net->layers[i];
    char flat[NET_NAME + 8];
    bool flattens = l->type == CAT_LAYER_DENSE && l->in.rank == 3,
         shrinks = l->type == CAT_LAYER_GLOBAL_AVERAGE_POOL;
    int rc = check_layer(l, e);
    if (rc < 0) {
        return rc;
    }
    snprintf(flat, sizeof(flat), "%s.flat", l->name);
    if (flattens) {
        add_flatten(x, value_name(x, l->inputs[0]), flat);
    }
    for (int k = 0; k < l->n_inputs; k++) {
        protobuf_text(&x->node, NODE_INPUT, flattens ? flat : value_name(x, l->inputs[k]));
    }
    for (int k = 0; k < l->n_tensors; k++) {
        protobuf_text(&x->node, NODE_INPUT, x->net->tensors[l->first_tensor + k].name);
    }
    for (int k = 0; k < l->n_stats; k++) {
        protobuf_text(&x->node, NODE_INPUT, x->net->stats[l->first_stat + k].name);
    }
    add_attributes(x, l);
    end_node(x, operator_of(l), shrinks ? flat : value_name(x, i));
    if (shrinks) {
        add_flatten(x, flat, value_name(x, i));
    }
    return 0;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static void add_tensor(struct exporter *x, const struct tensor *t, const float *block)
{
    for (int i = 0; i < t->rank; i++) {
        protobuf_int(&x->part, TENSOR_DIM, t->dim[i]);
    }
    protobuf_int(&x->part, TENSOR_TYPE, TYPE_FLOAT);
    protobuf_text(&x->part, TENSOR_NAME, t->name);
    protobuf_bytes(&x->part, TENSOR_RAW, block + t->first, t->count * sizeof(float));
    protobuf_message(&x->graph, GRAPH_TENSOR, &x->part);
}

/* Adds a dimension of a value's type to `shape`. 0: any number of samples. */
static void add_dim(struct exporter *x, struct buf *shape, int n)
{
    if (n > 0) {
        protobuf_int(&x->part, DIM_VALUE, n);
    } else {
        protobuf_text(&x->part, DIM_NAME, "N");
    }
    protobuf_message(shape, SHAPE_DIM, &x->part);
}

/* Describes an input or output of the graph: a name and [N, channels, height, width] or [N, n]. */
static void add_value(struct exporter *x, int field, const char *name, const struct shape *s)
{
    struct buf shape, type;
    buf_init(&shape, 1024);
    buf_init(&type, 1024);
    add_dim(x, &shape, 0);
    if (s->rank == 3) {
        add_dim(x, &shape, s->dim[2]);
        add_dim(x, &shape, s->dim[0]);
        add_dim(x, &shape, s->dim[1]);
    } else {
        add_dim(x, &shape, s->dim[0]);
    }
    protobuf_int(&type, TENSOR_ELEMENT, TYPE_FLOAT);
    protobuf_message(&type, TENSOR_SHAPE, &shape);
    protobuf_message(&x->part, TYPE_TENSOR, &type);
    protobuf_text(&x->node, VALUE_NAME, name);
    protobuf_message(&x->node, VALUE_TYPE, &x->part);
    protobuf_message(&x->graph, field, &x->node);
    buf_release(&shape);
    buf_release(&type);
}

static int add_graph(struct exporter *x, const float *params, const float *stats, struct err *e)
{
    const struct network *net = x->net;
    int rc = 0;
    for (int i = 0; rc == 0 && i < net->n_layers; i++) {
        rc = add_layer(x, i, e);
    }
    protobuf_text(&x->graph, GRAPH_NAME, net->preset[0] ? net->preset : "network");
    for (int i = 0; i < net->n_tensors; i++) {
        add_tensor(x, &net->tensors[i], params);
    }
    for (int i = 0; i < net->n_stats; i++) {
        add_tensor(x, &net->stats[i], stats);
    }
    add_value(x, GRAPH_INPUT, "input", &net->input);
    add_value(x, GRAPH_OUTPUT, "output", &net->output);
    return rc;
}

/* ---- the model ------------------------------------------------------------------------------- */

static void add_metadata(struct buf *model, struct buf *part, const json_t *metadata)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        protobuf_text(part, META_KEY, key);
        protobuf_text(part, META_VALUE, json_string_value(value) ? json_string_value(value) : "");
        protobuf_message(model, MODEL_META, part);
    }
}

/* metadata: an object of strings, which the file repeats. */
static int write_model(const char *path, const struct network *net, const float *params,
                       const float *stats, const json_t *metadata, struct err *e)
{
    struct exporter x = {.net = net};
    struct buf model;
    buf_init(&x.graph, MOST_BYTES);
    buf_init(&x.node, MOST_BYTES);
    buf_init(&x.part, MOST_BYTES);
    buf_init(&model, MOST_BYTES);
    int rc = add_graph(&x, params, stats, e);
    if (rc == 0) {
        protobuf_int(&model, MODEL_IR, IR_VERSION);
        protobuf_text(&model, MODEL_PRODUCER, "evenstep");
        protobuf_text(&model, MODEL_VERSION, EVENSTEP_VERSION);
        protobuf_int(&x.part, OPSET_VERSION, OPSET);
        protobuf_message(&model, MODEL_OPSET, &x.part);
        protobuf_message(&model, MODEL_GRAPH, &x.graph);
        add_metadata(&model, &x.part, metadata);
        rc = model.failed ? err_set(e, ERR_TOO_LARGE,
                                    "cannot hold the model as ONNX: it is larger "
                                    "than 2 GB, or memory ran out")
                          : proc_write_file(path, model.data, model.len, 0644, e);
    }
    buf_release(&x.graph);
    buf_release(&x.node);
    buf_release(&x.part);
    buf_release(&model);
    return rc;
}

static int build_network(struct network *net, const struct safetensors *s, struct err *e)
{
    struct jsonx_problems problems = {0};
    struct artifact_about about;
    artifact_about(s, &about);
    int rc = about.network ? network_build(net, about.network, "", &problems)
                           : err_set(e, ERR_DATA, "the file does not describe its network");
    if (about.network && rc < 0) {
        rc = err_set(e, ERR_DATA, "the file's network cannot be built");
    }
    jsonx_problems_release(&problems);
    artifact_about_release(&about);
    return rc;
}

int onnx_export(const char *artifact, const char *path, struct err *e)
{
    struct safetensors s;
    struct network net = {0};
    int rc = safetensors_open(&s, artifact, false, e);
    if (rc < 0) {
        return rc;
    }
    rc = build_network(&net, &s, e);
    float *params = rc == 0 ? malloc((net.n_params + 1) * sizeof(float)) : NULL,
          *stats = rc == 0 ? malloc((net.n_stat_floats + 1) * sizeof(float)) : NULL;
    if (rc == 0 && (!params || !stats)) {
        rc = err_set(e, ERR_MEMORY, "cannot hold the parameters: memory ran out");
    }
    if (rc == 0) {
        network_init(&net, 0, params, stats);
        rc = artifact_read(artifact, &net, NULL, params, stats, e);
    }
    if (rc >= 0) {
        rc = write_model(path, &net, params, stats, s.metadata, e);
    }
    free(params);
    free(stats);
    network_release(&net);
    safetensors_close(&s);
    return rc < 0 ? err_prefix(e, "cannot export '%.200s'", artifact) : 0;
}
