/* Messages between workers and servers: the headers of a push and of its reply. Host byte order:
 * all ranks of a job run the same build. */
#ifndef WORKER_EXCHANGE_PUSH_H
#define WORKER_EXCHANGE_PUSH_H

#include "job/sample.h"
#include "worker/exchange/own_state_messages.h"
#include "worker/exchange/transport/transport.h"

/* Gradients and weights are lent: a worker computes no other gradient before its push is answered,
 * and a server does not touch what it gave a worker before that one pushes again. */
enum {
    TAG_PUSH = 20,
    TAG_REPLY = 21,
    TAG_WEIGHTS = 22 | TRANSPORT_LENT,
    TAG_GRADIENT = 23 | TRANSPORT_LENT,
    TAG_STATS = 24,
    TAG_ORDER = 25,
    TAG_STATE_RANGE = 26
};

enum { SERVERS_MOST = 64 }; /* the catalogue's limit of `servers` */

/* Only a gradient, the result of a test slice, a return and, by the run's end, a leave or a quit
 * are answered. */
enum push_kind {
    PUSH_GRADIENT,
    PUSH_EVALUATION, /* of the test slice that was handed out; or what a user's program measured */
    PUSH_OWN_STATE,  /* own_state_send() follows */
    PUSH_RETURN,     /* the worker's program ended before its gradient: slices are given back */
    PUSH_LEAVE,      /* its program has made its last epoch, and the slice is of one too many */
    PUSH_QUIT        /* its program has left before; the slice is for the others, which go on */
};

struct push_head { /* worker → server; a gradient follows PUSH_GRADIENT, and running statistics
                      where the network has any */
    int32_t kind, rank;
    int64_t version; /* the gradient was computed on */
    struct slice slice;
    double weight; /* of the gradient (work.weight) */
    double loss;   /* sum over the samples; of an unknown one 0 */
    int64_t correct;
    double compute_s;
    double learning_rate; /* the worker's: the reply's, or what a user's program steps with */
};

struct reply_head { /* server → worker; weights (and statistics) follow unless the action ends the
                       job; they do then as well where workers keep states of their own: a user's
                       program evaluates once more */
    int32_t action; /* enum action */
    int32_t batch, next_batch;
    int32_t own_state;  /* give it before the next gradient */
    int32_t measures;   /* what its program measures counts: the first of those that are left */
    int32_t staleness;  /* of the gradient that this answers, -1: it answers none */
    int64_t version;    /* of the weights that follow */
    int64_t step;       /* version after that gradient was applied */
    double epoch, time; /* then; time in seconds since the job's start */
    /* of that gradient's update: length of the step relative to the plain gradient's; NaN: the rule
     * does not compensate */
    float strategy_value;
    double parked_s; /* how long the server let the worker wait */
    double learning_rate;
    struct slice slice, hint; /* hint: fixed where rank_env.ahead is not 0, else a guess */
    int64_t eval_first, eval_count;
};

#endif
