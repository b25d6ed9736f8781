/* Staleness figures: see staleness.h and docs/semantics.md#staleness. Percentiles are by nearest
 * rank: the smallest value that at least p percent of the gradients do not exceed. */
#include "job/staleness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"

enum { FIRST_BINS = 16 };

void staleness_init(struct staleness *s)
{
    memset(s, 0, sizeof *s);
}

void staleness_release(struct staleness *s)
{
    free(s->histogram);
    memset(s, 0, sizeof *s);
}

static void grow(struct staleness *s, int bin)
{
    int bins = s->bins ? s->bins : FIRST_BINS;
    while (bins <= bin) {
        bins *= 2;
    }
    int64_t *h = realloc(s->histogram, (size_t)bins * sizeof *h);
    BUG_ON(!h);
    memset(h + s->bins, 0, (size_t)(bins - s->bins) * sizeof *h);
    s->histogram = h;
    s->bins = bins;
}

void staleness_add(struct staleness *s, int tau, int samples)
{
    tau = tau < 0 ? 0 : tau;
    int bin = tau < STALENESS_BINS ? tau : STALENESS_BINS - 1;
    if (bin >= s->bins) {
        grow(s, bin);
    }
    s->histogram[bin]++;
    s->count++;
    s->sum += tau;
    s->sample_sum += (double)tau * samples;
    s->samples += samples;
    s->max = tau > s->max ? tau : s->max;
    s->recent[s->recent_at] = (uint16_t)(tau < 65535 ? tau : 65535);
    s->recent_samples[s->recent_at] = samples;
    s->recent_at = (s->recent_at + 1) % STALENESS_RECENT;
    s->recent_n += s->recent_n < STALENESS_RECENT;
}

void staleness_take_back(struct staleness *s, int tau, int64_t gradients, double samples)
{
    BUG_ON(gradients > 0 && (s->bins <= tau || s->histogram[tau] < gradients));
    if (gradients > 0) {
        s->histogram[tau] -= gradients;
        s->count -= gradients;
        s->sum -= (double)tau * (double)gradients;
        s->sample_sum -= tau * samples;
        s->samples -= samples;
        s->recent_n = s->count < s->recent_n ? (int)s->count : s->recent_n;
    }
}

/* ---- figures --------------------------------------------------------------------------------- */

struct figures { /* of one worker or of several */
    int64_t histogram[STALENESS_BINS];
    int64_t count;
    double sum, sample_sum, samples, node_sum;
    int nodes, max, bins;
};

static void add_bin(struct figures *f, int tau, int64_t n)
{
    int bin = tau < STALENESS_BINS ? tau : STALENESS_BINS - 1;
    f->histogram[bin] += n;
    f->bins = bin + 1 > f->bins ? bin + 1 : f->bins;
}

static void add_whole(struct figures *f, const struct staleness *s)
{
    for (int i = 0; i < s->bins; i++) {
        if (s->histogram[i]) {
            add_bin(f, i, s->histogram[i]);
        }
    }
    f->count += s->count;
    f->sum += s->sum;
    f->sample_sum += s->sample_sum;
    f->samples += s->samples;
    f->max = s->max > f->max ? s->max : f->max;
    f->node_sum += s->count > 0 ? s->sum / (double)s->count : 0;
    f->nodes += s->count > 0;
}

static void add_recent(struct figures *f, const struct staleness *s)
{
    double sum = 0;
    for (int i = 0; i < s->recent_n; i++) {
        add_bin(f, s->recent[i], 1);
        sum += s->recent[i];
        f->sample_sum += (double)s->recent[i] * s->recent_samples[i];
        f->samples += s->recent_samples[i];
        f->max = s->recent[i] > f->max ? s->recent[i] : f->max;
    }
    f->count += s->recent_n;
    f->sum += sum;
    f->node_sum += s->recent_n > 0 ? sum / s->recent_n : 0;
    f->nodes += s->recent_n > 0;
}

static int percentile(const struct figures *f, double p)
{
    int64_t rank = (int64_t)ceil(p / 100 * (double)f->count), seen = 0;
    for (int i = 0; i < f->bins; i++) {
        seen += f->histogram[i];
        if (seen >= rank && seen > 0) {
            return i == STALENESS_BINS - 1 ? f->max : i;
        }
    }
    return 0;
}

