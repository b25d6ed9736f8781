/* A program of 8 parameters that joins, and the stand-in rank that lets it start. */
#ifndef TESTS_UNIT_CLIENT_JOINING_H
#define TESTS_UNIT_CLIENT_JOINING_H

#include "tests/unit/client/standin.h"

#define MUST(what)                                                                       \
    do {                                                                                 \
        if (!(what)) {                                                                   \
            fprintf(stderr, "%s:%d: %s: '%s'\n", __FILE__, __LINE__, #what, es_error()); \
            return 1;                                                                    \
        }                                                                                \
    } while (0)

static const int64_t matrix[] = {2, 2}, three[] = {3};
static const float first_matrix[] = {1, 2, 3, 4}, first_three[] = {5, 6, 7};

/* A program of 8 parameters: tensors of 4, 3 and 1. */
static int join(struct es_run *run, int has_state)
{
    const struct es_tensor params[] = {
        {.name = "w \"quoted\"", .dims = 2, .shape = matrix, .initial = first_matrix},
        {.name = "b", .dims = 1, .shape = three, .initial = first_three, .no_decay = 1},
        {.name = "scale", .initial = first_matrix},
    };
    const struct es_about about = {.abi = ES_ABI,
                                   .samples = 20,
                                   .global_batch = BATCH,
                                   .ahead = 2,
                                   .has_state = has_state,
                                   .epochs = 2,
                                   .n_params = 3,
                                   .params = params,
                                   .optimizer = {.name = "SGD", .learning_rate = 0.5}};

    return es_join(&about, run);
}

static void start(struct standin *r)
{
    standin_welcome(r, 8, WIRE_VERSION);
    standin_get(r, WIRE_READY, NULL);
    standin_say(r, WIRE_START, 0);
}

#endif
