/* What the tests of the CUDA device share: the device under test and the CPU, on the same network
 * with the same parameters and samples.
 *
 * The device is the plug-in that EVENSTEP_CUDA_PLUGIN names: the host build, with its stand-ins
 * (make check-cuda-host), or the real one (make check-gpu), where tests of what only stand-ins can
 * do are skipped. Numbers are compared relative to their size: sums of the same terms in another
 * order differ by rounding, and each test states its bound.
 */
#ifndef TESTS_CUDA_JUDGE_H
#define TESTS_CUDA_JUDGE_H

#include "tests/kernels/bench.h"

#include <dlfcn.h>

#include "kernels/plugin.h"
#include "tests/cuda/standin/control.h"

/* NULL: the real libraries. */
static inline const struct standin_control *judge_control(void)
{
    static const struct standin_control *control;
    const char *file = getenv("EVENSTEP_CUDA_PLUGIN");
    void *plugin = file && !control ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    standin_control_fn *fn = NULL;
    if (plugin) {
        *(void **)&fn = dlsym(plugin, STANDIN_CONTROL);
        control = fn ? fn() : NULL;
    }
    return control;
}

/* The second of the stand-ins' two GPUs, so that a thread that uses the first one instead is seen.
 */
static inline const char *judge_device(void)
{
    return judge_control() ? "cuda:1" : "cuda:0";
}

/* For tests that only stand-ins can run; with the real libraries they are skipped. */
static inline const struct standin_control *judge_need_control(void)
{
    const struct standin_control *c = judge_control();
    if (!c) {
        skip();
    }
    return c;
}

/* A little of everything, for tests of how work is put together. */
static const char judge_small[] __attribute__((unused)) =
    "{\"input\": [8, 8, 2], \"layers\": [{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3, "
    "\"padding\": 1}, {\"type\": \"batch_norm\"}, {\"type\": \"relu\"},"
    "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"lrn\"}, {\"type\": \"dropout\"}, "
    "{\"type\": \"dense\", \"units\": 6}, {\"type\": \"tanh\"},"
    "{\"type\": \"dense\", \"units\": 3}]}";
static const struct optimizer_spec judge_adam __attribute__((unused)) = {
    .type = CAT_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip_norm = 1};

/* Memory of the GPU that a test owns, through the driver (EVENSTEP_CUDA_DRIVER, else libcuda.so.1),
 * in the context that the device has made. */
struct judge_memory {
    void *at;
};

static inline void judge_driver(const char *name, void *function)
{
    const char *file = getenv("EVENSTEP_CUDA_DRIVER");
    void *driver = dlopen(file && *file ? file : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL),
         *symbol = driver ? dlsym(driver, name) : NULL;
    if (!symbol) {
        fail_msg("the driver has no %s", name);
    }
    memcpy(function, &symbol, sizeof(symbol));
}

static inline struct judge_memory judge_alloc(size_t bytes)
{
    int (*alloc)(unsigned long long *, size_t);
    unsigned long long at = 0;
    judge_driver("cuMemAlloc_v2", &alloc);
    assert_int_equal(alloc(&at, bytes), 0);
    return (struct judge_memory){(void *)(uintptr_t)at};
}

static inline void judge_give_back(struct judge_memory *m)
{
    int (*give_back)(unsigned long long);
    judge_driver("cuMemFree_v2", &give_back);
    assert_int_equal(give_back((unsigned long long)(uintptr_t)m->at), 0);
}

static inline void judge_upload(struct judge_memory *m, size_t at, const void *from, size_t bytes)
{
    int (*copy)(unsigned long long, const void *, size_t);
    judge_driver("cuMemcpyHtoD_v2", &copy);
    assert_int_equal(copy((unsigned long long)((uintptr_t)m->at + at), from, bytes), 0);
}

static inline void judge_download(struct judge_memory *m, size_t at, void *to, size_t bytes)
{
    int (*copy)(void *, unsigned long long, size_t);
    judge_driver("cuMemcpyDtoH_v2", &copy);
    assert_int_equal(copy(to, (unsigned long long)((uintptr_t)m->at + at), bytes), 0);
}

struct judge {
    struct device *cpu, *gpu;
    struct network net;
    struct dev_replica on_cpu, on_gpu;
    struct err e;
};

static inline void judge_ok(struct judge *j, int rc)
{
    if (rc < 0) {
        fail_msg("%s", j->e.message);
    }
}

static inline void judge_store(struct judge *j, enum dev_block b)
{
    judge_ok(j, j->gpu->ops->store(&j->on_gpu, b, 0, j->on_gpu.count[b], &j->e));
}

