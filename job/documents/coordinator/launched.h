/* Launched: the process of an attempt, so that the next coordinator finds it. The job's field
 * `launch` has it. It is written before the process is started (pid 0), and again afterwards.
 *
 *   {"format": 1, …, "pid": 4711, "start_ticks": 123456, "launcher": "mpirun", "host": "n1",
 *    "space": "BOOT-NAMESPACE"}
 */
#ifndef JOB_DOCUMENTS_COORDINATOR_LAUNCHED_H
#define JOB_DOCUMENTS_COORDINATOR_LAUNCHED_H

#include "job/documents/document.h"

enum { LAUNCHED_FORMAT = 1 };

struct launched {
    struct sender from;
    int pid;              /* 0: the process was about to be started */
    uint64_t start_ticks; /* with pid: identifies the process even if its number is used again */
    char launcher[16];    /* "mpirun", "simulator" */
    char host[256];       /* where it runs, for people; "" in records of older versions, */
    char space[64];       /* as is this: boot and namespace in which the pid is valid
                             (proc_space()) */
};

json_t *launched_json(const struct launched *l); /* new reference */
int launched_read(struct launched *out, const json_t *j, struct err *e);

#endif
