/* The memory plan of a program: one block for all activations and gradients, in which two of them
 * share memory if they are never needed at the same time.
 *
 * Time is counted in steps: step i runs forward at i, the loss at n, step i backward at 2n - i. An
 * activation is needed from the step that makes it to the last step that reads it. It is needed
 * until a step's backward pass only if that computes a gradient from it (cpu_op.backward_reads): an
 * activation that a backward pass reads and does not declare is overwritten by then. An activation
 * that can be recomputed (batch norm: one pass over its input, which is kept or the caller's) is
 * needed twice, for a short time each: the program recomputes it before its first use in the
 * backward pass. So half of a residual network's activations need not be kept. Steps of a group
 * that take turns on tiles (cpu/tiles.c) count as running at the same time.
 */
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

enum { TWICE = 2 };

struct lease {
    void **pointer;                   /* to fill in when a program runs */
    size_t sample, stride, bytes, at; /* sample: bytes of one */
    int from[TWICE], to[TWICE];       /* both ends included; from > to: no second time */
};

struct leases {
    struct lease *items;
    int n;
};

static void add_lease(const struct cpu_program *p, struct leases *l, void **pointer, size_t count,
                      int from, int to)
{
    l->items[l->n++] = (struct lease){.pointer = pointer,
                                      .sample = count * element_size(p->bf16),
                                      .from = {from, 1},
                                      .to = {to, 0}};
}

/* ---- when ------------------------------------------------------------------------------------ */

static bool reads_output(const struct cpu_step *s)
{
    return s->backward && ((s->op->backward_reads & CPU_READS_OUT) ||
                           (s->relu && (s->op->backward_reads & CPU_READS_RELU)));
}

/* Which steps after a value's maker read it. */
struct readers {
    int last;       /* the last step that reads it, or its maker; n_steps: the program's output */
    int first_back; /* the last step that reads it in its backward pass, which runs first; or -1 */
    int last_back;  /* the first such step, whose backward pass runs last; or n_steps */
    bool gathered;  /* such a step gathers it before it runs */
};

static struct readers readers_of(const struct cpu_program *p, const struct cpu_step *maker)
{
    const struct cpu_value *v = maker->out;
    int n = p->n_steps, made = (int)(maker - p->steps);
    struct readers r = {.last = v == p->output ? n : made,
                        .first_back = -1,
                        .last_back = reads_output(maker) ? made : n};
    for (int i = made + 1; i < n; i++) {
        const struct cpu_step *s = &p->steps[i];
        bool reads = false;
        for (int k = 0; k < s->n_in; k++) {
            reads = reads || s->in[k] == v;
        }
        r.last = reads && i > r.last ? i : r.last;
        if (reads && s->backward && (s->op->backward_reads & CPU_READS_IN)) {
            r.first_back = i;
            r.last_back = i < r.last_back ? i : r.last_back;
            r.gathered = r.gathered || s->op->gather;
        }
    }
    return r;
}

/* May the maker run again in the backward pass, so that its output need not be kept? */
static bool may_run_again(const struct cpu_step *maker, const struct readers *r)
{
    bool input_stays = !maker->in[0]->maker || maker->in[0]->again_before < 0;
    return r->first_back >= 0 && maker->op->again && input_stays && !r->gathered &&
           !reads_output(maker);
}

static void lease_data(struct cpu_program *p, struct leases *l, struct cpu_step *maker)
{
    struct cpu_value *v = maker->out;
    int n = p->n_steps, made = (int)(maker - p->steps);
    struct readers r = readers_of(p, maker);
    v->maker = maker;
    v->again_before = may_run_again(maker, &r) ? r.first_back : -1;
    bool kept = v->again_before < 0 && r.last_back < n;
    add_lease(p, l, &v->data, v->count, made, kept ? 2 * n - r.last_back : r.last);
    if (v->again_before >= 0) {
        l->items[l->n - 1].from[1] = 2 * n - r.first_back;
        l->items[l->n - 1].to[1] = 2 * n - r.last_back;
    }
}

