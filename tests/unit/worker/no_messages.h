/* A transport that sends nothing, for decisions that a rank makes by itself. */
#ifndef TESTS_UNIT_WORKER_NO_MESSAGES_H
#define TESTS_UNIT_WORKER_NO_MESSAGES_H

#include "worker/exchange/transport/transport.h"

struct silent {
    struct transport t;
    int number, size; /* this rank; number of ranks */
};

static int number_of(struct transport *t)
{
    return ((struct silent *)t)->number;
}

static int size_of(struct transport *t)
{
    return ((struct silent *)t)->size;
}

static double now(struct transport *t)
{
    (void)t;
    return 0;
}

static void weigh(struct transport *t, int64_t bytes)
{
    (void)t;
    (void)bytes;
}

static const struct transport_ops no_messages = {
    .rank = number_of, .size = size_of, .now = now, .weigh = weigh};

#endif
