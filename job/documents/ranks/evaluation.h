/* Evaluations: results of a job on the test set. A rank reports one as a fact (fact.h). The
 * coordinator keeps those of the job's surviving steps in `detail:evaluations`, which the API
 * returns.
 *
 *   {"evaluations": [{"step", "epoch", "time", "loss", "accuracy", "samples", "final",
 *                     "test_samples"}]}
 *
 * The kept document belongs to the job over all its attempts, so it names none.
 */
#ifndef JOB_DOCUMENTS_RANKS_EVALUATION_H
#define JOB_DOCUMENTS_RANKS_EVALUATION_H

#include "job/documents/document.h"

struct evaluation {
    int64_t step;
    double epoch, time;
    double loss, accuracy; /* means over the test set; NaN where they became infinite */
    int64_t samples;       /* of the test set */
    bool final;
};

/* Add the keys of one to `j`, and read them. */
void evaluation_write(json_t *j, const struct evaluation *ev);
void evaluation_parse(const struct document *d, struct evaluation *out);

/* The kept evaluations, by step. */
struct evaluations {
    struct kept_evaluation {
        struct evaluation ev;
        int64_t trained; /* training samples seen until then */
    } * items;           /* [count]; owned */
    int count, room;
};

/* One evaluation as the API and its event print it. New reference. */
json_t *evaluation_json(const struct kept_evaluation *one);
json_t *evaluations_json(const struct evaluations *all); /* new reference */
/* Release it in any case. */
int evaluations_read(struct evaluations *out, const json_t *j, struct err *e);
/* Forgets the evaluations past this step. */
void evaluations_drop(struct evaluations *all, int64_t step);
/* Returns what was added: borrowed until the next call. */
const struct kept_evaluation *evaluations_add(struct evaluations *all, const struct evaluation *ev,
                                              int64_t trained);
const struct evaluation *evaluations_last(const struct evaluations *all); /* NULL: none */
double evaluations_best(const struct evaluations *all); /* the greatest accuracy; NaN: none is */
void evaluations_release(struct evaluations *all);

#endif