/* Leases gradients: from the step that first writes one to the step that made the value. */
static void lease_gradients(struct cpu_program *p, struct leases *l, struct cpu_step *maker)
{
    struct cpu_value *v = maker->out;
    int n = p->n_steps, made = (int)(maker - p->steps),
        first = v == p->output && v->needs_grad ? n : -1;
    for (int i = n - 1; i > made && first < 0; i--) {
        for (int k = 0; k < p->steps[i].n_in; k++) {
            first = p->steps[i].in_grad[k] == &v->grad ? i : first;
        }
    }
    if (first >= 0) {
        add_lease(p, l, &v->grad, v->count, 2 * n - first, 2 * n - made);
    }
    for (int k = 0; k < maker->n_in; k++) {
        if (maker->adds[k]) {
            add_lease(p, l, &maker->spare[k], maker->in[k]->count, 2 * n - made, 2 * n - made);
        }
    }
}

/* The group that runs at this time, if it works by tiles. */
static const struct cpu_group *tiled_at(const struct cpu_program *p, int time)
{
    int n = p->n_steps;
    const struct cpu_group *g =
        time == n ? NULL : cpu_group_of(p, time < n ? time : 2 * n - time, time > n);
    return g && g->samples < p->batch ? g : NULL;
}

/* A lease lasts from a group's start to a group's end. A value that never leaves a group needs
 * memory for one tile, which stays in the cache. */
static void lease_tiles(const struct cpu_program *p, struct lease *l)
{
    int n = p->n_steps, samples = 0;
    for (int k = 0; k < TWICE && l->from[k] <= l->to[k]; k++) {
        const struct cpu_group *begin = tiled_at(p, l->from[k]), *end = tiled_at(p, l->to[k]);
        bool leaves = !begin || begin != end || (l->from[k] < n && l->to[k] > n);
        int needed = leaves ? p->batch : begin->samples;
        samples = needed > samples ? needed : samples;
        l->from[k] = !begin ? l->from[k] : l->from[k] < n ? begin->first : 2 * n - begin->top;
        l->to[k] = !end ? l->to[k] : l->to[k] < n ? end->end - 1 : 2 * n - end->bottom;
    }
    l->stride = samples < p->batch ? 0 : l->sample;
    l->bytes = ((size_t)samples * l->sample + 63) / 64 * 64;
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool meet(const struct lease *a, const struct lease *b)
{
    for (int i = 0; i < TWICE; i++) {
        for (int k = 0; k < TWICE; k++) {
            if (a->from[i] <= a->to[i] && b->from[k] <= b->to[k] && a->from[i] <= b->to[k] &&
                b->from[k] <= a->to[i]) {
                return true;
            }
        }
    }
    return false;
}

static int larger_first(const void *x, const void *y)
{
    const struct lease *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : a->from[0] - b->from[0];
}

/* The lowest offset that is free for the whole time. After each conflict the search continues at
 * the end of that block. */
static size_t lowest(const struct lease *placed, int n, const struct lease *one)
{
    size_t at = 0;
    for (int i = 0; i < n;) {
        const struct lease *o = &placed[i++];
        if (at < o->at + o->bytes && o->at < at + one->bytes && meet(o, one)) {
            at = o->at + o->bytes;
            i = 0;
        }
    }
    return at;
}

int cpu_plan_memory(struct cpu_program *p, struct err *e)
{
    struct leases l = {calloc((size_t)p->n_steps * (2 + NET_INPUTS), sizeof(struct lease)), 0};
    size_t bytes = 0;
    if (!l.items) {
        return err_set(e, ERR_MEMORY, "memory ran out");
    }
    for (int i = 0; i < p->n_steps; i++) {
        lease_data(p, &l, &p->steps[i]);
        lease_gradients(p, &l, &p->steps[i]);
    }
    for (int i = 0; i < l.n; i++) {
        lease_tiles(p, &l.items[i]);
    }
    qsort(l.items, (size_t)l.n, sizeof(*l.items), larger_first);
    for (int i = 0; i < l.n; i++) {
        l.items[i].at = lowest(l.items, i, &l.items[i]);
        bytes = l.items[i].at + l.items[i].bytes > bytes ? l.items[i].at + l.items[i].bytes : bytes;
    }
    for (int i = 0; i < l.n; i++) {
        p->addresses[p->n_addresses++] =
            (struct cpu_address){.at = l.items[i].pointer,
                                 .first = p->arena_bytes + l.items[i].at,
                                 .stride = l.items[i].stride};
    }
    p->arena_bytes += bytes;
    free(l.items);
    return 0;
}

void cpu_plan_buffer(struct cpu_program *p, void **at, size_t bytes)
{
    p->addresses[p->n_addresses++] = (struct cpu_address){.at = at, .first = p->arena_bytes};
    p->arena_bytes += (bytes + 63) / 64 * 64;
}
