/* Checked: what `--check` of the worker's and the simulator's program answers about a job spec, on
 * standard output; the coordinator's dry run reads it. It belongs to no attempt.
 *
 *   worker     {"format": 1, "errors": [{"pointer", "message"}], "samples": 60000,
 *               "test_samples": 10000, "memory_bytes": […]}              of each worker
 *   simulator  {"format": 1, "errors": […], "memory_bytes": 5e8, "node_memory_bytes": 1e6,
 *               "memory": {"parameters": …}}                             of the whole process
 */
#ifndef JOB_DOCUMENTS_RESULTS_CHECKED_H
#define JOB_DOCUMENTS_RESULTS_CHECKED_H

#include "job/documents/document.h"
#include "job/spec/spec.h"

enum { CHECKED_FORMAT = 1 };

struct checked {
    struct jsonx_problems errors;       /* of the job; owned */
    int64_t samples, test_samples;      /* of its data set; 0: not known */
    int64_t memory_bytes[SPEC_WORKERS]; /* [workers] that each needs */
    int workers;                        /* 0: not known */
    bool is_virtual;                    /* the simulator's; then instead of these: */
    int64_t process_bytes, node_bytes;  /* of the process; of what grows with the nodes, each */
    json_t *blocks; /* name → bytes; owned by one that was read, else borrowed */
};

json_t *checked_json(const struct checked *c); /* new reference */
/* Release it in any case. */
int checked_read(struct checked *out, const json_t *j, struct err *e);
void checked_release(struct checked *c);

#endif
