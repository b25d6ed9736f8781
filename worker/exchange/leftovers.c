/* See leftovers.h. */
#include "worker/exchange/leftovers.h"

#include <stdlib.h>
#include <string.h>

void leftovers_release(struct leftovers *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->all[i].of);
    }
    free(l->all);
    *l = (struct leftovers){0};
}

int leftovers_add(struct leftovers *l, const struct slice *of, int n, int64_t epoch, int64_t at,
                  struct err *e)
{
    struct slice *copy = malloc((size_t)n * sizeof *copy);
    struct leftover *all = realloc(l->all, ((size_t)l->n + 1) * sizeof *all);
    l->all = all ? all : l->all;
    if (!copy || !all) {
        free(copy);
        return err_set(e, ERR_MEMORY, "cannot keep a lost worker's slices: memory ran out");
    }
    memcpy(copy, of, (size_t)n * sizeof *copy);
    struct leftover *mine = &l->all[l->n++];
    *mine = (struct leftover){.epoch = epoch, .at = at, .of = copy, .n = n};
    for (int i = 0; i < n; i++) {
        mine->count += of[i].count;
    }
    return 0;
}

static int64_t in_slices(const struct leftover *o, int64_t *epoch, int64_t nth)
{
    int i = 0;
    while (nth >= o->of[i].count) {
        nth -= o->of[i++].count;
    }
    *epoch = o->of[i].epoch;
    return o->of[i].start + nth;
}

/* The positions of a loss count on those that earlier losses have made. */
int64_t leftovers_position(const struct leftovers *l, int64_t *epoch, int64_t at)
{
    for (int i = l->n - 1; i >= 0; i--) {
        const struct leftover *o = &l->all[i];
        if (o->epoch == *epoch && at >= o->at) {
            at = at < o->at + o->count ? in_slices(o, epoch, at - o->at) : at - o->count;
        }
    }
    return at;
}

static bool lacks_before(const struct leftover *o, int64_t epoch, int64_t at)
{
    bool lacks = false;
    for (int i = 0; i < o->n; i++) {
        const struct slice *s = &o->of[i];
        lacks = lacks || s->epoch < epoch || (s->epoch == epoch && s->start < at);
    }
    return lacks;
}

bool leftovers_settle(const struct leftovers *l, const struct cursor *c, int64_t samples,
                      struct cursor *out)
{
    int64_t at = c->position;
    *out = *c;
    for (int i = l->n - 1; i >= 0; i--) {
        const struct leftover *o = &l->all[i];
        bool all = o->epoch < c->epoch || (o->epoch == c->epoch && at >= o->at + o->count);
        if (!all && lacks_before(o, c->epoch, at)) {
            return false;
        }
        at -= all && o->epoch == c->epoch ? o->count : 0;
    }
    out->position = at;
    out->samples = samples;
    return true;
}
