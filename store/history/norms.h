/* Norms of a model's tensors in a history: norms.bin beside the other files (parts.h). Inside
 * store/ only.
 *
 *   meta.json   {"tensors": {"names": […], "elements": […], "left_out"}}, by the first norms
 *   norms.bin   records: step, epoch, time, then the weight of each tensor and the gradient of
 *               each, as floats; NaN: not finite. There is no such file where none came
 */
#ifndef STORE_HISTORY_NORMS_H
#define STORE_HISTORY_NORMS_H

#include <jansson.h>

#include "common/err.h"
#include "job/documents/ranks/norms.h"
#include "store/history/records.h"

struct norm_track {
    struct records records;
    int64_t told; /* the step of the last one that counts; -1: none */
};

int norm_track_open(struct norm_track *t, const char *dir, const json_t *meta, struct err *e);
void norm_track_close(struct norm_track *t);
/* Appends norms. They are left out without error if their step is not beyond the last one. The
 * first ones write meta.json. */
int norm_track_append(struct norm_track *t, const char *dir, json_t *meta, const struct norms *n,
                      struct err *e);
int norm_track_supersede(struct norm_track *t, json_t *meta, int64_t version, struct err *e);
int norm_track_sync(struct norm_track *t, const char *dir, struct err *e);

#endif
