/* The fastest of cuDNN's engines for a pass of a convolution (plan.h), measured on memory that is there for that alone. What is known already is
 * conv.cu's to know.
 *
 * What a newcomer would get wrong: this runs on the build stream, beside whatever trains on the GPU meanwhile, so times are those of a GPU
 * that is shared, and engines are only compared with each other.
 */
#include "kernels/cuda/plan.h"

enum { MOST_ENGINES = 16, MEASURED_RUNS = 3 };

/* Memory to measure in: x, w, y, workspace. */
struct bench {
    char *memory;
    size_t at[3];
    cudaEvent_t begin, end;
};

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* b->memory: NULL if there is none for it. */
static int bench_open(struct bench *b, cudaStream_t stream, const struct plan_shape *s, size_t element, size_t workspace, struct err *e)
{
    size_t x = (size_t)s->batch * s->in[0] * s->in[1] * s->in[2], y = (size_t)s->batch * s->out[0] * s->out[1] * s->out[2],
           w = (size_t)s->out[2] * s->kernel[0] * s->kernel[1] * s->in[2];
    *b = {};
    b->at[0] = rounded(x * element);
    b->at[1] = b->at[0] + rounded(w * element);
    b->at[2] = b->at[1] + rounded(y * element);
    if (cudaMalloc((void **)&b->memory, b->at[2] + workspace) != cudaSuccess) {
        cudaGetLastError(); /* no error of ours */
        b->memory = NULL;
        return 0;
    }
    TRY(cuda_check(cudaMemsetAsync(b->memory, 0, b->at[2], stream), "clear memory on the GPU", e));
    TRY(cuda_check(cudaEventCreateWithFlags(&b->begin, cudaEventDefault), "make an event", e));
    return cuda_check(cudaEventCreateWithFlags(&b->end, cudaEventDefault), "make an event", e);
}

static void bench_close(struct bench *b)
{
    cudaEvent_t events[] = {b->begin, b->end};
    for (cudaEvent_t event : events) {
        if (event) {
            cudaEventDestroy(event);
        }
    }
    if (b->memory) {
        cudaFree(b->memory);
    }
}

/* false: it does not run */
static bool bench_run(const struct bench *b, const struct cuda_device *d, const struct plan *plan, int runs)
{
    struct err ignored;
    bool ran = true;
    for (int i = 0; i < runs && ran; i++) {
        ran = plan_run(plan, d->dnn, b->memory, b->memory + b->at[0], b->memory + b->at[1], b->memory + b->at[2], &ignored) == 0;
    }
    return ran;
}

/* Milliseconds of some runs, after one that loads what is loaded once; below 0: it does not run. */
static int bench_time(const struct bench *b, const struct cuda_device *d, const struct plan *plan, float *ms, struct err *e)
{
    bool ran = bench_run(b, d, plan, 1);
    TRY(cuda_check(cudaEventRecord(b->begin, d->build), "measure a convolution", e));
    ran = ran && bench_run(b, d, plan, MEASURED_RUNS);
    TRY(cuda_check(cudaEventRecord(b->end, d->build), "measure a convolution", e));
    TRY(cuda_check(cudaStreamSynchronize(d->build), "measure a convolution", e));
    TRY(cuda_check(cudaEventElapsedTime(ms, b->begin, b->end), "measure a convolution", e));
    *ms = ran ? *ms : -1;
    return 0;
}

static int bench_all(const struct bench *b, const struct cuda_device *d, const struct plan *plans, int n, int *best, struct err *e)
{
    float least = -1, ms;
    for (int i = 0; i < n; i++) {
        TRY(bench_time(b, d, &plans[i], &ms, e));
        if (ms >= 0 && (least < 0 || ms < least)) {
            least = ms;
            *best = i;
        }
    }
    return 0;
}

/* The fastest of n; the first, which cuDNN's rules of thumb prefer, where there is no memory to measure in. */
static int compare(struct cuda_device *d, const struct plan_graph *g, const struct plan_shape *shape, enum cuda_precision precision,
                   const struct cuda_engine *list, int n, struct cuda_engine *out, struct err *e)
{
    struct plan plans[MOST_ENGINES];
    struct bench b;
    size_t workspace = 0;
    int best = 0;
    for (int i = 0; i < n; i++) {
        TRY(plan_make(&plans[i], d->properties, g, precision, &list[i], e));
        workspace = plans[i].workspace > workspace ? plans[i].workspace : workspace;
    }
    int rc = bench_open(&b, d->build, shape, precision == CUDA_BF16 ? sizeof(struct bf16) : sizeof(float), workspace, e);
    rc = rc < 0 || !b.memory ? rc : bench_all(&b, d, plans, n, &best, e);
    bench_close(&b);
    *out = list[best];
    return rc;
}

int plan_fastest(struct cuda_device *d, enum plan_pass pass, const struct plan_shape *shape, enum cuda_precision precision,
                 struct cuda_engine *out, struct err *e)
{
    struct plan_graph g;
    struct cuda_engine list[MOST_ENGINES];
    TRY(plan_describe(&g, pass, shape, precision, e));
    int n = plan_engines(d->properties, &g, precision, list, MOST_ENGINES, e);
    TRY(n);
    if (n == 1) {
        *out = list[0];
        return 0;
    }
    return compare(d, &g, shape, precision, list, n, out, e);
}
