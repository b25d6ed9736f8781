/* Our side of bench-gpu beside bench_step (a whole training step): what the memory of a GPU and its
 * matrix units can do, and kernels of ours that are bound by memory. A process that answers lines,
 * so that it can take turns with its peers.
 *
 *   bench_gpu DEVICE
 *
 *   copy FLOATS TIMES       copies on the device: seconds, bytes moved (read and written)
 *   rule FLOATS TIMES       the server rule of ddc-asgd: the same
 *   update FLOATS TIMES     sgd with momentum and weight decay over a replica: the same
 *   matrix N TIMES KIND     products of N×N matrices by cuBLAS (0: fp32, 1: tf32, 2: bf16):
 * seconds, floating-point operations; "0 0" where there is no cuBLAS to load kernels FLOATS TIMES
 * BATCH PRECISION MODEL all that training this network starts on the device, once each: as JSON
 * [{"kernel", "bytes", "flops", "seconds"}, …], medians of TIMES runs after one that warms up; then
 * what goes over blocks, on one of FLOATS: sums, rules
 *
 * Times of `kernels` are the device's own (device.h, meter). Else they are the host's, around work
 * that is waited for once (copy, update, matrix) or each time (rule); the driver measures nothing
 * for us, because the device keeps its streams to itself. So a few microseconds of starting are in
 * them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/rng.h"
#include "kernels/device.h"
#include "kernels/samples.h"
#include "tests/bench/driver.h"

static struct {
    struct device *dev;
} bench;

static int copy(size_t floats, int times, struct err *e)
{
    address at[2];
    if (take(at, 2, floats) < 0) {
        return err_set(e, ERR_MEMORY, "%zu floats do not fit twice", floats);
    }
    driver.copy(at[1], at[0], floats * sizeof(float));
    driver.wait();
    double begin = clock_now();
    for (int i = 0; i < times; i++) {
        driver.copy(at[(i + 1) % 2], at[i % 2], floats * sizeof(float));
    }
    driver.wait();
    printf("%.9f %.0f\n", clock_now() - begin, 2.0 * (double)floats * sizeof(float) * times);
    give(at, 2);
    return 0;
}

static float *pointer(address at)
{
    return (float *)(uintptr_t)at;
}

static int rule(size_t floats, int times, struct err *e)
{
    address at[3];
    if (take(at, 3, floats) < 0) {
        return err_set(e, ERR_MEMORY, "%zu floats do not fit three times", floats);
    }
    struct rule_state s = {.w = pointer(at[0]), .v = pointer(at[1]), .n = floats};
    struct rule_args a = {
        .g = pointer(at[2]), .lr = 0.1f, .factor = 0.25f, .tau = 3, .p0 = 0.75f, .p1 = 0.25f};
    int rc = bench.dev->ops->rules->apply(bench.dev, RULE_TRUST, &s, &a, e);
    double begin = clock_now();
    for (int i = 0; i < times && rc >= 0; i++) {
        rc = bench.dev->ops->rules->apply(bench.dev, RULE_TRUST, &s, &a, e);
    }
    if (rc >= 0) {
        printf("%.9f %.0f\n", clock_now() - begin,
               5.0 * (double)floats * sizeof(float) * times); /* w v g read, w v written */
    }
    give(at, 3);
    return rc;
}

/* Seconds of so many updates; the fetch waits for them. */
static int time_updates(struct dev_replica *r, int times, double *seconds, struct err *e)
{
    const struct device_ops *ops = bench.dev->ops;
    double begin = clock_now();
    int rc = 0;
    for (int i = 0; i < times && rc >= 0; i++) {
        rc = ops->update(r, 0.001, 1, e);
    }
    if (rc < 0 || (rc = ops->fetch(r, DEV_PARAMS, 0, 1, e)) < 0) {
        return rc;
    }
    *seconds = clock_now() - begin;
    return 0;
}

