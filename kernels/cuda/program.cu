/* A network compiled for one minibatch size, twin of cpu/program.c: operators are prepared, memory
 * is allocated as one block, everything runs once on scratch blocks, and then the same calls are
 * captured as CUDA graphs. run.cu runs them.
 *
 *   train[0]                              train[1]            …   evaluate
 *   forward, loss, gradients of bucket 0  those of bucket 1   …   forward, running statistics
 *
 * A graph ends where a bucket is complete, so an ordinary event behind it marks the bucket. Where
 * no other rank's gradients join (one rank, or ranks that average parameters), there is one graph
 * more: all segments and the update. The first run is not captured: it makes the libraries load
 * what they load the first time, and reports errors while they can still be returned. It must not
 * touch the replica, which another thread is training, so its parameters and gradients are scratch
 * memory that is freed afterwards.
 *
 * Handles, build stream and choices of engines belong to the thread that holds `building`; the
 * thread that trains only launches graphs, and needs none of them.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/loss.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/samples.h"

/* ---- what a program needs -------------------------------------------------------------------- */

static int prepare_steps(struct cuda_program *p, struct err *e)
{
    for (int i = 0; i < p->graph.n_steps; i++) {
        struct cuda_step *s = &p->graph.steps[i];
        int rc = s->op->prepare ? s->op->prepare(p, s, e) : 0;
        if (rc < 0) {
            return err_prefix(e, "cannot prepare layer '%s' (%s)", s->layer->name, s->op->name);
        }
    }
    return 0;
}

/* A gradient lives from the step that first writes it to the step that made the value, so gradients
 * share a few buffers. `owner` is the value that a buffer currently belongs to, `values` are all
 * that ever own it. */
struct turn {
    size_t count; /* elements of one sample */
    const struct cuda_value *owner;
    void *buffer;
};

static void take_turn(struct turn *turns, int *n, int *turn_of, struct cuda_value *v, int index)
{
    int best = -1;
    for (int i = 0; i < *n; i++) {
        if (!turns[i].owner && turns[i].count >= v->count &&
            (best < 0 || turns[i].count < turns[best].count)) {
            best = i;
        }
    }
    if (best < 0) {
        best = (*n)++;
        turns[best].count = v->count;
    }
    turns[best].owner = v;
    turn_of[index] = best;
}

static void release_turns(struct turn *turns, int n, const struct cuda_value *v)
{
    for (int k = 0; k < n; k++) {
        turns[k].owner = turns[k].owner == v ? NULL : turns[k].owner;
    }
}

/* Can the gradient of s's input k use the output's buffer, because backward leaves it there? */
static bool takes_over(const struct cuda_step *s, int k, int own)
{
    return own >= 0 && (s->op->passes >> k & 1) && !s->adds[k];
}

/* turn_of[value]: the buffer of its gradient, or -1. A buffer that a branch may still read is not
 * used again before the next branch begins. */
static int plan_gradients(struct cuda_graph *g, struct turn *turns, int *turn_of)
{
    const struct cuda_value *read = NULL;
    int n = 0;
    for (int i = 0; i < g->n_values; i++) {
        turn_of[i] = -1;
    }
    if (g->output->needs_grad) {
        take_turn(turns, &n, turn_of, g->output, (int)(g->output - g->values));
    }
    for (int i = g->n_steps - 1; i >= 0; i--) {
        struct cuda_step *s = &g->steps[i];
        int own = turn_of[s->out - g->values];
        bool branch = s->op->branch && s->backward;
        if (branch) {
            release_turns(turns, n, read);
            read = s->out;
        }
        for (int k = 0; k < s->n_in; k++) {
            int value = (int)(s->in[k] - g->values);
            if (!s->in_grad[k] || turn_of[value] >= 0) {
                continue;
            }
            if (takes_over(s, k, own)) {
                turns[own].owner = s->in[k];
                turn_of[value] = own;
                own = -1; /* only one input can */
            } else {
                take_turn(turns, &n, turn_of, s->in[k], value);
            }
        }
        if (!branch) {
            release_turns(turns, n, s->out);
        }
    }
    return n;
}

