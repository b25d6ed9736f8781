/* Rows on disk: every point that reached the store is kept. JOBDIR/history has one file of rows per
 * rank, and a min/max pyramid per series so that a chart of any width is read in a few pages and
 * never loses an extreme. Rows past a restart's checkpoint are marked superseded and leave series.
 * One writer (the monitor, or the simulator); readers in other threads or processes see whole rows
 * only, and those after history_show (or 64 rows later). Rows that come twice (same attempt, step
 * and local step not beyond the rank's last) and rows of an attempt that has been given up are left
 * out without error. The same rows in the same order give the same bytes; where the folder has a
 * history already, new rows are appended to it, so the simulator empties it first. A history of an
 * older version is read, and continued in its own format; one of a newer version is refused with
 * ERR_DATA and a sentence that says so.
 */
#ifndef STORE_HISTORY_H
#define STORE_HISTORY_H

#include <jansson.h>

#include "common/err.h"
#include "job/documents/ranks/logged.h"
#include "job/documents/ranks/norms.h"
#include "job/row.h"

struct history;

/* Opens the history for writing; it continues where it ended. NULL after an error. */
struct history *history_open(const char *job_dir, int workers, const char *const *nodes,
                             struct err *e);
void history_close(struct history *h);
int history_append(struct history *h, const struct row *rows, int n, struct err *e);
/* Rows of all ranks with step > version are superseded (an attempt restarted from that checkpoint).
 */
int history_supersede(struct history *h, int64_t version, struct err *e);
/* The number of steps up to that checkpoint that are missing in the series, because the rank that
 * made them was killed before it reported them. */
int64_t history_missing(const struct history *h);
/* An evaluation: loss and accuracy at a step. It is left out without error if its step is not
 * beyond the last one, since evaluations may come twice. */
int history_evaluation(struct history *h, int64_t step, double epoch, double time, double samples,
                       double loss, double accuracy, struct err *e);
/* Norms of the model's tensors at a step, kept like evaluations. Norms of tensors that the first
 * call did not name are refused with ERR_DATA. */
int history_norms(struct history *h, const struct norms *n, struct err *e);
/* Metrics that a program logged, kept like evaluations, for each name by itself; of two at one step
 * the second counts. At most LOGGED_NAMES names are kept, and of a name with very many points not
 * each (store/history/logged.h). */
int history_logged(struct history *h, const struct logged *l, struct err *e);
/* {name: newest value, or null where it became NaN or infinite}; NULL: nothing was logged. New
 * reference. */
json_t *history_logged_newest(const struct history *h);
int history_show(struct history *h,
                 struct err *e); /* writes to the files: readers see it, and it outlives this
                                    process */
int history_flush(struct history *h,
                  struct err *e); /* the same, synced to disk; after it rows may leave Redis */

/* What a request for series names. */
struct series_ask {
    const char *names; /* of series, with commas between them; "all": each */
    const char *x;     /* "step", "samples" or "time"; NULL: "step" */
    double from, to;   /* in units of x; NAN: open */
    int points;        /* at most that many buckets per series; below 1: 600 */
    int node_points;   /* at most that many for each name over all nodes together, but at least 8
                          for a node; 0: no such limit */
};
/* The answer of GET …/series. A series of a row's column (job/row.def) is for the job ("node":
 * null) or for one node; test_loss, test_accuracy and samples_per_second are for the job. {"x",
 * "series": [{"name","node","total_points","x","min","max","mean"}]}. A column that a newer version
 * added has no points in an older history. Unknown names: ERR_INVALID with the nearest. */
json_t *history_series(const char *job_dir, const struct series_ask *ask, struct err *e);
/* The answer of GET …/norms: the norms that count, in at most `points` buckets (below 1: 200), each
 * with its last step and the greatest norms within it. A bucket in which one became NaN or infinite
 * has null there. {"tensors": [{"name","elements"}], "left_out", "total_points", "x": [steps],
 * "epoch", "time", "weights": [[…] for each tensor], "gradients"}. */
json_t *history_norms_read(const char *job_dir, int points, struct err *e);
/* What a request for logged metrics names. */
enum logged_axis { LOGGED_STEP, LOGGED_EPOCH, LOGGED_TIME };
struct logged_ask {
    enum logged_axis axis; /* of from and to */
    double from, to;       /* NAN: open */
    int points;            /* at most that many buckets of a metric; below 1: 600 */
};
/* The answer of GET …/logged: the points of each logged metric that count and are within the range,
 * in buckets, with the last step of each. A bucket in which a value became NaN or infinite has null
 * as min, max and mean. {"metrics": [{"name", "total_points", "x": [steps], "epoch", "time", "min",
 * "max", "mean"}]}; total_points: those within the range. */
json_t *history_logged_read(const char *job_dir, const struct logged_ask *ask, struct err *e);
/* The last n rows of every rank (timeline of the last steps): [{"node","rank","rows":[…]}]. */
json_t *history_last(const char *job_dir, int n, struct err *e);

#endif
