/* A device in a file of its own: evenstep-cuda.so. The worker therefore also runs without CUDA.
 * This header is the contract between worker and plug-in.
 *
 * The two are built separately, and a difference between their interfaces need not show: sizes may
 * be equal although two function pointers are swapped or a field has another meaning. So the build
 * hashes every header of ours that this one includes (kernels/plugin.mk), and compiles the hash
 * into both files. The worker refuses a plug-in with another hash.
 */
#ifndef KERNELS_PLUGIN_H
#define KERNELS_PLUGIN_H

#include "kernels/device.h"
/* What else crosses the interface, by value or by meaning. */
#include "kernels/clip.h"
#include "kernels/mask.h"
#include "kernels/samples.h"

#define PLUGIN_FILE "evenstep-cuda.so"
#define PLUGIN_SYMBOL "evenstep_device_plugin"

/* The type of PLUGIN_SYMBOL. `identity` comes first in every version, so that any worker can read
 * it. It reads nothing else before it has compared that. */
struct plugin {
    const char *identity; /* PLUGIN_IDENTITY of the plug-in's build */
    struct device *(*open)(const char *args, struct err *e);
};

/* cuda_open (kernels/device.h) loads the plug-in on first use and lets it open the GPU.
 * ERR_UNSUPPORTED without a driver or a plug-in, or with a plug-in of another build; the error says
 * why. The plug-in stays loaded.
 *
 * cuda_open looks for the plug-in next to the program and in ../lib/evenstep; EVENSTEP_CUDA_PLUGIN
 * names another file, EVENSTEP_CUDA_DRIVER another driver (both for tests). */

#endif
