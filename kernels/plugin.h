/* A device that is a file of its own: evenstep-cuda.so, so that the worker runs where there is no
 * CUDA. This header is what the worker and the plug-in agree on.
 *
 * The two are built separately, and a change of the interface between the builds need not show:
 * sizes may be equal while two function pointers are swapped or a field means something else. So
 * the build hashes every header of ours that this one includes (kernels/plugin.mk), and compiles
 * the hash into both files. A plug-in with another hash is refused.
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

/* What PLUGIN_SYMBOL is. `identity` comes first in every version, so that any worker can read it;
 * nothing else is read before it was compared. */
struct plugin {
    const char *identity; /* PLUGIN_IDENTITY of the plug-in's build */
    struct device *(*open)(const char *args, struct err *e);
};

/* cuda_open (kernels/device.h) loads the plug-in the first time and lets it open the GPU. NULL with
 * the reason: no driver, no plug-in, a plug-in of another build are ERR_UNSUPPORTED. The plug-in
 * stays loaded.
 *
 * The plug-in is looked for next to the program and in ../lib/evenstep; EVENSTEP_CUDA_PLUGIN names
 * another file, EVENSTEP_CUDA_DRIVER another driver (both for tests). */

#endif
