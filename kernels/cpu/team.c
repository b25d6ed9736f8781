/* A minibatch on several threads: the device's program (see cpu.h).
 *
 * Threads that share each step of one program wait for each other after every step, and each reads
 * what another has just written. Tiles (cpu/tiles.c) turn that into many small steps. So a network
 * that has tiles, and few weights compared with its activations, gets a program for each thread and
 * its samples, which stay in that thread's cache. Threads wait for each other only where the whole
 * minibatch has to be known: at batch norms and at the loss.
 *
 *   thread 0   conv1 on samples 0..63   ┐ sums of ┌ bn1 conv2 on samples 0..63   ┐
 *   thread 1   conv1 on samples 64..127 ┘   all   └ bn1 conv2 on samples 64..127 ┘
 *
 * Each thread but the first writes gradients of its own, which are added to the replica's when a
 * bucket is complete. Between groups of steps one thread runs alone, so nothing here needs a lock.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/flat.h"
#include "kernels/steps.h"

enum { FEW = 32 }; /* activations per weight */

static int no_memory(const struct cpu_team *t, size_t bytes, struct err *e)
{
    return err_set(e, ERR_MEMORY,
                   "a minibatch of %d does not fit into memory: %zu bytes more were not there",
                   t->head.batch, bytes);
}

/* ---- made and freed -------------------------------------------------------------------------- */

static int programs_for(const struct network *net, int batch, int threads)
{
    size_t activations = network_activation_bytes(net) / sizeof(float);
    bool tiles = false;
    for (int i = 0; i < net->n_layers; i++) {
        const struct cpu_op *op = cpu_op_of(net->layers[i].type);
        tiles = tiles || (op && op->gather);
    }
    return tiles && batch >= threads &&
                   activations * (size_t)(batch / threads) >= FEW * net->n_params
               ? threads
               : 1;
}

/* A member's replica is the team's, with its own gradients. */
static void follow(struct cpu_member *m, const struct dev_replica *r)
{
    m->replica = *r;
    if (m->grads) {
        m->replica.host[DEV_GRADS] = m->grads;
    }
}

/* Allocates zeroed gradients for a member; they stay zero where it writes none. */
static int allocate_gradients(struct cpu_team *t, struct cpu_member *m, struct err *e)
{
    size_t bytes = (t->head.replica->net->n_params * sizeof(float) + 63) / 64 * 64;
    m->grads = cpu_aligned(bytes);
    if (!m->grads) {
        return no_memory(t, bytes, e);
    }
    memset(m->grads, 0, bytes);
    return 0;
}

static int make_member(struct cpu_team *t, int i, int first, struct err *e)
{
    struct cpu_member *m = &t->members[i];
    const struct cpu_program *lead = i > 0 ? t->members[0].program : NULL;
    int batch = t->head.batch / t->n + (i < t->head.batch % t->n),
        rc = lead ? allocate_gradients(t, m, e) : 0;
    if (rc < 0) {
        return rc;
    }
    follow(m, t->head.replica);
    m->program = cpu_program_new(&m->replica, lead, first, batch, t->dev->threads / t->n, e);
    if (!m->program) {
        return -ERR_DEVICE;
    }
    m->at = t->arena_bytes;
    t->arena_bytes += m->program->arena_bytes;
    return batch;
}

static int make_members(struct cpu_team *t, struct err *e)
{
    t->members = calloc((size_t)t->n, sizeof(*t->members));
    if (!t->members) {
        return no_memory(t, (size_t)t->n * sizeof(*t->members), e);
    }
    for (int i = 0, first = 0; i < t->n; i++) {
        int batch = make_member(t, i, first, e);
        if (batch < 0) {
            return batch;
        }
        first += batch;
    }
    return cpu_arenas_prepare(&t->dev->arenas, t->arena_bytes) ? 0
                                                               : no_memory(t, t->arena_bytes, e);
}

static int cut_buckets(struct cpu_team *t, size_t bucket_bytes, struct err *e)
{
    const struct network *net = t->head.replica->net;
    size_t n = (size_t)net->n_layers;
    t->head.buckets = calloc(n, sizeof(*t->head.buckets));
    t->bucket_layer = calloc(n, sizeof(*t->bucket_layer));
    if (!t->head.buckets || !t->bucket_layer) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    t->head.n_buckets = steps_cut(net, bucket_bytes, t->head.buckets, t->bucket_layer);
    return 0;
}

void cpu_team_free(struct dev_program *program)
{
    struct cpu_team *t = (struct cpu_team *)program;
    for (int i = 0; t->members && i < t->n; i++) {
        if (t->members[i].program) {
            cpu_program_free(t->members[i].program);
        }
        free(t->members[i].grads);
    }
    free(t->members);
    free(t->head.buckets);
    free(t->bucket_layer);
    free(t);
}

