/* Departure: a worker that was lost while its attempt went on without it (docs/decisions/0020). The
 * keeper reports it as a fact, and the monitor keeps it in its bookmark.
 *
 *   {"who": 1, "step": 412, "others": 3, "pushes": 120, "staleness": {…}}
 *
 * The worker's own counters end with its last heartbeat, up to 0.4 s before its death. The server's
 * counters are exact: they have each gradient that it took, and no other.
 */
#ifndef JOB_DOCUMENTS_RANKS_DEPARTURE_H
#define JOB_DOCUMENTS_RANKS_DEPARTURE_H

#include "job/documents/document.h"
#include "job/staleness.h"

struct departure {
    int who;        /* rank */
    int64_t step;   /* the server's version when it dropped the worker */
    int others;     /* workers that go on */
    int64_t pushes; /* gradients that the server took from it in this attempt */
    /* cumulative, of the job's surviving updates; owned if it was read, else borrowed */
    struct staleness staleness;
};

json_t *departure_json(const struct departure *d); /* new reference */
/* Release it in any case. */
void departure_parse(const struct document *d, struct departure *out);
void departure_release(struct departure *d);

#endif
