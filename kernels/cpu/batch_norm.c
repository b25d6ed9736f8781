/* Batch norm over the samples of this minibatch (Ioffe and Szegedy 2015; PyTorch's BatchNorm): rows are all pixels of all samples, each
 * channel on its own.
 *
 *   training    xhat = (x - mean) / sqrt(variance + eps), both of the rows;  y = weight*xhat + bias
 *               running <- (1-momentum)*running + momentum*(mean, unbiased variance)
 *   evaluation  the same with the running statistics
 *   gradient    dbias = sum dy;  dweight = sum dy*xhat;  dx = weight/sqrt(variance + eps) * (dy - dbias/rows - xhat*dweight/rows)
 *
 * What a newcomer would get wrong: a minibatch may have fewer samples than the program, and rows of samples that are not there must enter
 * neither statistics nor sums. Sums are taken over fixed chunks of rows and added up in order, so that statistics do not depend on threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

enum { CHUNK = 128 }; /* rows */

struct batch_norm {
    size_t channels, chunks;
    float *parts;             /* [chunks][2][channels] */
    float *mean, *inverse;    /* [channels] of the pass under way; inverse = 1/sqrt(variance + eps) */
    float *scale, *shift;     /* [channels] y = scale*x + shift; in backward dx = scale*dy + slope*x + shift */
    float *slope;
};

static size_t rows_of(const struct cpu_step *s, int samples)
{
    return (size_t)samples * s->out->count / (size_t)s->out->shape.dim[s->out->shape.rank - 1];
}

static int prepare(struct cpu_program *p, struct cpu_step *s, struct err *e)
{
    struct batch_norm *b = calloc(1, sizeof(*b));
    if (!b) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = b;
    b->channels = (size_t)s->out->shape.dim[s->out->shape.rank - 1];
    b->chunks = (rows_of(s, p->head.batch) + CHUNK - 1) / CHUNK;
    b->parts = cpu_alloc(p, b->chunks * 2 * b->channels, e);
    b->mean = b->parts ? cpu_alloc(p, 5 * b->channels, e) : NULL;
    if (!b->mean) {
        return -ERR_MEMORY;
    }
    b->inverse = b->mean + b->channels;
    b->scale = b->inverse + b->channels;
    b->shift = b->scale + b->channels;
    b->slope = b->shift + b->channels;
    return 0;
}

/* ---- sums over rows ------------------------------------------------------------------------------------------------ */

/* sum[k] += x, or of (x - mean)^2 */
CPU_CLONES static void sum_rows(float *restrict sum, const float *restrict x, size_t rows, size_t c)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < c; k++) {
            sum[k] += x[i * c + k];
        }
    }
}

CPU_CLONES static void sum_squares(float *restrict sum, const float *restrict x, const float *restrict mean, size_t rows, size_t c)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < c; k++) {
            float d = x[i * c + k] - mean[k];
            sum[k] += d * d;
        }
    }
}

/* sum[0][k] += dy, sum[1][k] += dy*(x - mean) */
CPU_CLONES static void sum_gradients(float *restrict sum, const float *restrict dy, const float *restrict x, const float *restrict mean,
                                     size_t rows, size_t c)
{
    float *restrict products = sum + c;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < c; k++) {
            sum[k] += dy[i * c + k];
            products[k] += dy[i * c + k] * (x[i * c + k] - mean[k]);
        }
    }
}

static double total(const struct batch_norm *b, size_t chunks, size_t which, size_t channel)
{
    double sum = 0;
    for (size_t i = 0; i < chunks; i++) {
        sum += (double)b->parts[(2 * i + which) * b->channels + channel];
    }
    return sum;
}

/* Fills parts for `rows` rows; returns the number of chunks. mean NULL: sums; dy NULL: squares; else gradients. */
static size_t sum_chunks(struct batch_norm *b, const float *x, const float *dy, const float *mean, size_t rows)
{
    size_t c = b->channels, chunks = (rows + CHUNK - 1) / CHUNK;
#pragma omp parallel for if (chunks > 1)
    for (size_t i = 0; i < chunks; i++) {
        float *sum = b->parts + 2 * i * c;
        size_t first = i * CHUNK, n = rows - first < CHUNK ? rows - first : CHUNK;
        memset(sum, 0, 2 * c * sizeof(float));
        if (dy) {
            sum_gradients(sum, dy + first * c, x + first * c, mean, n, c);
        } else if (mean) {
            sum_squares(sum, x + first * c, mean, n, c);
        } else {
            sum_rows(sum, x + first * c, n, c);
        }
    }
    return chunks;
}

/* ---- forward ----------------------------------------------------------------------------------------------------------- */

CPU_CLONES static void apply(float *restrict y, const float *restrict x, const float *restrict scale, const float *restrict shift,
                             bool relu, size_t rows, size_t c)
{
    for (size_t i = 0; i < rows; i++) {
        if (relu) {
            for (size_t k = 0; k < c; k++) {
                float v = scale[k] * x[i * c + k] + shift[k];
                y[i * c + k] = v > 0 ? v : 0;
            }
        } else {
            for (size_t k = 0; k < c; k++) {
                y[i * c + k] = scale[k] * x[i * c + k] + shift[k];
            }
        }
    }
}

