/* Reasons of assignments: see reason.h.
 *
 *      steps ─► measured ───────────┬─► who moves towards the median step? ─► how much slower?
 *            └► lines ─► next sizes ┘
 *
 * A line lags behind its node: a new speed must hold before minibatches follow it (steady.h), and
 * one step is a small part of a fit. People see the measured times next to the sentence, so the
 * sentence compares these. Of a line only the shape counts: the share of the fixed part in a
 * step. */
#include "job/minibatch/reason.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/median.h"
#include "job/spec/spec.h"

static const double EXPLAINED = 1.5; /* times the ratio of speeds: a larger change has another
                                        cause */
static const double AS_FAST = 1.05;  /* ratio of speeds */
static const double AS_LONG = 1.15;  /* ratio of steps; a smaller one is told in percent */

/* The worker named in a sentence. */
struct cause {
    int who;       /* -1: nobody */
    double longer; /* its step divided by the median one; with two workers by the other's */
};

static double off(double x, double median)
{
    return x > median ? x / median : median / x;
}

static double line_seconds(const struct line *line, double batch)
{
    return line->a + line->k * batch;
}

/* Does the new minibatch bring a worker's step closer to the median one? */
static bool follows(const struct speeds *s, const int *next, int worker, double seconds,
                    double median)
{
    int change = next[worker] - s->sizes[worker];
    return seconds > median ? change < 0 : change > 0;
}

/* Of the workers whose step comes closer to the median one, the one whose step is farthest from it.
 * seconds[workers]: of a step. */
static struct cause find_cause(const struct speeds *s, const int *next, const double *seconds)
{
    double sorted[SPEC_WORKERS];
    int who = -1;
    for (int i = 0; i < s->workers; i++) {
        sorted[i] = seconds[i];
    }
    double median = median_of(sorted, s->workers);
    for (int i = 0; i < s->workers; i++) {
        if (follows(s, next, i, seconds[i], median) &&
            (who < 0 || off(seconds[i], median) > off(seconds[who], median))) {
            who = i;
        }
    }
    double others = who >= 0 && s->workers == 2 ? seconds[1 - who] : median;
    return (struct cause){.who = who, .longer = who < 0 ? 1 : seconds[who] / others};
}

/* Time per sample in an equal split. A small minibatch bears more of a step's fixed part, which
 * does not make its node slower. The page compares nodes so, too (speeds() in
 * static/js/sentences/balance.js). */
static double sample_seconds(const struct speeds *s, const double *seconds, int worker)
{
    const struct line *line = &s->lines[worker];
    double share = 0, now = line_seconds(line, s->sizes[worker]);
    for (int i = 0; i < s->workers; i++) {
        share += (double)s->sizes[i] / s->workers;
    }
    return now > 0 ? seconds[worker] * line_seconds(line, share) / now / share
                   : seconds[worker] / s->sizes[worker];
}

/* The time with which a worker's is compared: the median, or with two workers the other's. */
static double others_seconds(const struct speeds *s, const double *seconds, int worker)
{
    double each[SPEC_WORKERS];
    if (s->workers == 2) {
        return sample_seconds(s, seconds, 1 - worker);
    }
    for (int i = 0; i < s->workers; i++) {
        each[i] = sample_seconds(s, seconds, i);
    }
    return median_of(each, s->workers);
}

/* Does a speed that is so many times that of others explain a change? It does if minibatches were
 * equal. A minibatch that was made for another speed may change by more, or the other way: a fast
 * node's may have become too large even for it. Then the length of its step is the explanation. */
static bool explains(double times, bool slower, int from, int to)
{
    double change = (double)(from > to ? from : to) / (from > to ? to : from);
    return slower == (to < from) && change < EXPLAINED * times;
}

/* Prints what a worker does: "computes 4.0 times slower than the median". */
static void print_cause(const struct speeds *s, const int *next, const double *seconds,
                        struct cause cause, char *out, size_t size)
{
    int who = cause.who;
    double own = sample_seconds(s, seconds, who), others = others_seconds(s, seconds, who),
           times = off(own, others);
    bool slower = own > others;
    const char *against = s->workers == 2 ? s->names[1 - who] : "the median";
    if (times < AS_FAST) {
        snprintf(out, size, "computes as fast as %s", against);
    } else if (explains(times, slower, s->sizes[who], next[who])) {
        snprintf(out, size, "computes %.*f times %s than %s", times < 9.95 ? 1 : 0, times,
                 slower ? "slower" : "faster", against);
    } else if (off(cause.longer, 1) < AS_LONG) {
        snprintf(out, size, "takes %.0f %% %s than %s for a step", 100 * fabs(cause.longer - 1),
                 cause.longer > 1 ? "longer" : "less", against);
    } else if (cause.longer > 1) {
        snprintf(out, size, "takes %.1f times as long as %s for a step", cause.longer, against);
    } else {
        snprintf(out, size, "finishes a step %.1f times faster than %s", 1 / cause.longer, against);
    }
}

void reason_print(const struct speeds *s, const int *next, char *out, size_t size)
{
    double fitted[SPEC_WORKERS];
    const double *seconds = s->seconds;
    struct cause cause = find_cause(s, next, seconds);
    if (cause.who < 0) {
        for (int i = 0; i < s->workers; i++) {
            fitted[i] = line_seconds(&s->lines[i], s->sizes[i]);
        }
        seconds = fitted;
        cause = find_cause(s, next, seconds);
    }
    if (cause.who < 0) {
        snprintf(out, size, "the nodes finish a step closer together");
        return;
    }
    char what[128];
    print_cause(s, next, seconds, cause, what, sizeof what);
    snprintf(out, size, "%s %s%s; its minibatch goes from %d to %d", s->names[cause.who], what,
             seconds == fitted ? " by the fitted lines" : "", s->sizes[cause.who], next[cause.who]);
}
