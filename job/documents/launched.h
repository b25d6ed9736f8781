/* Launched: the process of an attempt, so that the next coordinator finds it. It stands in the
 * job's field `launch`, written once the process has started.
 *
 *   {"format": 1, …, "pid": 4711, "start_ticks": 123456, "launcher": "mpirun"}
 */
#ifndef JOB_DOCUMENTS_LAUNCHED_H
#define JOB_DOCUMENTS_LAUNCHED_H

#include "job/documents/document.h"

enum { LAUNCHED_FORMAT = 1 };

struct launched {
    struct sender from;
    int pid;
    uint64_t start_ticks; /* with pid: the very process, though its number were used again */
    char launcher[16];    /* "mpirun", "simulator" */
};

json_t *launched_json(const struct launched *l); /* new reference */
int launched_read(struct launched *out, const json_t *j, struct err *e);

#endif
