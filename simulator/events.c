/* The events of a virtual world in their order: a binary heap by time, then by the rank that caused
 * them, then by when they were made, so that a run depends on nothing but its inputs. At a million
 * events a second this is a large part of a timing-only run. So an event is a plain value, and a
 * void event stays in the heap until its time comes (generation). */
#include <stdlib.h>

#include "simulator/world.h"

enum { SERIAL_BITS = 44 };

static bool earlier(const struct event *a, const struct event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

void events_push(struct world *w, double time, int rank, enum event_kind kind, struct parcel *p,
                 uint64_t generation)
{
    if (w->n_heap == w->heap_room) {
        w->heap_room = w->heap_room ? 2 * w->heap_room : 256;
        w->heap = realloc(w->heap, w->heap_room * sizeof *w->heap);
        BUG_ON(!w->heap);
    }
    uint64_t cause = (uint64_t)(p ? p->from : rank);
    struct event ev = {time, cause << SERIAL_BITS | w->serial++, rank, kind, p, generation};
    size_t i = w->n_heap++;
    while (i > 0 && earlier(&ev, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = ev;
}

struct event events_pop(struct world *w)
{
    struct event top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n_heap) {
            break;
        }
        if (child + 1 < w->n_heap && earlier(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!earlier(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}
