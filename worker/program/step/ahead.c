/* Slices that a program gets before their step, and ends of epochs and of the run that are told
 * with them. A program's loader reads samples ahead, so the strategy fixes `ahead` slices before
 * their turn (struct part), and the rank sends each one once. */
#include "worker/exchange/leftovers.h"
#include "worker/program/engine_parts.h"

/* A program that has ended gets it when it is started again. */
static int send(struct program_engine *g, const struct wire_message *m, struct err *e)
{
    int rc = g->lost ? 0 : link_later(&g->p->link, m, e);
    return rc < 0 ? ended_survive(g, rc, e) : rc;
}

/* The epoch that slice `number` belongs to in the program's loops, which go on only: one that a
 * lost worker had may be of an epoch that this program has ended (struct slice has that one). */
static int64_t epoch_shown(struct program_engine *g, int64_t number, const struct part *part)
{
    int64_t before = number > 0 ? slice_sent(g, number - 1)->slice.epoch : 0,
            own = part->slice.epoch;
    return number < g->sent ? slice_sent(g, number)->slice.epoch : own > before ? own : before;
}

/* Where in its epoch it begins if each step has the global batch. Steps behind a loss are longer,
 * and a program that counts its batches counts steps. */
static int64_t start_of(const struct program_engine *g, const struct part *part)
{
    int64_t batch = g->base.env->spec->batching.global_batch,
            within = part->before < batch ? part->before : batch - 1;
    return part->whole > 0 ? part->nth * batch + within : part->slice.start;
}

/* Epochs of which other nodes had all the samples, before this one was there again or had made its
 * step: the program's loops over them get no batch. */
static int end_epochs(struct program_engine *g, int64_t epoch, struct err *e)
{
    int rc = 0;
    while (g->unended >= 0 && g->unended < epoch && rc >= 0) {
        rc = ahead_send_end(g, WIRE_EPOCH_LAST, g->unended, e);
    }
    return rc;
}

static int send_slice(struct program_engine *g, const struct part *part, uint32_t flags,
                      struct err *e)
{
    const struct jobspec *spec = g->base.env->spec;
    struct wire_message m = program_message(WIRE_SLICE, flags);
    int64_t slot = g->sent % g->p->slots,
            *indices = g->p->block.indices + slot * g->p->block.global_batch;
    BUG_ON(part->slice.count > g->p->block.global_batch);
    for (int64_t i = 0; i < part->slice.count; i++) {
        int64_t at = part->slice.start + i, epoch = part->slice.epoch;
        at = part->left ? leftovers_position(part->left, &epoch, at) : at;
        indices[i] = sample_index(spec->seed, epoch, at, g->p->about.whole, spec->data.shuffle);
    }
    m.slice.epoch = epoch_shown(g, g->sent, part);
    int rc = end_epochs(g, m.slice.epoch, e);
    if (rc < 0) {
        return rc;
    }
    g->unended = m.slice.epoch + !!(flags & WIRE_EPOCH_LAST);
    m.slice.number = g->sent++;
    m.slice.start = start_of(g, part);
    m.slice.count = part->slice.count;
    m.slice.step_count = part->whole;
    m.slice.slot = (int32_t)slot;
    *slice_told(g, m.slice.number) = flags;
    g->slices[slot] = m;
    return send(g, &m, e);
}

int ahead_send_end(struct program_engine *g, uint32_t flags, int64_t epoch, struct err *e)
{
    struct wire_message m = program_message(WIRE_SLICE, WIRE_NO_STEP | flags);
    m.slice.epoch = epoch;
    g->unended = epoch + !!(flags & WIRE_EPOCH_LAST);
    *slice_told(g, g->sent - 1) |= flags;
    return send(g, &m, e);
}

/* EPOCH_LAST if the program's epoch ends with slice `number`, the `nth` of n parts, as far as these
 * tell. */
static uint32_t last_of(struct program_engine *g, int64_t number, const struct part *nth,
                        bool has_next)
{
    bool last = nth->last || (has_next && nth[1].slice.epoch > epoch_shown(g, number, nth));
    return last ? WIRE_EPOCH_LAST : 0;
}

int ahead_send(struct program_engine *g, const struct part *parts, int n, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < n && rc >= 0; i++) {
        rc = send_slice(g, &parts[i], last_of(g, g->sent, &parts[i], i + 1 < n), e);
    }
    return rc;
}

int ahead_load(struct program_engine *g, const struct work *w, struct err *e)
{
    bool over = w->n_parts < 1 + g->base.program.ahead; /* nothing comes after these */
    int rc = 0;
    BUG_ON(w->n_parts < 1);
    for (int i = 0; i < w->n_parts && rc >= 0; i++) {
        const struct part *part = &w->parts[i];
        int64_t number = g->number + i;
        bool next = i + 1 < w->n_parts, end = over && !next;
        uint32_t flags =
            last_of(g, number, part, next) | (end ? WIRE_EPOCH_LAST | WIRE_RUN_LAST : 0);
        if (number >= g->sent) {
            rc = send_slice(g, part, flags, e);
        } else if (number == g->sent - 1 && (flags & ~*slice_told(g, number))) {
            rc = ahead_send_end(g, flags, epoch_shown(g, number, part), e);
        }
    }
    return rc;
}
