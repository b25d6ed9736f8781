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
        for (size_t k = 0; k < n; k++) {
            size_t area = shape_count(&l->in) / n;
            out[k] = 0;
            for (size_t pixel = 0; pixel < area; pixel++) {
                out[k] += from[pixel * n + k] / (double)area;
            }
        }
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
        for (size_t k = 0; k < n; k++) {
            out[k] = ref_counted(&l->in, from, k);
        }
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

/* ---- what tests set up ----------------------------------------------------------------------- */

static inline struct network ref_network(const char *model)
{
    struct network net;
    struct jsonx_problems problems = {0};
    json_t *j = json_loads(model, JSON_DECODE_ANY, NULL);
    assert_non_null(j);
    if (network_build(&net, j, "/model", &problems) < 0) {
        fail_msg("%s: %s", problems.items[0].pointer, problems.items[0].message);
    }
    json_decref(j);
    return net;
}

/* A minibatch of random samples; owned by the caller (ref_input_free). */
static inline struct dev_input ref_input(const struct network *net, int count, uint64_t seed)
{
    size_t n = shape_count(&net->input), outputs = shape_count(&net->output);
    float *x = malloc((size_t)count * n * sizeof(float));
    int64_t *sample = malloc((size_t)count * sizeof(int64_t));
    struct dev_input in = {
        .x = x, .sample = sample, .count = count, .epoch = 2, .seed = 7, .training = true};
    for (size_t i = 0; i < (size_t)count * n; i++) {
        x[i] = (float)rng_normal(seed, 1, i);
    }
    for (int i = 0; i < count; i++) {
        sample[i] = (int64_t)rng_below(seed, 2, (uint64_t)i, 60000);
    }
    if (net->loss == LOSS_MSE) {
        float *y = malloc((size_t)count * outputs * sizeof(float));
        for (size_t i = 0; i < (size_t)count * outputs; i++) {
            y[i] = (float)rng_normal(seed, 3, i);
        }
        in.y = y;
    } else {
        int32_t *y = malloc((size_t)count * sizeof(int32_t));
        for (int i = 0; i < count; i++) {
            y[i] = (int32_t)rng_below(seed, 3, (uint64_t)i, outputs);
        }
        in.y = y;
    }
    return in;
}

static inline void ref_input_free(struct dev_input *in)
{
    free((void *)(uintptr_t)in->x);
    free((void *)(uintptr_t)in->y);
    free((void *)(uintptr_t)in->sample);
}

/* Samples first .. first+count-1 of a minibatch of images or vectors with classes. */
static inline struct dev_input ref_part(const struct dev_input *in, const struct network *net,
                                        int first, int count)
{
    struct dev_input part = *in;
    part.x = in->x + (size_t)first * shape_count(&net->input);
    part.y = (const int32_t *)in->y + first;
    part.sample = in->sample + first;
    part.count = count;
    return part;
}

/* Parameters and statistics, random in every tensor (biases too, so that they are seen). */
static inline void ref_draw(const struct network *net, float *params, float *stats)
{
    network_init(net, 3, params, stats);
    for (size_t i = 0; i < net->n_stat_floats; i++) {
        stats[i] += (float)(0.5 * rng_double(6, 0, i));
    }
    for (int t = 0; t < net->n_tensors; t++) {
        const struct tensor *tensor = &net->tensors[t];
        for (size_t i = 0; tensor->rank == 1 && i < tensor->count; i++) {
            params[tensor->first + i] += (float)(0.1 * rng_normal(5, (uint64_t)t, i));
        }
    }
}

/* For a thread: programs of other sizes are built and given up beside one that runs. */
struct ref_builder {
    struct dev_replica *replica;
    bool failed;
    struct err e;
};

static inline void *ref_build_programs(void *ctx)
{
    struct ref_builder *b = ctx;
    for (int batch = 2; batch < 7 && !b->failed; batch++) {
        struct dev_program *p =
            b->replica->dev->ops->program_new(b->replica, batch, 1 << 20, &b->e);
        b->failed = !p;
        if (p) {
            b->replica->dev->ops->program_free(p);
        }
    }
    return NULL;
}

/* A device, a network on it and its parameters. */
struct bench {
    struct device *dev;
    struct network net;
    struct dev_replica replica;
    struct err e;
};

/* The device that the suite is run on: EVENSTEP_TEST_DEVICE, else the CPU with two threads. */
static inline const char *bench_device(void)
{
    const char *named = getenv("EVENSTEP_TEST_DEVICE");
    return named && *named ? named : "cpu:2";
}

