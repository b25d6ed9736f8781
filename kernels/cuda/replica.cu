/* A network's four blocks on the GPU, and the copies to and from their pinned mirrors.
 *
 *   host mirror     ⇄  one copy  ⇄  staging memory  ⇄  a kernel  ⇄  block
 *   PyTorch's order                 on the GPU         reorders     the device's order
 *
 * Both directions run on the copy stream, in parts that fit the staging memory, and are complete
 * when the function returns. A fetch waits for everything that the main stream was given, except
 * inside dev_mark_fn: there the bucket is known to be complete, and waiting would end the overlap
 * of exchange and backward pass.
 *
 * Which tensors are reordered depends on how the network's values are stored, so the graph is built
 * here too, without a minibatch. Adam's state is two blocks and the step number behind each other,
 * in both orders (SPAN below).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/elements.h"

enum { STAGING = 1 << 22, CHUNK = 4096 };

/* ---- kernels --------------------------------------------------------------------------------- */

struct span {
    const struct cuda_tensor *tensors;
    uint64_t flat, at; /* floats of one block of parameters, in each order */
    uint64_t first, n;
    int n_tensors;
};

DEVICE_FN uint64_t place_of(struct span s, uint64_t i)
{
    uint64_t block = (s.first + i) / s.flat, rest = (s.first + i) % s.flat;
    return block * s.at + cuda_place(s.tensors, s.n_tensors, rest);
}

KERNEL gather(float *to, const float *block, float scale, struct span s)
{
    for (size_t i = port_index(); i < s.n; i += port_stride()) {
        to[i] = scale * block[place_of(s, i)];
    }
}

KERNEL scatter(float *block, const float *from, struct span s)
{
    for (size_t i = port_index(); i < s.n; i += port_stride()) {
        block[place_of(s, i)] = from[i];
    }
}

/* ---- where tensors are ----------------------------------------------------------------------- */

