/* The CUDA backend, twin of cpu/cpu.h: a device, replicas in its memory, programs, and the table
 * that every operator fills.
 *
 *   main stream   ── update ── compute ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ ── update ──►
 *   copy stream                     └ bucket 0 ▇ ┘ bucket 1 ▇
 *   feed stream            ▇▇▇▇ next samples
 *   ring stream                                   ▇▇▇ ▇▇▇ sums
 *   build stream     engines are measured, graphs are captured
 *
 * main    graphs are launched here; events mark buckets and results
 * copy    blocks to and from their pinned mirrors, overlapping the backward pass
 * feed    a minibatch from the host, overlapping the step before (feed.cu)
 * ring    sums of an exchange in device buffers (buffer.cu), for the communication thread
 * build   for the thread that makes programs, never for the thread that trains
 *
 * A step, a value and an operator are the same as on the CPU, but run differently: forward and
 * backward put work on the build stream while a graph is captured, once per program. Everything
 * that changes between runs (number of samples, labels, counters of random choices, learning rate)
 * is read from device memory.
 *
 * Blocks on the device are in the device's own order, as NHWC activations need it: a convolution's
 * weights are O,H,W,I, those of a dense layer after an image O,H,W,C. Each tensor begins at a
 * multiple of CUDA_ALIGN floats. Only fetch and store reorder, on the copy stream (replica.cu); a
 * step never does.
 */
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include <cublas_v2.h>
#include <cudnn.h>
#include <pthread.h>

#include "kernels/cuda/port.h"

/* headers of C11 in C++ */
#define _Noreturn __attribute__((noreturn))
extern "C" {
#include "common/clock.h"
#include "kernels/plugin.h"
#include "kernels/steps.h"
}
#undef _Noreturn

enum { CUDA_ALIGN = 64 }; /* floats: alignment of tensors; one weight-decay flag each */

enum cuda_precision { CUDA_FP32, CUDA_TF32, CUDA_BF16 };

/* The measured result for one convolution: an engine of cuDNN for each pass (plan.h). key:
 * precision, minibatch, shapes. */
enum { CUDA_CHOICE_KEY = 12, CUDA_CHOICE_BATCH = 1, CUDA_PASSES = 3, CUDA_KNOBS = 16 };
struct cuda_engine {
    int index, n_knobs;       /* index -1: none chosen */
    int knobs[CUDA_KNOBS][2]; /* kind, value */
};
struct cuda_choice {
    struct cuda_choice *next;
    int key[CUDA_CHOICE_KEY];
    struct cuda_engine engine[CUDA_PASSES];
};
extern const struct cuda_choice cuda_no_choice;

struct cuda_device {
    struct device base;
    int index, processors;
    enum cuda_precision precision;
    char line[200], said[240];
    cudaStream_t main, copy, feed, ring, build, branch;
    cudaEvent_t tail, copied;   /* of the main and the copy stream, for each other */
    cudaEvent_t forked, joined; /* of the build stream and its branch (branch.cu) */
    pthread_mutex_t building;   /* held while a program is made; guards handles, build stream and
                                 choices */
    cudnnHandle_t dnn;
    /* the GPU's properties, which cuDNN needs to make plans (plan.h) */
    cudnnBackendDescriptor_t properties;
    cublasHandle_t blas;
    struct cuda_choice *choices; /* the newest first */
    bool untold;                 /* cuda_tuning has not returned some of them yet */
    /* seconds for measuring while a program is prepared; after them, engines that were measured for
     * another minibatch are used */
    double measure_seconds;
};

struct cuda_choice *cuda_choice_find(struct cuda_device *d, const int key[CUDA_CHOICE_KEY]);
/* The choice of the same shape and precision whose minibatch is nearest to the key's, among choices
 * with an engine for each of `passes` (bits). NULL: none. */
const struct cuda_choice *cuda_choice_nearest(const struct cuda_device *d,
                                              const int key[CUDA_CHOICE_KEY], unsigned passes);
