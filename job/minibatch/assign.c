/* Minibatches for the speeds of nodes: see assign.h and docs/semantics.md#minibatches.
 *
 *      seconds │      slow      mid        fast         the line a + k*b of each node; a cut at
 *            T ┼───────●─────────●──────────●           height T gives minibatches that finish
 *              └───────┴─────────┴──────────┴── b       together, and T is where they sum to B
 */
#include "job/minibatch/assign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/sample.h"

enum { HALVINGS = 200 };

static const double LEAST_K = 1e-12;

/* ---- equal finish ---------------------------------------------------------------------------- */

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

struct nodes { /* the nodes, and what they share out */
    int n;
    const double *a, *k;  /* [n] seconds of a step: a + k x samples */
    const int *max_batch; /* [n], or NULL */
    int B, min_batch;
};

static int upper(const struct nodes *of, int i)
{
    const int *most = of->max_batch;
    return most && most[i] > 0 && most[i] < of->B ? most[i] : of->B;
}

/* Gives `left` samples away (or takes them back) in steps of `unit`, always to the node that is
 * farthest from its ideal. Returns what could not be moved. */
static int settle(const struct nodes *of, int left, int unit, const double *ideal, int *sizes)
{
    while (abs(left) >= unit) {
        int best = -1, sign = left > 0 ? 1 : -1;
        double most = -INFINITY;
        for (int i = 0; i < of->n; i++) {
            int moved = sizes[i] + sign * unit;
            double off = sign * (ideal[i] - sizes[i]);
            if (moved >= of->min_batch && moved <= upper(of, i) && off > most) {
                best = i;
                most = off;
            }
        }
        if (best < 0) {
            return left;
        }
        sizes[best] += sign * unit;
        left -= sign * unit;
    }
    return left;
}

static bool flat(double k) /* its time does not grow with the minibatch */
{
    return !(k > LEAST_K);
}

/* What each node gets at the cut `T`. Flat nodes, whose line no cut finds, get up to `most`.
 * Returns the sum. */
static double cut_at(const struct nodes *of, double T, double most, double *ideal)
{
    double sum = 0;
    for (int i = 0; i < of->n; i++) {
        double all = flat(of->k[i]) ? most : (T - of->a[i]) / of->k[i];
        ideal[i] = clamp(all, of->min_batch, upper(of, i));
        sum += ideal[i];
    }
    return sum;
}

/* The exact split, in fractions of samples. Flat nodes come first: they get their largest
 * minibatches, or share what the others' least ones leave. */
static void cut(const struct nodes *of, double *ideal)
{
    double low = 0, high = 0;
    int B = of->B;
    bool full = cut_at(of, -INFINITY, B, ideal) > B;
    for (int i = 0; i < of->n; i++) {
        double end = flat(of->k[i]) ? 0 : of->a[i] + of->k[i] * upper(of, i);
        high = end > high ? end : high;
    }
    high = full ? B : high;
    for (int n = 0; n < HALVINGS; n++) {
        double middle = 0.5 * (low + high);
        double sum = cut_at(of, full ? -INFINITY : middle, full ? middle : B, ideal);
        *(sum < B ? &low : &high) = middle;
    }
    cut_at(of, full ? -INFINITY : high, full ? high : B, ideal);
}

