/* The engines that the stand-in of cuDNN offers, and how a plan of one runs; see dnn.cpp. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/standin/dnn.h"

/* 1: lists have engine 2 alone (and 0); 2: engine 1 alone. */
static int shy;
void standin_set_shy(int on)
{
    LOCKED;
    shy = on;
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
