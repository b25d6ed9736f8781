/* What tests of a device set up and compare: networks, inputs, a device with a replica and its
 * programs, and whether outputs and gradients are those of the plain reference. */
#ifndef TESTS_KERNELS_BENCH_H
#define TESTS_KERNELS_BENCH_H

#include "tests/kernels/reference.h"

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

/* A device that was named by EVENSTEP_TEST_DEVICE may lack layers: what it says of the first one
 * that it lacks is printed, and the case is left out. The CPU lacks none. */
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
