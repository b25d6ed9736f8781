/* Gradients on all cores: see pool.h.
 *
 *   node's fiber   compute ─► queue ─► pace (other nodes run) ─► fetch: helps or waits ─► …
 *   core's thread             └─► idle program of this size, or a new one ─► kernels ─► done
 *
 * One thread runs all fibers. A fiber that waits for a gradient computes queued ones meanwhile, on
 * the scheduler's stack. So there is a thread for each core but one, and few switches between them.
 *
 * A program works on whatever replica its head names (kernels/cpu/prim.c binds the blocks when it
 * runs), so an idle one serves any node. Only the job may touch the replica's blocks from compute
 * to its end. The trainer keeps to this: a strategy asks for gradients by fetch, which waits, and
 * changes parameters only after compute has returned.
 */
#include "simulator/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine/host.h"
#include "simulator/fiber.h"

struct idle { /* a program that no thread runs */
    struct dev_program *program;
    int batch;
    struct idle *next; /* longer idle */
};

struct pool_job {
    struct dev_replica inner; /* the node's blocks, as the CPU device sees them */
    float *own[DEV_BLOCKS];   /* its own memory, also where a block is lent */
    int batch;
    size_t bucket_bytes;
    struct dev_input in;
    float *logits;
    struct dev_result result;
    struct err err;
    int rc;
    bool pending; /* queued or running; under the pool's lock */
    struct pool_job *next;
};

struct pool {
    struct device base;
    struct device *inner;
    pthread_t *threads;
    int n_threads;        /* without the one that runs the fibers */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t queued, done;
    struct pool_job *first, *last;
    struct idle *idle; /* the last used comes first */
    int n_idle;
    bool stopping;
};

struct pool_program { /* a node's program: only its size and the limits of its buckets */
    struct dev_program_head head;
    size_t bucket_bytes;
};

static struct pool *pool_of(const struct dev_replica *r)
{
    return (struct pool *)r->dev;
}

/* ---- programs -------------------------------------------------------------------------------- */

static struct dev_program *take_idle(struct pool *p, int batch)
{
    for (struct idle **at = &p->idle; *at; at = &(*at)->next) {
        struct idle *one = *at;
        if (one->batch == batch) {
            struct dev_program *program = one->program;
            *at = one->next;
            p->n_idle--;
            free(one);
            return program;
        }
    }
    return NULL;
}

/* Gives a program back. If there are too many, returns the one that has been idle longest, for the
 * caller to free. */
static struct dev_program *give_idle(struct pool *p, struct dev_program *program, int batch)
{
    struct idle *one = malloc(sizeof *one);
    if (!one) {
        return program;
    }
    *one = (struct idle){program, batch, p->idle};
    p->idle = one;
    if (++p->n_idle <= POOL_PROGRAMS * pool_threads(&p->base)) {
        return NULL;
    }
    struct idle **at = &p->idle;
    while ((*at)->next) {
        at = &(*at)->next;
    }
    struct dev_program *old = (*at)->program;
    free(*at);
    *at = NULL;
    p->n_idle--;
    return old;
}

/* Runs a job. The lock is held at the call and the return; programs are made and freed without
 * it. */
static void run_job(struct pool *p, struct pool_job *job)
{
    const struct device_ops *ops = p->inner->ops;
    struct dev_program *program = take_idle(p, job->batch), *old = NULL;
    pthread_mutex_unlock(&p->lock);
    if (!program) {
        program = ops->program_new(&job->inner, job->batch, job->bucket_bytes, &job->err);
    }
    job->rc = program ? 0 : -(int)job->err.code;
    if (program) {
        ((struct dev_program_head *)program)->replica = &job->inner;
        job->rc = ops->compute(program, &job->in, &job->result, job->logits, NULL, NULL, &job->err);
    }
    pthread_mutex_lock(&p->lock);
    old = program ? give_idle(p, program, job->batch) : NULL;
    job->pending = false;
    pthread_cond_broadcast(&p->done);
    if (old) {
        pthread_mutex_unlock(&p->lock);
        ops->program_free(old);
        pthread_mutex_lock(&p->lock);
    }
}

