/* The fitted step time of a node, t(b) = a + k*b: recursive least squares with forgetting (ALGORITHMS.md 2.3, phase B).
 *
 * While a node has only ever had one minibatch, a cannot be told from k*b: a stays what it was (0 at first) and k is what is left. As
 * old observations are forgotten, so is what another minibatch once told about a; then, too, a stays. A single outlier counts as
 * little as its bound; one that repeats is a node that changed its speed: all it did before is scaled to the new speed and soon forgotten.
 * A node's very first steps are slow (cold caches, first touch of memory): they are dropped as soon as a later one shows it. */
#include "job/profile.h"

#include <math.h>
#include <string.h>

#include "common/err.h"

static const double FORGET = 0.97;   /* memory of about 33 steps */
static const double OUTLIER = 4;     /* deviations */
static const double SPREAD = 0.05;   /* of minibatches, relative: below it a cannot be seen */
enum { REPEATS = 3, YOUNG = 3 };

void profile_init(struct profile *p)
{
    memset(p, 0, sizeof *p);
}

double profile_seconds(const struct profile *p, int batch)
{
    return p->a + p->k * batch;
}

static void fit(struct profile *p)
{
    double b = p->sb / p->weight, t = p->st / p->weight;
    double variance = p->sbb / p->weight - b * b, covariance = p->sbt / p->weight - b * t;
    if (variance > SPREAD * SPREAD * b * b) {
        double k = covariance / variance, a = t - k * b;
        if (k > 0 && a >= 0) {
            p->a = a;
            p->k = k;
            return;
        }
        p->a = 0; /* noise: the line through the origin */
        p->k = p->sbt / p->sbb;
        return;
    }
    p->a = p->a < 0.9 * t ? p->a : 0;
    p->k = b > 0 ? (t - p->a) / b : 0;
}

static void scale_past(struct profile *p, double ratio)
{
    double keep = 2 / (p->weight > 2 ? p->weight : 2); /* as if it were two steps */
    p->a *= ratio;
    p->k *= ratio;
    p->weight *= keep;
    p->sb *= keep;
    p->sbb *= keep;
    p->st *= keep * ratio;
    p->sbt *= keep * ratio;
    p->deviation *= ratio;
}

/* No less work in less than half the time, among the first steps: those before say nothing about the node. */
static bool was_cold(const struct profile *p, int batch, double seconds)
{
    return p->count > 0 && p->count < YOUNG && p->weight > 0 && batch * p->weight >= p->sb && seconds < 0.5 * p->st / p->weight;
}

void profile_observe(struct profile *p, int batch, double seconds)
{
    if (batch <= 0 || !(seconds > 0) || !isfinite(seconds)) {
        return;
    }
    if (was_cold(p, batch, seconds)) {
        *p = (struct profile){.max_batch = p->max_batch};
    }
    double expected = p->weight > 0 ? profile_seconds(p, batch) : seconds;
    double residual = seconds - expected;
    double bound = OUTLIER * (p->deviation > 0.01 * expected ? p->deviation : 0.01 * expected);
    if (p->weight >= 3 && fabs(residual) > bound) {
        if (++p->surprises >= REPEATS) {
            scale_past(p, expected > 0 ? seconds / expected : 1);
            p->surprises = 0;
        } else {
            seconds = expected + (residual > 0 ? bound : -bound);
        }
    } else {
        p->surprises = 0;
    }
    residual = fabs(seconds - (p->weight > 0 ? profile_seconds(p, batch) : seconds));
    p->deviation = p->weight > 0 ? 0.9 * p->deviation + 0.1 * 1.25 * residual : 0;
    p->weight = FORGET * p->weight + 1;
    p->sb = FORGET * p->sb + batch;
    p->sbb = FORGET * p->sbb + (double)batch * batch;
    p->st = FORGET * p->st + seconds;
    p->sbt = FORGET * p->sbt + batch * seconds;
    p->count++;
    fit(p);
}

json_t *profile_json(const struct profile *p)
{
    return json_pack("{s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "a", p->a, "k", p->k, "count", (json_int_t)p->count, "weight", p->weight,
                     "sb", p->sb, "st", p->st, "sbb", p->sbb, "sbt", p->sbt, "deviation", p->deviation, "max_batch", p->max_batch);
}

int profile_read(struct profile *p, const json_t *j)
{
    double *const sums[] = {&p->a, &p->k, &p->weight, &p->sb, &p->st, &p->sbb, &p->sbt, &p->deviation};
    static const char *const names[] = {"a", "k", "weight", "sb", "st", "sbb", "sbt", "deviation"};
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
    p->max_batch = (int)max_batch;
    return p->count < 0 || max_batch < 0 || max_batch > INT32_MAX ? -ERR_DATA : 0;
}
