/* See ahead.h.
 *
 *   gathered   0  1  2  3  4  5          the rank's slices, in the order of the epoch
 *   asked for  0  1 2-3 4-7 8-11 12      a slice that comes as told doubles how many may be
 *                                        outstanding, up to AHEAD_SLICES and AHEAD_BYTES
 *
 * The first slice of an epoch stands where a step's first slice of this rank always stands: at the
 * remainder of its positions by the distance. */
#include "worker/data/ahead.h"

#include "worker/data/files/direct.h"
#include "worker/data/files/stored.h"

static bool same(const struct slice *a, const struct slice *b)
{
    return a->epoch == b->epoch && a->start == b->start && a->count == b->count;
}

/* The slice after s, if minibatches do not change; false: cannot be predicted. */
static bool follow(struct slice *s, const struct ahead *a, const struct ahead_from *from)
{
    if (a->stride <= 0) {
        return false;
    }
    s->start += a->stride;
    if (s->start <= from->part->samples - s->count) {
        return true;
    }
    s->start %= a->stride;
    s->epoch++;
    return !from->test && s->start <= from->part->samples - s->count;
}

void ahead_next(struct ahead *a, const struct ahead_from *from, const struct slice *s)
{
    struct slice told = a->last;
    int64_t most = AHEAD_BYTES / ((int64_t)from->bytes * s->count + 1);
    bool met = a->last.count > 0 && follow(&told, a, from) && same(&told, s);
    if (!met && a->last.count > 0 && s->epoch == a->last.epoch) {
        a->stride = s->start - a->last.start;
    }
    a->depth = met ? 2 * a->depth : 1;
    a->depth = a->depth > AHEAD_SLICES ? AHEAD_SLICES : a->depth;
    a->depth = a->depth > most ? (int)(most > 1 ? most : 1) : a->depth;
    a->last = *s;
}

static bool was_asked(const struct ahead *a, const struct slice *s)
{
    for (int i = 0; i < AHEAD_SLICES; i++) {
        if (same(&a->asked[i], s)) {
            return true;
        }
    }
    return false;
}

int ahead_plan(struct ahead *a, const struct ahead_from *from, struct slice out[AHEAD_SLICES])
{
    struct slice at = a->last;
    int n = 0;
    for (int i = 0; i < a->depth && (i == 0 || follow(&at, a, from)); i++) {
        if (!was_asked(a, &at)) {
            out[n++] = at;
        }
    }
    for (int i = 0; i < n; i++) {
        a->asked[a->next] = out[i];
        a->next = (a->next + 1) % AHEAD_SLICES;
    }
    return n;
}

void ahead_ask(struct ahead *a, const struct ahead_from *from)
{
    enum { AT_ONCE = 64 };
    struct slice plan[AHEAD_SLICES];
    int64_t index[AT_ONCE], samples = from->part->samples;
    int n = ahead_plan(a, from, plan);
    if (a->depth == 1 && from->once && from->once->direct) {
        direct_forget(from->once->direct); /* the reads asked for do not fit what comes now */
    }
    for (int k = 0; k < n; k++) {
        for (int64_t done = 0; done < plan[k].count; done += AT_ONCE) {
            int64_t rest = plan[k].count - done, count = rest < AT_ONCE ? rest : AT_ONCE;
            for (int64_t i = 0; i < count; i++) {
                int64_t at = plan[k].start + done + i;
                index[i] = from->test ? at
                                      : sample_index(from->seed, plan[k].epoch, at, samples,
                                                     from->shuffle);
            }
            dataset_ahead(from->part, from->once, index, count);
        }
    }
}
