/* A trainer's interface for facts and orders: the pulse (Redis) in a worker, the report in the
 * simulator. */
#ifndef WORKER_TELEMETRY_H
#define WORKER_TELEMETRY_H

#include "job/documents/ranks/joined.h"
#include "job/documents/ranks/logged.h"
#include "job/documents/ranks/norms.h"
#include "job/documents/ranks/phase.h"
#include "worker/exchange/strategy.h"

struct telemetry {
    void *ctx;
    void (*phase)(void *ctx, enum phase p);
    void (*row)(void *ctx, const struct row *row);
    /* CPU time of a user's program in the step of the next row; may be NULL */
    void (*program_cpu)(void *ctx, double seconds);
    /* of the keeper: the data set is ready, with this many training samples; may be NULL */
    void (*loaded)(void *ctx, int64_t samples);
    void (*evaluated)(void *ctx, const struct evaluation *ev);
    /* lengths of the model's tensors and gradients, from time to time; may be NULL */
    void (*norms)(void *ctx, const struct norms *n);
    /* a metric that a user's program logged; may be NULL */
    void (*logged)(void *ctx, const struct logged_point *p);
    void (*profile)(void *ctx,
                    const struct profile *p); /* step time of this node, calibrated at start */
    void (*saved)(void *ctx, const char *kind, const char *path, int64_t step,
                  double time); /* checkpoint or artifact */
    void (*control)(void *ctx, struct control *out);
    /* the attempt starts from this checkpoint; may be NULL */
    void (*restored)(void *ctx, const struct run_state *state);
    /* of the keeper's data set, so far; 0, 0: complete. May be NULL */
    void (*received)(void *ctx, int64_t bytes, int64_t of_bytes);
    /* Programs have joined: what they bring, and the first minibatches [workers], which hold until
     * the coordinator sends others. Called again, without minibatches (NULL), when rank 0's program
     * has another number of epochs. May be NULL */
    void (*joined)(void *ctx, const struct joined *program, const int *first_sizes);
    void (*tuned)(void *ctx, json_t *tuning); /* what the device measured (dev_tuning); a reference
                                                 is taken over; may be NULL */
    void (*served)(void *ctx, int64_t version,
                   double busy_fraction); /* of a server, after an update; may be NULL */
    /* of the keeper: samples of all workers in the run's last state; may be NULL */
    void (*counted)(void *ctx, int64_t samples);
    /* of the keeper: rank_env.lost and rank_env.left; both may be NULL */
    int (*lost)(void *ctx, int *out);
    void (*left)(void *ctx, const struct departure *left);
    /* of the keeper: rank_env.seats and rank_env.returned; both may be NULL */
    int (*seats)(void *ctx, int *out);
    void (*returned)(void *ctx, const struct departure *back);
    /* where this rank is reached by workers that are started again; where such a worker reaches
     * another rank, into out[DOCUMENT_DOOR], false: nobody has told yet. May be NULL, together */
    void (*door)(void *ctx, const char *where);
    bool (*find_door)(void *ctx, int rank, char *out);
    /* rank_env.undone; may be NULL where `lost` is */
    void (*undone)(void *ctx, int staleness, int64_t steps, int64_t samples);
    /* a user's program ended, for this reason, and is started again; may be NULL */
    void (*crashed)(void *ctx, const char *why);
};

#endif
