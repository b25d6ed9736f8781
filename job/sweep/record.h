/* A sweep as the store keeps it and the coordinator and http/ read it (store/sweeps.h):
 *
 *   {"id", "document": {…}, "owner", "state", "created", "finished", "jobs": […]}
 */
#ifndef JOB_SWEEP_RECORD_H
#define JOB_SWEEP_RECORD_H

#include "job/sweep/runs.h"
#include "job/sweep/state.h"
#include "job/sweep/sweep.h"

struct sweep_record {
    const char *owner; /* the document's; "": nobody's */
    enum sweep_state state;
    struct sweep sweep;
    struct sweep_runs runs;
};

/* Release `out` in any case. ERR_DATA for what is no such document, or what sweep_read() says. */
int sweep_record_read(struct sweep_record *out, const json_t *kept, struct err *e);
void sweep_record_release(struct sweep_record *r);
/* The owner alone; "": nobody's. Borrowed of `kept`. */
const char *sweep_record_owner(const json_t *kept);
/* Puts into `out` what is shown as it is kept: id, owner, state, created, finished. */
void sweep_record_show(const json_t *kept, json_t *out);

#endif
