/* Staleness figures (docs/semantics.md#staleness): cumulative histogram and the last 100 per
 * worker. Pure. */
#ifndef JOB_STALENESS_H
#define JOB_STALENESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { STALENESS_BINS = 4096, STALENESS_RECENT = 100 };

struct staleness {
    int64_t count;
    int64_t *histogram; /* [bins], owned; staleness beyond the last bin counts there */
    int bins;           /* grows up to STALENESS_BINS */
    double sum, sample_sum, samples;
    int max;
    uint16_t recent[STALENESS_RECENT];
    int32_t recent_samples[STALENESS_RECENT];
    int recent_at, recent_n;
};

void staleness_init(struct staleness *s);
void staleness_release(struct staleness *s);
void staleness_add(struct staleness *s, int tau, int samples);
/* Removes the last `gradients` that were added, which all have staleness tau and together `samples`
 * samples, since they no longer count.
 */
void staleness_take_back(struct staleness *s, int tau, int64_t gradients, double samples);
/* {"mean","sample_mean","p50","p95","p99","max","histogram"} of one worker (nearest rank). */
json_t *staleness_json(const struct staleness *s);
/* {"update_mean","node_mean","sample_mean","p50","p95","p99","max","histogram"} over workers;
 * recent: of the last 100 per worker. Workers without gradients do not count in node_mean. */
json_t *staleness_job_json(const struct staleness *const *workers, int n, bool recent);
/* Reads what staleness_dump() wrote. Negative: it is malformed, and `s` is as after
 * staleness_init(). */
int staleness_read(struct staleness *s, const json_t *j);
/* From the dumps of all workers of an earlier attempt: takes this worker's dump, and if there are
 * fewer workers now, its share of the dumps of missing workers, so that no gradient is forgotten.
 * `s` must be fresh. */
void staleness_restore(struct staleness *s, const json_t *dumps, int worker, int workers);
/* everything needed to go on, for heartbeats and checkpoints */
json_t *staleness_dump(const struct staleness *s);

#endif