static float *running(struct cpu_program *p, const struct cpu_step *s, int which)
{
    return p->head.replica->host[DEV_STATS] + p->net->stats[s->layer->first_stat + which].first;
}

static void measure(struct cpu_program *p, struct cpu_step *s, size_t rows)
{
    struct batch_norm *b = s->state;
    float *mean = running(p, s, 0), *variance = running(p, s, 1);
    double momentum = s->layer->rate;
    size_t chunks = sum_chunks(b, s->in[0]->data, NULL, NULL, rows);
    for (size_t k = 0; k < b->channels; k++) {
        b->mean[k] = (float)(total(b, chunks, 0, k) / (double)rows);
    }
    sum_chunks(b, s->in[0]->data, NULL, b->mean, rows);
    for (size_t k = 0; k < b->channels; k++) {
        double squares = total(b, chunks, 0, k), unbiased = rows > 1 ? squares / (double)(rows - 1) : 0;
        b->inverse[k] = (float)(1 / sqrt(squares / (double)rows + s->layer->eps));
        mean[k] = (float)((1 - momentum) * (double)mean[k] + momentum * (double)b->mean[k]);
        variance[k] = (float)((1 - momentum) * (double)variance[k] + momentum * unbiased);
    }
}

static void use_running(struct cpu_program *p, struct cpu_step *s)
{
    struct batch_norm *b = s->state;
    const float *mean = running(p, s, 0), *variance = running(p, s, 1);
    for (size_t k = 0; k < b->channels; k++) {
        b->mean[k] = mean[k];
        b->inverse[k] = (float)(1 / sqrt((double)variance[k] + s->layer->eps));
    }
}

static int forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    struct batch_norm *b = s->state;
    size_t c = b->channels, rows = rows_of(s, p->head.batch);
    const float *weight = cpu_param(p, s, 0), *bias = cpu_param(p, s, 1);
    if (in->training) {
        measure(p, s, rows_of(s, in->count));
    } else {
        use_running(p, s);
    }
    for (size_t k = 0; k < c; k++) {
        b->scale[k] = weight[k] * b->inverse[k];
        b->shift[k] = bias[k] - b->mean[k] * b->scale[k];
    }
#pragma omp parallel if (rows > CHUNK)
    {
        size_t first, last;
        pointwise_share(rows, &first, &last);
        apply(s->out->data + first * c, s->in[0]->data + first * c, b->scale, b->shift, s->relu, last - first, c);
    }
    return 0;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------ */

CPU_CLONES static void apply_gradient(float *restrict dx, const float *restrict dy, const float *restrict x, const struct batch_norm *b,
                                      size_t rows, size_t c)
{
    const float *restrict scale = b->scale, *restrict slope = b->slope, *restrict shift = b->shift;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < c; k++) {
            dx[i * c + k] = scale[k] * dy[i * c + k] + (slope[k] * x[i * c + k] + shift[k]);
        }
    }
}

static int backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in, struct err *e)
{
    struct batch_norm *b = s->state;
    size_t c = b->channels, rows = rows_of(s, in->count);
    const float *weight = cpu_param(p, s, 0), *x = s->in[0]->data;
    float *dweight = cpu_param_grad(p, s, 0), *dbias = cpu_param_grad(p, s, 1), *dx = s->in_grad[0] ? *s->in_grad[0] : NULL;
    if (s->relu) {
        pointwise_relu_mask(s->out->grad, s->out->data, rows * c);
    }
    size_t chunks = sum_chunks(b, x, s->out->grad, b->mean, rows);
    for (size_t k = 0; k < c; k++) {
        double sum = total(b, chunks, 0, k), inverse = (double)b->inverse[k], products = total(b, chunks, 1, k) * inverse;
        double scale = (double)weight[k] * inverse, slope = -scale * inverse * products / (double)rows;
        dbias[k] = (float)sum;
        dweight[k] = (float)products;
        b->scale[k] = (float)scale;
        b->slope[k] = (float)slope;
        b->shift[k] = (float)(-scale * sum / (double)rows - slope * (double)b->mean[k]);
    }
    if (!dx) {
        return 0;
    }
#pragma omp parallel if (rows > CHUNK)
    {
        size_t first, last;
        pointwise_share(rows, &first, &last);
        apply_gradient(dx + first * c, s->out->grad + first * c, x + first * c, b, last - first, c);
    }
    memset(dx + rows * c, 0, (rows_of(s, p->head.batch) - rows) * c * sizeof(float));
    return 0;
}

static void release(struct cpu_step *s)
{
    free(s->state);
    s->state = NULL;
}

static double work(const struct cpu_step *s)
{
    return 16.0 * (double)s->out->count;
}

const struct cpu_op cpu_batch_norm = {
    .name = "batch norm",
    .takes_relu = true,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .release = release,
    .work = work,
};
