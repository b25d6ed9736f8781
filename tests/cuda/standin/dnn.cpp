/* cuDNN's graph API on plain loops (see standin.h), for graphs of one convolution, with what the
 * real one checks: descriptors that are live, complete and final, shapes that belong together,
 * tensors inside memory of the GPU and aligned, a workspace that is large enough, the stream of the
 * handle.
 *
 * There are four engines, and the lists have the traps before the right one:
 *
 *   0   makes no plan                  2   "tensor core": floats are really rounded to 10 bits
 *   1   not repeatable                 3   right, with a knob that may be 0 or 1; wants a workspace, as 1 and 2 do
 */
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <vector>

#include "tests/cuda/standin/standin.h"

struct standin_dnn {
    cudaStream_t stream;
};

extern "C" const char *cudnnGetErrorString(cudnnStatus_t code)
{
    return code == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : code == CUDNN_STATUS_BAD_PARAM     ? "CUDNN_STATUS_BAD_PARAM"
           : code == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_EXECUTION_FAILED";
}

/* As long, and with as many lines, as the real one's may be. */
extern "C" void cudnnGetLastErrorString(char *message, size_t room)
{
    snprintf(
        message, room, "%s",
        "a reason\n\tof several lines that cuDNN has written down, longer than there is room for in a message, so that it is cut somewhere: "
        "and so on, and so on, and so on, and so on, and so on.\n");
}

/* 1: lists have engine 2 alone (and 0); 2: engine 1 alone. */
static int shy;
void standin_set_shy(int on)
{
    LOCKED;
    shy = on;
}

/* EVENSTEP_STANDIN_CUDNN where only the environment reaches. */
extern "C" size_t cudnnGetVersion(void)
{
    const char *text = getenv("EVENSTEP_STANDIN_CUDNN");
    return text ? (size_t)strtoul(text, NULL, 10) : 90800;
}

extern "C" cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    CALL("cudnnCreate", CUDNN_STATUS_EXECUTION_FAILED);
    *out = new standin_dnn{};
    standin_born(*out, "cuDNN handle");
    return CUDNN_STATUS_SUCCESS;
}

extern "C" cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    standin_gone(handle, "cuDNN handle");
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

extern "C" cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    CALL("cudnnSetStream", CUDNN_STATUS_EXECUTION_FAILED);
    standin_need_here(handle, "cuDNN handle");
    standin_need_here(stream, "stream");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* What a graph, and whatever is made of it, is about. */
struct meaning {
    int pass; /* 0: forward, 1: data, 2: filter */
    struct plain_conv d;
    cudnnDataType_t kind;
    bool adds; /* to what stands there */
    int engine;
    int64_t tile; /* the knob */
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool final;
    std::map<int, std::vector<int64_t>> set; /* by attribute; a float as its bits */
    struct meaning means;
};

/* What the call that fails is called: those that run a convolution by another name than those that
 * look for an engine. */
static const char *named(const char *call, cudnnBackendDescriptorType_t type)
{
    return type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ? "the tensors of a convolution" : call;
}

extern "C" cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                      cudnnBackendDescriptor_t *out)
{
    CALL(named("cudnnBackendCreateDescriptor", type), CUDNN_STATUS_EXECUTION_FAILED);
    struct descriptor *made = new descriptor();
    made->type = type;
    *out = made;
    standin_born(*out, "cuDNN descriptor");
    return CUDNN_STATUS_SUCCESS;
}

extern "C" cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    standin_gone(d, "cuDNN descriptor");
    delete (struct descriptor *)d;
    return CUDNN_STATUS_SUCCESS;
}

static struct descriptor *live(const void *d)
{
    standin_need(d, "cuDNN descriptor");
    return (struct descriptor *)d;
}

static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    bool wide = type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR ||
                type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
    return wide ? 8 : 4;
}

/* What type an attribute has. */
static cudnnBackendAttributeType_t type_of(int name)
{
    switch (name) {
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
        return CUDNN_TYPE_DATA_TYPE;
    case CUDNN_ATTR_CONVOLUTION_CONV_MODE:
        return CUDNN_TYPE_CONVOLUTION_MODE;
    case CUDNN_ATTR_ENGINEHEUR_MODE:
        return CUDNN_TYPE_HEUR_MODE;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
        return CUDNN_TYPE_KNOB_TYPE;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        return CUDNN_TYPE_NUMERICAL_NOTE;
    case CUDNN_ATTR_DEVICEPROP_DEVICE_ID:
        return CUDNN_TYPE_INT32;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
        return CUDNN_TYPE_VOID_PTR;
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
    case CUDNN_ATTR_TENSOR_STRIDES:
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        return CUDNN_TYPE_INT64;
    default:
        return name >= 700 && name < 718 && (name - 700) % 6 < 2 ? CUDNN_TYPE_FLOAT
                                                                 : CUDNN_TYPE_BACKEND_DESCRIPTOR;
    }
}

