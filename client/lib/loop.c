/* A program's loop: takes the next slice, or a whole step in one call, including the ends of epochs
 * and of the run. */
#include "client/lib/session.h"

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
    s->came_first = (s->came_first + 1) % s->came_room;
    s->came_count--;
    s->last_came = (first->flags & WIRE_RUN_LAST) != 0;
    if (!(first->flags & WIRE_NO_STEP)) {
        s->taken[first->slice.number % s->welcome.welcome.slots] = *first;
    } else if (!(first->flags & WIRE_EPOCH_LAST)) {
        return es_next(slice); /* this slice only said that the previous one was the last */
    }
    give(s, slice, first);
    return 1;
}

PUBLIC int es_step(struct es_slice *slice)
{
    struct session *s = &es_session;
    int rc;

    if (es_usable("es_step") < 0) {
        return -1;
    }
    if (s->has_state) {
        return es_fail("es_step: a program with a state of its own calls es_next and es_begin");
    }
    for (;;) {
        if (s->ended >= 0 && es_epoch_end(s->ended) < 0) {
            return -1;
        }
        s->ended = -1;
        rc = es_next(slice);
        if (rc == 1 && slice->epoch_last) {
            s->ended = slice->epoch;
        }
        if (rc == 1 && slice->number >= 0 && (rc = es_begin(slice->number)) == 0) {
            return 1;
        }
        if (rc < 0) {
            return -1;
        }
        if (rc != 1) {
            return es_leave();
        }
    }
}