/* A network of one dense layer with about so many parameters. */
static int update(size_t floats, int times, struct err *e)
{
    struct network net;
    struct jsonx_problems problems = {0};
    struct dev_replica r;
    struct optimizer_spec sgd = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4};
    int units = (int)(floats / 1000 > 0 ? floats / 1000 : 1);
    json_t *model = json_pack("{s:[i], s:[{s:s, s:i}]}", "input", 1000, "layers", "type", "dense",
                              "units", units);
    int rc = network_build(&net, model, "/model", &problems);
    json_decref(model);
    if (rc < 0) {
        return err_set(e, ERR_INVALID, "%s",
                       problems.count ? problems.items[0].message : "the network cannot be built");
    }
    rc = bench.dev->ops->replica_init(bench.dev, &r, &net, &sgd, e);
    if (rc >= 0) {
        double seconds;
        if ((rc = time_updates(&r, 1, &seconds, e)) >= 0 &&
            (rc = time_updates(&r, times, &seconds, e)) >= 0) {
            /* w m g read, w m written */
            printf("%.9f %.0f\n", seconds, 5.0 * (double)net.n_params * sizeof(float) * times);
        }
        bench.dev->ops->replica_release(&r);
    }
    network_release(&net);
    return rc;
}

/* Random numbers in both halves of each word: products of zeros would be faster than any that a
 * network makes. */
static int fill(address at, size_t floats)
{
    enum { PART = 1 << 20 };
    uint32_t *part = malloc(PART * sizeof(*part));
    int rc = part ? 0 : -1;
    for (size_t i = 0; i < PART && part; i++) {
        uint32_t drawn = (uint32_t)rng_below(3, 1, i, (uint64_t)1 << 32);
        part[i] = (drawn & 0x807f807fu) | 0x3f003f00u; /* ±0.5 to ±1 as float, and as two bf16 */
    }
    for (size_t done = 0; done < floats && rc == 0; done += PART) {
        rc = driver.upload(at + done * sizeof(float), part,
                           (floats - done < PART ? floats - done : PART) * sizeof(float));
    }
    free(part);
    return rc;
}

static int matrix(size_t n, int times, int kind)
{
    /* of cublas_api.h and library_types.h */
    enum {
        FLOAT = 0,
        BF16 = 14,
        NO_TRANSPOSE = 0,
        COMPUTE_32F = 68,
        COMPUTE_TF32 = 77,
        DEFAULT = -1
    };
    static void *library, *handle;
    int (*create)(void **),
        (*product)(void *, int, int, int, int, int, const void *, const void *, int, int,
                   const void *, int, int, const void *, void *, int, int, int, int);
    address at[3];
    float one = 1, zero = 0;
    library = library ? library : dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    void *a = library ? dlsym(library, "cublasCreate_v2") : NULL,
         *b = library ? dlsym(library, "cublasGemmEx") : NULL;
    memcpy(&create, &a, sizeof(a));
    memcpy(&product, &b, sizeof(b));
    if (!a || !b || (!handle && create(&handle) != 0) || take(at, 3, n * n) < 0 ||
        fill(at[0], n * n) < 0 || fill(at[1], n * n) < 0) {
        printf("0 0\n");
        return 0;
    }
    double begin = 0;
    int type = kind == 2 ? BF16 : FLOAT, rc = 0;
    for (int i = -1; i < times && rc == 0; i++) {
        if (i == 0) {
            driver.wait();
            begin = clock_now();
        }
        rc = product(handle, NO_TRANSPOSE, NO_TRANSPOSE, (int)n, (int)n, (int)n, &one,
                     pointer(at[0]), type, (int)n, pointer(at[1]), type, (int)n, &zero,
                     pointer(at[2]), type, (int)n, kind == 1 ? COMPUTE_TF32 : COMPUTE_32F, DEFAULT);
    }
    driver.wait();
    printf("%.9f %.0f\n", rc == 0 ? clock_now() - begin : 0.0,
           rc == 0 ? 2.0 * (double)n * (double)n * (double)n * times : 0.0);
    give(at, 3);
    return 0;
}

/* ---- kernel by kernel ------------------------------------------------------------------------ */

struct course {
    struct network net;
    struct dev_replica replica;
    struct dev_samples *samples;
    struct dev_input in;
    address block[5]; /* of `floats`, for what goes over blocks */
    size_t floats;
    int batch;
};

static int start_samples(struct course *c, struct err *e)
{
    size_t each = shape_count(&c->net.input), n = (size_t)c->batch;
    float table[256];
    for (int i = 0; i < 256; i++) {
        table[i] = (float)i / 255;
    }
    uint8_t *x = malloc(n * each);
    int64_t *sample = malloc(n * sizeof(*sample));
    size_t outputs = shape_count(&c->net.layers[c->net.n_layers - 1].out);
    void *labels = calloc(n * outputs, sizeof(float)); /* the first class, or targets of zero */
    if (!x || !sample || !labels) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    for (size_t i = 0; i < n * each; i++) {
        x[i] = (uint8_t)rng_below(1, 1, i, 256);
    }
    for (size_t i = 0; i < n; i++) {
        sample[i] = (int64_t)(i * 7 % n);
    }
    const struct dev_source from = {.x = x,
                                    .samples = c->batch,
                                    .stored = c->net.input,
                                    .out = c->net.input,
                                    .tables = 1,
                                    .table = table};
    c->samples = bench.dev->ops->samples->make(bench.dev, &from, e);
    c->in = (struct dev_input){
        .from = c->samples, .y = labels, .sample = sample, .count = c->batch, .training = true};
    free(x);
    return c->samples ? 0 : -ERR_DEVICE;
}