static inline void judge_fetch(struct judge *j, enum dev_block b)
{
    judge_ok(j, j->gpu->ops->fetch(&j->on_gpu, b, 0, j->on_gpu.count[b], &j->e));
}

/* What the CPU has goes to the GPU. */
static inline void judge_copy(struct judge *j, enum dev_block b)
{
    memcpy(j->on_gpu.host[b], j->on_cpu.host[b], j->on_cpu.count[b] * sizeof(float));
    judge_store(j, b);
}

static inline struct judge *judge_new(const char *model, const struct optimizer_spec *optimizer,
                                      const char *precision)
{
    static const struct optimizer_spec plain = {.type = CAT_OPTIMIZER_SGD};
    struct judge *j = calloc(1, sizeof(*j));
    optimizer = optimizer ? optimizer : &plain;
    setenv("EVENSTEP_CUDA_MEASURE_SECONDS", "1000", 0); /* however slow this machine is */
    j->net = ref_network(model);
    j->cpu = dev_open("cpu:1", &j->e);
    j->gpu = dev_open(judge_device(), &j->e);
    if (!j->cpu || !j->gpu || dev_use_precision(j->gpu, precision, &j->e) < 0) {
        fail_msg("%s", j->e.message);
    }
    judge_ok(j, j->cpu->ops->replica_init(j->cpu, &j->on_cpu, &j->net, optimizer, &j->e));
    judge_ok(j, j->gpu->ops->replica_init(j->gpu, &j->on_gpu, &j->net, optimizer, &j->e));
    ref_draw(&j->net, j->on_cpu.host[DEV_PARAMS], j->on_cpu.host[DEV_STATS]);
    judge_copy(j, DEV_PARAMS);
    judge_copy(j, DEV_STATS);
    return j;
}

static inline void judge_free(struct judge *j)
{
    j->cpu->ops->replica_release(&j->on_cpu);
    j->gpu->ops->replica_release(&j->on_gpu);
    dev_close(j->cpu);
    dev_close(j->gpu);
    network_release(&j->net);
    free(j);
}

static inline struct dev_program *judge_program(struct judge *j, struct dev_replica *r, int batch)
{
    struct dev_program *p = r->dev->ops->program_new(r, batch, 1 << 20, &j->e);
    if (!p) {
        fail_msg("%s", j->e.message);
    }
    return p;
}

static inline struct dev_result judge_compute(struct judge *j, struct dev_program *p,
                                              const struct dev_input *in, float *logits)
{
    struct dev_replica *r = ((struct dev_program_head *)p)->replica;
    struct dev_result result;
    int marks = 0;
    judge_ok(j, r->dev->ops->compute(p, in, &result, logits, bench_mark, &marks, &j->e));
    assert_int_equal(marks, in->training ? ((struct dev_program_head *)p)->n_buckets : 0);
    return result;
}

/* Root of the mean square. */
static inline double judge_size(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

/* Every element within bound × (the array's usual size + its own), or × `least` if that is larger.
 */
static inline void judge_near_above(const float *got, const float *expected, size_t n, double bound,
                                    double least, const char *what)
{
    double size = judge_size(expected, n);
    size = size > least ? size : least;
    for (size_t i = 0; i < n; i++) {
        assert_near((double)got[i], (double)expected[i],
                    bound * (size + fabs((double)expected[i])) + 1e-12, what, i);
    }
}

static inline void judge_near(const float *got, const float *expected, size_t n, double bound,
                              const char *what)
{
    judge_near_above(got, expected, n, bound, 0, what);
}

/* Tensor by tensor. A tensor whose gradient is nothing but rounding (a bias before batch norm) is
 * held to the size of the whole. */
static inline void judge_near_gradients(struct judge *j, double bound)
{
    const float *got = j->on_gpu.host[DEV_GRADS], *expected = j->on_cpu.host[DEV_GRADS];
    double all = judge_size(expected, j->net.n_params);
    for (int t = 0; t < j->net.n_tensors; t++) {
        const struct tensor *tensor = &j->net.tensors[t];
        judge_near_above(got + tensor->first, expected + tensor->first, tensor->count, bound, all,
                         tensor->name);
    }
}

/* The whole gradient at once: the length of the difference over the length of the CPU's. For deep
 * networks, where rounding switches a relu here and there: that moves a few elements by much. */
static inline double judge_gradient_error(struct judge *j)
{
    const float *got = j->on_gpu.host[DEV_GRADS], *expected = j->on_cpu.host[DEV_GRADS];
    double apart = 0, all = judge_size(expected, j->net.n_params);
    for (size_t i = 0; i < j->net.n_params; i++) {
        double d = (double)got[i] - (double)expected[i];
        apart += d * d;
    }
    return sqrt(apart / (double)j->net.n_params) / all;
}

#endif