/* Keeps a copy, which replaces an older choice with the same key. */
int cuda_choice_keep(struct cuda_device *d, const struct cuda_choice *choice, struct err *e);
json_t *cuda_tuning(struct device *dev);
void cuda_tune(struct device *dev, const json_t *tuning);

/* ---- memory: pieces are reserved first, then allocated as one block -------------------------- */

struct cuda_piece {
    void **pointer;
    size_t bytes;
};
struct cuda_arena {
    struct cuda_piece *pieces;
    int n, room;
    size_t bytes, batch_bytes; /* in all; the part that grows with the minibatch */
    void *memory;
};
int cuda_reserve_bytes(struct cuda_arena *a, void **pointer, size_t bytes, bool grows,
                       struct err *e);
/* Puts `n` elements at *pointer once the arena is allocated. grows: n is a multiple of the
 * minibatch. */
template <typename T>
static inline int cuda_reserve(struct cuda_arena *a, T **pointer, size_t n, bool grows,
                               struct err *e)
{
    return cuda_reserve_bytes(a, (void **)pointer, n * sizeof(T), grows, e);
}
/* Allocates and zeroes the memory (on `stream`), and fills in every pointer. batch: the minibatch,
 * for the message if memory runs out; or 0. */
int cuda_allocate(struct cuda_arena *a, int batch, cudaStream_t stream, struct err *e);
void cuda_arena_free(struct cuda_arena *a);

/* ---- replicas (replica.cu) ------------------------------------------------------------------- */

/* Where a tensor is. In the flat block it begins at `flat`, with element (o*inner + i)*area + k; on
 * the device at `at`, with element (o*area + k)*inner + i. inner = area = 1: the same order. */
struct cuda_tensor {
    uint64_t flat, at, count;
    uint32_t inner, area;
};
struct cuda_map {
    struct cuda_tensor *host, *device; /* [n], sorted by flat */
    int n;
    uint64_t flat, at; /* lengths of the flat block and of the device's, in floats */
};
DEVICE_FN uint64_t cuda_place(const struct cuda_tensor *tensors, int n, uint64_t flat)
{
    int low = 0, high = n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (tensors[middle].flat <= flat) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    struct cuda_tensor t = tensors[low];
    uint64_t j = flat - t.flat, plane = (uint64_t)t.inner * t.area, rest = j % plane;
    return t.at + j - rest + rest % t.area * t.inner + rest / t.area;
}

/* The values that an update reads in device memory. */
struct cuda_rates {
    double scale, clip_norm; /* the gradient's factor; its longest length, or 0 */
    float lr, shrink, root,
        steps; /* adam: lr and root corrected for its start; shrink: 1 - lr*decay of adamw */
};

struct cuda_replica {
    struct cuda_device *dev;
    struct dev_replica *head;
    struct cuda_arena arena;
    float *block[DEV_BLOCKS]; /* in the device's order */
    struct bf16 *weights;     /* the parameters in bf16, or NULL */
    struct cuda_map params, stats;
    uint8_t *decays; /* [floats of the parameters / CUDA_ALIGN]: weight decay applies */
    float *staging;  /* [staging_floats] part of a block, in the flat block's order */
    size_t staging_floats;
    struct cuda_rates *rates, *rates_host; /* on the device; pinned */
    double *squares,
        *factor; /* [lanes of all chunks] of the gradient's length; what it is multiplied with */
    cudaEvent_t updated; /* rates_host may be written again */
    cudaGraphExec_t update;
    double steps; /* adam: steps taken */
    bool marking; /* inside dev_mark_fn: the bucket is complete, whatever the main stream does */
};
static inline struct cuda_replica *cuda_replica(const struct dev_replica *r)
{
    return (struct cuda_replica *)r->impl;
}
int cuda_replica_init(struct device *dev, struct dev_replica *r, const struct network *net,
                      const struct optimizer_spec *opt, struct err *e);
void cuda_replica_release(struct dev_replica *r);
int cuda_fetch(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e);
int cuda_store(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e);
/* The same to and from the GPU's memory, without a mirror (device.h, dev_memory_ops). */
int cuda_fetch_buffer(struct dev_replica *r, enum dev_block b, size_t first, size_t n, float scale,
                      float *buffer, struct err *e);
