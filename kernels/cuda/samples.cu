/* Samples that live on the GPU, and how a minibatch is gathered from them: one kernel before the
 * graphs. It reads indices and views from the program's input and writes to where samples from the
 * host would be. There is no CPU twin: there samples are used where they are.
 *
 *   x [samples][height][width][channels] bytes
 *   → [batch][window's height][width][channels] floats, zeros beyond the minibatch's count
 *
 * A pixel from outside the picture is a byte of 0 before it is normalised, not a float of 0
 * (worker/data/gather.c).
 */
#include <stdlib.h>

#include "kernels/cuda/samples.h"

struct dev_samples {
    struct cuda_device *dev;
    struct cuda_arena arena;
    int64_t samples;
    struct cuda_kept kept;
};

/* Channel c of a pixel, in a view of the picture `from`. */
DEVICE_FN uint8_t seen(const struct cuda_kept &k, const uint8_t *from, const struct dev_view &v,
                       unsigned pixel, unsigned c)
{
    int column = (int)(pixel % k.out[1]);
    int y = view_source(&v, 0, (int)(pixel / k.out[1]), (int)k.stored[0]);
    int x = view_source(&v, 1, v.mirror ? (int)k.out[1] - 1 - column : column, (int)k.stored[1]);
    return y == VIEW_OUTSIDE || x == VIEW_OUTSIDE
               ? 0
               : from[((size_t)y * k.stored[1] + (size_t)x) * k.channels + c];
}

/* A thread takes N numbers of a sample at once. WHOLE: stored samples without views. */
template <bool WHOLE, int N>
KERNEL take(float *to, struct cuda_kept k, const struct cuda_head *head, const int64_t *sample,
            const struct dev_view *views, size_t batch)
{
    unsigned each = k.out[0] * k.out[1] * k.channels;
    size_t stored = (size_t)k.stored[0] * k.stored[1] * k.channels;
    for (size_t i = port_index(); i < batch * (each / N); i += port_stride()) {
        size_t b = i / (each / N);
        unsigned first = (unsigned)(i % (each / N)) * N;
        port_some<float, N> numbers = {};
        if ((int64_t)b < head->count) {
            const uint8_t *from = k.x + (size_t)sample[b] * stored;
            struct dev_view view = {};
            port_some<uint8_t, N> bytes = {};
            if (WHOLE) {
                bytes = *(const port_some<uint8_t, N> *)(from + first);
            } else {
                view = views[b];
            }
            for (unsigned j = 0; j < N; j++) {
                unsigned c = (first + j) % k.channels;
                uint8_t byte =
                    WHOLE ? bytes.v[j] : seen(k, from, view, (first + j) / k.channels, c);
                numbers.v[j] = k.table[(k.tables == 1 ? 0 : c) * 256 + byte];
            }
        }
        ((port_some<float, N> *)to)[i] = numbers;
    }
}

template <int N>
static cudaError_t start(struct cuda_program *p, const struct dev_input *in, size_t each)
{
    size_t batch = (size_t)p->head.batch;
    size_t bytes = batch * (each * (1 + sizeof(float)) + sizeof(int64_t) +
                            (in->view ? sizeof(struct dev_view) : 0));
    return LAUNCH_AS("take", (in->view ? take<false, N> : take<true, N>),
                     cuda_blocks(p->dev, batch * each / N), bytes, p->dev->main,
                     (float *)(p->input + p->x_at), in->from->kept, cuda_head(p),
                     (const int64_t *)(p->input + sizeof(struct cuda_head)),
                     (const struct dev_view *)(p->input + p->views_at), batch);
}

int cuda_samples_take(struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    size_t each = p->graph.values[0].count;
    return cuda_check(each % 4 == 0 ? start<4>(p, in, each) : start<1>(p, in, each),
                      "gather samples", e);
}

int cuda_samples_check(const struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    const struct cuda_kept *k = &in->from->kept;
    size_t each = (size_t)k->out[0] * k->out[1] * k->channels,
           stored = (size_t)k->stored[0] * k->stored[1] * k->channels;
    if (each != p->graph.values[0].count || (!in->view && each != stored)) {
        return err_set(e, ERR_INTERNAL, "samples of %zu numbers for a network that takes %zu",
                       in->view ? each : stored, p->graph.values[0].count);
    }
    for (int i = 0; i < in->count; i++) {
        if (in->sample[i] < 0 || in->sample[i] >= in->from->samples) {
            return err_set(e, ERR_INTERNAL, "sample %lld of %lld", (long long)in->sample[i],
                           (long long)in->from->samples);
        }
    }
    return 0;
}

