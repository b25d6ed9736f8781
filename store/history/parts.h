/* What the writer (history.c) and the reader (series.c) of a history share: its files, spans of
 * positions, and the merging of ranks' rows into steps. Inside store/ only.
 *
 *   JOBDIR/history/
 *     meta.json        which node a rank was, what does not count, how long a row is (meta.h)
 *     rows-R.bin       rows of rank R, with rows-R.v1 .v2 .v3 (pyramid.h)
 *     steps.bin        one row for each step of the job, merged from all ranks, with its levels
 *     evaluations.bin  struct history_evaluation (records.h)
 *     norms.bin        lengths of the model's tensors (norms.h)
 *     logged.bin       metrics that a program logged (logged.h)
 *
 * Nothing in these files comes from a clock: the same rows in the same order give the same bytes.
 */
#ifndef STORE_HISTORY_PARTS_H
#define STORE_HISTORY_PARTS_H

#include "common/err.h"
#include "job/row.h"

enum {
    HISTORY_RANKS = 4096,
    HISTORY_PATH = 1000,
    HISTORY_POINTS_MOST = 20000 /* points of a series in one answer */
};

struct history_evaluation {
    int64_t step;
    double epoch, time, samples, loss, accuracy;
};
_Static_assert(sizeof(struct history_evaluation) == 48, "an evaluation has 48 bytes");

/* The folder of a job's history, for its readers. */
int history_dir(char out[HISTORY_PATH], const char *job_dir, struct err *e);

/* ---- spans [a, b), ascending, disjoint ------------------------------------------------------- */
struct span {
    int64_t a, b;
};
struct spans {
    struct span *items; /* owned */
    int n, size;
};
void spans_release(struct spans *s);
int spans_add(struct spans *s, int64_t a, int64_t b, struct err *e); /* appends; joins neighbours */
int spans_union(struct spans *s, const struct spans *more, struct err *e);
/* [a, b) without `dead`. */
int spans_alive(const struct spans *dead, int64_t a, int64_t b, struct spans *out, struct err *e);
int64_t spans_total(const struct spans *s);

/* ---- rows of all ranks merged by step, ascending --------------------------------------------- */
struct step_sum {
    int64_t step;
    double samples;
    double numbers[ROW_COLUMNS]; /* sums weighted by samples, for the means */
};
struct step_merge {
    struct step_sum *items; /* owned */
    int n, size;
};
void step_merge_release(struct step_merge *m);
int step_merge_add(struct step_merge *m, const struct row *row, struct err *e);
void step_merge_drop(struct step_merge *m, int n); /* the first n */
/* The step as a row: rank -1, each column merged as job/row.def says. */
struct row step_merge_row(const struct step_sum *s);

#endif