static int reserve_values(struct cuda_program *p, struct turn *turns, int n_turns, struct err *e)
{
    size_t batch = (size_t)p->head.batch, element = cuda_element(p);
    struct cuda_graph *g = &p->graph;
    /* samples are copied to the fp32 input */
    for (int i = p->precision == CUDA_BF16 ? 0 : 1; i < g->n_values; i++) {
        TRY(cuda_reserve_bytes(&p->arena, &g->values[i].data, batch * g->values[i].count * element,
                               true, e));
    }
    for (int i = 0; i < n_turns; i++) {
        TRY(cuda_reserve_bytes(&p->arena, &turns[i].buffer, batch * turns[i].count * element, true,
                               e));
    }
    for (int k = 0; k < NET_INPUTS; k++) {
        if (g->spare_count[k] > 0) {
            TRY(cuda_reserve_bytes(&p->arena, &g->spare[k], batch * g->spare_count[k] * element,
                                   true, e));
        }
    }
    return 0;
}

static void lay_out_input(struct cuda_program *p)
{
    size_t batch = (size_t)p->head.batch, target = p->net->loss == LOSS_MSE
                                                       ? p->graph.output->count * sizeof(float)
                                                       : sizeof(int32_t);
    p->labels_at = sizeof(struct cuda_head) + batch * sizeof(int64_t);
    p->views_at = (p->labels_at + batch * target + 15) / 16 * 16;
    p->x_at = (p->views_at + batch * sizeof(struct dev_view) + 255) / 256 * 256;
    p->input_bytes = p->x_at + batch * p->graph.values[0].count * sizeof(float);
}

/* Reserves everything of the program in device memory except values and gradients. */
static int reserve_rest(struct cuda_program *p, struct err *e)
{
    struct cuda_arena *a = &p->arena;
    size_t batch = (size_t)p->head.batch;
    TRY(cuda_reserve(a, &p->input, p->input_bytes, true, e));
    TRY(cuda_reserve(a, &p->losses, batch, true, e));
    TRY(cuda_reserve(a, &p->hits, batch, true, e));
    TRY(cuda_reserve_bytes(a, &p->workspace, p->workspace_bytes, false, e));
    TRY(cuda_reserve_bytes(a, &p->branch.memory, p->branch.bytes, false, e));
    TRY(cuda_reserve_bytes(a, &p->scratch, p->scratch_bytes, false, e));
    TRY(cuda_reserve(a, &p->parts.sums, p->parts_floats, false, e));
    TRY(cuda_reserve(a, &p->parts.done, p->parts_tiles, false, e));
    TRY(cuda_reserve(a, &p->branch.parts.sums, p->parts_floats, false, e));
    return cuda_reserve(a, &p->branch.parts.done, p->parts_tiles, false, e);
}

/* turns, turn_of: room for one entry per value. */
static int allocate_by_turns(struct cuda_program *p, struct turn *turns, int *turn_of,
                             struct err *e)
{
    struct cuda_graph *g = &p->graph;
    lay_out_input(p);
    TRY(reserve_values(p, turns, plan_gradients(g, turns, turn_of), e));
    TRY(reserve_rest(p, e));
    TRY(cuda_allocate(&p->arena, p->head.batch, p->dev->build, e));
    for (int i = 0; i < g->n_values; i++) {
        g->values[i].grad = turn_of[i] >= 0 ? turns[turn_of[i]].buffer : NULL;
    }
    if (p->precision != CUDA_BF16) {
        g->values[0].data = p->input + p->x_at;
    }
    return 0;
}

static int allocate_memory(struct cuda_program *p, struct err *e)
{
    size_t n = (size_t)p->graph.n_values;
    struct turn *turns = (struct turn *)calloc(n, sizeof(*turns));
    int *turn_of = (int *)calloc(n, sizeof(*turn_of));
    int rc = turns && turn_of ? allocate_by_turns(p, turns, turn_of, e)
                              : err_set(e, ERR_MEMORY, "memory ran out");
    free(turns);
    free(turn_of);
    return rc;
}

static int pin(struct cuda_program *p, struct err *e)
{
    size_t logits = (size_t)p->head.batch * p->graph.output->count * sizeof(float);
    TRY(cuda_pin(&p->input_host, p->input_bytes, e));
    memset(p->input_host, 0, p->input_bytes);
    TRY(cuda_pin(&p->logits_host, logits, e));
    return cuda_pin(&p->result, sizeof(*p->result), e);
}

/* ---- what it runs ---------------------------------------------------------------------------- */

