/* A convolution's pass in cuDNN's graph API: a graph of one operation, the engines that can run it,
 * and a plan, which is an engine with its knobs, ready to run. conv.cu chooses among plans.
 *
 * Only plan_run and plan_fastest need a GPU. For the rest a descriptor of a GPU's properties is
 * enough, so tests make plans for GPUs that the machine lacks (tests/cudnn/test_plans.cu).
 */
#ifndef KERNELS_CUDA_PLAN_H
#define KERNELS_CUDA_PLAN_H

#include "kernels/cuda/cuda.h"

enum plan_pass { PLAN_FORWARD, PLAN_DATA, PLAN_FILTER }; /* CUDA_PASSES of them */
enum { PLAN_WIDEST = 512 << 20 };                        /* most bytes of workspace for a plan */

/* A cuDNN descriptor, destroyed at the end of its scope. */
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
    bool adds; /* adds the gradient of the input to the existing one */
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
/* Finds the engines that can run the graph on a GPU of these properties, at most `most`, the most
 * promising first, and makes a plan of each. Prefers engines that give the same bits each time, and
 * takes others only if there are none. Returns their number, or an error if there are none. */
int plan_engines(cudnnBackendDescriptor_t properties, const struct plan_graph *g,
                 enum cuda_precision precision, struct cuda_engine *list, struct plan *plans,
                 int most, struct err *e);
/* ERR_UNSUPPORTED: this engine cannot run it with these knobs, or computes in another precision. */
int plan_make(struct plan *p, cudnnBackendDescriptor_t properties, const struct plan_graph *g,
              enum cuda_precision precision, const struct cuda_engine *engine, struct err *e);
/* measure.cu: finds the fastest engine. The caller holds `building`; it runs on that stream. */
int plan_fastest(struct cuda_device *d, enum plan_pass pass, const struct plan_shape *shape,
                 enum cuda_precision precision, struct cuda_engine *out, struct err *e);
/* Runs on the stream of the handle. x, w, y: aligned to 16 bytes; workspace: p->workspace bytes. */
int plan_run(const struct plan *p, cudnnHandle_t handle, const void *x, const void *w,
             const void *y, void *workspace, struct err *e);

#endif
