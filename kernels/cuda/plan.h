/* A convolution's pass in cuDNN's graph API: a graph of one operation, the engines that can run it,
 * and a plan, which is an engine with its knobs, ready to run. conv.cu chooses among them.
 *
 * Nothing here but plan_run and plan_fastest needs a GPU: a descriptor of its properties stands for
 * the GPU, so tests make plans for one that is not there (tests/cudnn/test_plans.cu).
 */
#ifndef KERNELS_CUDA_PLAN_H
#define KERNELS_CUDA_PLAN_H

#include "kernels/cuda/cuda.h"

enum plan_pass { PLAN_FORWARD, PLAN_DATA, PLAN_FILTER }; /* CUDA_PASSES of them */
enum { PLAN_WIDEST = 512 << 20 }; /* bytes of workspace that a plan may have */

/* A descriptor of cuDNN's, destroyed with its scope. */
struct plan_part {
    cudnnBackendDescriptor_t d = NULL;
    plan_part() = default;
    plan_part(const plan_part &) = delete;
    plan_part &operator=(const plan_part &) = delete;
    ~plan_part();
};

struct plan_shape {
    int batch, in[3], out[3]; /* height, width, channels */
    int kernel[2], stride[2], padding[2];
    bool adds; /* the gradient of the input is added to what is there */
};

/* x [batch][in], w [out channels][kernel][in channels], y [batch][out]; the gradients of each have
 * its shape. */
struct plan_graph {
    struct plan_part x, w, y, convolution, operation, graph;
};
int plan_describe(struct plan_graph *g, enum plan_pass pass, const struct plan_shape *shape,
                  enum cuda_precision precision, struct err *e);

struct plan {
    struct plan_part engine, knobs[CUDA_KNOBS], config, execution;
    size_t workspace; /* bytes */
};
/* Which engines can run the graph on the GPU of these properties, at most `most`, the most
 * promising first: those that give the same bits each time, or, where there are none, others; and a
 * plan of each. Their number, or an error: there are none. */
int plan_engines(cudnnBackendDescriptor_t properties, const struct plan_graph *g,
                 enum cuda_precision precision, struct cuda_engine *list, struct plan *plans,
                 int most, struct err *e);
/* ERR_UNSUPPORTED: this engine cannot run it with these knobs, or its arithmetic is not what the
 * precision says. */
int plan_make(struct plan *p, cudnnBackendDescriptor_t properties, const struct plan_graph *g,
              enum cuda_precision precision, const struct cuda_engine *engine, struct err *e);
/* measure.cu: the engine that took the least time. The caller holds `building`, whose stream this
 * runs on. */
int plan_fastest(struct cuda_device *d, enum plan_pass pass, const struct plan_shape *shape,
                 enum cuda_precision precision, struct cuda_engine *out, struct err *e);
/* On the stream of the handle. x, w, y: aligned to 16 bytes; workspace: p->workspace bytes. */
int plan_run(const struct plan *p, cudnnHandle_t handle, const void *x, const void *w,
             const void *y, void *workspace, struct err *e);

#endif
