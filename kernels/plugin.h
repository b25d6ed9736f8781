/* The CUDA backend is a file of its own, evenstep-cuda.so, so that the worker runs where there is
 * no CUDA: it is looked for when a GPU is asked for. This header is what worker and plug-in agree
 * on; a plug-in of another version is refused, because its structs would lie otherwise.
 */
#ifndef KERNELS_PLUGIN_H
#define KERNELS_PLUGIN_H

#include "kernels/device.h"

#define PLUGIN_FILE "evenstep-cuda.so"
#define PLUGIN_FUNCTION "evenstep_cuda_plugin"

/* What PLUGIN_FUNCTION is. NULL: the plug-in was built with another layout. */
typedef const struct device_ops *plugin_fn(unsigned layout);

static inline unsigned plugin_layout(void)
{
    unsigned sizes[] = {
        sizeof(struct device_ops), sizeof(struct dev_memory_ops), sizeof(struct dev_replica),
        sizeof(struct dev_input),  sizeof(struct network),        sizeof(struct layer),
        sizeof(struct tensor),     sizeof(struct optimizer_spec), sizeof(struct rule_state),
        sizeof(struct rule_args),  sizeof(struct dev_source),     CAT_COUNT};
    unsigned mixed = 1;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        mixed = mixed * 16777619u ^ sizes[i];
    }
    return mixed;
}

/* The CUDA device, loaded the first time; NULL with the reason (no driver, no plug-in, another
 * version): ERR_UNSUPPORTED. Owned by the process.
 *
 * The plug-in is looked for beside the program and in ../lib/evenstep; EVENSTEP_CUDA_PLUGIN names
 * another file, EVENSTEP_CUDA_DRIVER another driver (both for tests). */
const struct device_ops *plugin_load(struct err *e);

#endif
