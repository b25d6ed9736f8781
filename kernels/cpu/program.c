/* A network compiled for some samples of a minibatch: its steps (cpu/graph.c) with their operators
 * prepared and their memory planned, and how they run: one group of steps after another, each on
 * one tile after another (cpu/tiles.c).
 *
 * Operators are prepared first and memory is planned last (cpu/memory_plan.c), so that all scratch
 * memory is one piece. That memory exists while the program runs (cpu/arena.c); nothing else is
 * allocated then.
 *
 * A minibatch may have fewer samples than the program. The rest of the input is zero and the loss
 * gives it no gradient, so sums over the minibatch are right; an operator that mixes samples (batch
 * norm) must read in->count itself.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise.h"

enum { FIXED_ADDRESSES = 6 }; /* the input, and addresses that a program has once */

/* ---- operators, then memory ------------------------------------------------------------------ */

static int prepare_steps(struct cpu_program *p, struct err *e)
{
    for (int i = 0; i < p->n_steps; i++) {
        struct cpu_step *s = &p->steps[i];
        p->samples = cpu_group_of(p, i, false)->samples;
        int rc = s->op->prepare ? s->op->prepare(p, s, e) : 0;
        if (rc < 0) {
            return err_prefix(e, "cannot prepare layer '%s' (%s)", s->layer->name, s->op->name);
        }
    }
    return 0;
}

/* Reserves what steps need while they run, values and gradients last. The loss works in fp32. */
static int plan_memory(struct cpu_program *p, struct err *e)
{
    size_t outputs = (size_t)p->batch * p->output->count, element = element_size(p->bf16);
    cpu_plan_buffer(p, &p->padded, (size_t)p->batch * p->values[0].count * element);
    cpu_plan_buffer(p, &p->scratch, p->scratch_bytes);
    cpu_plan_buffer(p, &p->gathered, p->gathered_floats * sizeof(float));
    p->head_fp32 = *p->output;
    if (p->bf16) {
        cpu_plan_buffer(p, &p->head_fp32.data, outputs * sizeof(float));
        cpu_plan_buffer(p, &p->head_fp32.grad, outputs * sizeof(float));
    }
    return cpu_plan_memory(p, e);
}

static int build(struct cpu_program *p, struct err *e)
{
    size_t n = (size_t)p->net->n_layers;
    p->steps = calloc(n, sizeof(*p->steps));
    p->values = calloc(n + 1, sizeof(*p->values));
    p->of_layer = calloc(n, sizeof(struct cpu_value *));
    p->groups = calloc(n + 1, sizeof(*p->groups));
    p->addresses = calloc(n * (3 + NET_INPUTS) + FIXED_ADDRESSES, sizeof(*p->addresses));
    if (!p->steps || !p->values || !p->of_layer || !p->groups || !p->addresses) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    int rc = prim_check(dnnl_stream_create(&p->stream, p->dev->engine, dnnl_stream_default_flags),
                        "create a stream", e);
    if (rc < 0 || (rc = cpu_graph_build(p, e)) < 0) {
        return rc;
    }
    p->addresses[p->n_addresses++] = (struct cpu_address){
        .at = &p->values[0].data, .stride = p->values[0].count * element_size(p->bf16)};
    cpu_tiles(p);
    rc = prepare_steps(p, e);
    if (rc < 0) {
        return rc;
    }
    return plan_memory(p, e);
}

struct cpu_program *cpu_program_new(struct dev_replica *r, const struct cpu_program *lead,
                                    int first, int batch, int threads, struct err *e)
{
    struct cpu_program *p = calloc(1, sizeof(*p));
    if (!p) {
        err_set(e, ERR_MEMORY, "memory ran out");
        return NULL;
    }
    p->replica = r;
    p->batch = batch;
    p->dev = (struct cpu_device *)r->dev;
    p->lead = lead;
    p->first = first;
    p->threads = threads;
    p->net = r->net;
    p->bf16 = strcmp(r->impl, "bf16") == 0;
    /* for the calling thread; kernels are made for a number of threads */
    omp_set_num_threads(threads);
    if (build(p, e) < 0) {
        cpu_program_free(p);
        return NULL;
    }
    return p;
}

void cpu_program_free(struct cpu_program *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].op->release) {
            p->steps[i].op->release(&p->steps[i]);
        }
    }
    if (p->stream) {
        dnnl_stream_destroy(p->stream);
    }
    cpu_free_chunks(p);
    free(p->steps);
    free(p->values);
    free(p->of_layer);
    free(p->groups);
    free(p->addresses);
    free(p);
}

