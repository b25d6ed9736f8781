/* GPUs of this host, through NVML (libnvidia-ml.so.1, or the file that EVENSTEP_NVML names), which
 * is loaded when it is there. */
#ifndef COMMON_MACHINE_GPU_H
#define COMMON_MACHINE_GPU_H

#include <jansson.h>
#include <stdint.h>

struct gpus;
struct gpus *gpus_open(void); /* NULL: this host has no driver, or no GPU */
void gpus_close(struct gpus *g);
int gpus_count(const struct gpus *g);
int64_t gpus_memory(const struct gpus *g, int index); /* bytes; 0: unknown */
/* {"index","name","memory_bytes","memory_used_bytes","busy","celsius","watts"}: a new reference;
 * NULL: there is no such GPU. Values that the GPU does not report are left out. */
json_t *gpus_json(const struct gpus *g, int index);
/* The same by a node's device, "cuda:INDEX"; NULL for other devices. */
json_t *gpus_of_device(const struct gpus *g, const char *device);
/* Values of such a document; NaN: it has none. gpu NULL: all are NaN. */
void gpus_figures(const json_t *gpu, double *busy, double *memory_used, double *memory);

#endif