int cuda_store_buffer(struct dev_replica *r, enum dev_block b, size_t first, size_t n,
                      const float *buffer, struct err *e);

/* ---- programs -------------------------------------------------------------------------------- */

struct cuda_value {
    struct shape shape; /* of one sample, as stored */
    size_t count;       /* elements of one sample */
    void *data;         /* [batch][count] floats, or bf16 */
    void *grad;         /* [batch][count] of the same kind; NULL: not needed */
    bool needs_grad, has_grad;
};

struct cuda_program;
struct cuda_step;

struct cuda_op {
    const char *name;
    bool takes_relu;  /* a relu that follows can become part of it (cuda_step.relu) */
    bool leaves;      /* a max pool that follows can apply its bias and relu (cuda_step.leaves) */
    bool takes_add;   /* a sum with one other value that follows can become a part of it; that value
                         is its in[1] */
    bool branch;      /* the gradient of its weights is computed on a branch (below) */
    unsigned adds;    /* bits of inputs to whose gradient backward adds where there is one already
                         (cuda_step.adds) */
    unsigned passes;  /* bits of inputs whose gradient is the output's own, as backward leaves it:
                         one of them gets its memory */
    bool keeps_shape; /* the output is stored as the first input is, whatever the layer's shape says
                       */
    /* Called once the step's inputs and output are known, before memory is allocated
     * (cuda_reserve). */
    int (*prepare)(struct cuda_program *p, struct cuda_step *s, struct err *e);
    int (*forward)(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e);
    /* Reads out->grad (may change it). Writes each in_grad that is not NULL, and the step's
     * gradients. */
    int (*backward)(struct cuda_program *p, struct cuda_step *s, struct err *e);
    void (*release)(struct cuda_step *s);
};

struct cuda_step {
    const struct cuda_op *op;
    const struct layer *layer;
    int index; /* of the layer in the network: the counter of random choices */
    int last;  /* of the layers that the step includes */
    int n_in;
    struct cuda_value *in[NET_INPUTS], *out;
    void **in_grad[NET_INPUTS]; /* where the input's gradient goes; NULL: not needed */
    bool adds[NET_INPUTS];      /* the input has a gradient already: this one is added to it, by the
                              operator itself or afterwards through a spare buffer */
    bool relu, backward;
    bool leaves; /* leaves bias and relu to the max pool that reads it */
    /* of a max pool: the layer before it, whose bias and relu it applies; or NULL */
    const struct cuda_step *finishes;
    void *state; /* the operator's; freed by its release */
};

/* A network as steps (graph.cu), for a program or only to find out how values are stored. */
struct cuda_graph {
    const struct network *net;
    struct cuda_step *steps;
    struct cuda_value *values;    /* [0]: the network's input */
    struct cuda_value **of_layer; /* [n_layers] */
    struct cuda_value *output;
    int n_steps, n_values;
    void *spare[NET_INPUTS];        /* for gradients that are added to others */
    size_t spare_count[NET_INPUTS]; /* elements of one sample */
};
int cuda_graph_init(struct cuda_graph *g, const struct network *net, struct err *e);
void cuda_graph_release(struct cuda_graph *g);

/* The head of a program's input; samples follow it. */
struct cuda_head {
    int64_t count, epoch;
    uint64_t seed;
};
struct cuda_result {
    double loss;
    int64_t correct;
};

/* Sums over chunks of rows of the running kernel, and how many blocks of each tile have finished
 * theirs (columns.h). */
struct cuda_parts {
    float *sums;
    unsigned *done;
};