static int start_course(struct course *c, const char *model, const char *precision, struct err *e)
{
    struct optimizer_spec adam = {.type = CAT_OPTIMIZER_ADAM,
                                  .beta1 = 0.9,
                                  .beta2 = 0.999,
                                  .eps = 1e-8,
                                  .weight_decay = 1e-4,
                                  .clip_norm = 1};
    struct jsonx_problems problems = {0};
    const struct device_ops *ops = bench.dev->ops;
    json_t *doc = json_loads(model, JSON_DECODE_ANY, NULL);
    int rc = doc ? network_build(&c->net, doc, "/model", &problems) : -1;
    json_decref(doc);
    if (rc < 0) {
        return err_set(e, ERR_INVALID, "%s",
                       problems.count ? problems.items[0].message : "the model is no JSON");
    }
    if ((rc = dev_use_precision(bench.dev, precision, e)) < 0 ||
        (rc = ops->replica_init(bench.dev, &c->replica, &c->net, &adam, e)) < 0) {
        return rc;
    }
    network_init(&c->net, 1, c->replica.host[DEV_PARAMS], c->replica.host[DEV_STATS]);
    if ((rc = ops->store(&c->replica, DEV_STATS, 0, c->replica.count[DEV_STATS], e)) < 0 ||
        (rc = start_samples(c, e)) < 0) {
        return rc;
    }
    return take(c->block, 5, c->floats) < 0
               ? err_set(e, ERR_MEMORY, "%zu floats do not fit five times", c->floats)
               : 0;
}

static void end_course(struct course *c)
{
    if (c->block[4]) {
        give(c->block, 5);
    }
    bench.dev->ops->samples->free(c->samples);
    bench.dev->ops->replica_release(&c->replica);
    free((void *)c->in.y);
    free((void *)c->in.sample);
    network_release(&c->net);
}

/* Whole pictures, then windows of them. */
static int gather(struct course *c, struct dev_program *p, struct err *e)
{
    static struct dev_view views[1 << 14];
    struct dev_result result;
    struct dev_input in = c->in;
    int rc = bench.dev->ops->compute(p, &in, &result, NULL, NULL, NULL, e);
    in.view = c->batch <= 1 << 14 && c->net.input.rank == 3 ? views : NULL;
    return rc < 0 || !in.view ? rc : bench.dev->ops->compute(p, &in, &result, NULL, NULL, NULL, e);
}

static int rules(struct course *c, struct err *e)
{
    static const enum rule all[] = {RULE_TRUST, RULE_DC_ASGD, RULE_SGD};
    struct rule_args a = {.g = pointer(c->block[2]),
                          .pulled = pointer(c->block[3]),
                          .lr = 0.1f,
                          .factor = 0.25f,
                          .tau = 3,
                          .p0 = 0.75f,
                          .p1 = 0.25f};
    int rc = bench.dev->ops->memory->add(bench.dev, pointer(c->block[0]), pointer(c->block[1]),
                                         c->floats, e);
    for (int i = 0; i < 3 && rc >= 0; i++) {
        float *squares = i == 1 ? pointer(c->block[4]) : NULL; /* dc-asgd's */
        struct rule_state s = {
            .w = pointer(c->block[0]), .v = pointer(c->block[1]), .m2 = squares, .n = c->floats};
        rc = bench.dev->ops->rules->apply(bench.dev, all[i], &s, &a, e);
    }
    return rc;
}

/* *p is the program that was made; the caller frees it once the meter has ended. */
static int work_once(struct course *c, struct dev_program **p, struct err *e)
{
    const struct device_ops *ops = bench.dev->ops;
    struct dev_replica *r = &c->replica;
    int rc = ops->store(r, DEV_PARAMS, 0, r->count[DEV_PARAMS], e);
    if (rc < 0) {
        return rc;
    }
    if (!(*p = ops->program_new(r, c->batch, 1 << 20, e))) {
        return -(int)e->code;
    }
    if ((rc = gather(c, *p, e)) < 0 || (rc = ops->update(r, 1e-9, 1, e)) < 0 ||
        (rc = ops->fetch(r, DEV_GRADS, 0, r->count[DEV_GRADS], e)) < 0) {
        return rc;
    }
    return rules(c, e);
}

