/* The device interface: what a worker asks of its hardware.
 *
 * A device runs *programs*. A program is a network compiled for one minibatch size. It has two
 * parts: `compute` (gather samples, forward, loss, backward) and `update` (optimizer). Inputs that
 * change without a new program: which samples, learning rate, weight, random counters. `compute`
 * calls `mark(bucket)` when the backward pass has finished a bucket of gradients (last layers
 * first), so that the exchange of a bucket overlaps the rest of the pass. A program for a new size
 * is made in the background while the old one runs.
 *
 * struct device_ops is a core that every device has, and pointers to optional groups. A group is
 * NULL or complete: dev_check, which dev_open calls, aborts on half a group. Callers ask for the
 * group (`if (dev->ops->samples)`) and may then use all of it.
 *
 * Parameters, gradients, optimizer state and statistics are each ONE flat block of floats in the
 * network's tensor order (job/network/network.h); a device may keep another order inside.
 * Activations are NHWC. Every device passes the conformance suite in tests/kernels against the
 * plain reference and finite differences. docs/add-a-device.md adds one step by step.
 *
 * Threads: one thread at a time runs programs; another thread may call program_new meanwhile.
 */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "job/network/network.h"
#include "job/spec/spec.h"
#include "kernels/rule.h"

struct dev_view; /* kernels/samples.h */
struct device; /* opaque: the implementation's struct begins with `const struct device_ops *ops` */

enum dev_block { DEV_PARAMS, DEV_GRADS, DEV_OPTIM, DEV_STATS, DEV_BLOCKS };

/* A replica: one network's four blocks on a device. On a device in host memory, `host` points to
 * the block itself (fetch and store do nothing); on others it is a pinned mirror. */
struct dev_replica {
    struct device *dev;
    const struct network *net; /* borrowed, outlives the replica */
    struct optimizer_spec optimizer;
    float *host[DEV_BLOCKS];
    size_t count[DEV_BLOCKS]; /* floats; DEV_OPTIM: see dev_optim_floats */
    bool alone; /* no other rank's gradients join its own, so fused->step may be used; set before
                   programs are made */
    void *impl;
};

/* A bucket of gradients: a contiguous range of the flat block. Bucket 0 is ready first (the last
 * layers). */
struct dev_bucket {
    size_t first, count;
    double work_done; /* share of compute's work done when it is ready (0..1], for pacing */
};

/* Samples to keep in a device's memory, as bytes; a byte means table[channel or 0][byte]. */
struct dev_source {
    const uint8_t *x; /* [samples][stored] */
    int64_t samples;
    struct shape stored, out; /* as stored; as the network gets them (a window) */
    int tables;               /* 1, or one for each channel */
    const float *table;       /* [tables][256] */
};
struct dev_samples; /* opaque: samples that a device keeps */
struct dev_feed;    /* opaque: a pinned buffer whose samples are copied to the device */

/* The input of one run of `compute`. */
struct dev_input {
    const float *x; /* [count][input shape], NHWC, normalised; host memory. NULL: use `from` */
    const struct dev_samples *from; /* samples on this device; `sample` is then their index */
    const struct dev_feed *fed;     /* or NULL: x is this feed's buffer, which was sent */
    const struct dev_view *view;    /* [count], with `from`; NULL: whole samples */
    const void *y;         /* int32 labels [count], or float targets [count][output] for LOSS_MSE */
    const int64_t *sample; /* [count] index in the data set: the counter of random choices */
    int count; /* samples in use, <= the program's minibatch; gradients are means over them */
    int64_t epoch;
    uint64_t seed;
    bool training; /* false: forward and loss only, dropout off, running statistics used */
};
struct dev_result {
    double loss;     /* sum over the samples; NaN: a user's program did not report it */
    int64_t correct; /* samples classified correctly; negative: unknown */
    bool finite;     /* loss is finite */
    bool measured;   /* a user's program has logged an evaluation since the last one was taken */
    bool absent;     /* a user's program has ended: its samples are not in the gradients */
    int given;       /* absent: buckets of the slice that were handed over before the program
                        ended */
    bool leaves;     /* a user's program has made its last epoch, and begins no step after it */
    bool early;      /* leaves: within an epoch, or before the epochs that it told were over */
    bool anew; /* a user's program was started again: the steps that it counts itself start again */
};

typedef void dev_mark_fn(void *ctx, int bucket);

struct dev_program; /* opaque, begins with a struct dev_program_head */
struct dev_program_head {
    struct dev_replica *replica;
    int batch;
    int n_buckets;
    struct dev_bucket *buckets;
};

/* ---- optional groups: NULL, or complete ------------------------------------------------------ */

/* Buffers in the device's memory, in the flat block's order, which an exchange sends from and
 * receives into. Any thread may call. */