static int enqueue_forward(struct cuda_program *p, bool training, struct err *e)
{
    struct cuda_value *input = &p->graph.values[0];
    if (p->precision == CUDA_BF16) {
        size_t n = (size_t)p->head.batch * input->count;
        TRY(pointwise_round(p, (struct bf16 *)input->data, (const float *)(p->input + p->x_at), n,
                            e));
    }
    for (int i = 0; i < p->graph.n_steps; i++) {
        struct cuda_step *s = &p->graph.steps[i];
        if (s->op->forward(p, s, training, e) < 0) {
            return err_prefix(e, "layer '%s'", s->layer->name);
        }
    }
    return cuda_loss(p, training, e);
}

static int enqueue_backward(struct cuda_program *p, int i, struct err *e)
{
    struct cuda_step *s = &p->graph.steps[i];
    int rc = s->backward && s->op->backward ? s->op->backward(p, s, e) : 0;
    if (rc < 0) {
        return err_prefix(e, "gradient of layer '%s'", s->layer->name);
    }
    for (int k = 0; k < s->n_in; k++) {
        if (s->in_grad[k] == &p->graph.spare[k]) {
            TRY(pointwise_add(p, s->in[k]->grad, p->graph.spare[k],
                              (size_t)p->head.batch * s->in[k]->count, e));
        }
    }
    return 0;
}

/* The step of a layer with parameters. */
static int step_of(const struct cuda_graph *g, int layer)
{
    int i = 0;
    while (g->steps[i].index < layer) {
        i++;
    }
    return i;
}

/* Enqueues segment k: from where the previous bucket was complete to where bucket k is. */
static int enqueue_segment(struct cuda_program *p, int k, struct err *e)
{
    int from = k == 0 ? p->graph.n_steps - 1 : step_of(&p->graph, p->bucket_layer[k - 1]) - 1;
    int to = p->head.n_buckets > 0 ? step_of(&p->graph, p->bucket_layer[k]) : 0;
    if (k == 0) {
        TRY(enqueue_forward(p, true, e));
    }
    for (int i = from; i >= to; i--) {
        TRY(enqueue_backward(p, i, e));
    }
    return 0;
}

static int enqueue_training(struct cuda_program *p, struct err *e)
{
    for (int k = 0; k < p->n_segments; k++) {
        TRY(enqueue_segment(p, k, e));
    }
    return cuda_branch_join(p, e);
}

/* Allocates blocks for the first run, which are freed after it. They come before the program's own
 * memory, so that an error about memory counts what a minibatch really has. */
static int allocate_scratch(struct cuda_program *p, struct cuda_arena *arena, struct err *e)
{
    struct cuda_replica *r = p->replica;
    TRY(cuda_reserve(arena, &p->params, r->params.at, false, e));
    TRY(cuda_reserve(arena, &p->grads, r->params.at, false, e));
    TRY(cuda_reserve(arena, &p->stats, r->stats.at, false, e));
    if (r->weights) {
        TRY(cuda_reserve(arena, &p->weights, r->params.at, false, e));
    }
    return cuda_allocate(arena, 0, p->dev->build, e);
}

static int enqueue_everything(struct cuda_program *p, struct err *e)
{
    TRY(enqueue_training(p, e));
    return enqueue_forward(p, false, e);
}

