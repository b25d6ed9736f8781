/* A GPU as a device, twin of cpu/cpu.c: opening, what it is and has, and the table that the plug-in
 * exports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/feed.h"
#include "kernels/cuda/samples.h"

enum { OLDEST_MAJOR = 8 };

/* ---- what it is and has ---------------------------------------------------------------------- */

static const char *const precisions[] = {"fp32", "tf32", "bf16"};

static const char *describe(struct device *dev)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    snprintf(d->said, sizeof(d->said), "%s, %s", d->line, precisions[d->precision]);
    return d->said;
}

static size_t memory_bytes(struct device *dev)
{
    size_t there = 0, all = 0;
    struct err ignored;
    if (cuda_enter((struct cuda_device *)dev, &ignored) < 0 ||
        cudaMemGetInfo(&there, &all) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return there;
}

static int threads(struct device *dev)
{
    return 1;
}

static int use_precision(struct device *dev, const char *name, struct err *e)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    for (size_t i = 0; i < sizeof(precisions) / sizeof(*precisions); i++) {
        if (strcmp(precisions[i], name) == 0) {
            d->precision = (enum cuda_precision)i;
            return 0;
        }
    }
    return err_set(e, ERR_UNSUPPORTED, "the device 'cuda:%d' does not offer the precision '%.20s'",
                   d->index, name);
}

static int write_line(struct cuda_device *d, struct err *e)
{
    struct cudaDeviceProp prop;
    TRY(cuda_check(cudaGetDeviceProperties(&prop, d->index), "ask the GPU what it is", e));
    if (prop.major < OLDEST_MAJOR) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "the GPU 'cuda:%d' (%.100s) has compute capability %d.%d, and this build needs %d.0 or "
            "more",
            d->index, prop.name, prop.major, prop.minor, OLDEST_MAJOR);
    }
    d->processors = prop.multiProcessorCount;
    snprintf(d->line, sizeof(d->line), "%.100s, %d multiprocessors, %.0f GiB, cuDNN %zu", prop.name,
             d->processors, (double)prop.totalGlobalMem / (1024.0 * 1024.0 * 1024.0),
             cudnnGetVersion());
    return 0;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static int read_index(const char *args, struct err *e)
{
    char *end;
    long index = args && *args ? strtol(args, &end, 10) : 0;
    if (args && *args &&
        (*end || index < 0 || index > 1023 || *args == '-' || *args == '+' || *args == ' ')) {
        return err_set(e, ERR_INVALID,
                       "the device 'cuda:%.40s' needs the index of a GPU after the colon", args);
    }
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (code == cudaErrorInsufficientDriver) {
        return err_set(
            e, ERR_UNSUPPORTED,
            "cannot open device 'cuda:%ld': the driver of this machine is older than this build's "
            "CUDA %d.%d",
            index, CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
    }
    if (code != cudaSuccess || count < 1) {
        return err_set(e, ERR_UNSUPPORTED,
                       "cannot open device 'cuda:%ld': no GPU can be used here (%s)", index,
                       code == cudaSuccess ? "there is none" : cudaGetErrorString(code));
    }
    if (index >= count) {
        return err_set(e, ERR_INVALID,
                       "cannot open device 'cuda:%ld': this machine has %d GPU%s, counted from 0",
                       index, count, count == 1 ? "" : "s");
    }
    return (int)index;
}

static void close_device(struct device *dev)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    cudaSetDevice(d->index);
    for (struct cuda_choice *c = d->choices, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    if (d->blas) {
        cublasDestroy(d->blas);
    }
    if (d->properties) {
        cudnnBackendDestroyDescriptor(d->properties);
    }
    if (d->dnn) {
        cudnnDestroy(d->dnn);
    }
    cudaStream_t streams[] = {d->main, d->copy, d->feed, d->ring, d->build, d->branch};
    for (cudaStream_t s : streams) {
        if (s) {
            cudaStreamDestroy(s);
        }
    }
    cudaEvent_t events[] = {d->tail, d->copied, d->forked, d->joined};
    for (cudaEvent_t event : events) {
        if (event) {
            cudaEventDestroy(event);
        }
    }
    cudaGetLastError();
    pthread_mutex_destroy(&d->building);
    free(d);
}

static int make_streams(struct cuda_device *d, struct err *e)
{
    cudaStream_t *streams[] = {&d->main, &d->copy, &d->feed, &d->ring, &d->build, &d->branch};
    cudaEvent_t *events[] = {&d->tail, &d->copied, &d->forked, &d->joined};
    for (cudaStream_t *s : streams) {
        TRY(cuda_check(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "make a stream", e));
    }
    for (cudaEvent_t *event : events) {
        TRY(cuda_check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "make an event",
                       e));
    }
    return 0;
}

