/* The device seam: what a worker asks of the hardware it runs on.
 *
 * A device runs *programs*. A program is a network compiled for one minibatch size; it has two
 * parts: `compute` (gather samples, forward, loss, backward) and `update` (optimizer). Inputs that
 * change without building it again: which samples, learning rate, weight, random counters.
 * `compute` calls `mark(bucket)` as the backward pass finishes each bucket of gradients (last
 * layers first), so that the exchange of a bucket overlaps the rest of the pass. Where no other
 * rank's gradients join, a device may make both parts in one (`step`). A new size is prepared in
 * the background (dev_program_new may be called from another thread) while the old one runs.
 *
 * Parameters, gradients, optimizer state and statistics are each ONE flat block of floats in the
 * network's tensor order (job/network.h); a device reorders inside. Activations are NHWC. Every
 * device passes the conformance suite in tests/kernels against the plain reference and finite
 * differences.
 *
 * Threads: one thread at a time per program's run; dev_program_new may run beside it.
 */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "job/network.h"
#include "job/spec.h"

struct dev_view; /* kernels/samples.h */
struct device; /* opaque: the implementation's struct begins with `const struct device_ops *ops` */

enum dev_block { DEV_PARAMS, DEV_GRADS, DEV_OPTIM, DEV_STATS, DEV_BLOCKS };

/* A replica: one network's four blocks on a device. For a device in host memory, `host` points into
 * the very block (fetch and store do nothing); for others it is a pinned mirror. */
struct dev_replica {
    struct device *dev;
    const struct network *net; /* borrowed, outlives the replica */
    struct optimizer_spec optimizer;
    float *host[DEV_BLOCKS];
    size_t count[DEV_BLOCKS]; /* floats; DEV_OPTIM: momentum 0 or 1 x n_params, Adam 2 x n_params +
                                 1 */
    bool alone; /* no other rank's gradients join its own: set before programs are made, which then
                   may offer `step` */
    void *impl;
};

/* A bucket of gradients: a contiguous range of the flat block. Bucket 0 is ready first (the last
 * layers). */
struct dev_bucket {
    size_t first, count;
    double work_done; /* share of compute's work that is done when it is ready (0..1], for pacing */
};

/* Samples to keep in a device's memory: bytes, each of which means table[channel or 0][byte]. */
struct dev_source {
    const uint8_t *x; /* [samples][stored] */
    int64_t samples;
    struct shape stored, out; /* as they stand; as the network gets them (a window) */
    int tables;               /* 1, or one for each channel */
    const float *table;       /* [tables][256] */
};
struct dev_samples; /* opaque */
struct dev_feed; /* opaque: samples of one minibatch on their way to a device that has memory of its
                    own */

/* What one run of `compute` works on. */
struct dev_input {
    const float
        *x; /* [count][input shape], NHWC, normalised; host memory. NULL: `from` has the samples */
    const struct dev_samples *from; /* kept by this device; `sample` then are places in it */
    const struct dev_feed *fed;     /* or NULL: x is this feed's, and was sent (feed_send) */
    const struct dev_view *view;    /* [count], with `from`; NULL: samples are taken whole */
    const void *y;         /* int32 labels [count], or float targets [count][output] for LOSS_MSE */
    const int64_t *sample; /* [count] index in the data set: the counter of random choices */
    int count; /* samples in use, <= the program's minibatch; gradients are means over these */
    int64_t epoch;
    uint64_t seed;
    bool training; /* false: forward and loss only, dropout off, running statistics used */
};
struct dev_result {
    double loss; /* sum over the samples */
    int64_t correct;
    bool finite; /* loss is finite */
};

typedef void dev_mark_fn(void *ctx, int bucket);

struct dev_program; /* opaque, begins with a struct dev_program_head */
struct dev_program_head {
    struct dev_replica *replica;
    int batch;
    int n_buckets;
    struct dev_bucket *buckets;
};

struct rule_state;
struct rule_args;

/* For an exchange that sends from the device's own memory and receives into it: blocks there in the
 * flat block's order. Any thread. */
