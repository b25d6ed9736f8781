/* What a device of this host is: only the worker's program opens devices, so it is asked
 * (evenstep-worker --probe). */
#ifndef COMMON_PROBE_H
#define COMMON_PROBE_H

#include <jansson.h>

#include "common/err.h"

/* device: "cpu:THREADS", "cuda:INDEX" or "auto". {"device", "description", "memory_bytes",
 * "threads", "precisions", "why"}; NULL with the sentence that says why it cannot be used. worker:
 * the program's path. */
json_t *probe_device(const char *worker, const char *device, struct err *e);
/* Gives those of these nodes (an array of documents) that are CPUs the precisions of this host's,
 * which are the same for any number of threads; the program is asked once, and only if there is
 * one. If it cannot be asked, or is older than precisions, they stay as they are. */
void probe_cpu_nodes(json_t *nodes, const char *worker);

#endif