/* Runs everything once, on the scratch blocks. Waits for what was started, also after a failure. */
static int run_once(struct cuda_program *p, struct err *e)
{
    int rc = enqueue_everything(p, e);
    int waited = cuda_check(cudaStreamSynchronize(p->dev->build),
                            "run the network for the first time", rc < 0 ? NULL : e);
    return rc < 0 ? rc : waited;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

enum { EVALUATION = -1, WHOLE = -2 };

static int enqueue_captured(struct cuda_program *p, int which, struct err *e)
{
    if (which == EVALUATION) {
        return enqueue_forward(p, false, e);
    }
    if (which == WHOLE) {
        TRY(enqueue_training(p, e));
        return cuda_update_enqueue(p->replica, p->dev->build, e);
    }
    TRY(enqueue_segment(p, which, e));
    return cuda_branch_join(p, e);
}

/* which: a segment, EVALUATION or WHOLE. */
static int capture(struct cuda_program *p, int which, cudaGraphExec_t *out, struct err *e)
{
    TRY(cuda_capture_begin(p->dev->build, "the network", e));
    int rc = enqueue_captured(p, which, e);
    return cuda_capture_end(p->dev->build, "the network", rc, out, e);
}

static int capture_all(struct cuda_program *p, struct err *e)
{
    for (int k = 0; k < p->n_segments; k++) {
        TRY(cuda_check(cudaEventCreateWithFlags(&p->ready[k], cudaEventDisableTiming),
                       "make an event", e));
        TRY(capture(p, k, &p->train[k], e));
    }
    if (p->head.replica->alone) {
        TRY(capture(p, WHOLE, &p->whole, e));
    }
    return capture(p, EVALUATION, &p->evaluate, e);
}

/* ---- new, free ------------------------------------------------------------------------------- */

static int plan(struct cuda_program *p, size_t bucket_bytes, struct err *e)
{
    size_t n = (size_t)p->net->n_layers + 1;
    TRY(cuda_graph_init(&p->graph, p->net, e));
    p->head.buckets = (struct dev_bucket *)calloc(n, sizeof(*p->head.buckets));
    p->bucket_layer = (int *)calloc(n, sizeof(*p->bucket_layer));
    if (!p->head.buckets || !p->bucket_layer) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    p->head.n_buckets = steps_cut(p->net, bucket_bytes, p->head.buckets, p->bucket_layer);
    int segments = p->head.n_buckets > 0 ? p->head.n_buckets : 1;
    p->train = (cudaGraphExec_t *)calloc((size_t)segments, sizeof(cudaGraphExec_t));
    p->ready = (cudaEvent_t *)calloc((size_t)segments, sizeof(cudaEvent_t));
    if (!p->train || !p->ready) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    p->n_segments = segments;
    p->parts_tiles = 1; /* the loss counts blocks too */
    return 0;
}

/* Allocates memory, and makes the first run; the caller frees `scratch`. */
static int allocate_and_run(struct cuda_program *p, struct cuda_arena *scratch, struct err *e)
{
    TRY(allocate_scratch(p, scratch, e));
    TRY(allocate_memory(p, e));
    TRY(pin(p, e));
    TRY(cuda_libraries_use(p, p->dev->build, e));
    return run_once(p, e);
}

static int build(struct cuda_program *p, size_t bucket_bytes, struct err *e)
{
    struct cuda_replica *r = p->replica;
    p->weights = r->weights; /* operators prepare differently if there are bf16 weights */
    struct cuda_arena scratch = {};
    TRY(cuda_enter(p->dev, e));
    TRY(plan(p, bucket_bytes, e));
    TRY(prepare_steps(p, e));
    int rc = allocate_and_run(p, &scratch, e);
    cuda_arena_free(&scratch);
    TRY(rc);
    p->params = r->block[DEV_PARAMS];
    p->grads = r->block[DEV_GRADS];
    p->stats = r->block[DEV_STATS];
    p->weights = r->weights;
    return capture_all(p, e);
}

struct dev_program *cuda_program_new(struct dev_replica *r, int batch, size_t bucket_bytes,
                                     struct err *e)
{
    struct cuda_program *p = (struct cuda_program *)calloc(1, sizeof(*p));
    if (!p) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    p->head.replica = r;
    p->head.batch = batch;
    p->replica = cuda_replica(r);
    p->dev = p->replica->dev;
    p->net = r->net;
    p->precision = p->replica->weights              ? CUDA_BF16
                   : p->dev->precision == CUDA_TF32 ? CUDA_TF32
                                                    : CUDA_FP32;
    pthread_mutex_lock(&p->dev->building);
    p->measure_until = clock_now() + p->dev->measure_seconds;
    int rc = build(p, bucket_bytes, e);
    pthread_mutex_unlock(&p->dev->building);
    if (rc < 0) {
        err_prefix(e, "cannot compile the network for a minibatch of %d", batch);
        cuda_program_free((struct dev_program *)p);
        return NULL;
    }
    return (struct dev_program *)p;
}

void cuda_program_free(struct dev_program *program)
{
    struct cuda_program *p = (struct cuda_program *)program;
    cudaSetDevice(p->dev->index);
    for (int k = 0; k < p->n_segments; k++) {
        if (p->train[k]) {
            cudaGraphExecDestroy(p->train[k]);
        }
        if (p->ready[k]) {
            cudaEventDestroy(p->ready[k]);
        }
    }
    cudaGraphExec_t others[] = {p->evaluate, p->whole};
    for (cudaGraphExec_t graph : others) {
        if (graph) {
            cudaGraphExecDestroy(graph);
        }
    }
    void *pinned[] = {p->input_host, p->logits_host, p->result};
    for (void *memory : pinned) {
        if (memory) {
            cudaFreeHost(memory);
        }
    }
    cuda_graph_release(&p->graph);
    cuda_arena_free(&p->arena);
    cudaGetLastError();
    free(p->train);
    free(p->ready);
    free(p->bucket_layer);
    free(p->head.buckets);
    free(p);
}
