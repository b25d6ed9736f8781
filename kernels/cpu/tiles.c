/* Which steps run together, tile by tile. A tile is a part of the minibatch whose activations fit
 * into the cache; a group of steps processes one tile after another:
 *
 *   forward    conv1 │ bn1 relu conv2 │ bn2 add conv3 │ bn3 ...
 *   backward   conv1 bn1 │ relu conv2 bn2 │ add conv3 bn3 │ ...     from right to left
 *
 * Batch norm needs sums over the whole minibatch before it begins, in either direction. Between two
 * of them everything can be done with a few samples while they are in the cache, also the sums for
 * the next batch norm (cpu_op.gather). Values that live within a group need memory for one tile
 * only (cpu/memory_plan.c). A group without a batch norm next to it processes all samples at once,
 * and so does one with large weights: each tile's gradient of them is added to that of the tiles
 * before.
 *
 * oneDNN's primitives are made for a number of samples, so all tiles of a group have the same size,
 * a divisor of the minibatch; if no divisor is close to the size of the cache there are no tiles.
 */
#include "kernels/cpu/cpu.h"

enum {
    TILE_BYTES = 512 << 10,
    /* least share of a step's largest activation, per thread */
    SMALLEST = 4
};

static bool gathers(const struct cpu_program *p, int i)
{
    return i < p->n_steps && p->steps[i].op->gather;
}

static size_t weights_of(const struct cpu_program *p, const struct cpu_step *s)
{
    return s->layer->n_tensors > 0 ? p->net->tensors[s->layer->first_tensor].count : 0;
}

static int samples_of_tile(const struct cpu_program *p, const struct cpu_group *g)
{
    size_t largest = 1, limit = (size_t)TILE_BYTES * (size_t)p->threads / element_size(p->bf16);
    if (!gathers(p, g->first) && !gathers(p, g->end)) {
        return p->batch;
    }
    for (int i = g->first; i < g->end; i++) {
        const struct cpu_step *s = &p->steps[i];
        if (!s->op->by_tiles || weights_of(p, s) > limit / 2) {
            return p->batch;
        }
        for (int k = 0; k < s->n_in; k++) {
            largest = s->in[k]->count > largest ? s->in[k]->count : largest;
        }
        largest = s->out->count > largest ? s->out->count : largest;
    }
    for (int n = p->batch; n > 0; n--) {
        if (p->batch % n == 0 && (size_t)n * largest <= limit) {
            return (size_t)n * largest >= limit / SMALLEST ? n : p->batch;
        }
    }
    return p->batch;
}

static void add_group(struct cpu_program *p, int first, int end)
{
    struct cpu_group *g = &p->groups[p->n_groups++];
    *g = (struct cpu_group){.first = first, .end = end};
    g->top = gathers(p, end) ? end : end - 1;
    g->bottom = first < end && gathers(p, first) ? first + 1 : first;
    g->samples = samples_of_tile(p, g);
}

void cpu_tiles(struct cpu_program *p)
{
    int first = 0;
    if (gathers(p, 0)) {
        add_group(p, 0, 0); /* nothing runs before it, except its gathering */
    }
    for (int i = 1; i <= p->n_steps; i++) {
        if (i == p->n_steps || gathers(p, i) || !p->steps[i].op->by_tiles ||
            !p->steps[i - 1].op->by_tiles) {
            add_group(p, first, i);
            first = i;
        }
    }
}

const struct cpu_group *cpu_group_of(const struct cpu_program *p, int i, bool backward)
{
    const struct cpu_group *g = p->groups;
    while (backward ? i > g->top : i >= g->end) {
        g++;
    }
    return g;
}

void cpu_move(struct cpu_program *p, int from, int samples)
{
    p->from = from;
    p->samples = samples;
    for (int i = 0; i < p->n_addresses; i++) {
        *p->addresses[i].at = p->addresses[i].block + (size_t)from * p->addresses[i].stride;
    }
}
