/* Which bucket is complete. A bucket is a range of the flat gradients; a tensor may stand in
 * several of them, and a bucket holds several tensors:
 *
 *   tensors   | fc1.weight            | fc1.bias | fc2.weight    | fc2.bias |
 *   buckets   |     bucket 2   |    bucket 1      |       bucket 0          |
 *
 * BUCKET is sent when the last of its tensors is ready. The bucket that is complete last has no
 * message of its own: GRADIENTS follows at once and says so.
 */
#include <stdlib.h>

#include "client/lib/session.h"

static bool holds(const struct wire_bucket *b, const struct part *t)
{
    return t->first < b->first + b->count && b->first < t->first + t->count;
}

int buckets_init(struct session *s, const struct es_about *about)
{
    int n_buckets = s->welcome.welcome.n_buckets;
    int64_t at = 0;

    s->n_tensors = about->n_params;
    s->buckets = (const struct wire_bucket *)(s->block + s->welcome.welcome.buckets);
    s->tensors = calloc((size_t)about->n_params, sizeof(*s->tensors));
    s->waits = calloc((size_t)n_buckets + 1, sizeof(*s->waits));
    if (!s->tensors || !s->waits) {
        return es_fail("cannot join: no memory for %d tensors", about->n_params);
    }
    for (int i = 0; i < about->n_params; i++) {
        struct part *t = &s->tensors[i];

        *t = (struct part){.first = at, .count = floats_of(&about->params[i]), .from = n_buckets};
        for (int b = 0; b < n_buckets; b++) {
            if (holds(&s->buckets[b], t)) {
                t->from = b < t->from ? b : t->from;
                t->to = b + 1;
            }
        }
        at += t->count;
    }
    return 0;
}

void buckets_open(struct session *s)
{
    for (int b = 0; b < s->welcome.welcome.n_buckets; b++) {
        s->waits[b] = 0;
    }
    for (int i = 0; i < s->n_tensors; i++) {
        struct part *t = &s->tensors[i];

        t->ready = false;
        for (int b = t->from; b < t->to; b++) {
            s->waits[b] += holds(&s->buckets[b], t);
        }
    }
    s->n_waits = s->welcome.welcome.n_buckets;
}

static int ready(struct session *s, struct part *t)
{
    t->ready = true;
    for (int b = t->from; b < t->to; b++) {
        if (holds(&s->buckets[b], t) && --s->waits[b] == 0) {
            struct wire_message m = {.type = WIRE_BUCKET,
                                     .bucket = {.index = b, .weight = s->weight}};

            if (--s->n_waits > 0 && s->takes && talk_send(s, &m, -1) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

PUBLIC int es_ready(int index)
{
    struct session *s = &es_session;

    if (es_usable("es_ready") < 0) {
        return -1;
    }
    if (!s->open) {
        return es_fail(
            "es_ready: no slice was begun (es_begin, or es_again for another pass over "
            "the last one)");
    }
    if (index < 0 || index >= s->n_tensors) {
        return es_fail("es_ready: there is no tensor %d of %d", index, s->n_tensors);
    }
    if (s->tensors[index].ready) {
        return es_fail("es_ready: tensor %d was ready before in this pass", index);
    }
    return ready(s, &s->tensors[index]);
}

int buckets_close(struct session *s)
{
    for (int i = s->n_tensors - 1; i >= 0; i--) {
        if (!s->tensors[i].ready && ready(s, &s->tensors[i]) < 0) {
            return -1;
        }
    }
    return 0;
}
