/* The plain reference: any network of the catalogue in double precision and nested loops, one
 * sample after the other, in the order in which a textbook writes it. Slow and obvious on purpose.
 * Gradients are not written down a second time: they come from finite differences of the loss,
 * which in double precision are good to 1e-7 and cannot share a mistake with the kernels.
 *
 * Activations are [sample][h][w][c]; a flattened image is {n} counted channel, row, column, as the
 * artifact has it.
 */
#ifndef TESTS_KERNELS_REFERENCE_H
#define TESTS_KERNELS_REFERENCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "kernels/device.h"
#include "kernels/mask.h"

struct ref {
    const struct network *net;
    double *params, *stats;
    double *first; /* the input */
    double **act;  /* [n_layers] activations [count][shape] */
    int batch;
};

static inline struct ref ref_new(const struct network *net, int batch)
{
    struct ref r = {.net = net, .batch = batch};
    r.params = calloc(net->n_params + 1, sizeof(double));
    r.stats = calloc(net->n_stat_floats + 1, sizeof(double));
    r.first = calloc((size_t)batch * shape_count(&net->input), sizeof(double));
    r.act = calloc((size_t)net->n_layers, sizeof(double *));
    for (int i = 0; i < net->n_layers; i++) {
        r.act[i] = calloc((size_t)batch * shape_count(&net->layers[i].out), sizeof(double));
    }
    return r;
}

static inline void ref_free(struct ref *r)
{
    for (int i = 0; i < r->net->n_layers; i++) {
        free(r->act[i]);
    }
    free(r->act);
    free(r->first);
    free(r->params);
    free(r->stats);
}

static inline size_t ref_at(const struct shape *s, int y, int x, int c)
{
    return ((size_t)y * (size_t)s->dim[1] + (size_t)x) * (size_t)s->dim[2] + (size_t)c;
}

static inline const double *ref_tensor(const struct ref *r, const struct layer *l, int k)
{
    return k < l->n_tensors ? r->params + r->net->tensors[l->first_tensor + k].first : NULL;
}

static inline void ref_conv(const struct ref *r, const struct layer *l, const double *in,
                            double *out)
{
    const double *w = ref_tensor(r, l, 0), *bias = ref_tensor(r, l, 1);
    int channels = l->in.dim[2];
    for (int y = 0; y < l->out.dim[0]; y++) {
        for (int x = 0; x < l->out.dim[1]; x++) {
            for (int o = 0; o < l->units; o++) {
                double sum = bias ? bias[o] : 0;
                for (int i = 0; i < l->kernel[0]; i++) {
                    for (int j = 0; j < l->kernel[1]; j++) {
                        int row = y * l->stride[0] + i - l->padding[0],
                            col = x * l->stride[1] + j - l->padding[1];
                        if (row < 0 || col < 0 || row >= l->in.dim[0] || col >= l->in.dim[1]) {
                            continue;
                        }
                        const double *from = in + ref_at(&l->in, row, col, 0);
                        const double *k =
                            w +
                            (((size_t)o * (size_t)channels * (size_t)l->kernel[0]) + (size_t)i) *
                                (size_t)l->kernel[1] +
                            (size_t)j;
                        for (int c = 0; c < channels; c++) {
                            sum += from[c] * k[(size_t)c * (size_t)(l->kernel[0] * l->kernel[1])];
                        }
                    }
                }
                out[ref_at(&l->out, y, x, o)] = sum;
            }
        }
    }
}

/* The input's element number k as the weights of a dense layer count it (channel, row, column). */
static inline double ref_counted(const struct shape *s, const double *in, size_t k)
{
    if (s->rank == 1) {
        return in[k];
    }
    size_t area = (size_t)(s->dim[0] * s->dim[1]);
    return in[(k % area) * (size_t)s->dim[2] + k / area];
}

static inline void ref_dense(const struct ref *r, const struct layer *l, const double *in,
                             double *out)
{
    size_t n = shape_count(&l->in);
    const double *w = ref_tensor(r, l, 0), *bias = ref_tensor(r, l, 1);
    for (int o = 0; o < l->units; o++) {
        double sum = bias ? bias[o] : 0;
        for (size_t k = 0; k < n; k++) {
            sum += w[(size_t)o * n + k] * ref_counted(&l->in, in, k);
        }
        out[o] = sum;
    }
}

static inline void ref_pool(const struct layer *l, const double *in, double *out)
{
    bool max = l->type == CAT_LAYER_MAX_POOL;
    for (int y = 0; y < l->out.dim[0]; y++) {
        for (int x = 0; x < l->out.dim[1]; x++) {
            for (int c = 0; c < l->out.dim[2]; c++) {
                double best = -HUGE_VAL, sum = 0;
                for (int i = 0; i < l->kernel[0]; i++) {
                    for (int j = 0; j < l->kernel[1]; j++) {
                        int row = y * l->stride[0] + i - l->padding[0],
                            col = x * l->stride[1] + j - l->padding[1];
                        if (row >= 0 && col >= 0 && row < l->in.dim[0] && col < l->in.dim[1]) {
                            best = fmax(best, in[ref_at(&l->in, row, col, c)]);
                            sum += in[ref_at(&l->in, row, col, c)];
                        }
                    }
                }
                out[ref_at(&l->out, y, x, c)] = max ? best : sum / (l->kernel[0] * l->kernel[1]);
            }
        }
    }
}