struct dev_memory_ops {
    /* True: any MPI can read and write this memory, not only an MPI that takes GPU pointers. */
    bool (*reachable)(struct device *dev);
    /* `floats` of the device's memory or, for put and get, of pinned host memory; to be freed with
     * the same `pinned`. NULL: ERR_MEMORY. */
    float *(*alloc)(struct device *dev, size_t floats, bool pinned, struct err *e);
    void (*free)(struct device *dev, float *memory, bool pinned);
    /* Prepares the calling thread to pass the device's pointers to a library. */
    int (*enter)(struct device *dev, struct err *e);
    /* As the core's fetch and store, but to and from `buffer`, whose [0] is float `first` of the
     * block. fetch multiplies by scale. A store of gradients returns early: a later fetch may
     * overwrite the buffer at once, other writers must wait until the device has computed. */
    int (*fetch)(struct dev_replica *r, enum dev_block b, size_t first, size_t n, float scale,
                 float *buffer, struct err *e);
    int (*store)(struct dev_replica *r, enum dev_block b, size_t first, size_t n,
                 const float *buffer, struct err *e);
    /* Copies n pinned floats to the device's memory, and back; complete on return. */
    int (*put)(struct device *dev, float *buffer, const float *pinned, size_t n, struct err *e);
    int (*get)(struct device *dev, float *pinned, const float *buffer, size_t n, struct err *e);
    /* sum[i] += other[i]; complete on return. */
    int (*add)(struct device *dev, float *sum, const float *other, size_t n, struct err *e);
};

/* Data sets that stay in the device's memory, where `compute` gathers from them. */
struct dev_samples_ops {
    /* NULL: ERR_MEMORY if they do not fit. The caller frees. */
    struct dev_samples *(*make)(struct device *dev, const struct dev_source *from, struct err *e);
    void (*free)(struct dev_samples *s); /* NULL is allowed */
};

/* Minibatches that the host gathers and sends ahead, so that the copy overlaps the previous step.
 * The caller writes to a feed's buffer, sends it, and passes both to `compute`. It may write and
 * send again once that has returned, or if no run uses what was sent. Two feeds in turns hide the
 * copies. One thread at a time uses a feed. */
struct dev_feed_ops {
    /* A feed with its buffer *x of `floats`. NULL: ERR_MEMORY. The caller frees it. */
    struct dev_feed *(*make)(struct device *dev, size_t floats, float **x, struct err *e);
    void (*free)(struct dev_feed *f);
    /* Starts to copy the first `floats` of x, and returns at once. */
    int (*send)(struct dev_feed *f, size_t floats, struct err *e);
};

/* Compute and update in one call, for a replica that is `alone`. */
struct dev_fused_ops {
    /* Marks no buckets. Applies the update even if the loss is NaN or infinite. */
    int (*step)(struct dev_program *p, const struct dev_input *in, double lr, double scale,
                struct dev_result *out, struct err *e);
};

/* An update in parts, so that sums of gradients need not wait for each other. Not for an optimizer
 * with clip_norm, which needs all gradients first. */
struct dev_parts_ops {
    /* Updates only floats [first, first+n). In a step each float is updated once, in any order; the
     * bits are those of `update`. last: this is the step's last part. */
    int (*update)(struct dev_replica *r, size_t first, size_t n, double lr, double scale, bool last,
                  struct err *e);
};

/* A block that is read at another address, which saves a copy. */
struct dev_alias_ops {
    /* From now on the block's values are at `at`. They are only read, and must not change before
     * the next call. NULL: the replica's own memory again. */
    void (*set)(struct dev_replica *r, enum dev_block b, float *at);
};

/* Server rules on the device's own memory. */
struct dev_rule_ops {
    /* As rule_apply(), with every pointer of `s` and `a` in device memory. */
    int (*apply)(struct device *dev, enum rule rule, struct rule_state *s,
                 const struct rule_args *a, struct err *e);
};

/* Precisions other than fp32; see dev_use_precision. */
struct dev_precision_ops {
    int (*use)(struct device *dev, const char *precision, struct err *e);
};

/* Algorithms that are chosen by measuring; see dev_tuning and dev_tune. */
struct dev_tuning_ops {
    json_t *(*read)(struct device *dev);
    void (*apply)(struct device *dev, const json_t *tuning);
};

/* Times of kernels, for benchmarks. */
struct dev_meter_ops {
    /* From now on times each kernel that the calling thread starts. Programs are metered if they
     * are made meanwhile. */
    void (*begin)(struct device *dev);
    /* Stops timing. Returns [{"kernel", "bytes", "flops", "seconds"}, …] in the order of the
     * starts; a new reference. */
    json_t *(*end)(struct device *dev);
};

/* ---- a device -------------------------------------------------------------------------------- */

