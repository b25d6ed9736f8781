/* Compared: how far two models' files are apart, as `evenstep-worker --compare` prints it and
 * `evenstep run --check` reads it. It belongs to no attempt.
 *
 *   {"format": 2, "tensors": 4, "values": 146, "rounding": 0, "largest": [{"name": "0.weight",
 *    "difference": 2.1e-7, "rounding": 0}]}
 *   {"error": {"code", "message", "hint"}}                  scored_refusal(): other tensors
 */
#ifndef JOB_DOCUMENTS_RESULTS_COMPARED_H
#define JOB_DOCUMENTS_RESULTS_COMPARED_H

#include "job/documents/document.h"

enum { COMPARED_FORMAT = 2, COMPARED_LARGEST = 5, COMPARED_NAME = 128 };

struct compared_tensor {
    char name[COMPARED_NAME];
    /* root mean square of the differences of its values, divided by that of all values of the first
     * model; NaN: a value is NaN */
    double difference;
    /* the same for the first model and a third one, which began with a difference of one rounding;
     * 0: there is none */
    double rounding;
};

struct compared {
    int64_t tensors, values;
    double rounding;                                  /* rounding over all values */
    struct compared_tensor largest[COMPARED_LARGEST]; /* [n_largest], the least explained by
                                                         rounding first; NaN comes before all */
    int n_largest;
};

/* Keeps a tensor if its difference is among the largest; of equal ones the first stays. */
void compared_add(struct compared *c, const char *name, double difference, double rounding);
/* Does rounding explain all differences? compared_is_blind(): the program's steps enlarge a
 * rounding so much that it may explain any difference. */
bool compared_is_same(const struct compared *c);
bool compared_is_blind(const struct compared *c);
json_t *compared_json(const struct compared *c); /* new reference */
int compared_read(struct compared *out, const json_t *j, struct err *e);

#endif
