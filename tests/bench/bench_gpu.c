/* Our side of bench-gpu beside bench_step (a whole training step): what the memory of a GPU and its matrix units can do, and kernels of ours that are
 * bound by memory. A process that answers lines, so that it can take turns with its peers.
 *
 *   bench_gpu DEVICE
 *
 *   copy FLOATS TIMES       copies on the device: seconds, bytes moved (read and written)
 *   rule FLOATS TIMES       the server rule of ddc-asgd: the same
 *   update FLOATS TIMES     sgd with momentum and weight decay over a replica: the same
 *   matrix N TIMES TF32     products of N×N matrices by cuBLAS: seconds, floating-point operations; "0 0" where there is no cuBLAS to load
 *
 * Times are the host's, around work that is waited for once (copy, update, matrix) or each time (rule); the driver measures nothing for us, because
 * the device keeps its streams to itself. So a few microseconds of starting are in them.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/device.h"

typedef unsigned long long address;

static struct {
    struct device *dev;
    void *driver;
    int (*alloc)(address *, size_t);
    int (*release)(address);
    int (*copy)(address, address, size_t);
    int (*clear)(address, unsigned char, size_t);
    int (*wait)(void);
} bench;

static int find(const char *name, void *function)
{
    void *symbol = dlsym(bench.driver, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol ? 0 : -1;
}

static int open_driver(void)
{
    const char *named = getenv("EVENSTEP_CUDA_DRIVER");
    bench.driver = dlopen(named && *named ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return bench.driver && find("cuMemAlloc_v2", &bench.alloc) == 0 && find("cuMemFree_v2", &bench.release) == 0 &&
                   find("cuMemcpyDtoD_v2", &bench.copy) == 0 && find("cuMemsetD8_v2", &bench.clear) == 0 && find("cuCtxSynchronize", &bench.wait) == 0
               ? 0 : -1;
}

/* n arrays of `floats` zeros; 0, or -1 with nothing kept. */
static int take(address *at, int n, size_t floats)
{
    for (int i = 0; i < n; i++) {
        if (bench.alloc(&at[i], floats * sizeof(float)) != 0 || bench.clear(at[i], 0, floats * sizeof(float)) != 0) {
            for (int k = 0; k < i; k++) {
                bench.release(at[k]);
            }
            return -1;
        }
    }
    return 0;
}

static void give(const address *at, int n)
{
    for (int i = 0; i < n; i++) {
        bench.release(at[i]);
    }
}

static int copy(size_t floats, int times, struct err *e)
{
    address at[2];
    if (take(at, 2, floats) < 0) {
        return err_set(e, ERR_MEMORY, "%zu floats do not fit twice", floats);
    }
    bench.copy(at[1], at[0], floats * sizeof(float));
    bench.wait();
    double begin = clock_now();
    for (int i = 0; i < times; i++) {
        bench.copy(at[(i + 1) % 2], at[i % 2], floats * sizeof(float));
    }
    bench.wait();
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
    struct rule_args a = {.g = pointer(at[2]), .lr = 0.1f, .factor = 0.25f, .tau = 3, .p0 = 0.75f, .p1 = 0.25f};
    int rc = bench.dev->ops->rule(bench.dev, CAT_STRATEGY_DDC_ASGD, &s, &a, e);
    double begin = clock_now();
    for (int i = 0; i < times && rc >= 0; i++) {
        rc = bench.dev->ops->rule(bench.dev, CAT_STRATEGY_DDC_ASGD, &s, &a, e);
    }
    if (rc >= 0) {
        printf("%.9f %.0f\n", clock_now() - begin, 5.0 * (double)floats * sizeof(float) * times); /* w v g read, w v written */
    }
    give(at, 3);
    return rc;
}

