/* Our side of the benches of a training step (tests/bench/bench_cpu.py): one worker's model on a
 * device, whole steps of forward, loss, backward and update on a minibatch in memory, as a single
 * worker makes them; a device that keeps samples gathers them there. A process that answers lines,
 * so that it can take turns with its peers.
 *
 *   bench_step DEVICE MODEL [PRECISION]
 *
 *   BATCH STEPS     trains; seconds (the first line of a batch warms it up without being told)
 *   change A B      goes from minibatch A to B while training: seconds of a step of A, and of all
 * that the change cost beyond its steps flops BATCH     floating-point operations of a step,
 * convolutions counted directly peak            multiply-adds from registers on the device's
 * threads, in floating-point operations per second memory          the most that the process has
 * held, in bytes
 */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/rng.h"
#include "job/spec/spec.h"
#include "worker/model/model.h"

enum { WARM = 5, INPUTS = 16, SAMPLES = 1024 };

static struct {
    struct jobspec spec;
    struct model model;
    struct device *dev;
    struct dev_input in[INPUTS];
    int n;
    struct dev_samples *kept; /* SAMPLES of them; NULL: the device keeps none */
} bench;

static struct dev_input *known_input(int batch)
{
    for (int i = 0; i < bench.n; i++) {
        if (bench.in[i].count == batch) {
            return &bench.in[i];
        }
    }
    return NULL;
}

static float *draw_samples(int batch)
{
    size_t n = (size_t)batch * shape_count(&bench.spec.network.input);
    float *x = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)rng_normal(1, 1, i);
    }
    return x;
}

/* Bytes whose values have mean 0 and variance 1, all the same. */
static int keep_samples(struct err *e)
{
    const struct shape *shape = &bench.spec.network.input;
    size_t n = SAMPLES * shape_count(shape);
    uint8_t *x = malloc(n);
    float table[256];
    for (size_t i = 0; i < n; i++) {
        x[i] = (uint8_t)rng_below(1, 1, i, 256);
    }
    for (int i = 0; i < 256; i++) {
        table[i] = ((float)i - 127.5f) / 73.9f;
    }
    struct dev_source from = {
        .x = x, .samples = SAMPLES, .stored = *shape, .out = *shape, .tables = 1, .table = table};
    bench.kept = bench.dev->ops->samples->make(bench.dev, &from, e);
    free(x);
    return bench.kept ? 0 : -(int)e->code;
}

static struct dev_input *new_input(int batch)
{
    if (bench.n == INPUTS) {
        return NULL;
    }
    int32_t *labels = malloc((size_t)batch * sizeof *labels);
    int64_t *sample = malloc((size_t)batch * sizeof *sample);
    for (int i = 0; i < batch; i++) {
        labels[i] = (int32_t)rng_below(1, 2, (uint64_t)i, 10);
        sample[i] = (int64_t)rng_below(1, 3, (uint64_t)i, SAMPLES);
    }
    bench.in[bench.n] = (struct dev_input){.x = bench.kept ? NULL : draw_samples(batch),
                                           .from = bench.kept,
                                           .y = labels,
                                           .sample = sample,
                                           .count = batch,
                                           .training = true};
    return &bench.in[bench.n++];
}

static int step(struct dev_program *p, const struct dev_input *in, struct err *e)
{
    const struct device_ops *ops = bench.dev->ops;
    struct dev_result result;
    if (ops->fused) {
        return dev_step(p, in, 0.001, 1, &result, e);
    }
    int rc = ops->compute(p, in, &result, NULL, NULL, NULL, e);
    return rc < 0 ? rc : ops->update(&bench.model.replica, 0.001, 1, e);
}

static double train(int batch, int steps, struct err *e)
{
    struct dev_input *in = known_input(batch);
    in = in ? in : new_input(batch);
    struct dev_program *p = in ? model_program(&bench.model, batch, e) : NULL;
    double begin = clock_now();
    for (int i = 0; p && i < steps; i++) {
        if (step(p, in, e) < 0) {
            return -1;
        }
    }
    return p ? clock_now() - begin : -1;
}

/* As the trainer changes: the old size goes on until the new one's program stands. */
static void change(int from, int to, struct err *e)
{
    double step = train(from, 2 * WARM, e) / (2 * WARM), begin = clock_now();
    int steps = 0;
    while (!model_ready(&bench.model, to)) {
        train(from, 1, e);
        steps++;
    }
    train(to, 1, e);
    double all = clock_now() - begin, after = train(to, 2 * WARM, e) / (2 * WARM);
    printf("%.9f %.9f %d\n", step, all - steps * step - after, steps);
}

__attribute__((target("avx512f"))) static float multiply_adds_512(long n)
{
    __m512 a[12], x = _mm512_set1_ps(1e-9f);
    float sum[16];
    for (int i = 0; i < 12; i++) {
        a[i] = _mm512_set1_ps((float)i);
    }
    for (long k = 0; k < n; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            a[i] = _mm512_fmadd_ps(a[i], x, x);
        }
    }
    for (int i = 1; i < 12; i++) {
        a[0] = _mm512_add_ps(a[0], a[i]);
    }
    _mm512_storeu_ps(sum, a[0]);
    return sum[0];
}

