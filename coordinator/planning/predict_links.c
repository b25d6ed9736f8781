/* The links of a predicted cluster: see predict_run.h.
 *
 * Links within a host are known from a measurement of shared memory. In a job they are slower or
 * faster: ranks share cores with the threads that exchange, or are on hosts with a network between
 * them. Where nodes have trained this network together, the time that a step exchanged is known.
 * Then the links are made such that a simulated step exchanges for as long. */
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/planning/predict_run.h"

enum { TRIES = 8 };
static const double most_seconds = 2;    /* of all trials together */
static const double close_enough = 0.03, /* relative */
    most_factor = 1e3; /* the most by which links are slower or faster than within a host */
/* seconds until a message starts; bytes a second of one copy */
static const double host_latency = 5e-5, host_bandwidth = 1.3e9;

struct trial {
    double slower, seconds; /* the links' factor, and the exchange of a step with them */
};

json_t *predict_link(double slower)
{
    return json_pack("{s:f, s:f}", "latency_seconds", host_latency * slower, "bytes_per_second",
                     host_bandwidth / slower);
}

static int set_links(struct prediction *p, double slower, struct err *e)
{
    json_t *link = predict_link(slower);
    json_object_set(p->cluster, "links", link);
    json_object_set_new(p->cluster, "server", link);
    return predict_write(p->dir, "cluster.json", p->cluster, e);
}

static int try_links(struct prediction *p, struct trial *t, struct err *e)
{
    const char *chosen = catalog_get(p->spec->strategy.type)->name,
               *measured = p->exchange.strategy;
    struct predicted run = {0};
    int rc = set_links(p, t->slower, e);
    if (rc < 0 || (rc = predict_run(p, measured, strcmp(measured, chosen) == 0, &run, e)) < 0) {
        return rc;
    }
    t->seconds = run.exchange_seconds;
    json_decref(run.row);
    return 0;
}

/* How far a trial is from the wanted exchange, as the logarithm of a factor. */
static double off(const struct trial *t, double wanted)
{
    return fabs(log(fmax(t->seconds, 1e-3 * wanted) / wanted));
}

/* Where a straight line through two trials meets the wanted exchange. The result stays away from
 * the trials themselves: the true curve is flat at first, where computing hides the exchange, so
 * the line falls short. */
static double between(const struct trial *low, const struct trial *high, double wanted)
{
    double share = (wanted - low->seconds) / (high->seconds - low->seconds);
    return low->slower + fmin(fmax(share, 0.1), 0.9) * (high->slower - low->slower);
}

/* The next factor to try. Slower links exchange longer, so it first finds a trial on each side of
 * the wanted exchange, and then goes between them. */
static double next_factor(const struct trial *low, const struct trial *high, double wanted)
{
    if (low->slower > 0 && high->slower > 0) {
        return between(low, high, wanted);
    }
    const struct trial *one = low->slower > 0 ? low : high;
    double ratio = one->seconds > 0 ? wanted / one->seconds : most_factor;
    ratio = low->slower > 0 ? fmin(1.05 * ratio, 16) : fmax(0.95 * ratio, 1.0 / 16);
    return fmin(fmax(one->slower * ratio, 1 / most_factor), most_factor);
}

int predict_settle_links(struct prediction *p, struct err *e)
{
    double wanted = p->exchange.seconds;
    struct trial low = {0}, high = {0}, best = {0}, now = {.slower = 1};
    double until = clock_now() + most_seconds;
    for (int i = 0; i < TRIES && (i == 0 || clock_now() < until); i++) {
        struct err why = {0};
        if (try_links(p, &now, &why) < 0) { /* the measured strategy does not run this job */
            break;
        }
        best = i == 0 || off(&now, wanted) < off(&best, wanted) ? now : best;
        if (off(&now, wanted) < close_enough) {
            break;
        }
        *(now.seconds < wanted ? &low : &high) = now;
        now.slower = next_factor(&low, &high, wanted);
    }
    return set_links(p, best.slower > 0 ? best.slower : 1, e);
}
