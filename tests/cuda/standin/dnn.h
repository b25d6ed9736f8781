/* Descriptors of cuDNN's graph API as the stand-in keeps them: dnn.cpp makes and checks them,
 * dnn_run.cpp tells of engines and runs plans. */
#ifndef TESTS_CUDA_STANDIN_DNN_H
#define TESTS_CUDA_STANDIN_DNN_H

#include <map>
#include <vector>

#include "tests/cuda/standin/standin.h"

struct standin_dnn {
    cudaStream_t stream;
};

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
static inline const char *named(const char *call, cudnnBackendDescriptorType_t type)
{
    return type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ? "the tensors of a convolution" : call;
}

static inline struct descriptor *live(const void *d)
{
    standin_need(d, "cuDNN descriptor");
    return (struct descriptor *)d;
}

static inline size_t bytes_of(cudnnBackendAttributeType_t type)
{
    bool wide = type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR ||
                type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
    return wide ? 8 : 4;
}

/* What type an attribute has. */
static inline cudnnBackendAttributeType_t type_of(int name)
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

static inline int64_t one(const struct descriptor *d, int name)
{
    return d->set.at(name)[0];
}

#endif
