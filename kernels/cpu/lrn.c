/* Local response normalisation across channels (Krizhevsky et al. 2012; PyTorch's
 * LocalResponseNorm):
 *
 *   s_i  = k + alpha/window * sum of x_j^2 over j in i - window/2 … i + (window-1)/2
 *   y_i  = x_i * s_i^-beta
 *   dx_i = dy_i * s_i^-beta
 *          - 2*alpha*beta/window * x_i * sum of dy_j*y_j/s_j over all j whose window contains i
 *
 * The forward pass keeps s. Every thread has a line of channels with a margin of zeros on both
 * sides, so that no sum needs to check for borders.
 */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

struct lrn {
    float *s;     /* [batch][count] */
    float *lines; /* [threads][2][line] */
    size_t line;  /* window/2 zeros, channels, window/2 zeros and more; the second line is for one
                     value per channel */
    float k, scale, beta;
    size_t window;
};

static int prepare(struct cpu_program *p, struct cpu_step *step, struct err *e)
{
    struct lrn *l = calloc(1, sizeof(*l));
    const struct layer *layer = step->layer;
    if (!l) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    step->state = l;
    l->window = (size_t)layer->window;
    l->k = (float)layer->k;
    l->scale = (float)(layer->alpha / layer->window);
    l->beta = (float)layer->beta;
    l->line = ((size_t)step->out->shape.dim[2] + l->window + 31) / 16 * 16;
    l->s = cpu_alloc(p, (size_t)p->batch * step->out->count, e);
    l->lines = l->s ? cpu_alloc(p, 2 * l->line * (size_t)p->threads, e) : NULL;
    return l->lines ? 0 : -ERR_MEMORY;
}

static float *line_of_thread(const struct lrn *l)
{
    return l->lines + 2 * l->line * (size_t)omp_get_thread_num();
}

/* s^-beta; 3/4, the usual exponent, without logarithms. */
CPU_CLONES static void powers(float *restrict out, const float *restrict s, float beta, size_t c)
{
    if (beta == 0.75f) {
        for (size_t i = 0; i < c; i++) {
            float root = sqrtf(s[i]);
            out[i] = 1.0f / (root * sqrtf(root));
        }
        return;
    }
    for (size_t i = 0; i < c; i++) {
        out[i] = powf(s[i], -beta);
    }
}

/* out[i] = sum of line[i … i+window-1] */
CPU_CLONES static void window_sums(float *restrict out, const float *restrict line, size_t window,
                                   size_t c)
{
    memcpy(out, line, c * sizeof(float));
    for (size_t w = 1; w < window; w++) {
        for (size_t i = 0; i < c; i++) {
            out[i] += line[i + w];
        }
    }
}

/* A pixel's channels begin at element `at`. */
CPU_CLONES static void forward_pixel(const struct lrn *l, float *line, const struct cpu_step *step,
                                     bool bf16, size_t at, size_t c)
{
    size_t margin = l->window / 2;
    const void *restrict x = step->in[0]->data;
    void *restrict y = step->out->data;
    float *restrict s = l->s + at, *restrict power = line + l->line;
    ELEMENTS(bf16, {
        for (size_t i = 0; i < c; i++) {
            float v = GET(x, at + i);
            line[margin + i] = v * v;
        }
    });
    window_sums(s, line, l->window, c);
    for (size_t i = 0; i < c; i++) {
        s[i] = l->k + l->scale * s[i];
    }
    powers(power, s, l->beta, c);
    ELEMENTS(bf16, {
        for (size_t i = 0; i < c; i++) {
            PUT(y, at + i, power[i] * GET(x, at + i));
        }
    });
}

/* The windows that contain i reach the other way: (window-1)/2 down, window/2 up. */
CPU_CLONES static void backward_pixel(const struct lrn *l, float *line, const struct cpu_step *step,
                                      bool bf16, size_t at, size_t c)
{
    size_t margin = (l->window - 1) / 2;
    const void *restrict x = step->in[0]->data, *restrict y = step->out->data,
                         *restrict dy = step->out->grad;
    void *restrict dx = *step->in_grad[0];
    const float *restrict s = l->s + at;
    float *restrict sum = line + l->line, factor = -2.0f * l->scale * l->beta;
    ELEMENTS(bf16, {
        for (size_t i = 0; i < c; i++) {
            line[margin + i] = GET(dy, at + i) * GET(y, at + i) / s[i];
        }
    });
    window_sums(sum, line, l->window, c);
    powers(line + margin, s, l->beta, c);
    ELEMENTS(bf16, {
        for (size_t i = 0; i < c; i++) {
            PUT(dx, at + i, GET(dy, at + i) * line[margin + i] + factor * GET(x, at + i) * sum[i]);
        }
    });
}

/* Runs a pass over all pixels. First clears what the other pass left in a line's margins. */
static void every_pixel(const struct cpu_program *p, const struct cpu_step *step,
                        void (*pass)(const struct lrn *l, float *line, const struct cpu_step *step,
                                     bool bf16, size_t at, size_t c))
{
    struct lrn *l = step->state;
    size_t c = (size_t)step->out->shape.dim[2], pixels = (size_t)p->batch * step->out->count / c;
#pragma omp parallel if (pixels > 64)
    {
        float *line = line_of_thread(l);
        memset(line, 0, l->line * sizeof(float));
#pragma omp for
        for (size_t i = 0; i < pixels; i++) {
            pass(l, line, step, p->bf16, i * c, c);
        }
    }
}

static int forward(struct cpu_program *p, struct cpu_step *step, const struct dev_input *in,
                   struct err *e)
{
    every_pixel(p, step, forward_pixel);
    return 0;
}

static int backward(struct cpu_program *p, struct cpu_step *step, const struct dev_input *in,
                    struct err *e)
{
    every_pixel(p, step, backward_pixel);
    return 0;
}

static void release(struct cpu_step *step)
{
    free(step->state);
    step->state = NULL;
}

const struct cpu_op cpu_lrn = {
    .name = "local response normalisation",
    .backward_reads = CPU_READS_IN | CPU_READS_OUT,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
};
