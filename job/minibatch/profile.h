/* The fitted step time of a node for a network: t(b) = a + k*b, by recursive least squares with
 * forgetting, so that it follows a node whose speed changes. Pure.
 */
#ifndef JOB_MINIBATCH_PROFILE_H
#define JOB_MINIBATCH_PROFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct line {
    double a, k; /* seconds, seconds per sample */
};

struct profile {
    double a, k;                          /* seconds, seconds per sample; valid if count > 0 */
    int64_t count;                        /* observations */
    double weight, sb, st, sbb, sbt, stt; /* forgetting sums behind the fit */
    double deviation;                     /* of recent residuals, seconds */
    struct drift {
        double sum;             /* sum of deviations in this direction */
        double seconds, likely; /* time of the steps since it began: measured, and by the line */
        double deviation;       /* deviation of a step before */
        double lasted;          /* how long it has lasted, in steps of the line's length; each step
                                   counts at least one */
    } slower, faster;           /* evidence that its speed has changed */
    int64_t turns;              /* number of changes of speed seen */
    double lasted;              /* steps that the newest change had lasted when it was seen */
    bool known;    /* a and k were once told apart; until then the line goes through the origin */
    int max_batch; /* memory limit, 0: none; it may be known although the node was never measured,
                      if a first minibatch did not fit */
};

void profile_init(struct profile *p);
/* Adds one measured step. Robust: an outlier beyond 4 deviations counts little; steps that stay off
 * the line are a new speed. */
void profile_observe(struct profile *p, int batch, double seconds);
/* The same for the mean `seconds` of `steps` steps. They count as one observation; only the time
 * for which a new speed has lasted counts all of them. */
void profile_observe_mean(struct profile *p, int batch, double seconds, int steps);
double profile_seconds(const struct profile *p, int batch);
/* Relative standard error of that time, from the noise of a step and the number of remembered
 * steps. */
double profile_error(const struct profile *p, int batch);
json_t *profile_json(const struct profile *p);
int profile_read(struct profile *p, const json_t *j); /* negative if malformed */

#endif
