/* The fitted step time of a node, t(b) = a + k*b: recursive least squares with forgetting.
 *
 *      t │          ● ●       one minibatch alone does not tell a from k*b: the line keeps its
 *        │      ●             shape (at first through the origin) and moves with the mean; the next
 *      a ┼──  b1     b2       minibatch is no surprise anywhere between the shape's two extremes,
 *                             the constant and the line through the origin
 *
 * A single outlier counts as little as its bound; steps that stay off the line are a node that
 * changed its speed: all it did before is scaled to the new speed and soon forgotten. A node's very
 * first steps are slow (cold caches, first touch of memory): they are dropped as soon as a later
 * one shows it. A fit that leaves a >= 0, k >= 0 goes to the better of the two borders. */
#include "job/minibatch/profile.h"

#include <math.h>
#include <string.h>

#include "common/err.h"

static const double FORGET = 0.97;  /* memory of about 33 steps */
static const double RECENT = 0.1;   /* weight of a new step in the deviation */
static const double OUTLIER = 4;    /* deviations */
static const double CONSTANT = 0.6; /* deviations */
static const double SPREAD = 0.05;  /* relative spread of minibatches: below it a is not known */
static const double SLOPE = 0.15;   /* standard error of k, relative to the line through the origin:
                                       above it k is not known */
static const double NOISE = 0.01;   /* the least relative deviation that is believed */
static const double DRIFT = 1, ALARM = 8; /* in deviations: three outliers in a row are a change of
                                             speed, and so are six steps that are two and a half
                                             off */
enum { YOUNG = 3, ENOUGH = 5 };

void profile_init(struct profile *p)
{
    memset(p, 0, sizeof *p);
}

double profile_seconds(const struct profile *p, int batch)
{
    return p->a + p->k * batch;
}

double profile_error(const struct profile *p, int batch)
{
    double t = profile_seconds(p, batch),
           begun = 1 - pow(1 - RECENT, (double)p->count), /* the deviation starts at 0 */
        noise = t > 0 && p->deviation > begun * NOISE * t ? p->deviation / t / begun : NOISE;
    return noise / sqrt(p->weight > 1 ? p->weight : 1);
}

static bool sizes_differ(const struct profile *p)
{
    double b = p->sb / p->weight;
    return p->sbb / p->weight - b * b > SPREAD * SPREAD * b * b;
}

/* Are the minibatches far enough apart, for the noise of their times, to tell a from k*b? A slope
 * that is noise would be kept, since the minibatch that it leads to stays the same. */
static bool slope_known(const struct profile *p)
{
    double b = p->sb / p->weight, t = p->st / p->weight, bb = p->sbb / p->weight - b * b;
    if (!sizes_differ(p)) {
        return false;
    }
    if (p->weight < ENOUGH) {
        return p->count < ENOUGH; /* a first guess is needed; after a change of speed the old line
                                     is better than a guess */
    }
    double covered = p->sbt / p->weight - b * t,
           left = p->stt / p->weight - t * t - covered * covered / bb;
    left *= p->weight / (p->weight - 2); /* a line goes through any two points */
    double noise = sqrt(left > NOISE * NOISE * t * t ? left : NOISE * NOISE * t * t);
    return noise / sqrt(p->weight * bb) <= SLOPE * t / b;
}

static void fit(struct profile *p)
{
    double b = p->sb / p->weight, t = p->st / p->weight, line = p->a + p->k * b;
    bool known = slope_known(p);
    p->known = p->known || (known && p->weight >= ENOUGH);
    if (!known && !p->known) {
        p->a = 0;
        p->k = t / b;
        return;
    }
    if (!known) {
        p->a *= line > 0 ? t / line : 0;
        p->k = line > 0 ? p->k * t / line : t / b;
        return;
    }
    double k = (p->sbt / p->weight - b * t) / (p->sbb / p->weight - b * b), a = t - k * b;
    /* the mean square that the line through the origin misses of a constant: noise alone does not
     * make a constant */
    double missed = (p->st * t - p->sbt * p->sbt / p->sbb) / p->weight;
    if (k > 0 && a >= 0) {
        p->a = a;
        p->k = k;
    } else if (k <= 0 && missed > CONSTANT * CONSTANT * p->deviation * p->deviation) {
        p->a = t;
        p->k = 0;
    } else {
        p->a = 0;
        p->k = p->sbt / p->sbb;
    }
}

/* Of the times that a step of `batch` samples may take by what is known, the one nearest to
 * `seconds`. */
static double expected(const struct profile *p, int batch, double seconds)
{
    if (!(p->weight > 0)) {
        return seconds;
    }
    double line = profile_seconds(p, batch), t = p->st / p->weight;
    if (p->a > 0 || sizes_differ(p)) {
        return line;
    }
    double low = line < t ? line : t, high = line < t ? t : line;
    return seconds < low ? low : seconds > high ? high : seconds;
}

static void scale_past(struct profile *p, double ratio)
{
    double keep = 2 / (p->weight > 2 ? p->weight : 2); /* keeps as much as of two steps */
    p->a *= ratio;
    p->k *= ratio;
    p->weight *= keep;
    p->sb *= keep;
    p->sbb *= keep;
    p->st *= keep * ratio;
    p->sbt *= keep * ratio;
    p->stt *= keep * ratio * ratio;
    p->deviation *= ratio;
}

