/* Batch norm over the samples of this minibatch (Ioffe and Szegedy 2015; PyTorch's BatchNorm): rows
 * are all pixels of all samples, each channel on its own.
 *
 *   training    xhat = (x - mean) / sqrt(variance + eps), both of the rows;  y = weight*xhat + bias
 *               running <- (1-momentum)*running + momentum*(mean, unbiased variance)
 *   evaluation  the same with the running statistics
 *   gradient    dbias = sum dy;  dweight = sum dy*xhat
 *               dx = weight/sqrt(variance + eps) * (dy - dbias/rows - xhat*dweight/rows)
 *
 * Memory bandwidth is the cost. The statistics are computed in one pass: each chunk's mean, then
 * its squares while it is in the cache; Chan's formula merges the chunks. A relu that follows is
 * recomputed from x (y > 0), so the backward pass reads dy and x and nothing else. Sums are
 * gathered from each tile (cpu/tiles.c) when it has just been written, and merged before this
 * step's own first tile. Few channels are processed as wide rows, several rows behind each other,
 * so that loops over channels are long.
 *
 * A minibatch may have fewer samples than the program; rows of the others enter neither statistics
 * nor sums. Sums are over fixed chunks of a tile and added up in order, so the same tiles give the
 * same bits.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { WIDE = 128, CHUNK = 64 }; /* elements of a wide row at least; wide rows of a chunk */

struct batch_norm {
    size_t channels, width; /* width: of a wide row, a multiple of the channels */
    /* gathered so far by this program; all programs of the team share the fields below */
    size_t parts;
    double *total;              /* [2][channels] */
    float *mean, *inverse;      /* [channels] of this pass; inverse = 1/sqrt(variance + eps) */
    float *center;              /* [width] from here on: the mean */
    float *scale, *shift;       /* y = scale*x + shift */
    float *gain, *slope, *base; /* dx = gain*dy + slope*x + base */
};

/* Elements of this many samples. */
static size_t elements_of(const struct cpu_step *s, int samples)
{
    return (size_t)samples * s->out->count;
}

static size_t chunk_of(const struct batch_norm *b)
{
    return b->width * CHUNK;
}

/* Floats of a part: two sums for each element of a wide row, and the number of its rows. */
static size_t part_of(const struct batch_norm *b)
{
    return 2 * b->width + 16;
}

static float rows_of(const struct batch_norm *b, const float *part)
{
    return part[2 * b->width];
}

static void gathers_into(struct cpu_program *p, const struct cpu_step *s)
{
    const struct batch_norm *b = s->state;
    size_t parts = elements_of(s, p->batch) / chunk_of(b) +
                   (size_t)p->batch; /* a tile's last chunk may be shorter */
    p->gathered_floats =
        parts * part_of(b) > p->gathered_floats ? parts * part_of(b) : p->gathered_floats;
}

static int prepare(struct cpu_program *p, struct cpu_step *s, struct err *e)
{
    struct batch_norm *b = calloc(1, sizeof(*b));
    if (!b) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    s->state = b;
    if (p->lead) {
        *b = *(const struct batch_norm *)p->lead->steps[s - p->steps]
                  .state; /* the first program's: all programs normalise with it */
        gathers_into(p, s);
        return 0;
    }
    b->channels = (size_t)s->out->shape.dim[s->out->shape.rank - 1];
    b->width = b->channels;
    while (b->width < WIDE) {
        b->width *= 2;
    }
    gathers_into(p, s);
    float **const wide[] = {&b->center, &b->scale, &b->shift, &b->gain, &b->slope, &b->base};
    size_t n = sizeof(wide) / sizeof(*wide);
    b->total = (double *)cpu_alloc(p, 4 * b->channels, e);
    b->mean = b->total ? cpu_alloc(p, 2 * b->channels + n * b->width, e) : NULL;
    if (!b->mean) {
        return -ERR_MEMORY;
    }
    b->inverse = b->mean + b->channels;
    for (size_t i = 0; i < n; i++) {
        *wide[i] = b->inverse + b->channels + i * b->width;
    }
    return 0;
}

