/* When minibatches change (docs/semantics.md#minibatches). Pure: rows in, assignments out;
 * the coordinator drives it with rows from the store, the simulator with rows of virtual nodes.
 *
 * A change must be worth it (hysteresis), by more than the noise of what predicts it, and a node's
 * new speed must have held (steady.h).
 */
#ifndef JOB_MINIBATCH_BALANCER_H
#define JOB_MINIBATCH_BALANCER_H

#include "job/minibatch/assign.h"
#include "job/minibatch/steady.h"
#include "job/minibatch/window.h"

/* The fastest step that a worker's CPU quota allows. */
struct limit {
    int batch;
    double seconds; /* the least time of a step of that many samples; 0: no quota is known */
};

/* The median of five observations shows a new speed once three do. That is also the earliest time
 * at which minibatches follow it (profile.c). */
enum { BALANCER_LATEST = 5 };

/* The newest observations of a worker since the last change, in a ring. */
struct latest {
    double seconds[BALANCER_LATEST]; /* of a step */
    int64_t count;
};

struct balancer {
    struct batching_spec batching;
    int workers, quantum;
    struct assignment current;
    struct profile *profiles; /* [workers], owned */
    struct steady *steady;    /* [workers], the lines from which minibatches are made; owned */
    int64_t *rows_since;      /* [workers], observations since the last change; owned */
    struct latest *latest;    /* [workers]; owned */
    struct window *windows;   /* [workers], steps that count as one observation; owned */
    struct limit *limits;     /* [workers]; owned */
    int64_t changes, kept;    /* changes made, and changes not made because the gain was too
                                 small */
    double gain;   /* a change soon after another one must predict at least this gain, as a share of
                      the step time (0.05); later less is enough */
    double now;    /* seconds of the job: of the newest row */
    double window; /* seconds that an observation covers at least, 0: each step is one */
    double errors; /* a change must also predict a gain of this many standard errors of the
                      prediction, 3.5 */
    char names[SPEC_WORKERS][48]; /* of nodes, for the reasons */
};
int balancer_init(struct balancer *b, const struct batching_spec *batching, int workers,
                  int quantum, const struct profile *const *profiles, const char *const *names,
                  struct err *e);
void balancer_release(struct balancer *b);
/* One measured step of a worker: minibatch, seconds of computing (waits excluded), and when it
 * ended, in seconds since the job's start. */
void balancer_observe(struct balancer *b, int worker, int batch, double compute_seconds,
                      double now);
/* Call it when no more steps come: the last steps count as an observation, though they cover too
 * little time. */
void balancer_flush(struct balancer *b);
/* A worker with a CPU quota needs at least `seconds` for a step of `batch` samples, if steps follow
 * one another. Single steps may be faster, because a worker that waits for others has quota left; a
 * larger minibatch would use that up. From now on its steps of that minibatch count as at least so
 * long, and steps of other minibatches are ignored. 0 seconds: it has no quota. */
void balancer_limit(struct balancer *b, int worker, int batch, double seconds);
/* The line from which a worker's minibatches are made. */
struct line balancer_line(const struct balancer *b, int worker);
/* Call it when the training set has only `samples`, so that a step cannot have the global batch.
 * From now on minibatches are shares of `samples`; the current ones keep their proportions. false:
 * nothing changes, since there are enough samples, or too few to give each worker its least
 * minibatch. */
bool balancer_narrow(struct balancer *b, int64_t samples);
/* The current minibatches as shares of another global batch, in the same proportions.
 * sizes[b->workers]. */
void balancer_share(const struct balancer *b, int global_batch, int *sizes);
enum balance { BALANCE_STANDS, BALANCE_CHANGED };
/* A user's program has reported its global batch. BALANCE_CHANGED: `current` has first sizes for
 * it, and a version of its own; BALANCE_STANDS: its sizes had that sum already; negative: the batch
 * cannot be shared out. */
int balancer_take_batch(struct balancer *b, int global_batch, struct err *e);
/* true if a new assignment was made (in b->current). Only with `dynamic`. */
bool balancer_decide(struct balancer *b, int64_t step);

#endif
