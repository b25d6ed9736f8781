/* Measured: what the coordinator keeps of a node on a network across jobs: its step times, and what
 * its device measured to choose its algorithms. The store keeps it as the profile of node and
 * network for 180 days. It belongs to no attempt.
 *
 *   {"a", "k", "count", …, "max_batch", "slowdown": 1.0, "device": "cpu:4", "tuning": {…},
 *    "exchange": {"strategy": "sync", "workers": 4, "seconds": 0.0025}, "format": 1}
 *
 * It holds only for the same device at the same speed. A document without "format" comes from an
 * earlier version and counts as format 1.
 */
#ifndef JOB_DOCUMENTS_COORDINATOR_MEASURED_H
#define JOB_DOCUMENTS_COORDINATOR_MEASURED_H

#include "job/documents/document.h"
#include "job/minibatch/profile.h"
#include "job/spec/spec.h"

enum { MEASURED_FORMAT = 1 };

/* The part of a step's exchange that computing did not hide, in the node's last job. */
struct exchanged {
    char strategy[32];
    int workers; /* workers of that job; 0: not measured */
    double seconds;
};

struct measured {
    struct profile profile; /* count 0: never measured; then max_batch alone may be known */
    char device[DOCUMENT_NODE];
    double slowdown;
    struct exchanged exchange;
    json_t *tuning; /* of dev_tuning, or NULL; owned if it was read, else borrowed */
};

json_t *measured_json(const struct measured *m); /* new reference */
/* Release it in any case. */
int measured_read(struct measured *out, const json_t *j, struct err *e);
void measured_release(struct measured *m);

#endif
