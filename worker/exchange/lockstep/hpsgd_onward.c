/* How hpsgd goes on without a lost worker where users' programs have made the steps, which cannot
 * be undone (docs/decisions/0085). If any worker has received the sum, it sends it to those that
 * lack it. Else all launch the sum once more, each with its own part, which it has kept. See
 * hpsgd_parts.h. */
#include "kernels/flat.h"
#include "worker/exchange/lockstep/hpsgd_parts.h"

/* Takes out the lost workers' samples of the round under way, which come again. The round's steps
 * so far are means over the others' samples. */
static void take_out(struct hpsgd *s)
{
    double lost = survival_take_undone(s->survival).of_group;
    if (lost > 0 && lost < s->samples) {
        flat_scale(s->g, s->g, (float)(s->samples / (s->samples - lost)), s->n);
        s->samples -= lost;
    }
}

/* An agreement to stop or to pause. It does not end the run yet: if a worker is lost, steps follow
 * first. */
struct asked {
    bool stop, pause;
};

static struct asked put_off(struct hpsgd *s)
{
    struct lockstep_mark *at = &s->l.at;
    const struct asked was = {at->stop, at->pause};
    at->stop = at->pause = false;
    return was;
}

static void ask_again(struct hpsgd *s, const struct asked *was)
{
    s->l.at.stop = was->stop;
    s->l.at.pause = was->pause;
}

int hpsgd_arrive(struct hpsgd *s, enum meeting what, struct err *e)
{
    const struct asked was = put_off(s);
    int rc = survival_arrive(s->survival, what, e);
    ask_again(s, &was);
    take_out(s);
    return rc;
}

int hpsgd_go_on(struct hpsgd *s, int rc, struct err *e)
{
    const struct asked was = put_off(s);
    int what = survival_recover(s->survival, rc, NULL, e);
    ask_again(s, &was);
    if (what < 0) {
        return what;
    }
    take_out(s);
    if (survival_took_sum(s->survival)) {
        rc = hpsgd_landed(s, e);
    } else {
        rc = 0;
        if (s->in_flight && !s->landed) {
            hpsgd_launch_again(s);
        }
    }
    if (rc < 0 || (rc = hpsgd_arrive(s, survival_meeting(s->survival), e)) < 0) {
        return rc;
    }
    return what;
}

int hpsgd_look(struct hpsgd *s, struct err *e)
{
    int rc = hpsgd_arrive(s, MEETS_NOBODY, e);
    if (rc >= 0 && (rc = survival_look(s->survival, e)) < 0) {
        rc = hpsgd_go_on(s, rc, e);
    }
    return rc < 0 ? rc : 0;
}

bool hpsgd_has_place(struct hpsgd *s)
{
    struct cursor place;
    return !s->keeps || lockstep_place(&s->l, &place);
}
