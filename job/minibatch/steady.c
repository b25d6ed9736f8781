/* The line from which minibatches are made: see steady.h.
 *
 *      step time   measured ┌──┐             ┌────────────────
 *                ───────────┘  └─────────────┘
 *                what counts                      ┌───────────
 *                ─────────────────────────────────┘ it has held
 *
 * How long a speed has held is counted in steps at the old speed. Three steps that take four times
 * as long count as twelve, because under a server a slow worker makes fewer steps while the others
 * go on. The first steps of a node are no turn.
 *
 * A turn that is followed and undone within a minute (or 200 steps, if they take longer) was a load
 * that comes and goes. From then on the node's speed must hold eight times as long, up to 768
 * steps. After a turn that stays it must hold an eighth of that. A speed that lasts is always
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

/* In which direction the profile is off the line from which the minibatch was made. */
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
    if (s->hold > STEADY_HOLD) { /* any speed other than the minibatch's must hold */
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