/* Copies the first row of a wide row to all others. */
static void widen(const struct batch_norm *b, float *row)
{
    for (size_t k = b->channels; k < b->width; k++) {
        row[k] = row[k - b->channels];
    }
}

/* Adds the rows of a wide row up in the first one. */
static void fold(const struct batch_norm *b, float *row)
{
    for (size_t at = b->channels; at < b->width; at += b->channels) {
        for (size_t k = 0; k < b->channels; k++) {
            row[k] += row[at + k];
        }
    }
}

/* ---- sums of n elements from `first` on, in wide rows ---------------------------------------- */

static inline size_t shorter(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* v, a value or its gradient, after the relu of y. */
static inline float through_relu(float v, float y, bool relu)
{
    return (relu & (y <= 0)) ? 0 : v;
}

CPU_CLONES static void sum_rows(float *restrict sum, const void *restrict x, bool bf16,
                                size_t width, size_t first, size_t n)
{
    ELEMENTS(bf16, {
        for (size_t at = 0; at < n; at += width) {
            size_t m = shorter(width, n - at);
            for (size_t k = 0; k < m; k++) {
                sum[k] += GET(x, first + at + k);
            }
        }
    });
}

CPU_CLONES static void sum_squares(float *restrict sum, const float *restrict mean,
                                   const void *restrict x, bool bf16, size_t width, size_t first,
                                   size_t n)
{
    ELEMENTS(bf16, {
        for (size_t at = 0; at < n; at += width) {
            size_t m = shorter(width, n - at);
            for (size_t k = 0; k < m; k++) {
                float d = GET(x, first + at + k) - mean[k];
                sum[k] += d * d;
            }
        }
    });
}

/* Measures a chunk: mean[k], and the sum of squares around it. */
static void measure_chunk(const struct batch_norm *b, float *part, const void *x, bool bf16,
                          size_t first, size_t n)
{
    float *mean = part, *squares = part + b->width;
    memset(part, 0, 2 * b->width * sizeof(float));
    sum_rows(mean, x, bf16, b->width, first, n);
    fold(b, mean);
    for (size_t k = 0; k < b->channels; k++) {
        mean[k] /= (float)(n / b->channels);
    }
    widen(b, mean);
    sum_squares(squares, mean, x, bf16, b->width, first, n);
    fold(b, squares);
}

/* sum[0][k] += dy, sum[1][k] += dy*(x - mean); dy counts as zero where the relu of y was 0. */
CPU_CLONES static void sum_gradients(float *restrict sum, const void *restrict dy,
                                     const void *restrict x, const struct batch_norm *b, bool bf16,
                                     bool relu, size_t first, size_t n)
{
    float *restrict products = sum + b->width;
    const float *restrict mean = b->center, *restrict scale = b->scale, *restrict shift = b->shift;
    size_t width = b->width;
    ELEMENTS(bf16, {
        for (size_t at = 0; at < n; at += width) {
            size_t m = shorter(width, n - at);
            for (size_t k = 0; k < m; k++) {
                float v = GET(x, first + at + k),
                      g = through_relu(GET(dy, first + at + k), scale[k] * v + shift[k], relu);
                sum[k] += g;
                products[k] += g * (v - mean[k]);
            }
        }
    });
}

/* Makes a part for each chunk of the tile: statistics of x, or sums of gradients. */
static void gather(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   bool backward)
{
    struct batch_norm *b = s->state;
    size_t n = elements_of(s, cpu_present(p, in)), chunk = chunk_of(b);
    b->parts = p->from == 0 ? 0 : b->parts;
    float *parts = (float *)p->gathered + b->parts * part_of(b);
#pragma omp parallel for if (n > chunk)
    for (size_t first = 0; first < n; first += chunk) {
        float *part = parts + first / chunk * part_of(b);
        size_t here = shorter(chunk, n - first);
        part[2 * b->width] = (float)(here / b->channels);
        if (!backward) {
            measure_chunk(b, part, s->in[0]->data, p->bf16, first, here);
            continue;
        }
        memset(part, 0, 2 * b->width * sizeof(float));
        sum_gradients(part, s->out->grad, s->in[0]->data, b, p->bf16, s->relu, first, here);
        fold(b, part);
        fold(b, part + b->width);
    }
    b->parts += (n + chunk - 1) / chunk;
}

/* Walks all gathered parts, program by program. */
struct walk {
    const struct cpu_team *team;
    int step, program;
    size_t part;
};

static const float *next_part(struct walk *w)
{
    for (; w->program < w->team->n; w->program++, w->part = 0) {
        const struct cpu_program *p = w->team->members[w->program].program;
        const struct batch_norm *b = p->steps[w->step].state;
        if (w->part < b->parts) {
            return (const float *)p->gathered + w->part++ * part_of(b);
        }
    }
    return NULL;
}

/* ---- forward --------------------------------------------------------------------------------- */

CPU_CLONES static void apply(void *restrict y, const void *restrict x, const struct batch_norm *b,
                             bool bf16, bool relu, size_t first, size_t n)
{
    const float *restrict scale = b->scale, *restrict shift = b->shift;
    size_t width = b->width;
    ELEMENTS(bf16, {
        for (size_t at = 0; at < n; at += width) {
            size_t m = shorter(width, n - at);
            for (size_t k = 0; k < m; k++) {
                float v = scale[k] * GET(x, first + at + k) + shift[k];
                PUT(y, first + at + k, through_relu(v, v, relu));
            }
        }
    });
}

static void apply_all(struct cpu_program *p, struct cpu_step *s)
{
    const struct batch_norm *b = s->state;
    size_t n = elements_of(s, p->samples), chunk = chunk_of(b);
#pragma omp parallel for if (n > chunk)
    for (size_t first = 0; first < n; first += chunk) {
        apply(s->out->data, s->in[0]->data, b, p->bf16, s->relu, first, shorter(chunk, n - first));
    }
}

static float *running(struct cpu_program *p, const struct cpu_step *s, int which)
{
    return p->replica->host[DEV_STATS] + p->net->stats[s->layer->first_stat + which].first;
}

/* total[0][k]: the sum of all rows; total[1][k]: of the squares around their mean. */
static void measure(const struct cpu_team *t, int step, const struct batch_norm *b, double rows)
{
    double *sum = b->total, *squares = b->total + b->channels;
    memset(b->total, 0, 2 * b->channels * sizeof(*b->total));
    struct walk w = {t, step, 0, 0};
    for (const float *part; (part = next_part(&w));) {
        double here = rows_of(b, part);
        for (size_t k = 0; k < b->channels; k++) {
            sum[k] += (double)part[k] * here;
        }
    }
    w = (struct walk){t, step, 0, 0};
    for (const float *part; (part = next_part(&w));) {
        double here = rows_of(b, part);
        for (size_t k = 0; k < b->channels; k++) {
            double apart = (double)part[k] - sum[k] / rows;
            squares[k] += (double)part[b->width + k] + apart * apart * here;
        }
    }
}

static void use_statistics(const struct cpu_team *t, int step, struct cpu_step *s, double rows)
{
    struct batch_norm *b = s->state;
    float *mean = running(t->members[0].program, s, 0),
          *variance = running(t->members[0].program, s, 1);
    double momentum = s->layer->rate;
    measure(t, step, b, rows);
    for (size_t k = 0; k < b->channels; k++) {
        double center = b->total[k] / rows, squares = b->total[b->channels + k];
        b->mean[k] = (float)center;
        b->inverse[k] = (float)(1 / sqrt(squares / rows + s->layer->eps));
        mean[k] = (float)((1 - momentum) * (double)mean[k] + momentum * center);
        variance[k] = (float)((1 - momentum) * (double)variance[k] +
                              momentum * (rows > 1 ? squares / (rows - 1) : 0));
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

static double rows_in(const struct cpu_step *s, const struct batch_norm *b,
                      const struct dev_input *in)
{
    return (double)(elements_of(s, in->count) / b->channels);
}

/* Computes the values that normalise every tile. */
static void begin_forward(const struct cpu_team *t, int step, const struct dev_input *in)
{
    struct cpu_program *p = t->members[0].program;
    struct cpu_step *s = &p->steps[step];
    struct batch_norm *b = s->state;
    const float *weight = cpu_param(p, s, 0), *bias = cpu_param(p, s, 1);
    if (in->training) {
        use_statistics(t, step, s, rows_in(s, b, in));
    } else {
        use_running(p, s);
    }
    for (size_t k = 0; k < b->channels; k++) {
        b->scale[k] = weight[k] * b->inverse[k];
        b->shift[k] = bias[k] - b->mean[k] * b->scale[k];
    }
    memcpy(b->center, b->mean, b->channels * sizeof(float));
    widen(b, b->center);
    widen(b, b->scale);
    widen(b, b->shift);
}

static int forward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                   struct err *e)
{
    apply_all(p, s);
    return 0;
}

/* ---- backward -------------------------------------------------------------------------------- */

CPU_CLONES static void apply_gradient(void *restrict dx, const void *restrict dy,
                                      const void *restrict x, const struct batch_norm *b, bool bf16,
                                      bool relu, size_t first, size_t n)
{
    const float *restrict scale = b->scale, *restrict shift = b->shift;
    const float *restrict gain = b->gain, *restrict slope = b->slope, *restrict base = b->base;
    size_t width = b->width;
    ELEMENTS(bf16, {
        for (size_t at = 0; at < n; at += width) {
            size_t m = shorter(width, n - at);
            for (size_t k = 0; k < m; k++) {
                float v = GET(x, first + at + k),
                      g = through_relu(GET(dy, first + at + k), scale[k] * v + shift[k], relu);
                PUT(dx, first + at + k, gain[k] * g + (slope[k] * v + base[k]));
            }
        }
    });
}

static void begin_backward(const struct cpu_team *t, int step, const struct dev_input *in)
{
    struct cpu_program *p = t->members[0].program;
    struct cpu_step *s = &p->steps[step];
    struct batch_norm *b = s->state;
    const float *weight = cpu_param(p, s, 0);
    float *dweight = cpu_param_grad(p, s, 0), *dbias = cpu_param_grad(p, s, 1);
    double rows = rows_in(s, b, in), *sum = b->total, *products = b->total + b->channels;
    memset(b->total, 0, 2 * b->channels * sizeof(*b->total));
    struct walk w = {t, step, 0, 0};
    for (const float *part; (part = next_part(&w));) {
        for (size_t k = 0; k < b->channels; k++) {
            sum[k] += (double)part[k];
            products[k] += (double)part[b->width + k];
        }
    }
    for (size_t k = 0; k < b->channels; k++) {
        double inverse = (double)b->inverse[k], gain = (double)weight[k] * inverse,
               slope = -gain * inverse * (products[k] * inverse) / rows;
        dbias[k] = (float)sum[k];
        dweight[k] = (float)(products[k] * inverse);
        b->gain[k] = (float)gain;
        b->slope[k] = (float)slope;
        b->base[k] = (float)(-gain * sum[k] / rows - slope * (double)b->mean[k]);
    }
    widen(b, b->gain);
    widen(b, b->slope);
    widen(b, b->base);
}

static void begin(const struct cpu_team *t, int step, const struct dev_input *in, bool backward)
{
    if (backward) {
        begin_backward(t, step, in);
    } else {
        begin_forward(t, step, in);
    }
}

static int backward(struct cpu_program *p, struct cpu_step *s, const struct dev_input *in,
                    struct err *e)
{
    struct batch_norm *b = s->state;
    size_t n = elements_of(s, cpu_present(p, in)), chunk = chunk_of(b),
           beyond = elements_of(s, p->samples) - n;
    if (!s->in_grad[0]) {
        return 0;
    }
    void *dx = *s->in_grad[0];
#pragma omp parallel for if (n > chunk)
    for (size_t first = 0; first < n; first += chunk) {
        apply_gradient(dx, s->out->grad, s->in[0]->data, b, p->bf16, s->relu, first,
                       shorter(chunk, n - first));
    }
    memset(element_at(dx, n, p->bf16), 0, beyond * element_size(p->bf16));
    return 0;
}

static void release(struct cpu_step *s)
{
    free(s->state);
    s->state = NULL;
}

const struct cpu_op cpu_batch_norm = {
    .name = "batch norm",
    .by_tiles = true,
    .takes_relu = true,
    .backward_reads = CPU_READS_IN,
    .again = apply_all,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .gather = gather,
    .begin = begin,
    .release = release,
};
