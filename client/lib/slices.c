/* Slices: the rank sends them ahead of their steps, so one may come before any answer, or with GO.
 * They are kept here in order until the program takes them, and remembered until it has begun them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "client/lib/session.h"

int slices_init(struct session *s)
{
    int slots = s->welcome.welcome.slots;

    if (slots <= s->welcome.welcome.ahead || s->welcome.welcome.ahead < 1) {
        return es_fail("cannot join: the rank grants %d slices ahead in %d slots",
                       s->welcome.welcome.ahead, slots);
    }
    s->came = calloc(2 * (size_t)slots, sizeof(*s->came));
    s->taken = calloc((size_t)slots, sizeof(*s->taken));
    return s->came && s->taken ? 0 : es_fail("cannot join: no memory for %d slices", slots);
}

int slices_keep(struct session *s, const struct wire_message *m)
{
    int slots = s->welcome.welcome.slots;
    struct wire_message *kept;

    if (m->flags & WIRE_STOP) {
        s->over = true;
    }
    if (s->came_count >= 2 * slots || m->slice.slot < 0 || m->slice.slot >= slots ||
        m->slice.count < 0 || m->slice.count > s->welcome.welcome.global_batch) {
        return es_fail("the rank sent a slice that does not fit: number %" PRId64 ", %" PRId64
                       " samples in slot %d",
                       m->slice.number, m->slice.count, m->slice.slot);
    }
    kept = &s->came[(s->came_first + s->came_count++) % (2 * slots)];
    *kept = *m;
    kept->type = WIRE_SLICE;
    return 0;
}

static void give(struct session *s, struct es_slice *out, const struct wire_message *m)
{
    const int64_t *indices = (const int64_t *)(s->block + s->welcome.welcome.indices);
    bool step = !(m->flags & WIRE_NO_STEP);

    *out = (struct es_slice){
        .epoch = m->slice.epoch,
        .number = step ? m->slice.number : -1,
        .start = m->slice.start,
        .count = m->slice.count,
        .step_count = m->slice.step_count,
        .indices = indices + (int64_t)m->slice.slot * s->welcome.welcome.global_batch,
        .epoch_last = (m->flags & WIRE_EPOCH_LAST) != 0,
    };
}

PUBLIC int es_next(struct es_slice *slice)
{
    struct session *s = &es_session;
    struct wire_message m, *first;

    if (es_usable("es_next") < 0) {
        return -1;
    }
    if (!s->started) {
        return es_fail("es_next: the run has not started (es_start)");
    }
    while (!s->over && !s->last_came && s->came_count == 0) {
        if (talk_receive(s, &m, NULL) < 0) {
            return -1;
        }
        if (m.type != WIRE_SLICE) {
            return es_fail("es_next: the rank sent message %u where a slice was due", m.type);
        }
    }
    if (s->over || s->came_count == 0) {
        return 0;
    }
    first = &s->came[s->came_first];
    s->came_first = (s->came_first + 1) % (2 * s->welcome.welcome.slots);
    s->came_count--;
    s->last_came = (first->flags & WIRE_RUN_LAST) != 0;
    if (!(first->flags & WIRE_NO_STEP)) {
        s->taken[first->slice.number % s->welcome.welcome.slots] = *first;
    } else if (!(first->flags & WIRE_EPOCH_LAST)) {
        return es_next(slice); /* it only said that this was the last one */
    }
    give(s, slice, first);
    return 1;
}
