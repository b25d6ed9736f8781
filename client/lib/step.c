/* A step: begin the slice, tell when its gradients are ready, and follow the rank's answer. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "client/lib/session.h"

static void open_pass(struct session *s, bool further)
{
    int64_t count = s->taken[s->begun % s->welcome.welcome.slots].slice.count;

    s->open = true;
    s->further = further;
    s->loading = 0;
    s->weight = s->sums ? count > 0 : (double)count;
    buckets_open(s);
}

/* The rank needs BEGIN before the first bucket only if it holds the program there, or takes it for
 * the end of the program's work between two epochs. Otherwise the block tells it enough. */
static int begin(struct session *s, int64_t number, uint32_t flags)
{
    struct wire_shared *shared = (struct wire_shared *)s->block;
    struct wire_message m = {.type = WIRE_BEGIN};
    bool awaited = s->hold || s->between || number == 0;

    m.slice = s->taken[number % s->welcome.welcome.slots].slice;
    m.flags = flags;
    s->between = false;
    atomic_store_explicit(&shared->begun, number, memory_order_release);
    return awaited ? talk_send(s, &m, -1) : talk_later(s, &m);
}

static int check_order(const struct session *s, int64_t number)
{
    const struct wire_message *m = &s->taken[number % s->welcome.welcome.slots];

    if (number != s->begun + 1 && s->begun >= 0) {
        return es_fail("es_begin: slice %" PRId64 " follows slice %" PRId64
                       ": slices are begun in the order in which es_next gave them",
                       number, s->begun);
    }
    return m->type == WIRE_SLICE && m->slice.number == number
               ? 0
               : es_fail("es_begin: es_next has not given slice %" PRId64, number);
}

PUBLIC int es_begin(int64_t number)
{
    struct session *s = &es_session;
    int rc;

    if (es_settled("es_begin") < 0) {
        return -1;
    }
    if (!s->holding) {
        if (check_order(s, number) < 0) {
            return -1;
        }
        if (s->open && es_abort() < 0) {
            return -1;
        }
        if (s->over) {
            return ES_OVER;
        }
        s->begun = number;
        if (begin(s, number, 0) < 0) {
            return -1;
        }
    }
    rc = hold(s, WIRE_BEGIN);
    if (rc == 0 && s->over) {
        return ES_OVER;
    }
    if (rc == 0) {
        open_pass(s, false);
    }
    return rc;
}

PUBLIC int es_again(void)
{
    struct session *s = &es_session;

    if (es_usable("es_again") < 0) {
        return -1;
    }
    if (s->begun < 0 || s->open) {
        return es_fail("es_again: no slice was begun whose gradients were summed");
    }
    if (begin(s, s->begun, WIRE_AGAIN) < 0) {
        return -1;
    }
    open_pass(s, true);
    return 0;
}

PUBLIC int es_takes_gradients(void)
{
    return es_usable("es_takes_gradients") < 0 ? -1 : es_session.takes && !es_session.inside;
}

PUBLIC int es_sums_gradients(void)
{
    return es_usable("es_sums_gradients") < 0 ? -1 : (es_session.welcome.flags & WIRE_SUMS) != 0;
}

/* Is a slice open, and is the value that the program tells of it 0 or more? */
static int check_told(const char *call, const char *what, double value)
{
    if (es_usable(call) < 0) {
        return -1;
    }
    if (!es_session.open) {
        return es_fail("%s: no slice was begun", call);
    }
    return isfinite(value) && value >= 0
               ? 0
               : es_fail("%s: %s a number of 0 or more, not %g", call, what, value);
}

PUBLIC int es_weight(double weight)
{
    if (check_told("es_weight", "a weight is", weight) < 0) {
        return -1;
    }
    es_session.weight = weight;
    return 0;
}

