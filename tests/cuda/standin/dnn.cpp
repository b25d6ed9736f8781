/* cuDNN's graph API on plain loops (see standin.h), for graphs of one convolution, with what the
 * real one checks: descriptors that are live, complete and final, shapes that belong together,
 * tensors inside memory of the GPU and aligned, a workspace that is large enough, the stream of the
 * handle.
 *
 * There are four engines, and the lists have the traps before the right one:
 *
 *   0   makes no plan                  2   "tensor core": floats are really rounded to 10 bits
 *   1   not repeatable                 3   right, with a knob that may be 0 or 1; wants a
 * workspace, as 1 and 2 do
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/standin/dnn.h"

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
        "a reason\n\tof several lines that cuDNN has written down, longer than there is room for "
        "in a message, so that it is cut somewhere: "
        "and so on, and so on, and so on, and so on, and so on.\n");
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
