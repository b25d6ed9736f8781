/* Minibatches that the host gathers and copies to the GPU while it computes the one before. There
 * is no CPU twin: there samples are used where the host gathered them.
 *
 *   loader       gathers into feed 0 │ sends │ gathers into feed 1 │ sends │
 *   feed stream                        ▇▇▇▇▇▇▇▇                      ▇▇▇▇▇▇▇▇
 *   main stream  …step k-1 ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ │▇│ step k ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ │▇│
 *
 * feed stream: from pinned memory to the feed's own memory on the GPU. │▇│: from there to the
 * program's input. Only that short copy is in line with the steps: it waits for the event behind
 * the feed's copy, which is complete already if gathering keeps up. The feed's copy cannot write to
 * the program's input, because the step before still reads it. It has a stream of its own, because
 * a thread that fetches a bucket waits for the copy stream.
 *
 * Nothing guards a feed's memory on the GPU while a step reads it: `compute` returns when the step
 * is complete, and its caller does not use the feed before (device.h).
 */
#include <stdlib.h>

#include "kernels/cuda/feed.h"

struct dev_feed {
    struct cuda_device *dev;
    struct cuda_arena arena;
    float *host, *device; /* [room]; host is pinned */
    size_t room, sent;
    cudaEvent_t there;
};

static int build(struct dev_feed *f, struct err *e)
{
    TRY(cuda_enter(f->dev, e));
    TRY(cuda_reserve(&f->arena, &f->device, f->room, false, e));
    TRY(cuda_allocate(&f->arena, 0, f->dev->feed, e));
    TRY(cuda_pin(&f->host, f->room * sizeof(float), e));
    return cuda_check(cudaEventCreateWithFlags(&f->there, cudaEventDisableTiming), "make an event",
                      e);
}

static void free_feed(struct dev_feed *f)
{
    if (!f) {
        return;
    }
    cudaSetDevice(f->dev->index);
    cudaStreamSynchronize(f->dev->feed); /* an unused minibatch's copy may be under way */
    if (f->there) {
        cudaEventDestroy(f->there);
    }
    if (f->host) {
        cudaFreeHost(f->host);
    }
    cuda_arena_free(&f->arena);
    cudaGetLastError();
    free(f);
}

static struct dev_feed *make_feed(struct device *dev, size_t floats, float **x, struct err *e)
{
    struct dev_feed *f = (struct dev_feed *)calloc(1, sizeof(*f));
    if (!f) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    f->dev = (struct cuda_device *)dev;
    f->room = floats > 0 ? floats : 1;
    if (build(f, e) < 0) {
        err_prefix(e, "cannot make room for a minibatch on its way to '%.100s'", f->dev->line);
        free_feed(f);
        return NULL;
    }
    *x = f->host;
    return f;
}

static int send_feed(struct dev_feed *f, size_t floats, struct err *e)
{
    if (floats > f->room) {
        return err_set(e, ERR_INTERNAL, "%zu numbers do not fit a feed for %zu", floats, f->room);
    }
    TRY(cuda_enter(f->dev, e));
    f->sent = 0;
    TRY(cuda_check(cudaMemcpyAsync(f->device, f->host, floats * sizeof(float),
                                   cudaMemcpyHostToDevice, f->dev->feed),
                   "copy samples to the GPU", e));
    TRY(cuda_check(cudaEventRecord(f->there, f->dev->feed), "mark a copy of samples", e));
    f->sent = floats;
    return 0;
}

const struct dev_feed_ops cuda_feed_ops = {.make = make_feed, .free = free_feed, .send = send_feed};

int cuda_feed_check(const struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    size_t used = (size_t)in->count * p->graph.values[0].count;
    return in->x == in->fed->host && in->fed->sent >= used && in->fed->dev == p->dev
               ? 0
               : err_set(e, ERR_INTERNAL, "%zu numbers were sent for a minibatch of %zu",
                         in->fed->sent, used);
}

int cuda_feed_take(struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    cudaStream_t stream = p->dev->main;
    size_t used = (size_t)in->count * p->graph.values[0].count,
           all = (size_t)p->head.batch * p->graph.values[0].count;
    float *to = (float *)(p->input + p->x_at);
    TRY(cuda_check(cudaStreamWaitEvent(stream, in->fed->there, 0), "wait for samples", e));
    TRY(cuda_check(cudaMemcpyAsync(to, in->fed->device, used * sizeof(float),
                                   cudaMemcpyDeviceToDevice, stream),
                   "copy samples on the GPU", e));
    return used == all
               ? 0
               : cuda_check(cudaMemsetAsync(to + used, 0, (all - used) * sizeof(float), stream),
                            "clear samples that are not there", e);
}
