/* The description that a program joins with (client/protocol.h has its keys): what it trains, how,
 * and on how many samples. It becomes a `struct network` that has tensors and statistics but no
 * layers, which is all that strategies, checkpoints and artifacts need.
 *
 * Pure: text in, struct out. Every mistake is a sentence that names the tensor or the key.
 */
#ifndef WORKER_PROGRAM_CHILD_DESCRIBE_H
#define WORKER_PROGRAM_CHILD_DESCRIBE_H

#include "job/spec/spec.h"
#include "worker/exchange/strategy.h"

enum { DESCRIPTION_BYTES = 8 << 20, AHEAD_MOST = 64 }; /* at most */

struct description {
    char framework[64];
    int64_t samples;  /* of an epoch */
    int64_t whole;    /* of the data set; an epoch leaves out the last ones of its order with
                         drop_last */
    int global_batch; /* what the program's loader asks for */
    int ahead;        /* slices that its loader wants before their steps, 1 to 64 */
    double epochs;    /* 0: the job's spec says how many */
    bool shuffle;
    bool sums;        /* the loss is a sum over samples, not a mean */
    bool state;       /* it has a state of its own to save */
    int stack_signal; /* makes it print its stacks; 0: none does */
    bool plain;       /* the server's rule can make the same update as its optimizer */
    bool stateless;   /* its optimizer keeps nothing from step to step: SGD without momentum */
    struct optimizer_spec optimizer; /* of a plain one */
    char optimizer_name[64];
    struct network net; /* owned */
    char *text;         /* as it came, for comparing; owned */
};

/* `text` has n bytes and need not end with NUL. d needs description_release only after success. */
int description_read(struct description *d, const char *text, size_t n, struct err *e);
void description_release(struct description *d);
/* Where `mine` differs from `first`, rank 0's: a sentence that names the ranks and the tensor or
 * key. 0 if they are alike. */
int description_compare(const struct description *mine, const struct description *first, int rank,
                        struct err *e);
/* Puts what the program brings into the spec: network (moved out of d), optimizer, global batch,
 * epochs. `strategy`: the spec's. Errors: the spec asks for something that the program does not do.
 */
int description_apply(struct description *d, struct jobspec *spec,
                      const struct strategy_ops *strategy, struct err *e);

#endif
