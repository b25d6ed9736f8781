/* See plan.h. This file uses cuDNN's graph API, not cudnnConvolutionForward and similar calls.
 * Those offer a few algorithms per pass; the graph API offers all engines with their knobs, and
 * notes about the arithmetic of each.
 *
 * Only its notes ("tensor core") tell that an engine may round floats to TF32, and the fastest ones
 * do. So plan_make checks the notes of every engine, also of one that a node's profile names.
 */
#include "kernels/cuda/plan.h"

#include <string.h>

#define DNN(call) TRY(cuda_check_dnn(call, "describe a convolution", e))

static void release(struct plan_part *p)
{
    if (p->d) {
        cudnnBackendDestroyDescriptor(p->d);
        p->d = NULL;
    }
}

plan_part::~plan_part()
{
    release(this);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Discards earlier contents: after a failure, a plan is made again from another engine. */
static int begin(struct plan_part *p, cudnnBackendDescriptorType_t type, struct err *e)
{
    release(p);
    DNN(cudnnBackendCreateDescriptor(type, &p->d));
    return 0;
}

static int put(struct plan_part *p, int name, cudnnBackendAttributeType_t type, int64_t n,
               const void *values, struct err *e)
{
    DNN(cudnnBackendSetAttribute(p->d, (cudnnBackendAttributeName_t)name, type, n, values));
    return 0;
}

static int put_part(struct plan_part *p, int name, cudnnBackendDescriptor_t part, struct err *e)
{
    return put(p, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part, e);
}

static int end(struct plan_part *p, struct err *e)
{
    DNN(cudnnBackendFinalize(p->d));
    return 0;
}

/* Reads at most `room` elements; returns their number. */
static int get(const struct plan_part *p, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, int room, void *values, struct err *e)
{
    int64_t n = 0;
    DNN(cudnnBackendGetAttribute(p->d, name, type, room, &n, values));
    return (int)(n < room ? n : room);
}

/* n images, or filters, of `shape` [height, width, channels]. */
static int tensor(struct plan_part *t, int64_t id, enum cuda_precision precision, int n, int height,
                  int width, int channels, struct err *e)
{
    const cudnnDataType_t kind = precision == CUDA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int64_t dims[] = {n, channels, height, width}, alignment = 16,
                  strides[] = {(int64_t)height * width * channels, 1, (int64_t)width * channels,
                               channels};
    TRY(begin(t, CUDNN_BACKEND_TENSOR_DESCRIPTOR, e));
    TRY(put(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kind, e));
    TRY(put(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims, e));
    TRY(put(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides, e));
    TRY(put(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, e));
    TRY(put(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, e));
    return end(t, e);
}

static int convolution(struct plan_part *c, const struct plan_shape *s, struct err *e)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dims = 2, dilation[] = {1, 1}, stride[] = {s->stride[0], s->stride[1]},
                  padding[] = {s->padding[0], s->padding[1]};
    TRY(begin(c, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, e));
    TRY(put(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums, e));
    TRY(put(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode, e));
    TRY(put(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims, e));
    TRY(put(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation, e));
    TRY(put(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride, e));
    TRY(put(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, padding, e));
    TRY(put(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, padding, e));
    return end(c, e);
}

/* The names of the attributes of each pass's operation. */
static const struct {
    cudnnBackendDescriptorType_t type;
    int alpha, beta, convolution, w, x, y;
} operations[CUDA_PASSES] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

enum { X = 1, W, Y }; /* names of the tensors in a graph */

int plan_describe(struct plan_graph *g, enum plan_pass pass, const struct plan_shape *s,
                  enum cuda_precision precision, struct err *e)
{
    const float one = 1, before = pass == PLAN_DATA && s->adds ? 1 : 0;
    TRY(tensor(&g->x, X, precision, s->batch, s->in[0], s->in[1], s->in[2], e));
    TRY(tensor(&g->w, W, precision, s->out[2], s->kernel[0], s->kernel[1], s->in[2], e));
    TRY(tensor(&g->y, Y, precision, s->batch, s->out[0], s->out[1], s->out[2], e));
    TRY(convolution(&g->convolution, s, e));
    TRY(begin(&g->operation, operations[pass].type, e));
    TRY(put(&g->operation, operations[pass].alpha, CUDNN_TYPE_FLOAT, 1, &one, e));
    TRY(put(&g->operation, operations[pass].beta, CUDNN_TYPE_FLOAT, 1, &before, e));
    TRY(put_part(&g->operation, operations[pass].convolution, g->convolution.d, e));
    TRY(put_part(&g->operation, operations[pass].w, g->w.d, e));
    TRY(put_part(&g->operation, operations[pass].x, g->x.d, e));
    TRY(put_part(&g->operation, operations[pass].y, g->y.d, e));
    TRY(end(&g->operation, e));
    TRY(begin(&g->graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, e));
    TRY(put_part(&g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, g->operation.d, e));
    return end(&g->graph, e);
}