static inline struct bench *bench_new_in(const char *precision, const char *device,
                                         const char *model, const struct optimizer_spec *optimizer)
{
    static const struct optimizer_spec plain = {.type = CAT_OPTIMIZER_SGD};
    struct bench *b = calloc(1, sizeof(*b));
    b->net = ref_network(model);
    b->dev = dev_open(device, &b->e);
    if (!b->dev || dev_use_precision(b->dev, precision, &b->e) < 0 ||
        b->dev->ops->replica_init(b->dev, &b->replica, &b->net, optimizer ? optimizer : &plain,
                                  &b->e) < 0) {
        fail_msg("%s", b->e.message);
    }
    ref_draw(&b->net, b->replica.host[DEV_PARAMS], b->replica.host[DEV_STATS]);
    if (b->dev->ops->store(&b->replica, DEV_PARAMS, 0, b->replica.count[DEV_PARAMS], &b->e) < 0 ||
        b->dev->ops->store(&b->replica, DEV_STATS, 0, b->replica.count[DEV_STATS], &b->e) < 0) {
        fail_msg("%s", b->e.message);
    }
    return b;
}

static inline struct bench *bench_new(const char *device, const char *model,
                                      const struct optimizer_spec *optimizer)
{
    return bench_new_in("fp32", device, model, optimizer);
}

/* Is there bf16 on this CPU? */
static inline bool bench_has_bf16(void)
{
    struct err e = {0};
    struct device *dev = dev_open("cpu:1", &e);
    bool has = dev && dev_use_precision(dev, "bf16", &e) == 0;
    dev_close(dev);
    return has;
}

static inline void bench_free(struct bench *b)
{
    b->dev->ops->replica_release(&b->replica);
    dev_close(b->dev);
    network_release(&b->net);
    free(b);
}

static inline struct dev_program *bench_program(struct bench *b, int batch)
{
    struct dev_program *p = b->dev->ops->program_new(&b->replica, batch, 1 << 20, &b->e);
    if (!p) {
        fail_msg("%s", b->e.message);
    }
    return p;
}

/* A device that was named by EVENSTEP_TEST_DEVICE may lack layers: what it says of the first one that
 * it lacks is printed, and the case is left out. The CPU lacks none. */
static inline bool bench_lacks(struct bench *b)
{
    if (!getenv("EVENSTEP_TEST_DEVICE")) {
        return false;
    }
    struct dev_program *p = b->dev->ops->program_new(&b->replica, 1, 1 << 20, &b->e);
    if (p) {
        b->dev->ops->program_free(p);
        print_message("checked on %s: a network of %d layers\n", bench_device(), b->net.n_layers);
        return false;
    }
    assert_int_equal(b->e.code, ERR_UNSUPPORTED);
    print_message("left out: %s\n", b->e.message);
    return true;
}

static inline void bench_mark(void *ctx, int bucket)
{
    if (ctx) {
        int *next = ctx;
        assert_int_equal(bucket, *next);
        ++*next;
    }
}

static inline struct dev_result bench_compute(struct bench *b, struct dev_program *p,
                                              const struct dev_input *in, float *logits)
{
    struct dev_result result;
    int marks = 0;
    if (b->dev->ops->compute(p, in, &result, logits, bench_mark, &marks, &b->e) < 0) {
        fail_msg("%s", b->e.message);
    }
    assert_int_equal(marks, in->training ? ((struct dev_program_head *)p)->n_buckets : 0);
    return result;
}

static inline struct ref bench_reference(const struct bench *b, int batch)
{
    struct ref r = ref_new(&b->net, batch);
    for (size_t i = 0; i < b->net.n_params; i++) {
        r.params[i] = (double)b->replica.host[DEV_PARAMS][i];
    }
    for (size_t i = 0; i < b->net.n_stat_floats; i++) {
        r.stats[i] = (double)b->replica.host[DEV_STATS][i];
    }
    return r;
}

static inline void assert_near(double got, double expected, double tolerance, const char *what,
                               size_t index)
{
    if (!(fabs(got - expected) <= tolerance)) {
        fail_msg("%s[%zu] is %.9g and should be %.9g, %.2g apart", what, index, got, expected,
                 fabs(got - expected));
    }
}

/* Root of the mean square of a tensor's gradient. */
static inline double gradient_size(const struct bench *b, const struct tensor *t)
{
    double sum = 0;
    for (size_t i = 0; i < t->count; i++) {
        sum += pow((double)b->replica.host[DEV_GRADS][t->first + i], 2);
    }
    return sqrt(sum / (double)t->count);
}

/* How near to the reference: loss and outputs, times 1 and their own size; gradients, see below. */
struct bound {
    double outputs, gradients;
};

static inline void check_outputs(const struct bench *b, const struct ref *r,
                                 const struct dev_input *in, const struct dev_result *got,
                                 const float *logits, double bound)
{
    double loss = 0;
    for (int i = 0; i < in->count; i++) {
        loss += ref_sample_loss(r, in, i);
    }
    assert_near(got->loss, loss, bound * (1 + fabs(loss)), "loss", 0);
    assert_true(got->finite);
    for (size_t i = 0; i < (size_t)in->count * shape_count(&b->net.output); i++) {
        double expected = r->act[b->net.n_layers - 1][i];
        assert_near((double)logits[i], expected, bound * (1 + fabs(expected)), "output", i);
    }
}

