/* How fast the device computes a training step, as a share of what the machine can do: the peak is measured in the same run, with the
 * matrix product that oneDNN is best at.
 *
 *   bench_step [DEVICE [MODEL BATCH]...]          cpu:1, and every preset at a few minibatches
 */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/rng.h"
#include "kernels/device.h"

enum { REPEATS = 8, SIZE = 1024 };

/* The best of a few products of two square matrices, in floating-point operations per second. */
static double measured_peak(void)
{
    size_t n = (size_t)SIZE * SIZE;
    float *a = malloc(n * sizeof(float)), *b = malloc(n * sizeof(float)), *c = malloc(n * sizeof(float));
    double best = 0;
    for (size_t i = 0; i < n; i++) {
        a[i] = b[i] = rng_uniform((uint32_t)i * 2654435761u);
        c[i] = 0;
    }
    for (int i = 0; i < REPEATS; i++) {
        double begin = clock_now();
        dnnl_sgemm('N', 'N', SIZE, SIZE, SIZE, 1.0f, a, SIZE, b, SIZE, 0.0f, c, SIZE);
        double rate = 2.0 * (double)n * SIZE / (clock_now() - begin);
        best = rate > best ? rate : best;
    }
    free(a);
    free(b);
    free(c);
    return best;
}

static struct dev_input random_input(const struct network *net, int count)
{
    size_t n = (size_t)count * shape_count(&net->input);
    float *x = malloc(n * sizeof(float));
    int32_t *y = calloc((size_t)count, sizeof(int32_t));
    int64_t *sample = calloc((size_t)count, sizeof(int64_t));
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)rng_normal(1, 1, i);
    }
    return (struct dev_input){.x = x, .y = y, .sample = sample, .count = count, .training = true};
}

/* Forward, gradients of the weights and of the inputs; the network's own input gets none. */
static double step_flops(const struct network *net)
{
    const struct layer *first = &net->layers[0];
    double pixels = first->out.rank == 3 ? (double)first->out.dim[0] * first->out.dim[1] : 1;
    return 3 * network_flops(net) - (first->n_tensors > 0 ? 2 * (double)net->tensors[0].count * pixels : 0);
}

static int bench(struct device *dev, const char *model, int batch, double peak, struct err *e)
{
    static const struct optimizer_spec sgd = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9};
    struct network net;
    struct dev_replica r;
    struct jsonx_problems problems = {0};
    json_t *name = json_string(model);
    int rc = network_build(&net, name, "/model", &problems) < 0 ? err_set(e, ERR_INVALID, "there is no preset '%s'", model) : 0;
    json_decref(name);
    rc = rc < 0 ? rc : dev->ops->replica_init(dev, &r, &net, &sgd, e);
    if (rc < 0) {
        return rc;
    }
    network_init(&net, 1, r.host[DEV_PARAMS], r.host[DEV_STATS]);
    double begin = clock_now();
    struct dev_program *p = dev->ops->program_new(&r, batch, 1 << 20, e);
    double build = clock_now() - begin, compute = 1e9, update = 1e9;
    struct dev_input in = random_input(&net, batch);
    struct dev_result result;
    for (int i = 0; p && rc >= 0 && i < REPEATS; i++) {
        begin = clock_now();
        rc = dev->ops->compute(p, &in, &result, NULL, NULL, NULL, e);
        double middle = clock_now();
        dev->ops->update(&r, 0, 1, e);
        double end = clock_now();
        compute = middle - begin < compute ? middle - begin : compute;
        update = end - middle < update ? end - middle : update;
    }
    double rate = step_flops(&net) * batch / compute;
    printf("%-12s %5d %10.2f %10.3f %10.1f %8.1f %7.0f%%\n", model, batch, compute * 1e3, update * 1e3, build * 1e3, rate * 1e-9, 100 * rate / peak);
    if (p) {
        dev->ops->program_free(p);
    }
    free((void *)(uintptr_t)in.x);
    free((void *)(uintptr_t)in.y);
    free((void *)(uintptr_t)in.sample);
    dev->ops->replica_release(&r);
    network_release(&net);
    return p ? rc : -ERR_DEVICE;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *model;
        int batch;
    } usual[] = {{"mlp", 16},       {"mlp", 64},      {"mlp", 256},     {"lenet5", 4},    {"lenet5", 16},   {"lenet5", 64},
                 {"lenet5", 256},   {"cifar-quick", 64}, {"tf-cifar", 64}, {"resnet20", 64}, {"resnet18", 16}};
    struct err e = {0};
    struct device *dev = dev_open(argc > 1 ? argv[1] : "cpu:1", &e);
    int rc = dev ? 0 : -1;
    if (dev) {
        double peak = measured_peak();
        printf("%s; peak of a matrix product %.1f GFlop/s\n", dev->ops->describe(dev), peak * 1e-9);
        printf("%-12s %5s %10s %10s %10s %8s %8s\n", "model", "batch", "step ms", "update ms", "build ms", "GFlop/s", "of peak");
        for (size_t i = 0; argc <= 2 && rc >= 0 && i < sizeof(usual) / sizeof(*usual); i++) {
            rc = bench(dev, usual[i].model, usual[i].batch, peak, &e);
        }
        for (int i = 2; rc >= 0 && i + 1 < argc; i += 2) {
            int batch = (int)strtol(argv[i + 1], NULL, 10);
            rc = batch > 0 ? bench(dev, argv[i], batch, peak, &e) : err_set(&e, ERR_INVALID, "a minibatch of '%s'", argv[i + 1]);
        }
        dev_close(dev);
    }
    if (rc < 0) {
        fprintf(stderr, "bench_step: %s\n", e.message);
        return 1;
    }
    return 0;
}