__attribute__((target("avx2,fma"))) static float multiply_adds_256(long n)
{
    __m256 a[12], x = _mm256_set1_ps(1e-9f);
    float sum[8];
    for (int i = 0; i < 12; i++) {
        a[i] = _mm256_set1_ps((float)i);
    }
    for (long k = 0; k < n; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            a[i] = _mm256_fmadd_ps(a[i], x, x);
        }
    }
    for (int i = 1; i < 12; i++) {
        a[0] = _mm256_add_ps(a[0], a[i]);
    }
    _mm256_storeu_ps(sum, a[0]);
    return sum[0];
}

static double peak(void)
{
    bool wide = __builtin_cpu_supports("avx512f");
    int threads = bench.dev->ops->threads(bench.dev);
    long n = 1 << 22;
    double best = 0;
    for (int repeat = 0; repeat < 5; repeat++) {
        float sink = 0;
        double begin = clock_now();
#pragma omp parallel for num_threads(threads) reduction(+ : sink)
        for (int i = 0; i < threads; i++) {
            sink += wide ? multiply_adds_512(n) : multiply_adds_256(n);
        }
        double rate = 2.0 * (wide ? 16 : 8) * 12 * (double)n * threads / (clock_now() - begin);
        best = rate > best && sink >= 0 ? rate : best;
    }
    return best;
}

/* Forward, gradients of the weights and of the inputs; the network's own input gets none. */
static double step_flops(const struct network *net)
{
    const struct layer *first = &net->layers[0];
    double pixels = first->out.rank == 3 ? (double)first->out.dim[0] * first->out.dim[1] : 1;
    return 3 * network_flops(net) -
           (first->n_tensors > 0 ? 2 * (double)net->tensors[0].count * pixels : 0);
}

static void answer(const char *line, struct err *e)
{
    int a, b;
    struct rusage used;
    if (sscanf(line, "change %d %d", &a, &b) == 2) {
        change(a, b, e);
    } else if (sscanf(line, "flops %d", &a) == 1) {
        printf("%.0f\n", a * step_flops(&bench.spec.network));
    } else if (strcmp(line, "peak\n") == 0) {
        printf("%.0f\n", peak());
    } else if (strcmp(line, "memory\n") == 0) {
        getrusage(RUSAGE_SELF, &used);
        printf("%ld\n", used.ru_maxrss * 1024);
    } else if (sscanf(line, "%d %d", &a, &b) == 2 && a > 0 && b > 0) {
        double warm = known_input(a) ? 0 : train(a, WARM, e);
        printf("%.9f\n", warm < 0 ? -1 : train(a, b, e));
    } else {
        err_set(e, ERR_INVALID, "cannot understand '%.40s'", line);
    }
    fflush(stdout);
}

static int open_model(const char *device, const char *model, const char *precision, struct err *e)
{
    struct jsonx_problems problems = {0};
    json_t *json = json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:i, s:{s:i}, s:{s:s}, s:{s:s, s:f, s:f, s:f}, s:s}", "name",
        "bench", "model", model, "data", "format", "cifar-10", "path", "none", "epochs", 1,
        "batching", "global_batch", SAMPLES, "strategy", "type", "sync", "optimizer", "type", "sgd",
        "learning_rate", 0.001, "momentum", 0.9, "weight_decay", 1e-4, "precision", precision);
    int rc = jobspec_parse(&bench.spec, json, &problems);
    json_decref(json);
    if (rc < 0) {
        return err_set(e, ERR_INVALID, "cannot use '%s': %s", model,
                       problems.count ? problems.items[0].message : "the job is not valid");
    }
    bench.dev = dev_open(device, e);
    if (!bench.dev || dev_use_precision(bench.dev, precision, e) < 0 ||
        model_init(&bench.model, bench.dev, &bench.spec, true, e) < 0) {
        return -(int)e->code;
    }
    struct dev_replica *r = &bench.model.replica;
    r->alone = true;
    network_init(&bench.spec.network, 1, r->host[DEV_PARAMS], r->host[DEV_STATS]);
    if ((rc = bench.dev->ops->store(r, DEV_PARAMS, 0, r->count[DEV_PARAMS], e)) < 0 ||
        (rc = bench.dev->ops->store(r, DEV_STATS, 0, r->count[DEV_STATS], e)) < 0) {
        return rc;
    }
    return bench.dev->ops->samples ? keep_samples(e) : rc;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    char line[100];
    if (argc < 3) {
        fprintf(stderr, "usage: bench_step DEVICE MODEL [PRECISION]\n");
        return 2;
    }
    open_model(argv[1], argv[2], argc > 3 ? argv[3] : "fp32", &e);
    while (!e.code && fgets(line, sizeof line, stdin)) {
        answer(line, &e);
    }
    if (e.code) {
        fprintf(stderr, "bench_step: %s\n", e.message);
    }
    return e.code ? 1 : 0;
}
