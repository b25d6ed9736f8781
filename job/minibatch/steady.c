/* The line that minibatches are made from: see steady.h.
 *
 *      step time   measured ┌──┐             ┌────────────────
 *                ───────────┘  └─────────────┘
 *                what counts                      ┌───────────
 *                ─────────────────────────────────┘ it has held
 *
 * How long a speed has held is counted in steps at the speed before: three steps that take four
 * times as long have held for twelve, because a worker of a server strategy makes only so many
 * while the others go on. The first steps of a node are no turn.
 *
 * A turn that is followed and undone within a minute (or 200 steps, if they take longer) was a load
 * that comes and goes: from then on the node's speed must hold eight times as long, up to 768
 * steps, and an eighth of that again after a turn that stayed. A speed that lasts is always
 * followed. */
#include "job/minibatch/steady.h"

#include <math.h>

static const double AGAIN = 8, LONGEST = 768;    /* of hold */
static const double SOON = 60, SOON_STEPS = 200; /* seconds, steps */
static const double TURN = 0.1, BIG_TURN = 0.2;  /* logarithms of speeds: seen, remembered */

enum { FIRST_STEPS = 40 };

void steady_init(struct steady *s)
{
    *s = (struct steady){.hold = STEADY_HOLD};
}

static double made_seconds(const struct steady *s, int batch)
{
    return s->made.a + s->made.k * batch;
}

/* Which way the profile is off the line that the minibatch was made from. */
static int way_off(const struct steady *s, const struct profile *p, int batch, double least)
{
    double made = made_seconds(s, batch), now = profile_seconds(p, batch),
           off = made > 0 && now > 0 ? log(now / made) : 0;
    return off > least ? 1 : off < -least ? -1 : 0;
}

void steady_observe(struct steady *s, struct profile *p, int batch, double seconds, int steps)
{
    struct profile before = *p;
    profile_observe_mean(p, batch, seconds, steps);
    bool turned = p->turns > before.turns;
    double made = made_seconds(s, batch);
    s->held += steps * (made > 0 ? fmax(1, seconds / made) : 1);
    if (turned) {
        s->held = p->lasted;
    }
    if (s->hold > STEADY_HOLD) { /* any speed but that of the minibatch must hold */
        int off = way_off(s, p, batch, TURN);
        s->held = off == 0 ? 0 : off == s->off || turned ? s->held : 1;
        s->off = off;
        s->waiting = s->held < s->hold;
    } else if (turned && before.weight >= STEADY_HOLD) {
        if (!(made > 0)) {
            s->made = (struct line){before.a, before.k};
        }
        s->waiting = s->held < s->hold;
    } else {
        s->waiting = s->waiting && s->held < s->hold;
    }
}

struct line steady_line(const struct steady *s, const struct profile *p)
{
    return s->waiting ? s->made : (struct line){p->a, p->k};
}

void steady_follow(struct steady *s, const struct profile *p, int batch, double step_seconds,
                   double now)
{
    if (s->waiting) {
        return;
    }
    int way = p->count > FIRST_STEPS ? way_off(s, p, batch, BIG_TURN) : 0;
    if (way != 0) {
        bool soon = now - s->at < fmax(SOON, SOON_STEPS * step_seconds);
        if (way == -s->way) {
            s->hold = soon ? fmin(AGAIN * s->hold, LONGEST) : fmax(s->hold / AGAIN, STEADY_HOLD);
        }
        s->way = way;
        s->at = now;
    }
    s->made = (struct line){p->a, p->k};
    s->held = 0;
}
