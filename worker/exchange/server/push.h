/* Messages between workers and servers: the headers of a push and of its reply. Host byte order:
 * all ranks of a job run the same build. */
#ifndef WORKER_EXCHANGE_PUSH_H
#define WORKER_EXCHANGE_PUSH_H

#include "job/sample.h"
#include "worker/exchange/own_state_messages.h"
#include "worker/exchange/transport/transport.h"

/* Gradients and weights are lent, not copied: a worker computes no other gradient before its push
 * is answered, and a server does not change the weights that it sent to a worker before that worker
 * pushes again. */
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

/* The server answers a gradient, an evaluation and a return, and at the run's end a leave and a
 * quit. */
enum push_kind {
    PUSH_GRADIENT,
    PUSH_EVALUATION, /* the result of a test slice, or what a user's program measured by itself */
    PUSH_OWN_STATE,  /* own_state_send() follows */
    PUSH_RETURN,     /* the worker's program ended before its gradient; it returns its slices */
    PUSH_LEAVE,      /* its program has made its last epoch; the slice is of an epoch too many */
    PUSH_QUIT        /* its program has left before the last epoch; the slice is for others */
};

struct push_head { /* worker → server; a gradient follows PUSH_GRADIENT, and running statistics
                      where the network has any */
    int32_t kind, rank;
    int64_t version; /* of the weights on which the gradient was computed */
    struct slice slice;
    double weight; /* of the gradient (work.weight) */
    double loss;   /* sum over the samples; 0 if it is not known */
    int64_t correct;
    double compute_s;
    double learning_rate; /* of the reply, or the one with which a user's program steps */
};

struct reply_head { /* server → worker. Weights and statistics follow, unless the action ends the
                       job. At the end, too, where workers have own states: their programs evaluate
                       once more */
    int32_t action; /* enum action */
    int32_t batch, next_batch;
    int32_t own_state; /* 1: send your own state before the next gradient */
    int32_t measures;  /* 1: what your program measures counts; one worker has it */
    int32_t staleness; /* of the gradient that this answers; -1: it answers none */
    int64_t version;   /* of the weights that follow */
    int64_t step;      /* version just after that gradient was applied */
    double epoch;      /* at that moment */
    double time;       /* and the seconds since the job's start */
    /* length of that gradient's step relative to the plain gradient's; NaN: the rule does not
     * compensate */
    float strategy_value;
    double parked_s; /* seconds that the worker has waited at the server */
    double learning_rate;
    struct slice slice;
    struct slice hint; /* the next slice; a guess unless program.ahead is more than 0 */
    int64_t eval_first, eval_count;
};

#endif
