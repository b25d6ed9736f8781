/* Devices by name, and what a program costs in memory on any of them.
 *
 * A device is one row of the table below. What a newcomer would get wrong: memory is asked for before a program is built
 * (placement needs it on another machine), so it is an estimate from the network alone, and on the safe side.
 */
#include "kernels/device.h"

#include <stdio.h>
#include <string.h>

extern const struct device_ops cpu_device_ops;

static const struct device_ops *const devices[] = {&cpu_device_ops};
enum { N_DEVICES = sizeof(devices) / sizeof(*devices) };

static struct device *open_unknown(const char *name, struct err *e)
{
    if (strncmp(name, "cuda", 4) == 0 && (name[4] == ':' || !name[4])) {
        err_set(e, ERR_UNSUPPORTED, "cannot open device '%.60s': this build has no CUDA part", name);
        err_hint(e, "the device cpu:1 is everywhere");
    } else {
        err_set(e, ERR_INVALID, "there is no device '%.60s'; devices are cpu:THREADS, cuda:INDEX and auto", name);
    }
    return NULL;
}

struct device *dev_open(const char *name, struct err *e)
{
    size_t length = strcspn(name, ":");
    const char *args = name[length] == ':' ? name + length + 1 : "";
    if (strcmp(name, "auto") == 0) {
        return cpu_device_ops.open("", e);
    }
    for (int i = 0; i < N_DEVICES; i++) {
        if (strlen(devices[i]->name) == length && strncmp(devices[i]->name, name, length) == 0) {
            return devices[i]->open(args, e);
        }
    }
    return open_unknown(name, e);
}

void dev_close(struct device *dev)
{
    if (dev) {
        dev->ops->close(dev);
    }
}

size_t dev_optim_floats(const struct network *net, const struct optimizer_spec *opt)
{
    if (opt->type == CAT_OPTIMIZER_ADAM || opt->type == CAT_OPTIMIZER_ADAMW) {
        return 2 * net->n_params + 1;
    }
    return opt->momentum > 0 ? net->n_params : 0;
}

size_t dev_memory_needed(const struct network *net, const struct optimizer_spec *opt, int batch)
{
    size_t blocks = 2 * net->n_params + dev_optim_floats(net, opt) + net->n_stat_floats;
    size_t copies = 3 * net->n_params; /* weights and their gradient in the formats of the kernels */
    size_t fixed = (size_t)32 << 20;   /* scratch memory and the kernels themselves */
    return (blocks + copies) * sizeof(float) + fixed + 2 * network_activation_bytes(net) * (size_t)(batch > 0 ? batch : 0);
}
