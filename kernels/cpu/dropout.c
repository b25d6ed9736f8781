/* Dropout (kernels/mask.h says which elements). The forward pass keeps one byte per element for the
 * backward pass; what is kept is scaled by 1/(1-rate), so that evaluation, where dropout does
 * nothing, sees the same mean.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/mask.h"

struct dropout {
    uint8_t *kept; /* [batch][count] */
    uint32_t threshold;
    float scale;
};

static int prepare(struct cpu_program *p, struct cpu_step *s, struct err *e)
{
    struct dropout *d = calloc(1, sizeof(*d));
    if (!d) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = d;
    d->kept = (uint8_t *)cpu_alloc(p, ((size_t)p->batch * s->out->count + 3) / 4, e);
    d->threshold = mask_threshold(s->layer->rate);
    d->scale = (float)(1.0 / (1.0 - s->layer->rate));
    return d->kept ? 0 : -ERR_MEMORY;
}

static void draw(const struct dropout *d, uint8_t *kept, uint64_t key, int64_t sample, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        struct rng_block words = mask_words(key, sample, i / 4);
        for (size_t k = 0; k < 4 && i + k < n; k++) {
            kept[i + k] = (words.v[k] >> 8) >= d->threshold;
        }
    }
}

CPU_CLONES static void apply(void *restrict to, const void *restrict from,
                             const uint8_t *restrict kept, bool bf16, float scale, size_t first,
                             size_t n)
{
    ELEMENTS(bf16, {
        for (size_t i = first; i < first + n; i++) {
            float x = GET(from, i) * scale;
            PUT(to, i, kept[i] ? x : 0);
        }
    });
}

static int forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   struct err *e)
{
    struct dropout *d = s->state;
    size_t n = s->out->count;
    if (!in->training) {
        memcpy(s->out->data, s->in[0]->data, (size_t)p->batch * n * element_size(p->bf16));
        return 0;
    }
    uint64_t key = mask_key(in->seed, in->epoch, s->index);
    int present = cpu_present(p, in);
#pragma omp parallel for if (n * (size_t)p->batch > 4096)
    for (int i = 0; i < p->batch; i++) {
        size_t at = (size_t)i * n;
        draw(d, d->kept + at, key, i < present ? in->sample[p->first + i] : 0, n);
        apply(s->out->data, s->in[0]->data, d->kept, p->bf16, d->scale, at, n);
    }
    return 0;
}

static int backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                    struct err *e)
{
    struct dropout *d = s->state;
    size_t n = s->out->count;
#pragma omp parallel for if (n * (size_t)p->batch > 16384)
    for (int i = 0; i < p->batch; i++) {
        size_t at = (size_t)i * n;
        apply(*s->in_grad[0], s->out->grad, d->kept, p->bf16, d->scale, at, n);
    }
    return 0;
}

static void release(struct cpu_step *s)
{
    free(s->state);
    s->state = NULL;
}

const struct cpu_op cpu_dropout = {
    .name = "dropout",
    .keeps_shape = true,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};
