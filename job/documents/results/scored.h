/* Scored: how good a model's file is on a data set, as `evenstep-worker --evaluate` prints it and
 * `evenstep evaluate` reads it. With --json people get it as it is, so it has no format number.
 *
 *   {"model", "parameters", "data": {"format", "path", "part", "digest"}, "device", "samples",
 *    "loss", "accuracy", "right",
 *    "classes": [{"class", "samples", "right", "answers", "name", "accuracy", "precision"}],
 *    "confusion": [[…], …],             these four are null where targets are no labels
 *    "worst": [{"sample", "label", "answer", "loss",
 *               "picture": {"height", "width", "channels", "values"}}]}     values: base64 of bytes
 *   {"error": {"code", "message", "hint"}}
 *
 * Only counts are kept; writer and reader compute the rest from the confusion matrix. A sample's
 * picture is there only if it was asked for and samples are pictures. */
#ifndef JOB_DOCUMENTS_RESULTS_SCORED_H
#define JOB_DOCUMENTS_RESULTS_SCORED_H

#include "job/documents/document.h"

enum { SCORED_WORST = 16 };

/* A sample with a great loss. */
struct scored_worst {
    int64_t sample; /* its number in the part */
    int label, answer;
    double loss;
    json_t *picture; /* NULL: none */
};

struct scored {
    const char *model, *format, *path, *part, *digest, *device; /* borrowed, also after reading */
    int64_t parameters, samples;
    double loss;
    int classes;        /* 0: targets are no labels */
    int64_t *confusion; /* [classes][classes]: rows: the label; columns: the answer */
    json_t *names;      /* array of at least `classes` texts; NULL: classes have no names */
    struct scored_worst worst[SCORED_WORST]; /* [n_worst], the greatest loss first */
    int n_worst;
};

/* One class of it. */
struct scored_class {
    const char *name; /* borrowed; NULL: none */
    int64_t samples, right, answers;
    double accuracy;  /* right / samples; NaN: it has no samples */
    double precision; /* right / answers; NaN: it was never answered */
};
struct scored_class scored_class(const struct scored *s, int c);
int64_t scored_right(const struct scored *s); /* samples on the matrix's diagonal */

/* Adds a sample to `worst` if its loss is among the greatest; of equal losses the first stays. */
void scored_add_worst(struct scored *s, int64_t sample, int label, int answer, double loss);
/* New references. `s` and all it points to stay the caller's. */
json_t *scored_json(const struct scored *s);
json_t *scored_refusal(const struct err *why);
/* Is an answer of the worker's program such a refusal? Then it sets *e, with ERR_DATA if that is
 * the refusal's code, else with `others`. */
bool scored_is_refusal(const json_t *j, enum err_code others, struct err *e);
/* Reads a document. *out owns confusion, names and pictures: release it in any case. If the program
 * failed, this fails with the program's sentence and hint. */
int scored_read(struct scored *out, const json_t *j, struct err *e);
void scored_release(struct scored *s);

#endif