struct device_ops {
    const char *name; /* "cpu" */
    void (*close)(struct device *dev);
    /* One line for people: "AMD EPYC, 1 thread, avx512". Owned by the device. */
    const char *(*describe)(struct device *dev);
    size_t (*memory_bytes)(struct device *dev); /* free for training */
    int (*threads)(struct device *dev);         /* host threads that it computes with */
    /* Allocates the four blocks, zeroed. */
    int (*replica_init)(struct device *dev, struct dev_replica *r, const struct network *net,
                        const struct optimizer_spec *opt, struct err *e);
    void (*replica_release)(struct dev_replica *r);
    /* Copies floats [first, first+n) of a block from the device to the host's mirror, and back. */
    int (*fetch)(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e);
    int (*store)(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e);
    /* Buckets are cut at tensors (kernels/steps.h), each of at least bucket_bytes if the network
     * allows. ERR_MEMORY if the program does not fit; ERR_UNSUPPORTED names a layer that the device
     * lacks. */
    struct dev_program *(*program_new)(struct dev_replica *r, int batch, size_t bucket_bytes,
                                       struct err *e);
    void (*program_free)(struct dev_program *p);
    /* Runs forward, loss and (if training) backward; gradients are the MEAN over in->count samples.
     * Calls mark for each bucket in order, on the calling thread. mark may be NULL. logits: NULL or
     * [count][outputs], host. */
    int (*compute)(struct dev_program *p, const struct dev_input *in, struct dev_result *out,
                   float *logits, dev_mark_fn *mark, void *ctx, struct err *e);
    /* Optimizer step on the replica: g = scale * grads (+ decay * w where the tensor decays);
     * learning rate lr. */
    int (*update)(struct dev_replica *r, double lr, double scale, struct err *e);

    const struct dev_memory_ops *memory;
    const struct dev_samples_ops *samples;
    const struct dev_feed_ops *feed;
    const struct dev_fused_ops *fused;
    const struct dev_parts_ops *parts;
    const struct dev_alias_ops *alias;
    const struct dev_rule_ops *rules;
    const struct dev_precision_ops *precision;
    const struct dev_tuning_ops *tuning;
    const struct dev_meter_ops *meter;
};

struct device {
    const struct device_ops *ops;
};

/* "cpu:2", "cuda:0"; "auto" is the fastest kind that opens (job/node/devices.def). Aborts if the
 * device has half a group. */
struct device *dev_open(const char *name, struct err *e);
/* As dev_open("auto"); *why says why the next faster kind did not open, or is ERR_NONE if the
 * fastest kind did. */
struct device *dev_open_fastest(struct err *why, struct err *e);
/* For each row of job/node/devices.def, its folder has this function: opens "NAME:ARGS"; args may
 * be "". */
#define DEVICE(ident, name, argument, quantum, speed, precisions, help) \
    struct device *name##_open(const char *args, struct err *e);
#include "job/node/devices.def"
#undef DEVICE
void dev_close(struct device *dev); /* NULL is allowed */
/* Aborts unless the core and every group are complete. For devices that are not opened by name. */
void dev_check(const struct device_ops *ops);

/* ---- groups that callers use through a function ---------------------------------------------- */

/* Shorthands for fused->step, parts->update, alias->set; the device must have the group. */
int dev_step(struct dev_program *p, const struct dev_input *in, double lr, double scale,
             struct dev_result *out, struct err *e);
int dev_update_part(struct dev_replica *r, size_t first, size_t n, double lr, double scale,
                    bool last, struct err *e);
void dev_alias(struct dev_replica *r, enum dev_block b, float *at);
/* The arithmetic of replicas made from now on: "fp32", which every device has, "tf32" or "bf16".
 * ERR_UNSUPPORTED if the device lacks it. */
int dev_use_precision(struct device *dev, const char *precision, struct err *e);
/* Sets the error of a device that lacks a precision; -ERR_UNSUPPORTED. */
int dev_lacks_precision(struct device *dev, const char *precision, struct err *e);
/* Everything that the device has measured to choose its algorithms, or NULL if nothing is new since
 * the last call. A later process passes it to dev_tune() and need not measure again. Any thread may
 * call it, also while a program runs. A new reference. */
json_t *dev_tuning(struct device *dev);
/* Uses measurements of an earlier process. Ignores entries that are damaged, or of another device
 * or library. NULL: there are none. */
void dev_tune(struct device *dev, const json_t *tuning);

/* ---- facts of a network on any device -------------------------------------------------------- */

/* Bytes that a program for this minibatch needs, blocks included (for placement and memory
 * limits). */
size_t dev_memory_needed(const struct network *net, const struct optimizer_spec *opt, int batch);
/* Floats of optimizer state (DEV_OPTIM): momentum 0 or 1 x n_params, Adam 2 x n_params + 1. */
size_t dev_optim_floats(const struct network *net, const struct optimizer_spec *opt);
/* The factor that makes a gradient of n floats, times `scale`, no longer than clip_norm (0: no
 * limit). For host memory; gives the same bits for any number of threads. */
double dev_clip(const float *g, size_t n, double scale, double clip_norm);

#endif