/* ---- engines --------------------------------------------------------------------------------- */

/* An engine's notes. */
struct notes {
    bool allowed;    /* its arithmetic fits the precision */
    bool repeatable; /* it gives the same bits each time */
};

static int read_notes(const struct plan_part *engine, enum cuda_precision precision,
                      struct notes *out, struct err *e)
{
    cudnnBackendNumericalNote_t list[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int n = get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                CUDNN_NUMERICAL_NOTE_TYPE_COUNT, list, e);
    TRY(n);
    *out = {true, true};
    for (int i = 0; i < n; i++) {
        switch (list[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
            out->repeatable = false;
            break;
        case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
            break;
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
            out->allowed = out->allowed && precision != CUDA_FP32;
            break;
        default: /* factors rounded further, sums in less than floats, transforms that lose digits
                  */
            out->allowed = false;
        }
    }
    return 0;
}

/* Reads the knobs back, so that the same plan can be made for another minibatch or by another
 * process. */
static int read_config(const struct plan_part *config, struct plan_part *engine,
                       struct cuda_engine *out, struct err *e)
{
    struct plan_part knobs[CUDA_KNOBS];
    cudnnBackendDescriptor_t raw[CUDA_KNOBS];
    int64_t index = 0;
    TRY(begin(engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR, e));
    TRY(get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine->d, e));
    TRY(get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index, e));
    for (int i = 0; i < CUDA_KNOBS; i++) {
        TRY(begin(&knobs[i], CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, e));
        raw[i] = knobs[i].d;
    }
    *out = {};
    out->index = (int)index;
    out->n_knobs = get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       CUDA_KNOBS, raw, e);
    TRY(out->n_knobs);
    for (int i = 0; i < out->n_knobs; i++) {
        cudnnBackendKnobType_t type = {};
        int64_t value = 0;
        TRY(get(&knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type, e));
        TRY(get(&knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value, e));
        out->knobs[i][0] = (int)type;
        out->knobs[i][1] = (int)value;
    }
    return 0;
}

/* The heuristics to ask, and how full the list may be after each. */
static const struct {
    cudnnBackendHeurMode_t mode;
    int parts;
} modes[] = {{CUDNN_HEUR_MODE_A, 2}, {CUDNN_HEUR_MODE_B, 3}, {CUDNN_HEUR_MODE_FALLBACK, 4}};
enum { MOST_CONFIGS = 64, ALL_PARTS = 4 };

struct listing {
    cudnnBackendDescriptor_t properties;
    const struct plan_graph *g;
    enum cuda_precision precision;
    bool repeatable; /* only these */
    struct cuda_engine *list;
    struct plan *plans; /* a plan for each engine in the list */
    int n;
};

static void consider(struct listing *l, const struct plan_part *config)
{
    struct plan_part engine;
    struct cuda_engine found;
    struct notes notes;
    struct err ignored;
    if (read_config(config, &engine, &found, &ignored) < 0 ||
        read_notes(&engine, l->precision, &notes, &ignored) < 0 || !notes.allowed ||
        notes.repeatable != l->repeatable) {
        return;
    }
    for (int i = 0; i < l->n; i++) {
        if (memcmp(&l->list[i], &found, sizeof(found)) == 0) {
            return;
        }
    }
    if (plan_make(&l->plans[l->n], l->properties, l->g, l->precision, &found, &ignored) == 0) {
        l->list[l->n++] = found;
    }
}

