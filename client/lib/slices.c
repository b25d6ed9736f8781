/* Slices: the rank sends them ahead of their steps, so one may arrive before any answer, or with
 * GO. They are kept here in order until the program takes them, and remembered until it has begun
 * them.
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
    s->came_room = 2 * slots;
    s->came = calloc((size_t)s->came_room, sizeof(*s->came));
    s->taken = calloc((size_t)slots, sizeof(*s->taken));
    return s->came && s->taken ? 0 : es_fail("cannot join: no memory for %d slices", slots);
}

/* Any number of slices may arrive: an epoch whose samples all went to other ranks has no step here,
 * and many such epochs can pass within one step of a slow rank. */
static int make_room(struct session *s)
{
    size_t room = (size_t)s->came_room;
    struct wire_message *more;

    if (s->came_count < s->came_room) {
        return 0;
    }
    more = malloc(2 * room * sizeof(*more));
    if (!more) {
        return es_fail("no memory for %zu slices", 2 * room);
    }
    for (int i = 0; i < s->came_count; i++) {
        more[i] = s->came[(s->came_first + i) % s->came_room];
    }
    free(s->came);
    s->came = more;
    s->came_first = 0;
    s->came_room *= 2;
    return 0;
}

int slices_keep(struct session *s, const struct wire_message *m)
{
    int slots = s->welcome.welcome.slots;
    struct wire_message *kept;

    if (m->flags & WIRE_STOP) {
        s->over = true;
    }
    if (m->slice.slot < 0 || m->slice.slot >= slots || m->slice.count < 0 ||
        m->slice.count > s->welcome.welcome.global_batch) {
        return es_fail("the rank sent a slice that does not fit: number %" PRId64 ", %" PRId64
                       " samples in slot %d",
                       m->slice.number, m->slice.count, m->slice.slot);
    }
    if (make_room(s) < 0) {
        return -1;
    }
    kept = &s->came[(s->came_first + s->came_count++) % s->came_room];
    *kept = *m;
    kept->type = WIRE_SLICE;
    return 0;
}