struct dev_memory_ops {
    /* Any MPI can read and write this memory, not only one that knows of GPUs. */
    bool (*reachable)(struct device *dev);
    /* `floats` of the device's memory, or pinned ones of the host's for put and get, to be given
     * back. NULL: ERR_MEMORY. */
    float *(*take)(struct device *dev, size_t floats, bool pinned, struct err *e);
    void (*give_back)(struct device *dev, float *memory, bool pinned);
    /* The calling thread may from now on hand pointers of the device to a library. */
    int (*enter)(struct device *dev, struct err *e);
    /* As fetch and store, but from and to `near`, of which [0] is float `first` of the block; what
     * is fetched is multiplied with scale. What gradients are stored from may be written again by a
     * fetch, and by others once the device has computed; other blocks are stored when it returns.
     */
    int (*fetch)(struct dev_replica *r, enum dev_block b, size_t first, size_t n, float scale,
                 float *near, struct err *e);
    int (*store)(struct dev_replica *r, enum dev_block b, size_t first, size_t n, const float *near,
                 struct err *e);
    /* Pinned floats to the device's memory, and back; over when they return. */
    int (*put)(struct device *dev, float *near, const float *pinned, size_t n, struct err *e);
    int (*get)(struct device *dev, float *pinned, const float *near, size_t n, struct err *e);
    /* sum[i] += other[i]; over when it returns. */
    int (*add)(struct device *dev, float *sum, const float *other, size_t n, struct err *e);
};

struct device_ops {
    const char *name; /* "cpu" */
    /* `args` is what follows the colon: threads, or the index of a GPU. */
    struct device *(*open)(const char *args, struct err *e);
    void (*close)(struct device *dev);
    /* One line for people: "AMD EPYC, 1 thread, avx512". */
    const char *(*describe)(struct device *dev);
    size_t (*memory_bytes)(struct device *dev); /* free for training */
    int (*quantum)(struct device *dev);         /* minibatches are multiples of this */
    int (*threads)(struct device *dev);
    int (*replica_init)(struct device *dev, struct dev_replica *r, const struct network *net,
                        const struct optimizer_spec *opt, struct err *e);
    void (*replica_release)(struct dev_replica *r);
    int (*fetch)(struct dev_replica *r, enum dev_block b, size_t first, size_t n,
                 struct err *e); /* device -> host mirror */
    int (*store)(struct dev_replica *r, enum dev_block b, size_t first, size_t n,
                 struct err *e); /* host mirror -> device */
    /* NULL, or: from now on the block's values are those at `at`, which are only read and stay as
     * they are until another place is given; at NULL, those of the replica's own memory again. */
    void (*stand_at)(struct dev_replica *r, enum dev_block b, float *at);
    /* max_bucket_bytes: buckets are cut at tensors and are at least this large where the network
     * allows. */
    struct dev_program *(*program_new)(struct dev_replica *r, int batch, size_t bucket_bytes,
                                       struct err *e);
    void (*program_free)(struct dev_program *p);
    /* Runs forward, loss and (if training) backward; gradients are the MEAN over in->count samples.
     * Calls mark for each bucket in order, on the calling thread. logits: NULL or [count][outputs],
     * host. */
    int (*compute)(struct dev_program *p, const struct dev_input *in, struct dev_result *out,
                   float *logits, dev_mark_fn *mark, void *ctx, struct err *e);
    /* Optimizer step on the replica: g = scale * grads (+ decay * w where the tensor decays);
     * learning rate lr. */
    int (*update)(struct dev_replica *r, double lr, double scale, struct err *e);
    /* NULL, or update for floats [first, first+n) alone, whose gradients are there while others
     * still travel: in a step each float once, in any order, the same bits. last: the step's last
     * part. Not for an optimizer that clips, which has to know all gradients. */
    int (*update_part)(struct dev_replica *r, size_t first, size_t n, double lr, double scale,
                       bool last, struct err *e);
    /* NULL, or compute and update in one, for a replica that is `alone`; the gradients are the
     * update's, and are marked to nobody. A loss that is not finite has been applied. */
    int (*step)(struct dev_program *p, const struct dev_input *in, double lr, double scale,
                struct dev_result *out, struct err *e);
    /* NULL, or: replicas made from now on compute in "fp32", "tf32" or "bf16"; ERR_UNSUPPORTED if
     * the device lacks it. */
    int (*use_precision)(struct device *dev, const char *precision, struct err *e);
    /* NULL, or: keeps samples on the device, so that `compute` gathers them there. ERR_MEMORY if
     * they do not fit. */
    struct dev_samples *(*samples_new)(struct device *dev, const struct dev_source *from,
                                       struct err *e);
    void (*samples_free)(struct dev_samples *s);
    /* NULL, or: room for `floats` of samples, *x, from which the device copies them beside whatever
     * it computes. The caller writes to x, sends, and hands both to `compute`; until that has
     * returned, or if nothing computes on what was sent, the feed may be written and sent again.
     * Two feeds in turns hide the copies. Each is one thread's at a time. */
    struct dev_feed *(*feed_new)(struct device *dev, size_t floats, float **x, struct err *e);
    void (*feed_free)(struct dev_feed *f);
    /* Begins to copy the first `floats` of x, and returns at once. */
    int (*feed_send)(struct dev_feed *f, size_t floats, struct err *e);
    const struct dev_memory_ops *memory; /* NULL: host memory is all there is */
    /* NULL, or rule_apply on the device's own memory: every pointer of `s` and `a` is the device's.
     */
    int (*rule)(struct device *dev, int strategy, struct rule_state *s, const struct rule_args *a,
                struct err *e);
    json_t *(*tuning)(struct device *dev);                  /* NULL, or dev_tuning */
    void (*tune)(struct device *dev, const json_t *tuning); /* NULL, or dev_tune */
    /* NULL, or: on, begins to time what the calling thread starts on the device, kernel by kernel;
     * off, ends that and gives
     * [{"kernel", "bytes", "flops", "seconds"}, …] in the order of the starts. For benches:
     * programs are metered while they are made. */
    json_t *(*meter)(struct device *dev, bool on);
};