/* A network of one dense layer with about so many parameters. */
static int update(size_t floats, int times, struct err *e)
{
    struct network net;
    struct jsonx_problems problems = {0};
    struct dev_replica r;
    struct optimizer_spec sgd = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-4};
    json_t *model = json_pack("{s:[i], s:[{s:s, s:i}]}", "input", 1000, "layers", "type", "dense", "units", (int)(floats / 1000 > 0 ? floats / 1000 : 1));
    int rc = network_build(&net, model, "/model", &problems);
    json_decref(model);
    if (rc < 0) {
        return err_set(e, ERR_INVALID, "%s", problems.count ? problems.items[0].message : "the network cannot be built");
    }
    rc = bench.dev->ops->replica_init(bench.dev, &r, &net, &sgd, e);
    if (rc >= 0) {
        rc = bench.dev->ops->update(&r, 0.001, 1, e);
        rc = rc < 0 ? rc : bench.dev->ops->fetch(&r, DEV_PARAMS, 0, 1, e); /* waits */
        double begin = clock_now();
        for (int i = 0; i < times && rc >= 0; i++) {
            rc = bench.dev->ops->update(&r, 0.001, 1, e);
        }
        rc = rc < 0 ? rc : bench.dev->ops->fetch(&r, DEV_PARAMS, 0, 1, e);
        if (rc >= 0) {
            printf("%.9f %.0f\n", clock_now() - begin, 5.0 * (double)net.n_params * sizeof(float) * times); /* w m g read, w m written */
        }
        bench.dev->ops->replica_release(&r);
    }
    network_release(&net);
    return rc;
}

static int matrix(size_t n, int times, int tf32)
{
    enum { FLOAT = 0, NO_TRANSPOSE = 0, COMPUTE_32F = 68, COMPUTE_TF32 = 77, DEFAULT = -1 }; /* of cublas_api.h and library_types.h */
    static void *library, *handle;
    int (*create)(void **), (*product)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int,
                                       int, int, int);
    address at[3];
    float one = 1, zero = 0;
    library = library ? library : dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    void *a = library ? dlsym(library, "cublasCreate_v2") : NULL, *b = library ? dlsym(library, "cublasGemmEx") : NULL;
    memcpy(&create, &a, sizeof(a));
    memcpy(&product, &b, sizeof(b));
    if (!a || !b || (!handle && create(&handle) != 0) || take(at, 3, n * n) < 0) {
        printf("0 0\n");
        return 0;
    }
    double begin = 0;
    for (int i = -1; i < times; i++) {
        if (i == 0) {
            bench.wait();
            begin = clock_now();
        }
        product(handle, NO_TRANSPOSE, NO_TRANSPOSE, (int)n, (int)n, (int)n, &one, pointer(at[0]), FLOAT, (int)n, pointer(at[1]), FLOAT, (int)n, &zero,
                pointer(at[2]), FLOAT, (int)n, tf32 ? COMPUTE_TF32 : COMPUTE_32F, DEFAULT);
    }
    bench.wait();
    printf("%.9f %.0f\n", clock_now() - begin, 2.0 * (double)n * (double)n * (double)n * times);
    give(at, 3);
    return 0;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    char line[100], what[16];
    long n, times, tf32;
    bench.dev = dev_open(argc > 1 ? argv[1] : "cuda:0", &e);
    if (!bench.dev || open_driver() < 0 || !bench.dev->ops->rule) {
        fprintf(stderr, "bench_gpu: %s\n", bench.dev ? "this device is no GPU, or its driver lacks what is used here" : e.message);
        return 1;
    }
    while (fgets(line, sizeof(line), stdin)) {
        tf32 = 0;
        int words = sscanf(line, "%15s %ld %ld %ld", what, &n, &times, &tf32);
        int rc = words < 3 || n < 1 || times < 1 ? -1 : strcmp(what, "copy") == 0 ? copy((size_t)n, (int)times, &e)
                 : strcmp(what, "rule") == 0 ? rule((size_t)n, (int)times, &e) : strcmp(what, "update") == 0 ? update((size_t)n, (int)times, &e)
                 : strcmp(what, "matrix") == 0 ? matrix((size_t)n, (int)times, (int)tf32) : -1;
        if (rc < 0) {
            fprintf(stderr, "bench_gpu: cannot answer '%.*s': %s\n", (int)strcspn(line, "\n"), line, e.message[0] ? e.message : "it is not understood");
            return 1;
        }
        fflush(stdout);
    }
    dev_close(bench.dev);
    return 0;
}
