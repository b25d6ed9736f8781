/* The ways of an all-reduce (ring.c, doubling.c) and what they share (allreduce_ways.c). The front
 * (allreduce.c) chooses one. Inside worker/exchange/transport only. A step returns COMM_DONE,
 * COMM_UNDER_WAY or negative, with the op's err set. */
#ifndef WORKER_EXCHANGE_ALLREDUCE_WAYS_H
#define WORKER_EXCHANGE_ALLREDUCE_WAYS_H

#include "worker/exchange/transport/allreduce.h"

/* ---- allreduce_ways.c ------------------------------------------------------------------------ */
/* The rank of member i, modulo the number of members. */
int allreduce_member(const struct allreduce *a, int i);
int allreduce_tag(const struct allreduce *a);
/* Sends data[begin, begin + n) to rank `to`. `hollow` more floats cost time. */
int allreduce_send(struct allreduce *a, struct transport *t, int to, int tag, size_t begin,
                   size_t n, size_t hollow, struct transport_req *r);
/* Copies this rank's part to data[begin, begin + n), if it is elsewhere. */
void allreduce_take(struct allreduce *a, size_t begin, size_t n);
/* Sets data[begin, begin + n) to the sum of this rank's part, wherever that is, and other[n]. */
int allreduce_add(struct allreduce *a, size_t begin, const float *other, size_t n);
/* Notes in the op that the transport refused a message with rc, and returns the code. ERR_CONFLICT:
 * another rank sums another number of floats. */
int allreduce_failed(struct allreduce *a, int rc);
/* Tests the receive of n floats. It fails if the sender sent another number. */
int allreduce_test(struct allreduce *a, struct transport *t, struct transport_req *in, size_t n);

/* ---- ring.c ---------------------------------------------------------------------------------- */
void ring_begin(struct allreduce *a);
int ring_step(struct allreduce *a, struct transport *t);
/* The messages under way: ins[*n] and outs[*m], of at most ALLREDUCE_WINDOW. */
void ring_under_way(struct allreduce *a, struct transport_req **ins, int *n,
                    struct transport_req **outs, int *m);
/* The part of the sum that is complete as `part`th of a->size is data[*first, *first + *n). */
void ring_part(const struct allreduce *a, int part, size_t *first, size_t *n);

/* ---- doubling.c ------------------------------------------------------------------------------ */
void doubling_begin(struct allreduce *a);
int doubling_step(struct allreduce *a, struct transport *t);
/* See ring_under_way. */
void doubling_under_way(struct allreduce *a, struct transport_req **ins, int *n,
                        struct transport_req **outs, int *m);

#endif