struct device {
    const struct device_ops *ops;
};

/* "cpu:2", "cuda:0", "auto" (cuda if there is one, else cpu with all threads). */
struct device *dev_open(const char *name, struct err *e);
void dev_close(struct device *dev);
/* The arithmetic of replicas that are made from now on: "fp32", which every device has, "tf32" or
 * "bf16". */
int dev_use_precision(struct device *dev, const char *precision, struct err *e);
/* The sentence of a device that does not compute in it; -ERR_UNSUPPORTED. */
int dev_lacks_precision(struct device *dev, const char *precision, struct err *e);
/* What the device has measured to choose its algorithms, all of it, if some of it is new since the
 * last call; else NULL. To be kept, and given to dev_tune by a later process, which then need not
 * measure. Beside a run of a program. */
json_t *dev_tuning(struct device *dev);
/* What is of another device or library, or altered, is ignored. NULL: nothing is known. */
void dev_tune(struct device *dev, const json_t *tuning);
/* Bytes a program for this minibatch needs, blocks included (placement, memory limit). */
size_t dev_memory_needed(const struct network *net, const struct optimizer_spec *opt, int batch);
/* Floats of optimizer state (DEV_OPTIM). */
size_t dev_optim_floats(const struct network *net, const struct optimizer_spec *opt);
/* What a gradient of n floats, times `scale`, must be multiplied with to be no longer than
 * clip_norm (0: no limit). Host memory; the same bits for any number of threads. */
double dev_clip(const float *g, size_t n, double scale, double clip_norm);

/* ---- server rules: the update at the parameter server (kernels/rules, one header each) ------- */
struct rule_state {       /* of one shard of n floats; arrays the rule does not use are NULL */
    float *w;             /* weights */
    float *v;             /* velocity */
    float *m2;            /* mean square (dc-asgd adaptive) */
    const uint8_t *decay; /* NULL, or 1 where weight decay applies */
    size_t n;
    const float *from; /* weights before the update, which stay as they are; NULL: w itself */
};
struct rule_args {
    const float *g;      /* gradient of this arrival */
    const float *pulled; /* version the worker pulled, or NULL */
    float lr;            /* eta of the epoch of the gradient's slice */
    float factor;        /* s * c_i: what the gradient is multiplied with before momentum */
    float momentum, weight_decay;
    float tau;        /* staleness at application */
    float p0, p1, p2; /* parameters of the rule, see its header */
};
/* Applies the rule of strategy `type` (CAT_STRATEGY_…) on the host, several threads allowed. */
void rule_apply(int strategy, struct rule_state *s, const struct rule_args *a);
/* Adds one gradient to the sum of a group (rules/collect.h); the group's update is rule_apply with
 * that sum and factor 1. */
void rule_gather(float *sum, const struct rule_state *s, const struct rule_args *a);

#endif