double assign_equal_finish(const double *a, const double *k, const int *max_batch, int workers,
                           int B, int min_batch, int quantum, int *sizes)
{
    double most = 0;
    min_batch = min_batch < 1 ? 1 : min_batch;
    const struct nodes nodes = {workers, a, k, max_batch, B, min_batch};
    for (int i = 0; i < workers; i++) {
        if (upper(&nodes, i) < min_batch) {
            return -1;
        }
        most += upper(&nodes, i);
    }
    if (most < B || (double)min_batch * workers > B) {
        return -1;
    }
    double *ideal = calloc((size_t)workers, sizeof *ideal);
    BUG_ON(!ideal);
    cut(&nodes, ideal);
    int unit = quantum > 1 && B >= workers * quantum ? quantum : 1, left = B, fastest = 0;
    for (int i = 0; i < workers; i++) {
        sizes[i] = (int)((ideal[i] + 1e-6) / unit) * unit;
        if (sizes[i] < min_batch) {
            int up = (min_batch + unit - 1) / unit * unit;
            sizes[i] = up <= upper(&nodes, i) ? up : min_batch;
        }
        left -= sizes[i];
        fastest = k[i] < k[fastest] ? i : fastest;
    }
    left = settle(&nodes, left, unit, ideal, sizes);
    if (left < 0 && settle(&nodes, -unit, unit, ideal, sizes) == 0) {
        left += unit;
    }
    if (left > 0 && sizes[fastest] + left <= upper(&nodes, fastest)) {
        sizes[fastest] +=
            left; /* B may be no multiple of the quantum: then the fastest takes the remainder */
        left = 0;
    }
    left = settle(&nodes, left, 1, ideal, sizes);
    BUG_ON(left != 0);
    double T = 0;
    for (int i = 0; i < workers; i++) {
        double t = a[i] + k[i] * sizes[i];
        T = t > T ? t : T;
    }
    free(ideal);
    return T;
}

/* ---- the first assignment -------------------------------------------------------------------- */

static void split_equally(int B, int workers, int *sizes)
{
    for (int i = 0; i < workers; i++) {
        sizes[i] = B / workers + (i < B % workers);
    }
}

/* Splits in proportion to the weights, within the bounds: as for nodes whose speeds are the
 * weights. */
static bool split_by_weights(const struct batching_spec *b, int workers, int *sizes)
{
    double a[SPEC_WORKERS] = {0}, k[SPEC_WORKERS], most = 0;
    int max_batch[SPEC_WORKERS];
    for (int i = 0; i < workers; i++) {
        most = b->weights[i] > most ? b->weights[i] : most;
    }
    for (int i = 0; i < workers; i++) {
        k[i] = b->weights[i] > 1e-9 * most ? most / b->weights[i] : 1e9;
        max_batch[i] = b->max_batch;
    }
    return assign_equal_finish(a, k, max_batch, workers, b->global_batch, b->min_batch, 1, sizes) >=
           0;
}

int assign_limit(const struct batching_spec *b, const struct profile *p)
{
    int limit = p ? p->max_batch : 0;
    return b->max_batch > 0 && (limit == 0 || b->max_batch < limit) ? b->max_batch : limit;
}

/* Splits as equally as the memory allows, for nodes of which nothing else is known. False: no limit
 * matters, or the limits are too small together. */
static bool split_within_limits(const struct batching_spec *b, int workers,
                                const struct profile *const *profiles, int *sizes)
{
    double a[SPEC_WORKERS] = {0}, k[SPEC_WORKERS];
    int max_batch[SPEC_WORKERS];
    bool limited = false;
    for (int i = 0; i < workers; i++) {
        k[i] = 1;
        max_batch[i] = assign_limit(b, profiles ? profiles[i] : NULL);
        limited = limited ||
                  (max_batch[i] > 0 && max_batch[i] < (b->global_batch + workers - 1) / workers);
    }
    return limited && assign_equal_finish(a, k, max_batch, workers, b->global_batch, b->min_batch,
                                          1, sizes) >= 0;
}

static bool split_by_profiles(const struct batching_spec *b, int workers,
                              const struct profile *const *profiles, int quantum,
                              struct assignment *out)
{
    double a[SPEC_WORKERS], k[SPEC_WORKERS];
    int max_batch[SPEC_WORKERS];
    for (int i = 0; i < workers; i++) {
        if (!profiles || !profiles[i] || profiles[i]->count == 0) {
            return false;
        }
        a[i] = profiles[i]->a;
        k[i] = profiles[i]->k;
        max_batch[i] = assign_limit(b, profiles[i]);
    }
    out->predicted_seconds = assign_equal_finish(a, k, max_batch, workers, b->global_batch,
                                                 b->min_batch, quantum, out->sizes);
    return out->predicted_seconds >= 0;
}

int assign_slice(const struct jobspec *spec, int size, int64_t samples)
{
    int64_t B = spec->batching.global_batch;
    if (samples <= 0 || B <= samples) {
        return size;
    }
    int64_t share = jobspec_uses_server(spec) ? samples : (size * samples + B - 1) / B;
    return share < size ? (int)share : size;
}