/* Each tensor's gradient against the one of fp32, which is held to the reference: the length of
 * their difference, times the gradient's own length and the tensor's share of the length of all.
 * Rounding switches a relu or a maximum here and there, which a single element would show too much.
 */
static inline void check_gradients(const struct bench *got, const struct bench *exact, double bound)
{
    double all = 0;
    for (size_t i = 0; i < exact->net.n_params; i++) {
        all += pow((double)exact->replica.host[DEV_GRADS][i], 2);
    }
    for (int t = 0; t < exact->net.n_tensors; t++) {
        const struct tensor *tensor = &exact->net.tensors[t];
        double apart = 0, n = (double)tensor->count, own = gradient_size(exact, tensor) * sqrt(n),
               share = sqrt(all * n / (double)exact->net.n_params);
        for (size_t i = tensor->first; i < tensor->first + tensor->count; i++) {
            apart += pow((double)got->replica.host[DEV_GRADS][i] -
                             (double)exact->replica.host[DEV_GRADS][i],
                         2);
        }
        assert_near(sqrt(apart), 0, bound * (own + share), tensor->name, 0);
    }
}

static inline void check_bf16(const struct bench *exact, struct ref *r, const char *model,
                              int batch, const struct dev_input *in, struct bound bound)
{
    struct bench *b = bench_new_in("bf16", "cpu:2", model, NULL);
    struct dev_program *p = bench_program(b, batch);
    float *logits = calloc((size_t)in->count * shape_count(&b->net.output), sizeof(float));
    struct dev_result result = bench_compute(b, p, in, logits);
    check_outputs(b, r, in, &result, logits, bound.outputs);
    check_gradients(b, exact, bound.gradients);
    free(logits);
    b->dev->ops->program_free(p);
    bench_free(b);
}

/* Outputs and loss everywhere, gradients at `coordinates` places of every `every`-th tensor, times
 * the tensor's usual gradient and their own size: single precision may see a relu switch where
 * double does not, the more often the deeper a network is. Then the same in bf16, where the CPU has
 * it, unless that bound is NULL. */
static inline void check_model_to(const char *model, int batch, int count, int coordinates,
                                  int every, struct bound fp32, const struct bound *bf16)
{
    struct bench *b = bench_new(bench_device(), model, NULL);
    if (bench_lacks(b)) {
        bench_free(b);
        return;
    }
    struct dev_program *p = bench_program(b, batch);
    struct dev_input in = ref_input(&b->net, count, 11);
    struct ref r = bench_reference(b, count);
    float *logits = calloc((size_t)count * shape_count(&b->net.output), sizeof(float));
    struct dev_result result = bench_compute(b, p, &in, logits);
    ref_loss(&r, &in);
    check_outputs(b, &r, &in, &result, logits, fp32.outputs);
    assert_int_equal(b->dev->ops->fetch(&b->replica, DEV_GRADS, 0, b->net.n_params, &b->e), 0);
    if (bf16 && bench_has_bf16()) {
        check_bf16(b, &r, model, batch, &in, *bf16);
    }
    for (int t = b->net.n_tensors - 1; t >= 0; t -= every) {
        const struct tensor *tensor = &b->net.tensors[t];
        double size = gradient_size(b, tensor);
        for (int k = 0; k < coordinates; k++) {
            size_t i = tensor->first + rng_below(1, (uint64_t)t, (uint64_t)k, tensor->count);
            double expected = ref_gradient(&r, &in, tensor, i, 1e-5);
            assert_near((double)b->replica.host[DEV_GRADS][i], expected,
                        fp32.gradients * (size + fabs(expected)) + 1e-6, tensor->name,
                        i - tensor->first);
        }
    }
    free(logits);
    ref_free(&r);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static const struct bound usual_fp32 = {1e-4, 2e-4};

/* In bf16 8 bits are kept of everything: sums and averages stay within 2e-2. Behind relu and max
 * pooling a few elements go another way, behind batch norm all are divided by the deviation of few
 * samples. A preset has them all. */
static inline const struct bound *bound_in_bf16(const char *model)
{
    static const struct bound plain = {2e-2, 2e-2}, normed = {2e-2, 5e-2},
                              switched = {5e-2, 1.5e-1};
    if (model[0] == '"' || strstr(model, "relu") || strstr(model, "max_pool")) {
        return &switched;
    }
    return strstr(model, "batch_norm") ? &normed : &plain;
}

static inline void check_model(const char *model, int batch, int count, int coordinates)
{
    check_model_to(model, batch, count, coordinates, 1, usual_fp32, bound_in_bf16(model));
}

/* A preset for images of another size; its parameters are the same. The caller frees. */
static inline char *preset_for(const char *name, int size)
{
    json_t *j = network_preset(name);
    json_object_set_new(j, "input", json_pack("[i,i,i]", size, size, 3));
    char *text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return text;
}

#endif
