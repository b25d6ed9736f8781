/* The steps that were cut in advance (advance.c), as bytes for a worker that comes back
 * (survival/hand_over.c): those that were not taken, with what a lost worker has left over. The
 * other process is of the same build, so fields are copied as they are. It finds its own parts of
 * the steps by its rank.
 *
 *      cut  steps  n  n_left │ n times: cursor behind, whole, counts, starts, last │ leftovers
 */
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/lockstep/steps/lockstep.h"

/* Fields one after the other, written to memory or read from it. With `at` NULL only their size is
 * counted. */
struct flat {
    uint8_t *at;
    size_t n, room;
    bool reads, short_of; /* short_of: there were fewer bytes */
};

static void pass(struct flat *f, void *field, size_t bytes)
{
    if (f->at && f->room - f->n < bytes) {
        f->short_of = true;
        return;
    }
    if (f->at && f->reads) {
        memcpy(field, f->at + f->n, bytes);
    } else if (f->at) {
        memcpy(f->at + f->n, field, bytes);
    }
    f->n += bytes;
}

/* Passes step `nth` of the ring, which begins at a->first. */
static void pass_step(struct lockstep *l, struct flat *f, int nth)
{
    struct advance *a = &l->advance;
    size_t W = (size_t)l->env->comm->workers, i = (size_t)((a->first + nth) % a->room);
    pass(f, &a->behind[i], sizeof *a->behind);
    pass(f, &a->wholes[i], sizeof *a->wholes);
    pass(f, a->counts + i * W, W * sizeof *a->counts);
    pass(f, a->starts + i * W, W * sizeof *a->starts);
    pass(f, &a->parts[nth].last, sizeof a->parts->last);
    pass(f, &a->parts[nth].nth, sizeof a->parts->nth);
}

static void write_left(struct leftovers *left, struct flat *f)
{
    for (int i = 0; i < left->n; i++) {
        struct leftover *o = &left->all[i];
        pass(f, &o->epoch, sizeof o->epoch);
        pass(f, &o->at, sizeof o->at);
        pass(f, &o->n, sizeof o->n);
        pass(f, o->of, (size_t)o->n * sizeof *o->of);
    }
}

/* `skip`: the ring's first step is done. */
static void write_all(struct lockstep *l, struct flat *f, int skip)
{
    struct advance *a = &l->advance;
    int n = a->n - skip;
    pass(f, &a->cut, sizeof a->cut);
    pass(f, &a->steps, sizeof a->steps);
    pass(f, &n, sizeof n);
    pass(f, &a->left.n, sizeof a->left.n);
    for (int i = skip; i < a->n; i++) {
        pass_step(l, f, i);
    }
    write_left(&a->left, f);
}

int advance_write(const struct lockstep *l, struct own_state *out, struct err *e)
{
    struct lockstep *same = (struct lockstep *)l; /* read alone */
    const struct advance *a = &l->advance;
    int skip = !l->under_way && !a->fresh && a->n > 0, rc;
    struct flat f = {0};
    write_all(same, &f, skip);
    if ((rc = own_state_alloc(out, f.n, e)) < 0) {
        return rc;
    }
    f = (struct flat){.at = out->bytes, .room = out->n};
    write_all(same, &f, skip);
    return 0;
}

static int read_leftover(struct leftovers *left, struct flat *f, struct err *e)
{
    int64_t epoch = 0, at = 0;
    int n = 0;
    pass(f, &epoch, sizeof epoch);
    pass(f, &at, sizeof at);
    pass(f, &n, sizeof n);
    f->short_of = f->short_of || n < 1 || (f->room - f->n) / sizeof(struct slice) < (size_t)n;
    struct slice *of = f->short_of ? NULL : malloc((size_t)n * sizeof *of);
    if (!of) {
        return f->short_of ? 0 : err_set(e, ERR_MEMORY, "cannot take over steps: memory ran out");
    }
    pass(f, of, (size_t)n * sizeof *of);
    int rc = leftovers_add(left, of, n, epoch, at, e);
    free(of);
    return rc;
}

/* This rank's parts of the steps that were read. */
static void take_own(struct lockstep *l)
{
    struct advance *a = &l->advance;
    size_t W = (size_t)l->env->comm->workers, rank = (size_t)l->env->comm->rank;
    for (int i = 0; i < a->n; i++) {
        size_t at = (size_t)i * W + rank;
        a->parts[i].slice = (struct slice){a->wholes[i].epoch, a->starts[at], a->counts[at]};
        a->parts[i].whole = a->wholes[i].count;
        a->parts[i].before = a->starts[at] - a->wholes[i].start;
        a->parts[i].left = &a->left;
    }
}

int advance_read(struct lockstep *l, const struct own_state *from, struct err *e)
{
    struct advance *a = &l->advance;
    struct flat f = {.at = from->bytes, .room = from->n, .reads = true};
    int n = 0, n_left = 0, rc = 0;
    pass(&f, &a->cut, sizeof a->cut);
    pass(&f, &a->steps, sizeof a->steps);
    pass(&f, &n, sizeof n);
    pass(&f, &n_left, sizeof n_left);
    bool fits = !f.short_of && n >= 0 && n <= a->room;
    a->first = 0;
    a->fresh = true;
    for (int i = 0; i < n && fits; i++) {
        pass_step(l, &f, i);
    }
    for (int i = 0; i < n_left && fits && !f.short_of && rc >= 0; i++) {
        rc = read_leftover(&a->left, &f, e);
    }
    if (rc < 0) {
        return rc;
    }
    if (!fits || f.short_of || f.n != from->n) {
        return err_set(e, ERR_PEER, "the steps that another worker tells are not of this job");
    }
    a->n = n;
    take_own(l);
    return 0;
}