/* Elements are counted as they are stored: a vector that came from an image is stored row, column,
 * channel. */
static inline void ref_dropout(const struct ref *r, int layer, const struct dev_input *in,
                               int sample, const double *from, double *out)
{
    const struct layer *l = &r->net->layers[layer];
    uint64_t key = mask_key(in->seed, in->epoch, layer);
    size_t n = shape_count(&l->out);
    const struct shape *image = l->in.rank == 1 && l->flat_from.rank == 3 ? &l->flat_from : NULL;
    for (size_t stored = 0; stored < n; stored++) {
        size_t area = image ? (size_t)(image->dim[0] * image->dim[1]) : 1,
               depth = image ? (size_t)image->dim[2] : 1;
        size_t k = image ? (stored % depth) * area + stored / depth : stored;
        struct rng_block words = mask_words(key, in->sample[sample], stored / 4);
        bool kept = (words.v[stored % 4] >> 8) >= mask_threshold(l->rate);
        out[k] = !in->training ? from[k] : kept ? from[k] / (1 - l->rate) : 0;
    }
}

static inline void ref_lrn(const struct layer *l, const double *in, double *out)
{
    int c = l->in.dim[2];
    for (int pixel = 0; pixel < l->in.dim[0] * l->in.dim[1]; pixel++) {
        const double *x = in + (size_t)pixel * (size_t)c;
        for (int i = 0; i < c; i++) {
            double sum = 0;
            for (int j = i - l->window / 2; j <= i + (l->window - 1) / 2; j++) {
                sum += j >= 0 && j < c ? x[j] * x[j] : 0;
            }
            out[(size_t)pixel * (size_t)c + (size_t)i] =
                x[i] / pow(l->k + l->alpha / l->window * sum, l->beta);
        }
    }
}

/* All samples at once. The running statistics that training leaves go to `running` ([2][channels])
 * unless that is NULL. */
static inline void ref_batch_norm(const struct ref *r, const struct layer *l,
                                  const struct dev_input *in, const double *x, double *out,
                                  double *running)
{
    int c = l->in.dim[l->in.rank - 1];
    size_t rows = (size_t)in->count * shape_count(&l->in) / (size_t)c;
    const double *weight = ref_tensor(r, l, 0), *bias = ref_tensor(r, l, 1);
    const double *stats[2] = {r->stats + r->net->stats[l->first_stat].first,
                              r->stats + r->net->stats[l->first_stat + 1].first};
    for (int k = 0; k < c; k++) {
        double mean = 0, squares = 0;
        for (size_t i = 0; i < rows; i++) {
            mean += x[i * (size_t)c + (size_t)k] / (double)rows;
        }
        for (size_t i = 0; i < rows; i++) {
            squares += pow(x[i * (size_t)c + (size_t)k] - mean, 2);
        }
        if (running) {
            running[k] = (1 - l->rate) * stats[0][k] + l->rate * mean;
            running[c + k] = (1 - l->rate) * stats[1][k] + l->rate * squares / ((double)rows - 1);
        }
        double variance = in->training ? squares / (double)rows : stats[1][k];
        mean = in->training ? mean : stats[0][k];
        for (size_t i = 0; i < rows; i++) {
            size_t at = i * (size_t)c + (size_t)k;
            out[at] = (x[at] - mean) / sqrt(variance + l->eps) * weight[k] + bias[k];
        }
    }
}

static inline const double *ref_input_of(const struct ref *r, const struct layer *l, int k,
                                         int sample, const double *first)
{
    int from = l->inputs[k];
    return from < 0 ? first
                    : r->act[from] + (size_t)sample * shape_count(&r->net->layers[from].out);
}

/* Add and concat. */
static inline void ref_join(const struct ref *r, const struct layer *l, int sample,
                            const double *first, double *out)
{
    size_t all = (size_t)l->out.dim[l->out.rank - 1], pixels = shape_count(&l->out) / all, at = 0;
    memset(out, 0, shape_count(&l->out) * sizeof(double));
    for (int k = 0; k < l->n_inputs; k++) {
        const struct shape *s =
            l->inputs[k] < 0 ? &r->net->input : &r->net->layers[l->inputs[k]].out;
        const double *from = ref_input_of(r, l, k, sample, first);
        size_t c = (size_t)s->dim[s->rank - 1];
        for (size_t i = 0; i < pixels * c; i++) {
            out[i / c * all + at + i % c] += from[i];
        }
        at += l->type == CAT_LAYER_CONCAT ? c : 0;
    }
}