extern "C" cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                  cudnnBackendAttributeName_t name,
                                                  cudnnBackendAttributeType_t type, int64_t n,
                                                  const void *values)
{
    struct descriptor *d = live(descriptor);
    CALL(named("cudnnBackendSetAttribute", d->type), CUDNN_STATUS_EXECUTION_FAILED);
    if (d->final || n < 1 || type != type_of(name)) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    std::vector<int64_t> list((size_t)n);
    for (size_t i = 0; i < list.size(); i++) {
        memcpy(&list[i], (const char *)values + i * bytes_of(type), bytes_of(type));
        if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && !live((const void *)list[i])->final) {
            return CUDNN_STATUS_BAD_PARAM;
        }
    }
    d->set[name] = list;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- what finishes a descriptor: false, something is missing or does not belong together ----- */

static bool has(const struct descriptor *d, int name, size_t n)
{
    auto found = d->set.find(name);
    return found != d->set.end() && found->second.size() == n;
}

static int64_t one(const struct descriptor *d, int name)
{
    return d->set.at(name)[0];
}

static const struct descriptor *part(const struct descriptor *d, int name)
{
    return live((const void *)one(d, name));
}

static float number(const struct descriptor *d, int name)
{
    float x;
    int64_t bits = one(d, name);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static bool finish_tensor(struct descriptor *d)
{
    if (!has(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 1) || !has(d, CUDNN_ATTR_TENSOR_DIMENSIONS, 4) ||
        !has(d, CUDNN_ATTR_TENSOR_STRIDES, 4) || !has(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1) ||
        !has(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1)) {
        return false;
    }
    const std::vector<int64_t> &dims = d->set[CUDNN_ATTR_TENSOR_DIMENSIONS],
                               &strides = d->set[CUDNN_ATTR_TENSOR_STRIDES];
    int64_t c = dims[1], h = dims[2], w = dims[3];
    return dims[0] > 0 && c > 0 && h > 0 && w > 0 && strides[0] == h * w * c && strides[1] == 1 &&
           strides[2] == w * c && strides[3] == c;
}

static bool finish_convolution(struct descriptor *d)
{
    return has(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 1) &&
           one(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
           has(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 1) &&
           one(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION &&
           has(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1) &&
           one(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
           has(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2) &&
           has(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2) &&
           has(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2) &&
           has(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2) &&
           d->set[CUDNN_ATTR_CONVOLUTION_DILATIONS] == std::vector<int64_t>{1, 1} &&
           d->set[CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS] ==
               d->set[CUDNN_ATTR_CONVOLUTION_POST_PADDINGS];
}

static bool finish_operation(struct descriptor *d)
{
    int pass = d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? 0
               : d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? 1
                                                                                         : 2;
    int at = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA +
             6 * pass; /* alpha, beta, convolution, w, x, y */
    for (int name = at; name < at + 6; name++) {
        if (!has(d, name, 1)) {
            return false;
        }
    }
    float alpha = number(d, at), beta = number(d, at + 1);
    if (alpha != 1 || (beta != 0 && (beta != 1 || pass != 1))) {
        standin_die("a convolution with factors that the stand-in does not have");
    }
    d->means.adds = beta == 1;
    const struct descriptor *conv = part(d, at + 2), *w = part(d, at + 3), *x = part(d, at + 4),
                            *y = part(d, at + 5);
    const std::vector<int64_t> &xd = x->set.at(CUDNN_ATTR_TENSOR_DIMENSIONS),
                               &wd = w->set.at(CUDNN_ATTR_TENSOR_DIMENSIONS),
                               &yd = y->set.at(CUDNN_ATTR_TENSOR_DIMENSIONS),
                               &stride = conv->set.at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                               &padding = conv->set.at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    int64_t kind = one(x, CUDNN_ATTR_TENSOR_DATA_TYPE);
    d->means.pass = pass;
    d->means.kind = (cudnnDataType_t)kind;
    d->means.d = {(int)xd[0],
                  (int)xd[2],
                  (int)xd[3],
                  (int)xd[1],
                  (int)wd[0],
                  (int)wd[2],
                  (int)wd[3],
                  (int)yd[2],
                  (int)yd[3],
                  {(int)stride[0], (int)stride[1]},
                  {(int)padding[0], (int)padding[1]}};
    bool ids = one(x, CUDNN_ATTR_TENSOR_UNIQUE_ID) == 1 &&
               one(w, CUDNN_ATTR_TENSOR_UNIQUE_ID) == 2 && one(y, CUDNN_ATTR_TENSOR_UNIQUE_ID) == 3;
    return ids && kind == one(w, CUDNN_ATTR_TENSOR_DATA_TYPE) &&
           kind == one(y, CUDNN_ATTR_TENSOR_DATA_TYPE) && xd[0] == yd[0] && xd[1] == wd[1] &&
           yd[1] == wd[0] && yd[2] == (xd[2] + 2 * padding[0] - wd[2]) / stride[0] + 1 &&
           yd[3] == (xd[3] + 2 * padding[1] - wd[3]) / stride[1] + 1;
}

/* Takes over what a part is about. */
static bool takes(struct descriptor *d, int name, cudnnBackendDescriptorType_t type)
{
    if (!has(d, name, 1) || part(d, name)->type != type) {
        return false;
    }
    d->means = part(d, name)->means;
    return true;
}

static bool knows_gpu(const struct descriptor *d, int name)
{
    return has(d, name, 1) && part(d, name)->type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
}

static bool finish_rules(struct descriptor *d)
{
    if (standin_forbidden()) {
        standin_die("engines are looked for while a stream is captured");
    }
    if (!takes(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) ||
        !has(d, CUDNN_ATTR_ENGINEHEUR_MODE, 1) || !knows_gpu(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)) {
        return false;
    }
    if (one(d, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A) {
        standin_measured();
    }
    return true;
}

static bool finish_engine(struct descriptor *d)
{
    bool good =
        takes(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) &&
        has(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1) && knows_gpu(d, CUDNN_ATTR_ENGINE_DEVICEPROP);
    d->means.engine = good ? (int)one(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) : -1;
    return good && d->means.engine >= 0 && d->means.engine <= 3;
}

static bool finish_config(struct descriptor *d)
{
    if (!takes(d, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR)) {
        return false;
    }
    if (d->set.count(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) {
        const struct descriptor *knob = part(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
        d->means.tile = one(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
        return one(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) == CUDNN_KNOB_TYPE_TILE_SIZE &&
               d->means.tile >= 0 && d->means.tile <= 1;
    }
    return d->means.engine != 3;
}

static bool finish(struct descriptor *d)
{
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return finish_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return finish_convolution(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return finish_operation(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return has(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, 1) &&
               takes(d, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                     part(d, CUDNN_ATTR_OPERATIONGRAPH_OPS)->type);
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
        return has(d, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, 1) &&
               one(d, CUDNN_ATTR_DEVICEPROP_DEVICE_ID) == standin_here();
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return finish_rules(d);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return finish_engine(d);
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
        return has(d, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1) &&
               has(d, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return finish_config(d);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return takes(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                     CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) &&
               knows_gpu(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) && d->means.engine != 0;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return has(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3) &&
               has(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 3) &&
               has(d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1);
    }
    return false;
}

extern "C" cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *d = live(descriptor);
    CALL(named("cudnnBackendFinalize", d->type), CUDNN_STATUS_EXECUTION_FAILED);
    d->final = finish(d);
    return d->final ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* ---- what descriptors tell ------------------------------------------------------------------- */

/* Bytes that depend on the minibatch. */
static int64_t workspace_of(const struct meaning &m)
{
    return 1000 + (int64_t)m.d.n * 64;
}

/* Fills in a descriptor that the caller has made. */
static void fill(int64_t descriptor, cudnnBackendDescriptorType_t type, const struct meaning &m,
                 std::map<int, std::vector<int64_t>> set)
{
    struct descriptor *d = live((const void *)descriptor);
    if (d->type != type || d->final) {
        standin_die("a descriptor that is to be filled in is of another type, or final");
    }
    d->means = m;
    d->set = set;
    d->final = true;
}

static std::vector<struct meaning> configs_of(const struct descriptor *rules)
{
    std::vector<struct meaning> list;
    int64_t mode = one(rules, CUDNN_ATTR_ENGINEHEUR_MODE);
    for (int engine = 0; engine <= 3 && mode != CUDNN_HEUR_MODE_B; engine++) {
        bool there = engine == 0 || (shy == 1 ? engine == 2 : shy == 2 ? engine == 1 : true);
        if (there) {
            list.push_back(rules->means);
            list.back().engine = engine;
        }
    }
    return list;
}

static std::vector<int64_t> notes_of(int engine)
{
    return engine == 1   ? std::vector<int64_t>{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
                                                CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}
           : engine == 2 ? std::vector<int64_t>{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}
                         : std::vector<int64_t>{};
}

extern "C" cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                                  cudnnBackendAttributeName_t name,
                                                  cudnnBackendAttributeType_t type, int64_t room,
                                                  int64_t *n, void *values)
{
    CALL("cudnnBackendGetAttribute", CUDNN_STATUS_EXECUTION_FAILED);
    struct descriptor *d = live(descriptor);
    std::vector<int64_t> list;
    int64_t *given = (int64_t *)values;
    if (!d->final || type != type_of(name)) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        for (const struct meaning &m : configs_of(d)) {
            if ((int64_t)list.size() < room) {
                fill(given[list.size()], CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, m, {});
                list.push_back(given[list.size()]);
            }
        }
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        fill(given[0], CUDNN_BACKEND_ENGINE_DESCRIPTOR, d->means, {});
        list = {given[0]};
        break;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        if (d->means.engine == 3) {
            fill(given[0], CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, d->means,
                 {{CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, {CUDNN_KNOB_TYPE_TILE_SIZE}},
                  {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {d->means.tile}}});
            list = {given[0]};
        }
        break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        list = {d->means.engine};
        break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        list = notes_of(d->means.engine);
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        list = {workspace_of(d->means)};
        break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
        list = d->set.at(name);
        break;
    default:
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    *n = (int64_t)list.size();
    for (size_t i = 0; i < list.size() && (int64_t)i < room; i++) {
        memcpy((char *)values + i * bytes_of(type), &list[i], bytes_of(type));
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- running --------------------------------------------------------------------------------- */

struct operand {
    void *p;
    size_t n;
};

static std::vector<float> read(struct operand o, const struct meaning &m)
{
    std::vector<float> x(o.n);
    if (m.kind == CUDNN_DATA_BFLOAT16) {
        plain_widen(x.data(), (const uint16_t *)o.p, o.n);
    } else {
        memcpy(x.data(), o.p, o.n * sizeof(float));
        if (m.engine == 2) {
            plain_tf32(x.data(), o.n);
        }
    }
    return x;
}

typedef void plain_fn(const struct plain_conv &d, const float *a, const float *b, float *out);

/* Two operands in, one out. */
static cudnnStatus_t run(cudnnHandle_t handle, const struct meaning &m, plain_fn *fn,
                         struct operand a, struct operand b, struct operand out, void *workspace)
{
    size_t element = m.kind == CUDNN_DATA_BFLOAT16 ? 2 : 4, needed = (size_t)workspace_of(m);
    standin_need_device(a.p, a.n * element, 16, "first operand of a convolution");
    standin_need_device(b.p, b.n * element, 16, "second operand of a convolution");
    standin_need_device(out.p, out.n * element, 16, "result of a convolution");
    standin_need_device(workspace, needed, 16, "workspace of a convolution");
    auto work = [=] {
        memset(workspace, 0xff, needed); /* whatever stood there is gone */
        std::vector<float> x = read(a, m), y = read(b, m), z(out.n), before;
        fn(m.d, x.data(), y.data(), z.data());
        if (m.adds) {
            struct meaning exact = m;
            exact.engine = 3;
            before = read(out, exact);
        }
        for (size_t i = 0; i < before.size(); i++) {
            z[i] += before[i];
        }
        if (m.kind == CUDNN_DATA_BFLOAT16) {
            plain_round((uint16_t *)out.p, z.data(), out.n);
        } else {
            memcpy(out.p, z.data(), out.n * sizeof(float));
        }
    };
    return standin_push(handle->stream, work) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                             : CUDNN_STATUS_EXECUTION_FAILED;
}

extern "C" cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                             cudnnBackendDescriptor_t pack)
{
    CALL("the run of a convolution", CUDNN_STATUS_EXECUTION_FAILED);
    const struct descriptor *p = live(plan), *data = live(pack);
    standin_need_here(plan, "cuDNN descriptor");
    standin_need_here(handle, "cuDNN handle");
    if (!p->final || !data->final || p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        data->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
        standin_die("a descriptor is used that is not final");
    }
    if (p->means.engine == 1 && shy != 2) {
        standin_die("an engine that is not repeatable, where there are others");
    }
    const struct meaning &m = p->means;
    void *at[4] = {};
    for (size_t i = 0; i < 3; i++) {
        int64_t id = data->set.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)[i];
        at[id >= 1 && id <= 3 ? id : 0] =
            (void *)data->set.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[i];
    }
    struct operand x = {at[1], (size_t)m.d.n * m.d.h * m.d.w * m.d.c},
                   w = {at[2], (size_t)m.d.k * m.d.kh * m.d.kw * m.d.c},
                   y = {at[3], (size_t)m.d.n * m.d.oh * m.d.ow * m.d.k};
    void *workspace = (void *)one(data, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    return m.pass == 0   ? run(handle, m, plain_forward, x, w, y, workspace)
           : m.pass == 1 ? run(handle, m, plain_data, w, y, x, workspace)
                         : run(handle, m, plain_filter, x, y, w, workspace);
}
