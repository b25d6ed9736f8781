/* Local response normalisation across channels (Krizhevsky et al. 2012; PyTorch's LocalResponseNorm):
 *
 *   s_i = k + alpha/window * sum of x_j^2 over j in i - window/2 … i + (window-1)/2         y_i = x_i * s_i^-beta
 *   dx_i = dy_i * s_i^-beta - 2*alpha*beta/window * x_i * sum of dy_j*y_j/s_j over all j in whose window i stands
 *
 * The forward pass keeps s. Every thread has a line of channels with a margin of zeros on both sides, so that no sum looks at borders.
 */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

struct lrn {
    float *s;     /* [batch][count] */
    float *lines; /* [threads][line] */
    size_t line;  /* window/2 zeros, channels, window/2 zeros and more */
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
    l->s = cpu_alloc(p, (size_t)p->head.batch * step->out->count, e);
    l->lines = l->s ? cpu_alloc(p, l->line * (size_t)p->dev->threads, e) : NULL;
    return l->lines ? 0 : -ERR_MEMORY;
}

static float *line_of_thread(const struct lrn *l)
{
    return l->lines + l->line * (size_t)omp_get_thread_num();
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
CPU_CLONES static void window_sums(float *restrict out, const float *restrict line, size_t window, size_t c)
{
    memcpy(out, line, c * sizeof(float));
    for (size_t w = 1; w < window; w++) {
        for (size_t i = 0; i < c; i++) {
            out[i] += line[i + w];
        }
    }
}

static void forward_pixel(const struct lrn *l, float *line, float *y, float *s, const float *x, size_t c)
{
    size_t margin = l->window / 2;
    for (size_t i = 0; i < c; i++) {
        line[margin + i] = x[i] * x[i];
    }
    window_sums(s, line, l->window, c);
    for (size_t i = 0; i < c; i++) {
        s[i] = l->k + l->scale * s[i];
    }
    powers(y, s, l->beta, c);
    for (size_t i = 0; i < c; i++) {
        y[i] *= x[i];
    }
}

/* The windows in which i stands reach the other way: (window-1)/2 down, window/2 up. */
static void backward_pixel(const struct lrn *l, float *line, float *dx, const float *dy, const float *x, const float *y, const float *s,
                           size_t c)
{
    size_t margin = (l->window - 1) / 2;
    float factor = -2.0f * l->scale * l->beta;
    for (size_t i = 0; i < c; i++) {
        line[margin + i] = dy[i] * y[i] / s[i];
    }
    window_sums(dx, line, l->window, c);
    powers(line + margin, s, l->beta, c);
    for (size_t i = 0; i < c; i++) {
        dx[i] = dy[i] * line[margin + i] + factor * x[i] * dx[i];
    }
}

/* What the other pass left in the margins goes. */
static void clear(const struct lrn *l, float *line)
{
    memset(line, 0, l->line * sizeof(float));
}

static int forward(struct cpu_program *p, struct cpu_step *step, const struct dev_input *in, struct err *e)
{
    struct lrn *l = step->state;
    size_t c = (size_t)step->out->shape.dim[2], pixels = (size_t)p->head.batch * step->out->count / c;
#pragma omp parallel if (pixels > 64)
    {
        float *line = line_of_thread(l);
        clear(l, line);
#pragma omp for
        for (size_t i = 0; i < pixels; i++) {
            forward_pixel(l, line, step->out->data + i * c, l->s + i * c, step->in[0]->data + i * c, c);
        }
    }
    return 0;
}

static int backward(struct cpu_program *p, struct cpu_step *step, const struct dev_input *in, struct err *e)
{
    struct lrn *l = step->state;
    size_t c = (size_t)step->out->shape.dim[2], pixels = (size_t)p->head.batch * step->out->count / c;
    float *to = *step->in_grad[0];
#pragma omp parallel if (pixels > 64)
    {
        float *line = line_of_thread(l);
        clear(l, line);
#pragma omp for
        for (size_t i = 0; i < pixels; i++) {
            backward_pixel(l, line, to + i * c, step->out->grad + i * c, step->in[0]->data + i * c, step->out->data + i * c, l->s + i * c, c);
        }
    }
    return 0;
}

static void release(struct cpu_step *step)
{
    free(step->state);
    step->state = NULL;
}

static double work(const struct cpu_step *s)
{
    return (double)s->out->count * (20.0 + s->layer->window);
}

const struct cpu_op cpu_lrn = {
    .name = "local response normalisation",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
    .work = work,
};
