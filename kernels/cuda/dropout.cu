/* Dropout, twin of cpu/dropout.c: kernels/mask.h says which elements, from counters that the
 * program reads in device memory, so the same graph serves every step. The backward pass draws the
 * same words again instead of keeping a mask. x, y: [batch][count].
 */
#include "kernels/cuda/cuda.h"
#include "kernels/mask.h"

/* One thread per four neighbouring elements of a sample, which is one block of Philox. It reads and
 * writes N of them at once. */
template <typename T, int N>
KERNEL drop(T *to, const T *from, const struct cuda_head *head, const int64_t *sample, int layer,
            uint32_t threshold, float scale, size_t count, size_t quads, size_t n)
{
    uint64_t key = mask_key(head->seed, head->epoch, layer);
    for (size_t i = port_index(); i < n; i += port_stride()) {
        size_t row = i / quads, quad = i % quads;
        struct rng_block words =
            mask_words(key, (int64_t)row < head->count ? sample[row] : 0, quad);
        for (size_t k = 0; k < 4 && quad * 4 + k < count; k += N) {
            size_t at = row * count + quad * 4 + k;
            port_some<T, N> x = *(const port_some<T, N> *)(from + at);
            for (int j = 0; j < N; j++) {
                bool kept = (words.v[k + j] >> 8) >= threshold;
                x.v[j] = port_from<T>(kept ? port_float(x.v[j]) * scale : 0);
            }
            *(port_some<T, N> *)(to + at) = x;
        }
    }
}

static int run(struct cuda_program *p, struct cuda_step *s, void *to, const void *from,
               struct err *e)
{
    size_t count = s->out->count, quads = (count + 3) / 4, n = (size_t)p->head.batch * quads;
    const int64_t *sample = (const int64_t *)(p->input + sizeof(struct cuda_head));
    uint32_t threshold = mask_threshold(s->layer->rate);
    float scale = (float)(1.0 / (1.0 - s->layer->rate));
    cudaError_t code;
    CUDA_KIND(p, T,
              code = LAUNCH_AS("drop", (count % 4 == 0 ? drop<T, 4> : drop<T, 1>),
                               cuda_blocks(p->dev, n), 2 * p->head.batch * count * sizeof(T),
                               p->dev->build, (T *)to, (const T *)from, cuda_head(p), sample,
                               s->index, threshold, scale, count, quads, n));
    return cuda_check(code, "drop elements", e);
}

static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    if (!training) {
        size_t bytes = (size_t)p->head.batch * s->out->count * cuda_element(p);
        return cuda_check(cudaMemcpyAsync(s->out->data, s->in[0]->data, bytes,
                                          cudaMemcpyDeviceToDevice, p->dev->build),
                          "copy on the GPU", e);
    }
    return run(p, s, s->out->data, s->in[0]->data, e);
}

static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    return run(p, s, *s->in_grad[0], s->out->grad, e);
}

const struct cuda_op cuda_dropout = {
    .name = "dropout",
    .keeps_shape = true,
    .forward = forward,
    .backward = backward,
};