static int map_init(struct cuda_map *m, const struct tensor *tensors, int n, size_t floats,
                    struct err *e)
{
    m->host = (struct cuda_tensor *)calloc((size_t)n + 1, sizeof(*m->host));
    if (!m->host) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    m->n = n;
    m->flat = floats;
    for (int i = 0; i < n; i++) {
        m->host[i] = {tensors[i].first, m->at, tensors[i].count, 1, 1};
        m->at += (tensors[i].count + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
    }
    return 0;
}

/* Finds the tensors whose order differs: weights of convolutions, and of dense layers that read an
 * image. */
static int find_orders(struct cuda_map *m, const struct network *net, struct err *e)
{
    struct cuda_graph graph;
    int rc = cuda_graph_init(&graph, net, e);
    for (int i = 0; i < graph.n_steps && rc >= 0; i++) {
        const struct cuda_step *s = &graph.steps[i];
        const struct shape *in = &s->in[0]->shape;
        bool reads_image = s->layer->type == CAT_LAYER_DENSE && in->rank == 3;
        if (reads_image || s->layer->type == CAT_LAYER_CONV2D) {
            struct cuda_tensor *t = &m->host[s->layer->first_tensor];
            t->inner = (uint32_t)in->dim[2];
            t->area = (uint32_t)(reads_image ? in->dim[0] * in->dim[1]
                                             : s->layer->kernel[0] * s->layer->kernel[1]);
        }
    }
    cuda_graph_release(&graph);
    return rc;
}

static int upload_map(struct cuda_map *m, cudaStream_t stream, struct err *e)
{
    size_t bytes = (size_t)m->n * sizeof(*m->host);
    if (bytes == 0) {
        return 0;
    }
    TRY(cuda_check(cudaMemcpyAsync(m->device, m->host, bytes, cudaMemcpyHostToDevice, stream),
                   "copy to the GPU", e));
    return cuda_check(cudaStreamSynchronize(stream), "copy to the GPU", e);
}

static int upload_decays(struct cuda_replica *r, const struct network *net, cudaStream_t stream,
                         struct err *e)
{
    size_t n = r->params.at / CUDA_ALIGN;
    uint8_t *flags = (uint8_t *)calloc(n + 1, 1);
    if (!flags) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    for (int t = 0; t < net->n_tensors; t++) {
        size_t first = r->params.host[t].at / CUDA_ALIGN;
        size_t pieces = (net->tensors[t].count + CUDA_ALIGN - 1) / CUDA_ALIGN;
        memset(flags + first, net->tensors[t].decay, pieces);
    }
    int rc = n == 0
                 ? 0
                 : cuda_check(cudaMemcpyAsync(r->decays, flags, n, cudaMemcpyHostToDevice, stream),
                              "copy to the GPU", e);
    if (rc == 0) {
        rc = cuda_check(cudaStreamSynchronize(stream), "copy to the GPU", e);
    }
    free(flags);
    return rc;
}

/* ---- init, release --------------------------------------------------------------------------- */

/* Floats of a block on the device. */
static size_t device_floats(const struct cuda_replica *r, enum dev_block b)
{
    size_t flat = r->head->count[b];
    switch (b) {
    case DEV_STATS:
        return r->stats.at;
    case DEV_OPTIM:
        return flat == 0 ? 0 : flat > r->params.flat ? 2 * r->params.at + 1 : r->params.at;
    default:
        return r->params.at;
    }
}

static int allocate_blocks(struct cuda_replica *r, const struct network *net, struct err *e)
{
    size_t largest = 0, chunks = (net->n_params + CHUNK - 1) / CHUNK;
    for (int b = 0; b < DEV_BLOCKS; b++) {
        TRY(cuda_reserve(&r->arena, &r->block[b], device_floats(r, (enum dev_block)b), false, e));
        largest = r->head->count[b] > largest ? r->head->count[b] : largest;
    }
    r->staging_floats = largest < STAGING ? largest : (size_t)STAGING;
    if (r->dev->precision == CUDA_BF16) {
        TRY(cuda_reserve(&r->arena, &r->weights, r->params.at, false, e));
    }
    TRY(cuda_reserve(&r->arena, &r->params.device, (size_t)r->params.n, false, e));
    TRY(cuda_reserve(&r->arena, &r->stats.device, (size_t)r->stats.n, false, e));
    TRY(cuda_reserve(&r->arena, &r->decays, r->params.at / CUDA_ALIGN, false, e));
    TRY(cuda_reserve(&r->arena, &r->staging, r->staging_floats, false, e));
    TRY(cuda_reserve(&r->arena, &r->rates, 1, false, e));
    TRY(cuda_reserve(&r->arena, &r->squares, chunks * 16, false, e));
    TRY(cuda_reserve(&r->arena, &r->factor, 1, false, e));
    return cuda_allocate(&r->arena, 0, r->dev->copy, e);
}

static int pin_mirrors(struct cuda_replica *r, struct err *e)
{
    for (int b = 0; b < DEV_BLOCKS; b++) {
        size_t bytes = (r->head->count[b] * sizeof(float) + 127) / 64 * 64;
        TRY(cuda_pin(&r->head->host[b], bytes, e));
        memset(r->head->host[b], 0, bytes);
    }
    return cuda_pin(&r->rates_host, sizeof(*r->rates_host), e);
}

/* Runs the update once without capturing it, on zeroed blocks and rates, which do not change: the
 * first run makes CUDA load the kernels. */
static int run_update_once(struct cuda_replica *r, struct err *e)
{
    *r->rates_host = {};
    r->rates_host->root = 1; /* avoids a division by zero */
    TRY(cuda_update_enqueue(r, r->dev->build, e));
    return cuda_check(cudaStreamSynchronize(r->dev->build), "run the update for the first time", e);
}

static int capture_update(struct cuda_replica *r, struct err *e)
{
    TRY(cuda_capture_begin(r->dev->build, "the update", e));
    int rc = cuda_update_enqueue(r, r->dev->build, e);
    return cuda_capture_end(r->dev->build, "the update", rc, &r->update, e);
}

static int build(struct cuda_replica *r, const struct network *net, struct err *e)
{
    TRY(cuda_enter(r->dev, e));
    TRY(map_init(&r->params, net->tensors, net->n_tensors, net->n_params, e));
    TRY(map_init(&r->stats, net->stats, net->n_stats, net->n_stat_floats, e));
    TRY(find_orders(&r->params, net, e));
    TRY(allocate_blocks(r, net, e));
    TRY(pin_mirrors(r, e));
    TRY(upload_map(&r->params, r->dev->copy, e));
    TRY(upload_map(&r->stats, r->dev->copy, e));
    TRY(upload_decays(r, net, r->dev->copy, e));
    TRY(cuda_check(cudaEventCreateWithFlags(&r->updated, cudaEventDisableTiming), "make an event",
                   e));
    pthread_mutex_lock(&r->dev->building);
    int rc = run_update_once(r, e);
    if (rc >= 0) {
        rc = capture_update(r, e);
    }
    pthread_mutex_unlock(&r->dev->building);
    return rc;
}

void cuda_replica_release(struct dev_replica *head)
{
    struct cuda_replica *r = cuda_replica(head);
    if (!r) {
        return;
    }
    cudaSetDevice(r->dev->index);
    cudaStreamSynchronize(r->dev->main);
    cudaStreamSynchronize(r->dev->copy);
    for (int b = 0; b < DEV_BLOCKS; b++) {
        if (head->host[b]) {
            cudaFreeHost(head->host[b]);
        }
        head->host[b] = NULL;
        head->count[b] = 0;
    }
    if (r->rates_host) {
        cudaFreeHost(r->rates_host);
    }
    if (r->update) {
        cudaGraphExecDestroy(r->update);
    }
    if (r->updated) {
        cudaEventDestroy(r->updated);
    }
    cuda_arena_free(&r->arena);
    free(r->params.host);
    free(r->stats.host);
    free(r);
    head->impl = NULL;
    cudaGetLastError();
}

int cuda_replica_init(struct device *dev, struct dev_replica *head, const struct network *net,
                      const struct optimizer_spec *opt, struct err *e)
{
    struct cuda_replica *r = (struct cuda_replica *)calloc(1, sizeof(*r));
    memset(head, 0, sizeof(*head));
    if (!r) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    head->dev = dev;
    head->net = net;
    head->optimizer = *opt;
    head->count[DEV_PARAMS] = head->count[DEV_GRADS] = net->n_params;
    head->count[DEV_OPTIM] = dev_optim_floats(net, opt);
    head->count[DEV_STATS] = net->n_stat_floats;
    head->impl = r;
    r->head = head;
    r->dev = (struct cuda_device *)dev;
    int rc = build(r, net, e);
    if (rc < 0) {
        err_prefix(e, "cannot make a network of %zu parameters on '%.100s'", net->n_params,
                   r->dev->line);
        cuda_replica_release(head);
    }
    return rc;
}

/* ---- fetch, store ---------------------------------------------------------------------------- */

static struct span span_of(const struct cuda_replica *r, enum dev_block b, size_t first, size_t n)
{
    const struct cuda_map *m = b == DEV_STATS ? &r->stats : &r->params;
    return {m->device, m->flat, m->at, first, n, m->n};
}

/* Makes later work on `later` wait for everything given to `earlier` so far. */
static int order(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event, struct err *e)
{
    TRY(cuda_check(cudaEventRecord(event, earlier), "mark a stream", e));
    return cuda_check(cudaStreamWaitEvent(later, event, 0), "order two streams", e);
}

static int check_range(const struct cuda_replica *r, enum dev_block b, size_t first, size_t n,
                       struct err *e)
{
    size_t count = r->head->count[b];
    return first <= count && n <= count - first
               ? 0
               : err_set(e, ERR_INTERNAL, "floats %zu to %zu of a block of %zu", first, first + n,
                         count);
}

/* Puts a copy of floats [first, first+n) of the block to `to` on the GPU. */
static int put_gather(struct cuda_replica *r, enum dev_block b, size_t first, size_t n, float scale,
                      float *to, struct err *e)
{
    return cuda_check(LAUNCH(gather, cuda_blocks(r->dev, n), 2 * n * sizeof(float), r->dev->copy,
                             to, r->block[b], scale, span_of(r, b, first, n)),
                      "reorder a block", e);
}

static int put_scatter(struct cuda_replica *r, enum dev_block b, size_t first, size_t n,
                       const float *from, struct err *e)
{
    return cuda_check(LAUNCH(scatter, cuda_blocks(r->dev, n), 2 * n * sizeof(float), r->dev->copy,
                             r->block[b], from, span_of(r, b, first, n)),
                      "reorder a block", e);
}

static int begin_fetch(struct cuda_replica *r, enum dev_block b, size_t first, size_t n,
                       struct err *e)
{
    TRY(cuda_enter(r->dev, e));
    TRY(check_range(r, b, first, n, e));
    return r->marking ? 0 : order(r->dev->copy, r->dev->main, r->dev->tail, e);
}

int cuda_fetch(struct dev_replica *head, enum dev_block b, size_t first, size_t n, struct err *e)
{
    struct cuda_replica *r = cuda_replica(head);
    cudaStream_t copy = r->dev->copy;
    TRY(begin_fetch(r, b, first, n, e));
    for (size_t done = 0; done < n; done += r->staging_floats) {
        size_t part = n - done < r->staging_floats ? n - done : r->staging_floats;
        float *to = head->host[b] + first + done;
        TRY(put_gather(r, b, first + done, part, 1, r->staging, e));
        TRY(cuda_check(
            cudaMemcpyAsync(to, r->staging, part * sizeof(float), cudaMemcpyDeviceToHost, copy),
            "copy from the GPU", e));
    }
    return cuda_check(cudaStreamSynchronize(copy), "fetch a block from the GPU", e);
}

int cuda_fetch_buffer(struct dev_replica *head, enum dev_block b, size_t first, size_t n,
                      float scale, float *buffer, struct err *e)
{
    struct cuda_replica *r = cuda_replica(head);
    TRY(begin_fetch(r, b, first, n, e));
    if (n > 0) {
        TRY(put_gather(r, b, first, n, scale, buffer, e));
    }
    return cuda_check(cudaStreamSynchronize(r->dev->copy), "fetch a block on the GPU", e);
}

/* Updates the bf16 parameters, which are a rounded copy. */
static int put_weights(struct cuda_replica *r, struct err *e)
{
    return !r->weights ? 0
                       : elements_each(r->dev, r->dev->copy, f_convert{}, r->weights,
                                       (const float *)r->block[DEV_PARAMS], (const float *)NULL,
                                       r->params.at, "round the weights", e);
}

int cuda_store_buffer(struct dev_replica *head, enum dev_block b, size_t first, size_t n,
                      const float *buffer, struct err *e)
{
    struct cuda_replica *r = cuda_replica(head);
    cudaStream_t copy = r->dev->copy;
    TRY(cuda_enter(r->dev, e));
    TRY(check_range(r, b, first, n, e));
    if (b != DEV_GRADS &&
        b != DEV_PARAMS) { /* the host must know adam's steps, and merges statistics itself */
        return err_set(e, ERR_INTERNAL,
                       "only gradients and parameters are stored from memory of the GPU");
    }
    if (n == 0) {
        return 0;
    }
    TRY(order(copy, r->dev->main, r->dev->tail, e));
    TRY(put_scatter(r, b, first, n, buffer, e));
    if (b == DEV_PARAMS) {
        TRY(put_weights(r, e));
    }
    TRY(order(r->dev->main, copy, r->dev->copied, e));
    return b == DEV_GRADS ? 0
                          : cuda_check(cudaStreamSynchronize(copy), "store a block on the GPU",
                                       e); /* the next message arrives there */
}

int cuda_store(struct dev_replica *head, enum dev_block b, size_t first, size_t n, struct err *e)
{
    struct cuda_replica *r = cuda_replica(head);
    cudaStream_t copy = r->dev->copy;
    TRY(cuda_enter(r->dev, e));
    TRY(check_range(r, b, first, n, e));
    if (n == 0) {
        return 0;
    }
    TRY(order(copy, r->dev->main, r->dev->tail, e));
    for (size_t done = 0; done < n; done += r->staging_floats) {
        size_t part = n - done < r->staging_floats ? n - done : r->staging_floats;
        const float *from = head->host[b] + first + done;
        TRY(cuda_check(
            cudaMemcpyAsync(r->staging, from, part * sizeof(float), cudaMemcpyHostToDevice, copy),
            "copy to the GPU", e));
        TRY(put_scatter(r, b, first + done, part, r->staging, e));
    }
    if (b == DEV_PARAMS) {
        TRY(put_weights(r, e));
    }
    if (b == DEV_OPTIM && first + n == head->count[b] && head->count[b] > r->params.flat) {
        r->steps =
            round((double)head->host[b][head->count[b] - 1]); /* an average over workers rounds */
    }
    TRY(order(r->dev->main, copy, r->dev->copied, e));
    return cuda_check(cudaStreamSynchronize(copy), "store a block on the GPU", e);
}