struct cuda_program {
    struct dev_program_head head;
    struct cuda_device *dev;
    struct cuda_replica *replica;
    const struct network *net;
    enum cuda_precision precision;
    struct cuda_graph graph;
    struct cuda_arena arena;
    int *bucket_layer; /* a bucket is complete after this layer's backward pass */
    /* the blocks that operators use: the replica's; in the first run, scratch memory */
    float *params, *grads, *stats;
    struct bf16 *weights;
    /* input: [head | samples | labels or targets | views | x], pinned and on the device */
    char *input_host, *input;
    size_t input_bytes, labels_at, views_at, x_at;
    double measure_until; /* a time of clock_now() */
    int filled;           /* the first samples of x, which may hold values; the rest is zero */
    float *logits_host;
    double *losses; /* [batch] */
    int *hits;
    struct cuda_result *result; /* pinned: the GPU writes it there */
    void *workspace;            /* for the libraries */
    size_t workspace_bytes;
    struct {
        void *memory; /* the libraries' workspace there */
        size_t bytes;
        struct cuda_parts parts;
        bool under_way; /* the build stream has not waited for some work of the branch */
    } branch;
    struct cuda_parts parts;
    size_t parts_floats, parts_tiles;
    void *scratch; /* gradients of bf16 weights */
    size_t scratch_bytes;
    cudaGraphExec_t *train; /* [n_segments], each of which ends where a bucket is complete */
    cudaEvent_t *ready;     /* [n_segments] */
    cudaGraphExec_t evaluate;
    cudaGraphExec_t whole; /* all segments and the update, for a replica that is alone; or NULL */
    int n_segments;
};
struct dev_program *cuda_program_new(struct dev_replica *r, int batch, size_t bucket_bytes,
                                     struct err *e);
void cuda_program_free(struct dev_program *program);
int cuda_program_compute(struct dev_program *program, const struct dev_input *in,
                         struct dev_result *out, float *logits, dev_mark_fn *mark, void *ctx,
                         struct err *e);
int cuda_program_step(struct dev_program *program, const struct dev_input *in, double lr,
                      double scale, struct dev_result *out, struct err *e);
int cuda_update(struct dev_replica *r, double lr, double scale, struct err *e);
/* Writes the values that the next update on the main stream reads. Call it before the update
 * starts, and cuda_update_end() afterwards. */
int cuda_update_begin(struct cuda_replica *r, double lr, double scale, struct err *e);
int cuda_update_end(struct cuda_replica *r, struct err *e);
/* Puts the optimizer's step on the stream (update.cu). It is captured once per replica, and once
 * per program of a replica that is alone. */
int cuda_update_enqueue(struct cuda_replica *r, cudaStream_t stream, struct err *e);
int cuda_rule(struct device *dev, enum rule rule, struct rule_state *s, const struct rule_args *a,
              struct err *e);

/* branch.cu: computes the gradient of a step's weights on a second stream. It reads what the step
 * read, and the gradient of the step's output, which must not change any more. After
 * cuda_branch_join(), work on the build stream waits for it. */
typedef int cuda_branch_fn(struct cuda_program *p, struct cuda_step *s, cudaStream_t stream,
                           struct err *e);
int cuda_branch(struct cuda_program *p, struct cuda_step *s, cuda_branch_fn *work, struct err *e);
int cuda_branch_join(struct cuda_program *p, struct err *e);
/* A library needs this many bytes of workspace there. */
void cuda_branch_workspace(struct cuda_program *p, size_t bytes);
/* From now on the libraries work on this stream, build or branch. Their handles belong to the
 * thread that holds `building`. */
int cuda_libraries_use(struct cuda_program *p, cudaStream_t stream, struct err *e);

/* Position and length of the step's tensor (0: weight, 1: bias) on the device. */
static inline const struct cuda_tensor *cuda_tensor_of(const struct cuda_program *p,
                                                       const struct cuda_step *s, int tensor)
{
    return &p->replica->params.host[s->layer->first_tensor + tensor];
}
static inline float *cuda_param(const struct cuda_program *p, const struct cuda_step *s, int tensor)
{
    return p->params + cuda_tensor_of(p, s, tensor)->at;
}
static inline float *cuda_param_grad(const struct cuda_program *p, const struct cuda_step *s,
                                     int tensor)
{
    return p->grads + cuda_tensor_of(p, s, tensor)->at;
}
/* The step's weights in the form that its products read: floats or bf16. */
static inline void *cuda_weights(const struct cuda_program *p, const struct cuda_step *s)
{
    size_t at = cuda_tensor_of(p, s, 0)->at;
    return p->weights ? (void *)(p->weights + at) : (void *)(p->params + at);
}
static inline const struct cuda_head *cuda_head(const struct cuda_program *p)
{
    return (const struct cuda_head *)p->input;
}

