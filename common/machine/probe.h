/* What a device of this host is. Only the worker's program opens devices, so the coordinator and
 * the agent run it: `evenstep-worker --probe DEVICE` prints one line of JSON. Only this file knows
 * its keys.
 *
 *   {"device": "cuda:0", "description": "NVIDIA H100", "memory_bytes": 8.5e10, "threads": 1,
 *    "precisions": ["fp32", "tf32"], "why": "…"}
 *   {"error": "this machine has 1 GPU, not 2"}              the device cannot be used
 */
#ifndef COMMON_MACHINE_PROBE_H
#define COMMON_MACHINE_PROBE_H

#include <jansson.h>
#include <stdint.h>

#include "common/err.h"

struct probe {
    char device[64]; /* "cpu:THREADS" or "cuda:INDEX", also where "auto" was asked */
    char description[256];
    int64_t memory_bytes;
    int threads;
    json_t *precisions; /* names, owned; NULL: an older program, which does not report them */
    char why[480];      /* for "auto": why a faster device was passed over; "" if none was */
};

/* The worker's half; both new references. */
json_t *probe_json(const struct probe *p);
json_t *probe_refusal(const char *message);

/* Asks the program at `worker` about "cpu:THREADS", "cuda:INDEX" or "auto". Negative if the device
 * cannot be used; the error says why, and there is nothing to release. */
int probe_device(struct probe *out, const char *worker, const char *device, struct err *e);
void probe_release(struct probe *p);

#endif
