/* What a device of this host is: only the worker's program opens devices, so it is asked (evenstep-worker --probe). */
#ifndef COMMON_PROBE_H
#define COMMON_PROBE_H

#include <jansson.h>

#include "common/err.h"

/* device: "cpu:THREADS", "cuda:INDEX" or "auto". {"device", "description", "memory_bytes", "threads", "precisions", "why"}; NULL with the
 * sentence that says why it cannot be used. worker: the program's path. */
json_t *probe_device(const char *worker, const char *device, struct err *e);
/* The precisions of this host's CPU, the same for any number of threads. New reference; NULL if the program cannot be asked, or is older than precisions. */
json_t *probe_cpu_precisions(const char *worker);

#endif