/* All of it once; what was started, or NULL. */
static json_t *run_course(struct course *c, struct err *e)
{
    const struct device_ops *ops = bench.dev->ops;
    struct dev_program *p = NULL;
    ops->meter->begin(bench.dev);
    int rc = work_once(c, &p, e);
    json_t *rows = ops->meter->end(bench.dev);
    if (p) {
        ops->program_free(p);
    }
    if (rc < 0) {
        json_decref(rows);
    }
    return rc < 0 ? NULL : rows;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { TIMES_MOST = 64 };

/* The first run's rows, with the medians of the others. */
static int take_medians(json_t **runs, int times, struct err *e)
{
    size_t i;
    json_t *row;
    for (int t = 1; t <= times; t++) {
        if (json_array_size(runs[t]) != json_array_size(runs[0])) {
            return err_set(e, ERR_INTERNAL, "a run started %zu kernels, the first one %zu",
                           json_array_size(runs[t]), json_array_size(runs[0]));
        }
    }
    json_array_foreach(runs[0], i, row) {
        double seconds[TIMES_MOST];
        for (int t = 1; t <= times; t++) {
            seconds[t - 1] =
                json_number_value(json_object_get(json_array_get(runs[t], i), "seconds"));
        }
        qsort(seconds, (size_t)times, sizeof(*seconds), by_size);
        json_object_set_new(row, "seconds", json_real(seconds[times / 2]));
    }
    char *text = json_dumps(runs[0], JSON_COMPACT);
    printf("%s\n", text ? text : "[]");
    free(text);
    return 0;
}

static int kernels(size_t floats, int times, int batch, const char *precision, const char *model,
                   struct err *e)
{
    static struct course c;
    json_t *runs[TIMES_MOST + 1] = {0};
    c = (struct course){.floats = floats, .batch = batch};
    if (batch < 1 || times > TIMES_MOST || !bench.dev->ops->meter || !bench.dev->ops->memory) {
        return err_set(e, ERR_INVALID,
                       "a minibatch from 1, at most %d times, on a device with a meter",
                       TIMES_MOST);
    }
    int rc = start_course(&c, model, precision, e);
    for (int t = 0; t <= times && rc >= 0; t++) {
        runs[t] = run_course(&c, e);
        rc = runs[t] ? 0 : -ERR_DEVICE;
    }
    if (rc >= 0) {
        rc = take_medians(runs, times, e);
    }
    for (int t = 0; t <= times; t++) {
        json_decref(runs[t]);
    }
    end_course(&c);
    return rc;
}

static int answer(char *line, struct err *e)
{
    char what[16], precision[8];
    long n, times, third = 0;
    int at = 0,
        words = sscanf(line, "%15s %ld %ld %ld %7s %n", what, &n, &times, &third, precision, &at);
    if (words < 3 || n < 1 || times < 1) {
        return -1;
    }
    if (strcmp(what, "copy") == 0) {
        return copy((size_t)n, (int)times, e);
    }
    if (strcmp(what, "rule") == 0) {
        return rule((size_t)n, (int)times, e);
    }
    if (strcmp(what, "update") == 0) {
        return update((size_t)n, (int)times, e);
    }
    if (strcmp(what, "matrix") == 0) {
        return matrix((size_t)n, (int)times, (int)third);
    }
    return strcmp(what, "kernels") == 0 && words == 5
               ? kernels((size_t)n, (int)times, (int)third, precision, line + at, e)
               : -1;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    char line[8000];
    bench.dev = dev_open(argc > 1 ? argv[1] : "cuda:0", &e);
    if (!bench.dev || driver_open() < 0 || !bench.dev->ops->rules) {
        fprintf(stderr, "bench_gpu: %s\n",
                bench.dev ? "this device is no GPU, or its driver lacks what is used here"
                          : e.message);
        return 1;
    }
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (answer(line, &e) < 0) {
            fprintf(stderr, "bench_gpu: cannot answer '%.200s': %s\n", line,
                    e.message[0] ? e.message : "it is not understood");
            return 1;
        }
        fflush(stdout);
    }
    dev_close(bench.dev);
    return 0;
}