static json_t *bins_json(const int64_t *histogram, int bins)
{
    json_t *out = json_array();
    for (int i = 0; i < bins; i++) {
        json_array_append_new(out, json_integer((json_int_t)histogram[i]));
    }
    return out;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void add_order(json_t *out, const struct figures *f)
{
    json_object_set_new(out, "sample_mean", json_real(ratio(f->sample_sum, f->samples)));
    json_object_set_new(out, "p50", json_integer(percentile(f, 50)));
    json_object_set_new(out, "p95", json_integer(percentile(f, 95)));
    json_object_set_new(out, "p99", json_integer(percentile(f, 99)));
    json_object_set_new(out, "max", json_integer(f->max));
    json_object_set_new(out, "histogram", bins_json(f->histogram, f->bins));
}

static struct figures *new_figures(void)
{
    struct figures *f = calloc(1, sizeof *f);
    BUG_ON(!f);
    return f;
}

json_t *staleness_json(const struct staleness *s)
{
    struct figures *f = new_figures();
    add_whole(f, s);
    json_t *out = json_pack("{s:f}", "mean", ratio(f->sum, (double)f->count));
    add_order(out, f);
    free(f);
    return out;
}

json_t *staleness_job_json(const struct staleness *const *workers, int n, bool recent)
{
    struct figures *f = new_figures();
    for (int i = 0; i < n; i++) {
        if (recent) {
            add_recent(f, workers[i]);
        } else {
            add_whole(f, workers[i]);
        }
    }
    json_t *out = json_pack("{s:f, s:f}", "update_mean", ratio(f->sum, (double)f->count),
                            "node_mean", ratio(f->node_sum, f->nodes));
    add_order(out, f);
    free(f);
    return out;
}

/* ---- to go on later -------------------------------------------------------------------------- */

/* The index of the i-th of the last hundred, counted from the oldest. */
static int place_of(const struct staleness *s, int i)
{
    return (s->recent_at - s->recent_n + i + STALENESS_RECENT) % STALENESS_RECENT;
}

static bool are_same(const struct staleness *s, int a, int b)
{
    return s->recent[a] == s->recent[b] && s->recent_samples[a] == s->recent_samples[b];
}

/* [[tau, samples, times], ...], oldest first. It counts equal ones, since nearly all are equal
 * where workers step together, and every heartbeat has this list. */
static json_t *recent_json(const struct staleness *s)
{
    json_t *out = json_array();
    for (int i = 0, times; i < s->recent_n; i += times) {
        int at = place_of(s, i);
        times = 1;
        while (i + times < s->recent_n && are_same(s, at, place_of(s, i + times))) {
            times++;
        }
        json_array_append_new(
            out, json_pack("[i, i, i]", (int)s->recent[at], (int)s->recent_samples[at], times));
    }
    return out;
}

json_t *staleness_dump(const struct staleness *s)
{
    int bins = s->bins;
    while (bins > 0 && s->histogram[bins - 1] == 0) {
        bins--;
    }
    return json_pack("{s:I, s:f, s:f, s:f, s:i, s:o, s:o}", "count", (json_int_t)s->count, "sum",
                     s->sum, "sample_sum", s->sample_sum, "samples", s->samples, "max", s->max,
                     "histogram", bins_json(s->histogram, bins), "recent", recent_json(s));
}

static int between(int64_t v, int least, int most)
{
    return v < least ? least : v > most ? most : (int)v;
}

/* Reads them. Older dumps have no third number: each counts once. */
static void read_recent(struct staleness *s, const json_t *recent)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)recent, i, item) {
        int tau = between(json_integer_value(json_array_get(item, 0)), 0, 65535),
            samples = between(json_integer_value(json_array_get(item, 1)), 0, INT32_MAX),
            times = between(json_integer_value(json_array_get(item, 2)), 1, STALENESS_RECENT);
        for (int k = 0; k < times; k++) {
            staleness_add(s, tau, samples);
        }
    }
}

int staleness_read(struct staleness *s, const json_t *j)
{
    const json_t *histogram = json_object_get(j, "histogram");
    size_t n = json_array_size(histogram), i;
    int64_t max = json_integer_value(json_object_get(j, "max")), counted = 0;
    json_t *item;
    staleness_init(s);
    if (!json_is_array(histogram) || n > STALENESS_BINS) {
        return -ERR_DATA;
    }
    read_recent(s, json_object_get(j, "recent"));
    if (n > (size_t)s->bins) {
        grow(s, (int)n - 1);
    }
    if (s->histogram) {
        memset(s->histogram, 0, (size_t)s->bins * sizeof *s->histogram);
    }
    bool good = true;
    json_array_foreach((json_t *)histogram, i, item) {
        int64_t count = json_integer_value(item);
        good = good && count >= 0 && count <= INT64_MAX - counted;
        counted += good ? count : 0;
        s->histogram[i] = count;
    }
    s->count = json_integer_value(json_object_get(j, "count"));
    s->sum = json_number_value(json_object_get(j, "sum"));
    s->sample_sum = json_number_value(json_object_get(j, "sample_sum"));
    s->samples = json_number_value(json_object_get(j, "samples"));
    s->max = max >= 0 && max <= INT32_MAX ? (int)max : 0;
    if (!good || s->count != counted || s->max != max || s->sum < 0 || s->sample_sum < 0 ||
        s->samples < 0) {
        staleness_release(s);
        return -ERR_DATA;
    }
    return 0;
}

/* ---- fewer workers than before --------------------------------------------------------------- */

/* Adds the counts of another worker; the last 100 stay the worker's own. */
static void take_over(struct staleness *s, const struct staleness *gone)
{
    for (int i = 0; i < gone->bins; i++) {
        if (gone->histogram[i]) {
            if (i >= s->bins) {
                grow(s, i);
            }
            s->histogram[i] += gone->histogram[i];
        }
    }
    s->count += gone->count;
    s->sum += gone->sum;
    s->sample_sum += gone->sample_sum;
    s->samples += gone->samples;
    s->max = gone->max > s->max ? gone->max : s->max;
}

void staleness_restore(struct staleness *s, const json_t *dumps, int worker, int workers)
{
    const json_t *own = json_array_get(dumps, (size_t)worker);
    if (own) {
        staleness_read(s, own);
    }
    for (size_t i = (size_t)(worker + workers); i < json_array_size(dumps); i += (size_t)workers) {
        struct staleness gone;
        staleness_init(&gone);
        if (staleness_read(&gone, json_array_get(dumps, i)) >= 0) {
            take_over(s, &gone);
        }
        staleness_release(&gone);
    }
}