/* Runs the first queued job. The lock is held, as in run_job(). False: there was none. */
static bool run_first(struct pool *p)
{
    struct pool_job *job = p->first;
    if (job) {
        p->first = job->next;
        run_job(p, job);
    }
    return job;
}

static void *thread_main(void *arg)
{
    struct pool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        if (!run_first(p)) {
            pthread_cond_wait(&p->queued, &p->lock);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void submit(struct pool *p, struct pool_job *job)
{
    pthread_mutex_lock(&p->lock);
    job->next = NULL;
    job->pending = true;
    if (p->first) {
        p->last->next = job;
    } else {
        p->first = job;
    }
    p->last = job;
    pthread_cond_signal(&p->queued);
    pthread_mutex_unlock(&p->lock);
}

/* Helps until the gradient is there: computes queued ones, then waits for the thread that computes
 * it. */
static void help(void *arg)
{
    const struct dev_replica *r = arg;
    struct pool *p = pool_of(r);
    struct pool_job *job = r->impl;
    pthread_mutex_lock(&p->lock);
    while (job->pending) {
        if (!run_first(p)) {
            pthread_cond_wait(&p->done, &p->lock);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

static void join(struct dev_replica *r)
{
    struct pool *p = pool_of(r);
    struct pool_job *job = r->impl;
    pthread_mutex_lock(&p->lock);
    bool pending = job->pending;
    pthread_mutex_unlock(&p->lock);
    if (pending) {
        fiber_outside(help, r);
    }
}

/* ---- as a device ----------------------------------------------------------------------------- */

static const char *pool_describe(struct device *dev)
{
    struct device *inner = ((struct pool *)dev)->inner;
    return inner->ops->describe(inner);
}

static size_t pool_memory(struct device *dev)
{
    struct device *inner = ((struct pool *)dev)->inner;
    return inner->ops->memory_bytes(inner);
}

static int one_thread(struct device *dev)
{
    (void)dev;
    return 1; /* of a node */
}

static int replica_init(struct device *dev, struct dev_replica *r, const struct network *net,
                        const struct optimizer_spec *opt, struct err *e)
{
    struct pool *p = (struct pool *)dev;
    struct pool_job *job = calloc(1, sizeof *job);
    int rc = job ? p->inner->ops->replica_init(p->inner, r, net, opt, e)
                 : err_set(e, ERR_MEMORY, "cannot make a virtual node: memory ran out");
    if (rc < 0) {
        free(job);
        return rc;
    }
    job->inner = *r;
    memcpy(job->own, r->host, sizeof job->own);
    r->dev = dev;
    r->impl = job;
    return 0;
}

static void replica_release(struct dev_replica *r)
{
    struct pool_job *job = r->impl;
    if (job) {
        memcpy(job->inner.host, job->own, sizeof job->own);
        pool_of(r)->inner->ops->replica_release(&job->inner);
        free(job);
    }
    memset(r, 0, sizeof *r);
}

static int wait_for(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e)
{
    (void)b;
    (void)first;
    (void)n;
    (void)e;
    join(r);
    return 0;
}

static void set_alias(struct dev_replica *r, enum dev_block b, float *at)
{
    struct pool_job *job = r->impl;
    join(r);
    r->host[b] = job->inner.host[b] = at ? at : job->own[b];
}

static void free_program(struct dev_program *program)
{
    struct pool_program *own = (struct pool_program *)program;
    free(own->head.buckets);
    free(own);
}

/* Makes a node's program. The limits of the buckets come from a real program, which is kept for
 * use. */
static struct dev_program *new_program(struct dev_replica *r, int batch, size_t bucket_bytes,
                                       struct err *e)
{
    struct pool *p = pool_of(r);
    struct pool_job *job = r->impl;
    struct pool_program *own = calloc(1, sizeof *own);
    if (!own) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    struct dev_program *real = take_idle(p, batch), *old = NULL;
    pthread_mutex_unlock(&p->lock);
    real = real ? real : p->inner->ops->program_new(&job->inner, batch, bucket_bytes, e);
    if (!real) {
        free(own);
        return NULL;
    }
    const struct dev_program_head *head = (const struct dev_program_head *)real;
    own->head = (struct dev_program_head){
        r, batch, head->n_buckets, calloc((size_t)head->n_buckets + 1, sizeof *head->buckets)};
    own->bucket_bytes = bucket_bytes;
    if (own->head.buckets) {
        memcpy(own->head.buckets, head->buckets, (size_t)head->n_buckets * sizeof *head->buckets);
    }
    pthread_mutex_lock(&p->lock);
    old = give_idle(p, real, batch);
    pthread_mutex_unlock(&p->lock);
    if (old) {
        p->inner->ops->program_free(old);
    }
    if (!own->head.buckets) {
        err_set(e, ERR_MEMORY, "memory ran out");
        free_program((struct dev_program *)own);
        return NULL;
    }
    return (struct dev_program *)own;
}

static int compute(struct dev_program *program, const struct dev_input *in, struct dev_result *out,
                   float *logits, dev_mark_fn *mark, void *ctx, struct err *e)
{
    struct pool_program *own = (struct pool_program *)program;
    struct dev_replica *r = own->head.replica;
    struct pool_job *job = r->impl;
    job->batch = own->head.batch;
    job->bucket_bytes = own->bucket_bytes;
    job->in = *in;
    job->logits = logits;
    err_clear(&job->err);
    submit(pool_of(r), job);
    for (int b = 0; in->training && mark && b < own->head.n_buckets; b++) {
        mark(ctx, b);
    }
    join(r);
    *out = job->result;
    if (job->rc < 0 && e) {
        *e = job->err;
    }
    return job->rc;
}

static int update(struct dev_replica *r, double lr, double scale, struct err *e)
{
    struct pool_job *job = r->impl;
    join(r);
    return pool_of(r)->inner->ops->update(&job->inner, lr, scale, e);
}

static void pool_close(struct device *dev)
{
    struct pool *p = (struct pool *)dev;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->queued);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_threads; i++) {
        pthread_join(p->threads[i], NULL);
    }
    while (p->idle) {
        struct idle *next = p->idle->next;
        p->inner->ops->program_free(p->idle->program);
        free(p->idle);
        p->idle = next;
    }
    dev_close(p->inner);
    pthread_cond_destroy(&p->queued);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p);
}

static const struct dev_alias_ops alias_ops = {.set = set_alias};

static const struct device_ops pool_ops = {
    .name = "cpu",
    .close = pool_close,
    .describe = pool_describe,
    .memory_bytes = pool_memory,
    .threads = one_thread,
    .replica_init = replica_init,
    .replica_release = replica_release,
    .fetch = wait_for,
    .store = wait_for,
    .program_new = new_program,
    .program_free = free_program,
    .compute = compute,
    .update = update,
    .alias = &alias_ops,
};

struct device *pool_open(int threads, struct err *e)
{
    struct pool *p = calloc(1, sizeof *p);
    struct device *inner = p ? dev_open("cpu:1", e) : NULL;
    int n = (threads > 0 ? threads : host_cores()) - 1;
    if (!inner || !(p->threads = calloc((size_t)n + 1, sizeof *p->threads))) {
        err_set(e, ERR_MEMORY, "cannot open the virtual nodes' device: memory ran out");
        dev_close(inner);
        free(p);
        return NULL;
    }
    dev_check(&pool_ops);
    p->base.ops = &pool_ops;
    p->inner = inner;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->queued, NULL);
    pthread_cond_init(&p->done, NULL);
    for (int i = 0; i < n; i++) {
        if (pthread_create(&p->threads[i], NULL, thread_main, p) != 0) {
            break;
        }
        p->n_threads++;
    }
    return &p->base;
}

int pool_threads(const struct device *dev)
{
    return ((const struct pool *)dev)->n_threads + 1;
}
