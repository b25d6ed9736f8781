/* The rank inside the library, for a program that runs alone. It answers messages as a rank would,
 * with the same block layout. Its order of samples is a new permutation for each epoch (Fisher and
 * Yates, with splitmix64). Slices are whole global batches; an epoch's last one takes the rest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/session.h"

struct alone {
    int answer; /* the next message; 0: a slice */
    bool drop_last, in_order;
    int ahead;
    double epochs;   /* 0: no end */
    int64_t samples; /* 0: a stream */
    int64_t batch, epoch, at, number;
    uint64_t seed;
    int64_t *order;   /* [samples]; NULL: a stream */
    int64_t *indices; /* [slots][batch] in the block */
};

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void draw_order(struct alone *a)
{
    uint64_t state = a->seed ^ ((uint64_t)a->epoch << 32);

    for (int64_t i = 0; i < a->samples; i++) {
        a->order[i] = i;
    }
    for (int64_t i = a->samples - 1; i > 0 && !a->in_order; i--) {
        int64_t j = (int64_t)(splitmix(&state) % (uint64_t)(i + 1)), was = a->order[i];

        a->order[i] = a->order[j];
        a->order[j] = was;
    }
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Lays the block out as a rank does; returns its bytes. */
static int64_t lay_out(struct wire_message *m)
{
    int64_t floats = aligned(m->welcome.n_params * (int64_t)sizeof(float));

    m->welcome.params = aligned((int64_t)sizeof(struct wire_shared));
    m->welcome.grads = m->welcome.params + floats;
    m->welcome.stats = m->welcome.grads + floats;
    m->welcome.buckets = m->welcome.stats + aligned(m->welcome.n_stats * (int64_t)sizeof(float));
    m->welcome.indices = m->welcome.buckets;
    return m->welcome.indices + aligned(m->welcome.slots * m->welcome.global_batch * 8);
}

struct alone *alone_new(const struct es_about *about, struct wire_message *welcome, uint8_t **block)
{
    struct alone *a = calloc(1, sizeof(*a));
    int64_t bytes;

    *welcome = (struct wire_message){.type = WIRE_WELCOME};
    welcome->welcome.workers = 1;
    welcome->welcome.global_batch = about->global_batch;
    welcome->welcome.n_params = floats_in(about->params, about->n_params);
    welcome->welcome.n_stats = floats_in(about->stats, about->n_stats);
    welcome->welcome.ahead = about->ahead > 0 ? about->ahead : 1;
    welcome->welcome.slots = welcome->welcome.ahead + 1;
    welcome->welcome.seed = about->seed;
    bytes = lay_out(welcome);
    welcome->welcome.block_bytes = bytes;
    *block = aligned_alloc(64, (size_t)bytes);
    if (!a || !*block || !(a->order = calloc((size_t)about->samples + 1, sizeof(*a->order)))) {
        free(*block);
        free(a);
        es_fail("cannot join: no memory for %" PRId64 " parameters and %" PRId64 " samples",
                welcome->welcome.n_params, about->samples);
        return NULL;
    }
    memset(*block, 0, (size_t)bytes);
    atomic_init(&((struct wire_shared *)*block)->granted, -1);
    a->drop_last = about->drop_last;
    a->in_order = about->in_order;
    a->ahead = welcome->welcome.ahead;
    a->epochs = about->epochs;
    a->samples = about->samples;
    a->batch = about->global_batch;
    a->seed = about->seed;
    a->indices = (int64_t *)(*block + welcome->welcome.indices);
    draw_order(a);
    return a;
}

void alone_send(struct alone *a, const struct wire_message *m)
{
    switch (m->type) {
    case WIRE_READY:
        a->answer = WIRE_START;
        break;
    case WIRE_GRADIENTS:
        a->answer = WIRE_GO;
        break;
    case WIRE_EPOCH_END:
        a->answer = WIRE_CONTINUE;
        break;
    case WIRE_EPOCHS:
        a->epochs = m->flags & WIRE_MORE ? 0 : m->epochs;
        break;
    default:
        break;
    }
}

/* Samples of a slice that starts at `at`; *last: it ends the epoch. */
static int64_t slice_count(const struct alone *a, bool *last)
{
    int64_t left = a->samples - a->at, count = left < a->batch ? left : a->batch;

    if (a->samples == 0) {
        *last = false;
        return a->batch;
    }
    left -= count;
    *last = left == 0 || (a->drop_last && left < a->batch);
    return count;
}

static void next_slice(struct alone *a, struct wire_message *m)
{
    int64_t slot = a->number % (a->ahead + 1), *to = a->indices + slot * a->batch;
    bool last;

    m->type = WIRE_SLICE;
    m->slice.count = slice_count(a, &last);
    m->slice.epoch = a->epoch;
    m->slice.number = a->number++;
    m->slice.start = a->at;
    m->slice.step_count = m->slice.count;
    m->slice.slot = (int)slot;
    for (int64_t i = 0; i < m->slice.count; i++) {
        to[i] = a->samples ? a->order[a->at + i] : a->at + i;
    }
    a->at += m->slice.count;
    if (last) {
        m->flags |= WIRE_EPOCH_LAST;
        a->at = 0;
        a->epoch++;
        if (a->epochs > 0 && (double)a->epoch >= a->epochs) {
            m->flags |= WIRE_RUN_LAST;
        }
        draw_order(a);
    }
}

void alone_receive(struct alone *a, struct wire_message *m)
{
    *m = (struct wire_message){.type = (uint32_t)a->answer};
    if (a->answer == 0) {
        next_slice(a, m);
    }
    a->answer = 0;
}