/* ---- running --------------------------------------------------------------------------------- */

static void bind_arena(struct cpu_program *p, char *memory)
{
    for (int i = 1; i < p->n_addresses; i++) {
        p->addresses[i].block = memory + p->addresses[i].first;
    }
    cpu_move(p, 0, p->batch);
    if (!p->bf16) {
        p->head_fp32.data = p->output->data;
        p->head_fp32.grad = p->output->grad;
    }
}

static void bind_input(struct cpu_program *p, const struct dev_input *in)
{
    int present = cpu_present(p, in);
    size_t n = p->values[0].count, used = (size_t)present * n, all = (size_t)p->batch * n;
    const float *x = in->x + (size_t)p->first * n;
    if (present == p->batch && !p->bf16) {
        p->addresses[0].block =
            (char *)(uintptr_t)x; /* only read: its gradient is never computed */
        return;
    }
    pointwise_from_fp32(p, p->padded, x, used);
    memset(element_at(p->padded, used, p->bf16), 0, (all - used) * element_size(p->bf16));
    p->addresses[0].block = p->padded;
}

void cpu_program_bind(struct cpu_program *p, char *memory, const struct dev_input *in)
{
    bind_arena(p, memory);
    bind_input(p, in);
}

int cpu_program_loss(struct cpu_program *p, const struct dev_input *in, struct dev_result *out,
                     float *logits, struct err *e)
{
    cpu_move(p, 0, p->batch);
    size_t one = p->output->count, n = (size_t)p->batch * one;
    if (p->bf16) {
        pointwise_to_fp32(p, p->head_fp32.data, p->output->data, n);
    }
    int rc = in->y ? cpu_loss(p, in, out, e) : 0;
    if (rc == 0 && p->bf16 && in->y && in->training && p->output->grad) {
        pointwise_from_fp32(p, p->output->grad, p->head_fp32.grad, n);
    }
    if (rc == 0 && logits) {
        memcpy(logits + (size_t)p->first * one, p->head_fp32.data,
               (size_t)cpu_present(p, in) * one * sizeof(float));
    }
    return rc;
}

/* Recomputes inputs of step i that were not kept. */
static void make_again(struct cpu_program *p, int i)
{
    const struct cpu_step *s = &p->steps[i];
    for (int k = 0; k < s->n_in; k++) {
        struct cpu_value *v = s->in[k];
        if (v->maker && v->again_before == i && (k == 0 || s->in[0] != v)) {
            v->maker->op->again(p, v->maker);
        }
    }
}

static void gather(struct cpu_program *p, int i, const struct dev_input *in, bool backward)
{
    p->steps[i].op->gather(p, &p->steps[i], in, backward);
}

static int forward_tile(struct cpu_program *p, const struct cpu_group *g,
                        const struct dev_input *in, struct err *e)
{
    for (int i = g->first; i < g->end; i++) {
        int rc = p->steps[i].op->forward(p, &p->steps[i], in, e);
        if (rc < 0) {
            return err_prefix(e, "layer '%s'", p->steps[i].layer->name);
        }
    }
    if (in->training && g->top == g->end) {
        gather(p, g->end, in, false);
    }
    return 0;
}

static int backward_tile(struct cpu_program *p, const struct cpu_group *g,
                         const struct dev_input *in, struct err *e)
{
    for (int i = g->top; i >= g->bottom; i--) {
        struct cpu_step *s = &p->steps[i];
        make_again(p, i);
        int rc = s->backward && s->op->backward ? s->op->backward(p, s, in, e) : 0;
        if (rc < 0) {
            return err_prefix(e, "gradient of layer '%s'", s->layer->name);
        }
        for (int k = 0; k < s->n_in; k++) {
            if (s->adds[k]) {
                pointwise_add(p, s->in[k]->grad, s->spare[k], (size_t)p->samples * s->in[k]->count);
            }
        }
    }
    if (g->bottom > g->first) {
        gather(p, g->first, in, true);
    }
    return 0;
}

int cpu_program_group(struct cpu_program *p, int group, const struct dev_input *in, bool backward,
                      struct err *e)
{
    const struct cpu_group *g = &p->groups[group];
    int rc = 0;
    omp_set_num_threads(p->threads);
    for (int from = 0; from < p->batch && rc == 0; from += g->samples) {
        cpu_move(p, from, g->samples);
        rc = backward ? backward_tile(p, g, in, e) : forward_tile(p, g, in, e);
    }
    return rc;
}
