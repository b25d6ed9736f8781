/* How gradients become versions: the server's weights, the state of its rule, and the incomplete
 * group. It knows nothing of workers, messages or slices; server.c does.
 *
 * A version that is held does not change: the next one is written elsewhere, so that handing out a
 * version copies nothing.
 *
 *      update   5 ──────► 6 ──────► 7 ──► 7
 *      held     by A: 4, by B: 5    by B: 5, by A: 7
 *
 * 6 is written to free memory; A's push releases 4, whose memory 8 may use. */
#ifndef WORKER_EXCHANGE_UPDATES_H
#define WORKER_EXCHANGE_UPDATES_H

#include "worker/exchange/server/server.h"

struct version {
    float *w; /* [n] */
    int holders;
};

struct updates {
    const struct server_policy *policy; /* borrowed, as is env */
    const struct rank_env *env;
    struct rule_state rule;   /* w: the weights of `now`; v, m2: point into `optim` */
    struct version *now;      /* the newest weights, of this server's range of the block */
    struct version *versions; /* [n_versions] one more than may be held at once; owned */
    struct version **spare;   /* [n_spare] versions that are not held, the last used first; owned */
    int n_versions, n_spare;
    float *optim; /* [n_optim] velocity, then mean square; owned; NULL if there is none */
    float *sum;   /* [n] sum of the group; owned; NULL if each gradient makes an update of its
                     own */
    size_t n, n_optim;
    int group;        /* gradients of a full update */
    int collected;    /* gradients in `sum` so far */
    float group_rate; /* learning rate of the group's first gradient */
    int64_t version;
    double weights, samples; /* of all gradients so far with a weight above 0 */
    float stretch; /* length of the last step relative to that of its plain gradient, if the rule
                      compensates; else NaN */
    /* [UPDATES_SAMPLE] weights before a step; owned; NULL where nothing is compared */
    float *before;
};

/* Lengths are compared on this many weights, spread evenly: enough for two digits, at a negligible
 * cost. */
enum { UPDATES_SAMPLE = 4096 };

/* Begins the updates of the range [first, first + n) of the flat block. */
int updates_init(struct updates *u, const struct server_policy *policy, const struct rank_env *env,
                 size_t first, size_t n, const struct run_state *from, struct err *e);
void updates_release(struct updates *u);
/* *holder (NULL at first) now holds v, the newest weights or ones that are held, instead of its
 * previous version. A held version does not change. Workers and an evaluation are holders. */
void updates_hold(struct updates *u, struct version **holder, struct version *v);
/* One gradient g[n] that weighs `weight`, of `samples` samples, computed on version tau before the
 * newest; pulled[n]: the weights it was computed on; `rate`: the learning rate that belongs to it.
 * True if it completed an update, so that the version went up. */
bool updates_add(struct updates *u, const float *g, const float *pulled, double weight,
                 int64_t samples, double rate, int64_t tau);
/* After the number of workers fell: a full update may need fewer gradients from now on. True if
 * those that were collected made one. */
bool updates_regroup(struct updates *u);
/* Applies a group that was left incomplete, with the weights its gradients have; true if there was
 * one. */
bool updates_flush(struct updates *u);

#endif