struct dev_program *cpu_team_new(struct dev_replica *r, int batch, size_t bucket_bytes,
                                 struct err *e)
{
    struct cpu_team *t = calloc(1, sizeof(*t));
    if (!t) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    t->dev = (struct cpu_device *)r->dev;
    t->head.replica = r;
    t->head.batch = batch;
    t->n = programs_for(r->net, batch, t->dev->threads);
    if (make_members(t, e) < 0 || cut_buckets(t, bucket_bytes, e) < 0) {
        err_prefix(e, "cannot compile the network for a minibatch of %d", batch);
        cpu_team_free((struct dev_program *)t);
        return NULL;
    }
    return (struct dev_program *)t;
}

/* ---- running --------------------------------------------------------------------------------- */

static int run_group(struct cpu_team *t, int group, const struct dev_input *in, bool backward,
                     struct err *e)
{
    const struct cpu_program *lead = t->members[0].program;
    const struct cpu_group *g = &lead->groups[group];
    int starts = backward ? g->top : g->first;
    bool any =
        backward ? g->top >= g->bottom : g->first < g->end; /* some only gather for the next one */
    if (any && lead->steps[starts].op->begin) {
        lead->steps[starts].op->begin(t, starts, in, backward);
    }
    if (t->n == 1) {
        return cpu_program_group(t->members[0].program, group, in, backward, e);
    }
    int failed = 0;
#pragma omp parallel for num_threads(t->n) schedule(static, 1)
    for (int i = 0; i < t->n; i++) {
        struct err own;
        int rc = cpu_program_group(t->members[i].program, group, in, backward, &own);
        if (rc < 0) {
#pragma omp critical
            {
                failed = rc;
                if (e) {
                    *e = own;
                }
            }
        }
    }
    return failed;
}

/* Sums a bucket's gradients over all programs into the replica's. */
static void add_up(struct cpu_team *t, const struct dev_bucket *b)
{
    float *sum = t->head.replica->host[DEV_GRADS] + b->first;
#pragma omp parallel num_threads(t->n) if (t->n > 1)
    {
        size_t first, last;
        pointwise_share(b->count, &first, &last);
        for (int i = 1; i < t->n; i++) {
            flat_add(sum + first, t->members[i].grads + b->first + first, last - first);
        }
    }
}

static int run_backward(struct cpu_team *t, const struct dev_input *in, dev_mark_fn *mark,
                        void *ctx, struct err *e)
{
    const struct cpu_program *lead = t->members[0].program;
    int bucket = 0, rc = 0;
    for (int i = lead->n_groups - 1; i >= 0 && rc == 0; i--) {
        int bottom = lead->groups[i].bottom,
            layer = bottom < lead->n_steps ? lead->steps[bottom].index : lead->net->n_layers;
        rc = run_group(t, i, in, true, e);
        while (rc == 0 && bucket < t->head.n_buckets && t->bucket_layer[bucket] >= layer) {
            add_up(t, &t->head.buckets[bucket]);
            if (mark) {
                mark(ctx, bucket);
            }
            bucket++;
        }
    }
    return rc;
}

static int run(struct cpu_team *t, const struct dev_input *in, struct dev_result *out,
               float *logits, dev_mark_fn *mark, void *ctx, struct err *e)
{
    int rc = 0;
    *out = (struct dev_result){.finite = true};
    for (int i = 0; i < t->members[0].program->n_groups && rc == 0; i++) {
        rc = run_group(t, i, in, false, e);
    }
    for (int i = 0; i < t->n && rc == 0; i++) {
        rc = cpu_program_loss(t->members[i].program, in, out, logits, e);
    }
    return rc < 0 || !in->training ? rc : run_backward(t, in, mark, ctx, e);
}

int cpu_team_compute(struct dev_program *program, const struct dev_input *in,
                     struct dev_result *out, float *logits, dev_mark_fn *mark, void *ctx,
                     struct err *e)
{
    struct cpu_team *t = (struct cpu_team *)program;
    if (in->count < 1 || in->count > t->head.batch) {
        return err_set(e, ERR_INTERNAL, "a minibatch of %d does not fit a program for %d",
                       in->count, t->head.batch);
    }
    struct cpu_arena *arena = cpu_arena_take(&t->dev->arenas, t->arena_bytes);
    if (!arena) {
        return no_memory(t, t->arena_bytes, e);
    }
    omp_set_num_threads(t->dev->threads);
    for (int i = 0; i < t->n; i++) {
        follow(&t->members[i], t->head.replica);
        cpu_program_bind(t->members[i].program, arena->memory + t->members[i].at, in);
    }
    int rc = run(t, in, out, logits, mark, ctx, e);
    cpu_arena_return(&t->dev->arenas, arena);
    return rc;
}
