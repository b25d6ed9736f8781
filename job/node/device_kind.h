/* Facts about kinds of devices, by a device's name ("cpu:2", "cuda:0"): the rows of
 * job/node/devices.def as a table. Pure; nothing here opens a device.
 */
#ifndef JOB_NODE_DEVICE_KIND_H
#define JOB_NODE_DEVICE_KIND_H

#include <stdbool.h>
#include <stddef.h>

enum device_argument { DEVICE_THREADS, DEVICE_INDEX };

struct device_kind {
    int id;           /* CAT_DEVICE_… */
    const char *name; /* "cpu" */
    enum device_argument argument;
    int quantum;            /* minibatches are multiples of this */
    double speed;           /* guessed speed of one thread, or of the whole device; 1: a CPU
                               thread */
    const char *precisions; /* "fp32 tf32 bf16": used for a node that was not probed */
};

/* The rows in their order, static; NULL after the last. */
const struct device_kind *device_kind_at(int i);
/* The kind of a device, by the name before the colon; NULL if there is none. */
const struct device_kind *device_kind_of(const char *device);
/* "cpu:THREADS, cuda:INDEX": the forms of devices, for messages. */
void device_kind_forms(char *out, size_t out_bytes);
/* 4 for a device of no known kind. */
int device_kind_quantum(const char *device);
/* The smallest quantum of several devices, one after another: `least` is that of the earlier ones,
 * 0 for none. */
int device_kind_least_quantum(int least, const char *device);
/* Guessed speed of a device with so many threads, in CPU threads. */
double device_kind_speed(const char *device, int threads);
/* Does a device of this kind usually offer the precision? */
bool device_kind_offers(const char *device, const char *precision);

#endif