static int ask(struct listing *l, cudnnBackendHeurMode_t mode, int most, struct err *e)
{
    struct plan_part rules, configs[MOST_CONFIGS];
    cudnnBackendDescriptor_t raw[MOST_CONFIGS];
    TRY(begin(&rules, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, e));
    TRY(put_part(&rules, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, l->g->graph.d, e));
    TRY(put(&rules, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, e));
    TRY(put_part(&rules, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, l->properties, e));
    TRY(end(&rules, e));
    for (int i = 0; i < MOST_CONFIGS; i++) {
        TRY(begin(&configs[i], CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, e));
        raw[i] = configs[i].d;
    }
    int n = get(&rules, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS,
                raw, e);
    for (int i = 0; i < n && l->n < most; i++) {
        consider(l, &configs[i]);
    }
    return n < 0 ? n : 0;
}

int plan_engines(cudnnBackendDescriptor_t properties, const struct plan_graph *g,
                 enum cuda_precision precision, struct cuda_engine *list, struct plan *plans,
                 int most, struct err *e)
{
    struct listing l = {properties, g, precision, true, list, plans, 0};
    struct err why = {};
    for (int way = 0; way < 2 && l.n == 0; way++) {
        l.repeatable = way == 0;
        for (const auto &m : modes) {
            ask(&l, m.mode, (most * m.parts + ALL_PARTS - 1) / ALL_PARTS,
                &why); /* a mode may have no answer */
        }
    }
    return l.n > 0 ? l.n
                   : err_set(e, ERR_UNSUPPORTED, "cuDNN has no engine for it%s%s",
                             why.code ? ": " : "", why.code ? why.message : "");
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int make_engine(struct plan *p, cudnnBackendDescriptor_t properties,
                       const struct plan_graph *g, int64_t index, struct err *e)
{
    TRY(begin(&p->engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR, e));
    TRY(put_part(&p->engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->graph.d, e));
    TRY(put(&p->engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index, e));
    TRY(put_part(&p->engine, CUDNN_ATTR_ENGINE_DEVICEPROP, properties, e));
    return end(&p->engine, e);
}

static int make_config(struct plan *p, const struct cuda_engine *engine, struct err *e)
{
    cudnnBackendDescriptor_t raw[CUDA_KNOBS];
    for (int i = 0; i < engine->n_knobs; i++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)engine->knobs[i][0];
        const int64_t value = engine->knobs[i][1];
        TRY(begin(&p->knobs[i], CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, e));
        TRY(put(&p->knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type, e));
        TRY(put(&p->knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value, e));
        TRY(end(&p->knobs[i], e));
        raw[i] = p->knobs[i].d;
    }
    TRY(begin(&p->config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, e));
    TRY(put_part(&p->config, CUDNN_ATTR_ENGINECFG_ENGINE, p->engine.d, e));
    if (engine->n_knobs > 0) {
        TRY(put(&p->config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                engine->n_knobs, raw, e));
    }
    return end(&p->config, e);
}

static int make_execution(struct plan *p, cudnnBackendDescriptor_t properties, struct err *e)
{
    int64_t bytes = 0;
    TRY(begin(&p->execution, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, e));
    TRY(put_part(&p->execution, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, p->config.d, e));
    TRY(put_part(&p->execution, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties, e));
    TRY(end(&p->execution, e));
    TRY(get(&p->execution, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes,
            e));
    p->workspace = (size_t)bytes;
    return bytes <= PLAN_WIDEST
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "an engine of cuDNN pieces %lld bytes of workspace",
                         (long long)bytes);
}

int plan_make(struct plan *p, cudnnBackendDescriptor_t properties, const struct plan_graph *g,
              enum cuda_precision precision, const struct cuda_engine *engine, struct err *e)
{
    struct notes notes;
    TRY(make_engine(p, properties, g, engine->index, e));
    TRY(read_notes(&p->engine, precision, &notes, e));
    if (!notes.allowed) {
        return err_set(e, ERR_UNSUPPORTED, "engine %d of cuDNN has another arithmetic",
                       engine->index);
    }
    TRY(make_config(p, engine, e));
    return make_execution(p, properties, e);
}

int plan_run(const struct plan *p, cudnnHandle_t handle, const void *x, const void *w,
             const void *y, void *workspace, struct err *e)
{
    static const int64_t names[] = {X, W, Y};
    const void *data[] = {x, w, y};
    struct plan_part pack;
    TRY(begin(&pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, e));
    TRY(put(&pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names, e));
    TRY(put(&pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data, e));
    TRY(put(&pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace, e));
    TRY(end(&pack, e));
    return cuda_check_dnn(cudnnBackendExecute(handle, p->execution.d, pack.d), "run a convolution",
                          e);
}