/* ---- errors and launches --------------------------------------------------------------------- */

/* 0, or an error that begins with "cannot WHAT". */
int cuda_check(cudaError_t code, const char *what, struct err *e);
int cuda_check_dnn(cudnnStatus_t code, const char *what, struct err *e);
int cuda_check_blas(cublasStatus_t code, const char *what, struct err *e);
/* Makes the calling thread work on this device. */
int cuda_enter(struct cuda_device *d, struct err *e);
/* Records the work put on the stream between these two calls as a graph. rc: the result of putting
 * it there; if it is negative, no graph is made and rc is returned. what: "the network". */
int cuda_capture_begin(cudaStream_t stream, const char *what, struct err *e);
int cuda_capture_end(cudaStream_t stream, const char *what, int rc, cudaGraphExec_t *out,
                     struct err *e);
/* Host memory that any GPU copies from and to while it computes; free it with cudaFreeHost. */
template <typename T> static inline int cuda_pin(T **memory, size_t bytes, struct err *e)
{
    return cuda_check(cudaHostAlloc((void **)memory, bytes, cudaHostAllocPortable),
                      "allocate pinned memory", e);
}

/* meter.cu: see device.h. */
void cuda_metering_begin(struct device *dev);
json_t *cuda_metering_end(struct device *dev);
bool cuda_metering(void);

#define TRY(call)            \
    do {                     \
        int try_rc = (call); \
        if (try_rc < 0) {    \
            return try_rc;   \
        }                    \
    } while (0)

/* Blocks for n items, which threads take in strides. */
static inline unsigned cuda_blocks(const struct cuda_device *d, size_t n)
{
    size_t whole = (n + PORT_THREADS - 1) / PORT_THREADS, most = (size_t)d->processors * 16;
    return (unsigned)(whole < 1 ? 1 : whole < most ? whole : most);
}

/* Makes the call for the program's kind of number: CUDA_KIND(p, f<T>(…)). */
#define CUDA_KIND(p, T, ...)               \
    do {                                   \
        if ((p)->precision == CUDA_BF16) { \
            using T = struct bf16;         \
            __VA_ARGS__;                   \
        } else {                           \
            using T = float;               \
            __VA_ARGS__;                   \
        }                                  \
    } while (0)
static inline size_t cuda_element(const struct cuda_program *p)
{
    return p->precision == CUDA_BF16 ? sizeof(struct bf16) : sizeof(float);
}
/* Neighbouring channels that a thread takes at once: 16 bytes, or one if their number is not a
 * multiple of that. */
static inline size_t cuda_pack(const struct cuda_program *p, size_t channels)
{
    size_t most = 16 / cuda_element(p);
    return channels % most == 0 ? most : 1;
}
/* Makes the call for the program's kind of number and packs: CUDA_PACKS(p, channels, T, N, f<T,
 * N>(…)). */
#define CUDA_PACKS(p, channels, T, N, ...)     \
    CUDA_KIND(                                 \
        p, T,                                  \
        if (cuda_pack(p, channels) > 1) {      \
            constexpr int N = port_pack<T>::N; \
            __VA_ARGS__;                       \
        } else {                               \
            constexpr int N = 1;               \
            __VA_ARGS__;                       \
        })

extern const struct device_ops cuda_device_ops;
extern const struct dev_memory_ops cuda_memory_ops;
extern const struct dev_samples_ops cuda_samples_ops;
extern const struct dev_feed_ops cuda_feed_ops;
extern const struct cuda_op cuda_conv, cuda_dense, cuda_max_pool, cuda_average_pool,
    cuda_global_pool, cuda_batch_norm, cuda_lrn, cuda_relu, cuda_leaky, cuda_tanh, cuda_sigmoid,
    cuda_dropout, cuda_flatten, cuda_add, cuda_concat;

#endif
