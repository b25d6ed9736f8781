/* Norms of a model's tensors and of their gradients at one step. A rank reports them as a fact
 * (fact.h) at intervals. Monitor and simulator keep them in the job's history (store/history.h),
 * which the API returns.
 *
 *   {"step", "epoch", "time", "names": […], "elements": […], "weights": […], "gradients": […],
 *    "left_out": 0}
 *
 * A norm is the square root of the sum of the squares (L2). `weights`: of the parameters on which
 * the gradient was computed; `gradients`: of the mean over the minibatch of the rank that reports
 * them, before any exchange, clipping and weight decay. null: NaN or infinite.
 */
#ifndef JOB_DOCUMENTS_RANKS_NORMS_H
#define JOB_DOCUMENTS_RANKS_NORMS_H

#include "job/documents/document.h"

enum { NORMS_NAME = 96, NORMS_MOST = 1024 }; /* bytes of a tensor's name; tensors of a document */

struct tensor_norms {
    char name[NORMS_NAME]; /* "conv1.weight" */
    int64_t elements;
    double weight, gradient; /* NaN: not finite */
};

struct norms {
    int64_t step;
    double epoch, time;         /* time: seconds since the job's start */
    int count, left_out;        /* left_out: tensors beyond NORMS_MOST, whose norms are missing */
    struct tensor_norms *items; /* [count], in the network's order; owned by what was read */
};

/* Adds the keys of one to `j`, and reads them. */
void norms_write(json_t *j, const struct norms *n);
void norms_parse(const struct document *d, struct norms *out);
void norms_release(struct norms *n);

#endif