/* ---- new, free ------------------------------------------------------------------------------- */

/* Two pinned buffers of `part` bytes: one is filled while the other is copied. */
struct staging {
    char *pinned;        /* [2][part] */
    cudaEvent_t sent[2]; /* a buffer's copy has ended */
    size_t part;
};

static const char copying[] = "copy samples to the GPU";

static int staging_init(struct staging *g, size_t part, struct err *e)
{
    *g = {};
    g->part = part;
    TRY(cuda_pin(&g->pinned, 2 * part, e));
    for (cudaEvent_t &event : g->sent) {
        TRY(cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event",
                       e));
    }
    return 0;
}

static void staging_release(struct staging *g)
{
    for (cudaEvent_t event : g->sent) {
        if (event) {
            cudaEventDestroy(event);
        }
    }
    if (g->pinned) {
        cudaFreeHost(g->pinned);
    }
}

static int copy_parts(struct dev_samples *s, const struct staging *g, const uint8_t *from,
                      size_t bytes, struct err *e)
{
    cudaStream_t stream = s->dev->copy;
    int turn = 0;
    for (size_t at = 0; at < bytes; at += g->part, turn ^= 1) {
        size_t n = bytes - at < g->part ? bytes - at : g->part;
        char *buffer = g->pinned + (size_t)turn * g->part;
        TRY(cuda_check(cudaEventSynchronize(g->sent[turn]), copying, e));
        memcpy(buffer, from + at, n);
        TRY(cuda_check(
            cudaMemcpyAsync((void *)(s->kept.x + at), buffer, n, cudaMemcpyHostToDevice, stream),
            copying, e));
        TRY(cuda_check(cudaEventRecord(g->sent[turn], stream), copying, e));
    }
    return 0;
}

/* Waits for the copies, also after a failure: until then the buffers are in use. */
static int upload(struct dev_samples *s, const uint8_t *from, size_t bytes, struct err *e)
{
    enum { PART = 4 << 20 };
    struct staging g;
    int rc = staging_init(&g, bytes < (size_t)PART ? bytes : (size_t)PART, e);
    if (rc >= 0) {
        rc = copy_parts(s, &g, from, bytes, e);
    }
    int waited = cuda_check(cudaStreamSynchronize(s->dev->copy), copying, rc < 0 ? NULL : e);
    staging_release(&g);
    return rc < 0 ? rc : waited;
}

static int keep(struct dev_samples *s, const struct dev_source *from, struct err *e)
{
    size_t bytes = (size_t)from->samples * shape_count(&from->stored),
           tables = (size_t)from->tables * 256;
    TRY(cuda_enter(s->dev, e));
    TRY(cuda_reserve(&s->arena, (uint8_t **)&s->kept.x, bytes, false, e));
    TRY(cuda_reserve(&s->arena, (float **)&s->kept.table, tables, false, e));
    TRY(cuda_allocate(&s->arena, 0, s->dev->copy, e));
    TRY(upload(s, from->x, bytes, e));
    TRY(cuda_check(cudaMemcpyAsync((void *)s->kept.table, from->table, tables * sizeof(float),
                                   cudaMemcpyHostToDevice, s->dev->copy),
                   copying, e));
    return cuda_check(cudaStreamSynchronize(s->dev->copy), copying, e);
}

static void measure(uint32_t out[2], const struct shape *shape)
{
    out[0] = shape->rank == 3 ? (uint32_t)shape->dim[0] : 1;
    out[1] = (uint32_t)(shape->rank == 3 ? shape->dim[1] : shape->dim[0]);
}

static void free_samples(struct dev_samples *s)
{
    if (s) {
        cudaSetDevice(s->dev->index);
        cuda_arena_free(&s->arena);
        cudaGetLastError();
        free(s);
    }
}

static struct dev_samples *make_samples(struct device *dev, const struct dev_source *from,
                                        struct err *e)
{
    struct dev_samples *s = (struct dev_samples *)calloc(1, sizeof(*s));
    if (!s) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    s->dev = (struct cuda_device *)dev;
    s->samples = from->samples;
    s->kept.channels = from->stored.rank == 3 ? (uint32_t)from->stored.dim[2] : 1;
    s->kept.tables = from->tables;
    measure(s->kept.stored, &from->stored);
    measure(s->kept.out, &from->out);
    if (keep(s, from, e) < 0) {
        err_prefix(e, "cannot keep %lld samples on '%.100s'", (long long)from->samples,
                   s->dev->line);
        free_samples(s);
        return NULL;
    }
    return s;
}

const struct dev_samples_ops cuda_samples_ops = {.make = make_samples, .free = free_samples};
