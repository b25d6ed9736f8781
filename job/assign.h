/* All minibatch policy (ALGORITHMS.md 2.3, DESIGN decision 7). Pure: rows in, assignments out; the
 * coordinator drives it with rows from the store, the simulator with rows of virtual nodes.
 */
#ifndef JOB_ASSIGN_H
#define JOB_ASSIGN_H

#include "job/profile.h"
#include "job/spec.h"

struct assignment {
    int version; /* 1 is the first */
    int workers;
    int sizes[SPEC_WORKERS]; /* sum to the global batch; all 0 while that is not known */
    int64_t step;            /* at which it was decided */
    char reason[240];        /* in words: "slow computes 3.9x slower than the median" */
    double predicted_seconds, measured_seconds; /* of a step: with these sizes; before */
};

/* First sizes of a job: equal, static as given, dynamic from profiles where every worker has one,
 * else equal within the memory that is known; all 0 if the global batch is 0, which a user's
 * program has not told yet. B smaller than workers*min_batch, or more than
 * workers*max_batch, is an error that says so, and so are static minibatches for another number of
 * workers. profiles[workers] may be NULL; quantum: multiples (4 CPU, 8 GPU). */
int assign_first(struct assignment *out, const struct batching_spec *b, int workers,
                 const struct profile *const *profiles, int quantum, struct err *e);
/* Equal-finish split: T solves sum clamp((T-a)/k, min, max) = B; rounded to multiples of `quantum`
 * (the fastest takes the remainder), sum B exactly. A node whose k is not positive gets its largest
 * minibatch. max_batch[i]: 0 is none; NULL: no worker has a limit. Returns the time of the slowest,
 * or a negative number if the bounds cannot hold B. */
double assign_equal_finish(const double *a, const double *k, const int *max_batch, int workers,
                           int B, int min_batch, int quantum, int *sizes);

/* The balancer of one job: feeds profiles, decides with hysteresis. */
struct balancer {
    struct batching_spec batching;
    int workers, quantum;
    struct assignment current;
    struct profile *profiles; /* [workers], owned */
    int64_t *rows_since;      /* [workers], observations since the last change; owned */
    double *recent;           /* [workers], smoothed step seconds; owned */
    int64_t changes, kept;    /* made; not made because the gain was too small */
    double gain; /* a change soon after another is made if it predicts at least this share, 0.05;
                    later less is enough */
    char names[SPEC_WORKERS][48]; /* of nodes, for the reasons */
};
int balancer_init(struct balancer *b, const struct batching_spec *batching, int workers,
                  int quantum, const struct profile *const *profiles, const char *const *names,
                  struct err *e);
void balancer_release(struct balancer *b);
/* One measured step of a worker: minibatch and seconds of computing (waits excluded). */
void balancer_observe(struct balancer *b, int worker, int batch, double compute_seconds);
enum balance { BALANCE_STANDS, BALANCE_CHANGED };
/* A user's program has told its global batch. BALANCE_CHANGED: `current` has first sizes for it,
 * and a version of its own; BALANCE_STANDS: its sizes had that sum already; negative: the batch
 * cannot be shared out. */
int balancer_take_batch(struct balancer *b, int global_batch, struct err *e);
/* true if a new assignment was made (in b->current). Only with `dynamic`. */
bool balancer_decide(struct balancer *b, int64_t step);
json_t *assignment_json(const struct assignment *a, const char *const *names, const char *time);
int assignment_version(const json_t *assignment); /* of what assignment_json() gave; 0 for NULL */

#endif