static inline double ref_activation(const struct layer *l, double x)
{
    switch (l->type) {
    case CAT_LAYER_RELU:
        return x > 0 ? x : 0;
    case CAT_LAYER_LEAKY_RELU:
        return x > 0 ? x : l->rate * x;
    case CAT_LAYER_TANH:
        return tanh(x);
    default:
        return 1 / (1 + exp(-x));
    }
}

static inline void ref_global_pool(const struct layer *l, const double *from, double *out)
{
    size_t n = shape_count(&l->out), area = shape_count(&l->in) / n;
    for (size_t k = 0; k < n; k++) {
        out[k] = 0;
        for (size_t pixel = 0; pixel < area; pixel++) {
            out[k] += from[pixel * n + k] / (double)area;
        }
    }
}

static inline void ref_flatten(const struct layer *l, const double *from, double *out)
{
    for (size_t k = 0; k < shape_count(&l->out); k++) {
        out[k] = ref_counted(&l->in, from, k);
    }
}

static inline void ref_layer(struct ref *r, int i, const struct dev_input *in, int sample)
{
    const struct layer *l = &r->net->layers[i];
    size_t n = shape_count(&l->out);
    double *first = r->first + (size_t)sample * shape_count(&r->net->input),
           *out = r->act[i] + (size_t)sample * n;
    const double *from = ref_input_of(r, l, 0, sample, first);
    switch (l->type) {
    case CAT_LAYER_DENSE:
        ref_dense(r, l, from, out);
        break;
    case CAT_LAYER_CONV2D:
        ref_conv(r, l, from, out);
        break;
    case CAT_LAYER_MAX_POOL:
    case CAT_LAYER_AVERAGE_POOL:
        ref_pool(l, from, out);
        break;
    case CAT_LAYER_DROPOUT:
        ref_dropout(r, i, in, sample, from, out);
        break;
    case CAT_LAYER_LRN:
        ref_lrn(l, from, out);
        break;
    case CAT_LAYER_ADD:
    case CAT_LAYER_CONCAT:
        ref_join(r, l, sample, first, out);
        break;
    case CAT_LAYER_BATCH_NORM:
        if (sample == 0) {
            ref_batch_norm(r, l, in, from, out, NULL);
        }
        break;
    case CAT_LAYER_GLOBAL_AVERAGE_POOL:
        ref_global_pool(l, from, out);
        break;
    case CAT_LAYER_RELU:
    case CAT_LAYER_LEAKY_RELU:
    case CAT_LAYER_TANH:
    case CAT_LAYER_SIGMOID:
        for (size_t k = 0; k < n; k++) {
            out[k] = ref_activation(l, from[k]);
        }
        break;
    case CAT_LAYER_FLATTEN:
        ref_flatten(l, from, out);
        break;
    default:
        fail_msg("the reference has no layer '%s'", catalog_get(l->type)->name);
    }
}

static inline double ref_sample_loss(const struct ref *r, const struct dev_input *in, int sample)
{
    size_t n = shape_count(&r->net->output);
    const double *y = r->act[r->net->n_layers - 1] + (size_t)sample * n;
    double sum = 0, top = -HUGE_VAL;
    if (r->net->loss == LOSS_MSE) {
        for (size_t k = 0; k < n; k++) {
            double d = y[k] - (double)((const float *)in->y)[(size_t)sample * n + k];
            sum += d * d;
        }
        return sum / (double)n;
    }
    for (size_t k = 0; k < n; k++) {
        top = fmax(top, y[k]);
    }
    for (size_t k = 0; k < n; k++) {
        sum += exp(y[k] - top);
    }
    return log(sum) + top - y[((const int32_t *)in->y)[sample]];
}

/* The sum of the samples' losses; activations stay in r->act. Layers before `layer` stand there
 * already. */
static inline double ref_loss_from(struct ref *r, int layer, const struct dev_input *in)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)in->count * shape_count(&r->net->input); i++) {
        r->first[i] = (double)in->x[i];
    }
    for (int i = layer; i < r->net->n_layers; i++) {
        for (int s = 0; s < in->count; s++) {
            ref_layer(r, i, in, s);
        }
    }
    for (int s = 0; s < in->count; s++) {
        sum += ref_sample_loss(r, in, s);
    }
    return sum;
}

static inline double ref_loss(struct ref *r, const struct dev_input *in)
{
    return ref_loss_from(r, 0, in);
}

/* d(mean loss)/d(parameter) by central differences. Only layers from the parameter's on are run,
 * and are left as they then are: go through parameters from the last to the first, after a
 * ref_loss.
 */
static inline double ref_gradient(struct ref *r, const struct dev_input *in, const struct tensor *t,
                                  size_t parameter, double h)
{
    double old = r->params[parameter];
    r->params[parameter] = old + h;
    double above = ref_loss_from(r, t->layer, in);
    r->params[parameter] = old - h;
    double below = ref_loss_from(r, t->layer, in);
    r->params[parameter] = old;
    return (above - below) / (2 * h * in->count);
}

#endif