enum { OLDEST_CUDNN = 90800 }; /* can make plans for a GPU from its properties (plan.h) */

static int start_dnn(struct cuda_device *d, struct err *e)
{
    const int32_t index = d->index;
    if (cudnnGetVersion() < OLDEST_CUDNN) {
        return err_set(e, ERR_UNSUPPORTED,
                       "cuDNN 9.8 (%d) or later is needed, and version %zu was found", OLDEST_CUDNN,
                       cudnnGetVersion());
    }
    TRY(cuda_check_dnn(cudnnCreate(&d->dnn), "start cuDNN", e));
    TRY(cuda_check_dnn(cudnnSetStream(d->dnn, d->build), "give cuDNN its stream", e));
    TRY(cuda_check_dnn(
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d->properties),
        "tell cuDNN of the GPU", e));
    TRY(cuda_check_dnn(cudnnBackendSetAttribute(d->properties, CUDNN_ATTR_DEVICEPROP_DEVICE_ID,
                                                CUDNN_TYPE_INT32, 1, &index),
                       "tell cuDNN of the GPU", e));
    return cuda_check_dnn(cudnnBackendFinalize(d->properties), "tell cuDNN of the GPU", e);
}

static int start(struct cuda_device *d, struct err *e)
{
    TRY(cuda_enter(d, e));
    TRY(write_line(d, e));
    TRY(make_streams(d, e));
    TRY(start_dnn(d, e));
    TRY(cuda_check_blas(cublasCreate(&d->blas), "start cuBLAS", e));
    return cuda_check_blas(cublasSetStream(d->blas, d->build), "give cuBLAS its stream",
                           e); /* its workspace is the program's */
}

static struct device *open_device(const char *args, struct err *e)
{
    int index = read_index(args, e);
    if (index < 0) {
        return NULL;
    }
    struct cuda_device *d = (struct cuda_device *)calloc(1, sizeof(*d));
    if (!d) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    d->base.ops = &cuda_device_ops;
    d->index = index;
    const char *seconds = getenv("EVENSTEP_CUDA_MEASURE_SECONDS");
    d->measure_seconds = seconds ? strtod(seconds, NULL) : 0.5;
    pthread_mutex_init(&d->building, NULL);
    if (start(d, e) < 0) {
        err_prefix(e, "cannot open device 'cuda:%d'", index);
        close_device(&d->base);
        return NULL;
    }
    return &d->base;
}

static const struct dev_fused_ops fused_ops = {.step = cuda_program_step};
static const struct dev_rule_ops rule_ops = {.apply = cuda_rule};
static const struct dev_precision_ops precision_ops = {.use = use_precision};
static const struct dev_tuning_ops tuning_ops = {.read = cuda_tuning, .apply = cuda_tune};
static const struct dev_meter_ops meter_ops = {.begin = cuda_metering_begin,
                                               .end = cuda_metering_end};

const struct device_ops cuda_device_ops = {
    .name = "cuda",
    .close = close_device,
    .describe = describe,
    .memory_bytes = memory_bytes,
    .threads = threads,
    .replica_init = cuda_replica_init,
    .replica_release = cuda_replica_release,
    .fetch = cuda_fetch,
    .store = cuda_store,
    .program_new = cuda_program_new,
    .program_free = cuda_program_free,
    .compute = cuda_program_compute,
    .update = cuda_update,
    .memory = &cuda_memory_ops,
    .samples = &cuda_samples_ops,
    .feed = &cuda_feed_ops,
    .fused = &fused_ops,
    .rules = &rule_ops,
    .precision = &precision_ops,
    .tuning = &tuning_ops,
    .meter = &meter_ops,
};

extern "C" __attribute__((visibility("default"))) const struct plugin evenstep_device_plugin;
const struct plugin evenstep_device_plugin = {PLUGIN_IDENTITY, open_device};