/* Has the node changed its speed? It uses Page's cumulative sums (1954), one for slower and one for
 * faster. They add up residuals in deviations, each less DRIFT and at most an outlier, while these
 * point in one direction. The deviation is the one before the change, since a new speed must not
 * hide in the noise that it makes. Returns the time of a step since the sum began, divided by the
 * time before; 0: no change. */
static double changed(struct profile *p, double likely, double seconds, int steps, double deviation)
{
    struct drift *const ways[] = {&p->slower, &p->faster};
    for (int i = 0; i < 2; i++) {
        struct drift *d = ways[i];
        d->deviation = d->sum > 0 ? d->deviation : deviation;
        double off = (i == 0 ? seconds - likely : likely - seconds) / d->deviation,
               speaks = fmax(-OUTLIER, fmin(off, OUTLIER));
        if (speaks == OUTLIER && d->sum < OUTLIER - DRIFT) {
            *d = (struct drift){.sum = d->sum, .deviation = d->deviation}; /* what came before the
                                                                              first outlier was
                                                                              noise */
        }
        d->sum += speaks - DRIFT;
        d->seconds += seconds;
        d->likely += likely;
        d->lasted += steps * fmax(1, seconds / likely);
        if (d->sum <= 0) {
            *d = (struct drift){0};
        } else if (d->sum > ALARM) {
            double ratio = d->seconds / d->likely;
            p->lasted = d->lasted;
            p->turns++;
            p->slower = p->faster = (struct drift){0};
            return ratio;
        }
    }
    return 0;
}

/* Among the first steps: was no less work done in less than half the time? Then the steps before
 * were cold, and say nothing about the node. */
static bool was_cold(const struct profile *p, int batch, double seconds)
{
    return p->count > 0 && p->count < YOUNG && p->weight > 0 && batch * p->weight >= p->sb &&
           seconds < 0.5 * p->st / p->weight;
}

void profile_observe(struct profile *p, int batch, double seconds)
{
    profile_observe_mean(p, batch, seconds, 1);
}

void profile_observe_mean(struct profile *p, int batch, double seconds, int steps)
{
    if (batch <= 0 || !(seconds > 0) || !isfinite(seconds)) {
        return;
    }
    if (was_cold(p, batch, seconds)) {
        *p = (struct profile){.max_batch = p->max_batch, .turns = p->turns};
    }
    double likely = expected(p, batch, seconds),
           deviation = p->deviation > NOISE * likely ? p->deviation : NOISE * likely;
    bool judged = p->weight >= YOUNG && likely > 0; /* a profile from the store may have any
                                                       values */
    double bound = judged ? OUTLIER * deviation : INFINITY,
           ratio = judged ? changed(p, likely, seconds, steps, deviation) : 0;
    if (ratio > 0) {
        scale_past(p, ratio);
        likely = seconds;
    }
    seconds = fmax(likely - bound, fmin(seconds, likely + bound));
    if (p->weight >
        0) { /* outliers may come from a new speed, so they do not widen the deviation */
        p->deviation =
            (1 - RECENT) * p->deviation + RECENT * 1.25 * fmin(fabs(seconds - likely), 0.5 * bound);
    }
    p->weight = FORGET * p->weight + 1;
    p->sb = FORGET * p->sb + batch;
    p->sbb = FORGET * p->sbb + (double)batch * batch;
    p->st = FORGET * p->st + seconds;
    p->sbt = FORGET * p->sbt + batch * seconds;
    p->stt = FORGET * p->stt + seconds * seconds;
    p->count++;
    fit(p);
}

json_t *profile_json(const struct profile *p)
{
    return json_pack("{s:f, s:f, s:I, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "a", p->a, "k",
                     p->k, "count", (json_int_t)p->count, "known", p->known, "weight", p->weight,
                     "sb", p->sb, "st", p->st, "sbb", p->sbb, "sbt", p->sbt, "stt", p->stt,
                     "deviation", p->deviation, "max_batch", p->max_batch);
}

int profile_read(struct profile *p, const json_t *j)
{
    double *const sums[] = {&p->a,   &p->k,   &p->weight, &p->sb,       &p->st,
                            &p->sbb, &p->sbt, &p->stt,    &p->deviation};
    static const char *const names[] = {"a",   "k",   "weight", "sb",       "st",
                                        "sbb", "sbt", "stt",    "deviation"};
    profile_init(p);
    if (!json_is_number(json_object_get(j, "a")) || !json_is_number(json_object_get(j, "k"))) {
        return -ERR_DATA;
    }
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        *sums[i] = json_number_value(json_object_get(j, names[i])); /* 0 if it is missing */
        if (!(*sums[i] >= 0) || !isfinite(*sums[i])) {
            return -ERR_DATA;
        }
    }
    int64_t max_batch = json_integer_value(json_object_get(j, "max_batch"));
    p->count = json_integer_value(json_object_get(j, "count"));
    p->known = json_is_true(json_object_get(j, "known"));
    p->max_batch = (int)max_batch;
    return p->count < 0 || max_batch < 0 || max_batch > INT32_MAX ? -ERR_DATA : 0;
}