void assign_taken(int *sizes, int workers, bool together, int64_t samples)
{
    int64_t sum = 0, parts[SPEC_WORKERS];
    for (int i = 0; i < workers; i++) {
        sum += sizes[i];
    }
    if (samples <= 0 || sum <= samples) {
        return;
    }
    sample_split(samples, sizes, workers, parts);
    for (int i = 0; i < workers; i++) {
        int64_t most = together ? parts[i] : samples;
        sizes[i] = most < sizes[i] ? (int)most : sizes[i];
    }
}

int assign_first(struct assignment *out, const struct batching_spec *b, int workers,
                 const struct profile *const *profiles, int quantum, struct err *e)
{
    int least = b->min_batch < 1 ? 1 : b->min_batch;
    memset(out, 0, sizeof *out);
    out->version = 1;
    out->workers = workers;
    if (b->global_batch == 0) {
        snprintf(out->reason, sizeof out->reason, "none, until the program has told its batch");
        return 0;
    }
    if (workers < 1 || workers > SPEC_WORKERS || (int64_t)workers * least > b->global_batch) {
        return err_set(e, ERR_INVALID,
                       "a global batch of %d cannot give each of %d worker%s at least %d sample%s",
                       b->global_batch, workers, workers == 1 ? "" : "s", least,
                       least == 1 ? "" : "s");
    }
    if (b->max_batch > 0 && (int64_t)workers * b->max_batch < b->global_batch) {
        return err_set(e, ERR_INVALID,
                       "%d worker%s of at most %d sample%s cannot hold a global batch of %d",
                       workers, workers == 1 ? "" : "s", b->max_batch, b->max_batch == 1 ? "" : "s",
                       b->global_batch);
    }
    int given = b->n_sizes > 0 ? b->n_sizes : b->n_weights;
    if (b->policy == BATCH_STATIC &&
        given != workers) { /* fewer nodes remain than the job was written for */
        return err_set(e, ERR_INVALID, "the job gives minibatches for %d workers, and there are %d",
                       given, workers);
    }
    if (b->policy == BATCH_STATIC && b->n_sizes == workers) {
        memcpy(out->sizes, b->sizes, (size_t)workers * sizeof *out->sizes);
        snprintf(out->reason, sizeof out->reason, "the minibatches that the job gives");
    } else if (b->policy == BATCH_STATIC && split_by_weights(b, workers, out->sizes)) {
        snprintf(out->reason, sizeof out->reason,
                 "in proportion of the weights that the job gives");
    } else if (b->policy == BATCH_DYNAMIC &&
               split_by_profiles(b, workers, profiles, quantum, out)) {
        snprintf(out->reason, sizeof out->reason,
                 "from the profiles of earlier jobs: all finish together");
    } else if (b->policy == BATCH_DYNAMIC &&
               split_within_limits(b, workers, profiles, out->sizes)) {
        snprintf(out->reason, sizeof out->reason,
                 "equal as far as memory allows, until the nodes have been measured");
    } else {
        split_equally(b->global_batch, workers, out->sizes);
        snprintf(out->reason, sizeof out->reason, "%s",
                 b->policy == BATCH_DYNAMIC ? "equal, until the nodes have been measured"
                                            : "equal");
    }
    return 0;
}

json_t *assignment_json(const struct assignment *a, const char *const *names, const char *time)
{
    json_t *batches = json_object();
    for (int i = 0; i < a->workers; i++) {
        json_object_set_new(batches, names[i], json_integer(a->sizes[i]));
    }
    return json_pack("{s:i, s:I, s:s?, s:s, s:o, s:f, s:f}", "version", a->version, "step",
                     (json_int_t)a->step, "time", time, "reason", a->reason, "batches", batches,
                     "predicted_step_seconds", a->predicted_seconds, "measured_step_seconds",
                     a->measured_seconds);
}

int assignment_version(const json_t *assignment)
{
    return (int)json_integer_value(json_object_get(assignment, "version"));
}
