/* Finds the fastest of cuDNN's engines for a pass of a convolution (plan.h), on memory that is
 * allocated for measuring alone. conv.cu asks only for what is not known yet.
 *
 * Engines are measured on the build stream while another stream may train on the same GPU. So times
 * are those of a shared GPU, and engines are only compared with each other.
 */
#include "kernels/cuda/plan.h"

enum { MOST_ENGINES = 16, MEASURED_RUNS = 3 };

struct bench {
    struct cuda_arena arena;
    void *x, *w, *y, *workspace;
    cudaEvent_t begin, end;
};

/* b->arena.memory is NULL if there is too little memory, which is no error. */
static int bench_open(struct bench *b, cudaStream_t stream, const struct plan_shape *s,
                      size_t element, size_t workspace, struct err *e)
{
    size_t x = (size_t)s->batch * s->in[0] * s->in[1] * s->in[2],
           y = (size_t)s->batch * s->out[0] * s->out[1] * s->out[2],
           w = (size_t)s->out[2] * s->kernel[0] * s->kernel[1] * s->in[2];
    *b = {};
    TRY(cuda_reserve_bytes(&b->arena, &b->x, x * element, false, e));
    TRY(cuda_reserve_bytes(&b->arena, &b->w, w * element, false, e));
    TRY(cuda_reserve_bytes(&b->arena, &b->y, y * element, false, e));
    TRY(cuda_reserve_bytes(&b->arena, &b->workspace, workspace, false, e));
    int rc = cuda_allocate(&b->arena, 0, stream, e);
    if (rc < 0) {
        return rc == -ERR_MEMORY ? 0 : rc;
    }
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
    cuda_arena_free(&b->arena);
}

/* False: it does not run. */
static bool bench_run(const struct bench *b, const struct cuda_device *d, const struct plan *plan,
                      int runs)
{
    struct err ignored;
    bool ran = true;
    for (int i = 0; i < runs && ran; i++) {
        ran = plan_run(plan, d->dnn, b->x, b->w, b->y, b->workspace, &ignored) == 0;
    }
    return ran;
}

/* Milliseconds of some runs, after a first run that loads what is loaded once. Negative: it does
 * not run. */
static int bench_time(const struct bench *b, const struct cuda_device *d, const struct plan *plan,
                      float *ms, struct err *e)
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

static int bench_all(const struct bench *b, const struct cuda_device *d, const struct plan *plans,
                     int n, int *best, struct err *e)
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

/* Finds the fastest of n plans. If there is no memory for measuring, it is the first plan, which
 * cuDNN's heuristics prefer. */
static int compare(struct cuda_device *d, const struct plan_shape *shape,
                   enum cuda_precision precision, const struct plan *plans, int n, int *best,
                   struct err *e)
{
    struct bench b;
    size_t workspace = 0;
    for (int i = 0; i < n; i++) {
        workspace = plans[i].workspace > workspace ? plans[i].workspace : workspace;
    }
    int rc = bench_open(&b, d->build, shape,
                        precision == CUDA_BF16 ? sizeof(struct bf16) : sizeof(float), workspace, e);
    if (rc >= 0 && b.arena.memory) {
        rc = bench_all(&b, d, plans, n, best, e);
    }
    bench_close(&b);
    return rc;
}

int plan_fastest(struct cuda_device *d, enum plan_pass pass, const struct plan_shape *shape,
                 enum cuda_precision precision, struct cuda_engine *out, struct err *e)
{
    struct plan_graph g;
    struct plan plans[MOST_ENGINES];
    struct cuda_engine list[MOST_ENGINES];
    int best = 0;
    TRY(plan_describe(&g, pass, shape, precision, e));
    int n = plan_engines(d->properties, &g, precision, list, plans, MOST_ENGINES, e);
    TRY(n);
    if (n > 1) {
        TRY(compare(d, shape, precision, plans, n, &best, e));
    }
    *out = list[best];
    return 0;
}