PUBLIC int es_loading(double seconds)
{
    if (check_told("es_loading", "seconds are", seconds) < 0) {
        return -1;
    }
    es_session.loading += seconds;
    return 0;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int send_gradients(struct session *s, const struct es_result *r, uint32_t flags)
{
    struct wire_message m = {.type = WIRE_GRADIENTS, .flags = flags};
    const struct wire_message *slice = &s->taken[s->begun % s->welcome.welcome.slots];

    m.gradients.number = s->begun;
    m.gradients.samples = r && r->samples >= 0 ? r->samples : slice->slice.count;
    m.gradients.weight = s->weight;
    m.gradients.loss = r ? r->loss : NAN;
    m.gradients.correct = r ? r->correct : -1;
    m.gradients.learning_rate = r ? r->learning_rate : NAN;
    m.gradients.loading = s->loading;
    m.gradients.at = now();
    s->open = false;
    if (talk_take_back(s, WIRE_BEGIN)) {
        m.flags |= WIRE_WITH_BEGIN;
    }
    return talk_send(s, &m, -1);
}

/* Keeps what another process of the program continues from if this one dies in its step. A further
 * pass over the slice may step once more: the copy stays the one from before all of them. */
static void keep(struct session *s)
{
    struct wire_shared *shared = (struct wire_shared *)s->block;
    const struct wire_message *w = &s->welcome;
    float *to = (float *)(s->block + wire_keep_at(w));

    if (!(w->flags & WIRE_KEEP) ||
        atomic_load_explicit(&shared->copied, memory_order_relaxed) == s->begun) {
        return;
    }
    memcpy(to, s->block + w->welcome.params, (size_t)w->welcome.n_params * sizeof(float));
    memcpy(to + w->welcome.n_params, s->block + w->welcome.stats,
           (size_t)w->welcome.n_stats * sizeof(float));
    atomic_store_explicit(&shared->copied, s->begun, memory_order_release);
}

/* Sends GRADIENTS with these flags, unless they were sent, and waits for GO. Returns enum es_go. */
static int gradients(struct session *s, const struct es_result *r, uint32_t flags, const char *call)
{
    struct wire_message m;

    if (!s->waiting && send_gradients(s, r, flags) < 0) {
        return -1;
    }
    s->waiting = true;
    if (s->saving && es_state(NULL, 0) < 0) {
        return -1;
    }
    do {
        if (talk_receive(s, &m, NULL) < 0) {
            return -1;
        }
        s->saving = m.type == WIRE_SAVE;
        if (s->saving && s->has_state) {
            return ES_GO_SAVE;
        }
    } while (m.type == WIRE_SLICE || (s->saving && es_state(NULL, 0) == 0));
    s->waiting = false;
    if (m.type != WIRE_GO) {
        return es_fail("%s: the rank sent message %u where an answer was due", call, m.type);
    }
    s->over = s->over || (m.flags & WIRE_STOP);
    s->hold = (m.flags & WIRE_HOLD) != 0;
    s->owed = (m.flags & WIRE_DIFFERENCE) != 0;
    if (m.flags & (WIRE_DIFFERENCE | WIRE_VOID | WIRE_SKIP_STEP)) {
        return m.flags & WIRE_DIFFERENCE ? ES_GO_DIFFERENCE
               : m.flags & WIRE_VOID     ? ES_GO_VOID
                                         : ES_GO_SKIP;
    }
    keep(s);
    return ES_GO_STEP;
}

static int opened(struct session *s, const char *call)
{
    if (es_usable(call) < 0) {
        return -1;
    }
    return s->open || s->waiting
               ? 0
               : es_fail("%s: no pass is open: es_begin or es_again comes before", call);
}

/* A result set to zero would say that the slice had no samples. */
static int check_result(const struct session *s, const struct es_result *r)
{
    int64_t count = s->taken[s->begun % s->welcome.welcome.slots].slice.count;

    return !r || count == 0 || r->samples != 0 || r->learning_rate != 0
               ? 0
               : es_fail("es_gradients: the result has 0 samples, and the slice %" PRId64
                         ": -1 stands for its count (and NaN for a rate that is not known)",
                         count);
}

/* Has the rank allowed the step of this slice in advance? */
static bool is_granted(const struct session *s)
{
    const struct wire_shared *shared = (const struct wire_shared *)s->block;
    bool plain = s->open && !s->further && s->weight > 0;

    return plain && atomic_load_explicit(&shared->granted, memory_order_acquire) >= s->begun;
}

PUBLIC int es_gradients(const struct es_result *result)
{
    struct session *s = &es_session;
    bool finite = !result || isnan(result->loss) || isfinite(result->loss);

    if (opened(s, "es_gradients") < 0 || check_result(s, result) < 0 ||
        (s->open && buckets_close(s) < 0)) {
        return -1;
    }
    if (finite && is_granted(s)) {
        keep(s);
        return send_gradients(s, result, WIRE_MADE) < 0 ? -1 : ES_GO_STEP;
    }
    return gradients(s, result, finite ? 0 : WIRE_NOT_FINITE, "es_gradients");
}

PUBLIC int es_difference(void)
{
    if (es_usable("es_difference") < 0) {
        return -1;
    }
    if (!es_session.owed) {
        return es_fail("es_difference: es_gradients has not answered ES_GO_DIFFERENCE");
    }
    es_session.owed = false;
    return gradients(&es_session, NULL, WIRE_DIFFERENCE, "es_difference") < 0 ? -1 : 0;
}

PUBLIC int es_held_back(const struct es_result *result)
{
    int rc;

    if (opened(&es_session, "es_held_back") < 0) {
        return -1;
    }
    rc = gradients(&es_session, result, WIRE_HELD_BACK, "es_held_back");
    return rc < 0 || rc == ES_GO_SAVE ? rc : 0;
}

/* A failed pass has no state worth saving: if asked for one, the program says that it has none. */
PUBLIC int es_abort(void)
{
    int rc;

    if (opened(&es_session, "es_abort") < 0) {
        return -1;
    }
    do {
        rc = gradients(&es_session, NULL, WIRE_VOID, "es_abort");
    } while (rc == ES_GO_SAVE);
    return rc < 0 ? -1 : ES_GO_SKIP;
}
