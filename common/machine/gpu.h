/* GPUs of this host, through NVML. The library, libnvidia-ml.so.1 or the file that EVENSTEP_NVML
 * names, is loaded at run time if the host has it. */
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
 * NULL if there is no such GPU. Leaves out values that the GPU does not report. */
json_t *gpus_json(const struct gpus *g, int index);
/* The same by a node's device, "cuda:INDEX"; NULL for other devices. */
json_t *gpus_of_device(const struct gpus *g, const char *device);
/* Reads values from such a document; a missing value is NaN. gpu NULL: all are NaN. */
void gpus_figures(const json_t *gpu, double *busy, double *memory_used, double *memory);

#endif
