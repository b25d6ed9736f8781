/* Devices by name.
 *
 * The CPU is part of the program, CUDA is a plug-in (plugin.c) that is loaded when a GPU is asked
 * for. What a newcomer would get wrong: `auto` never fails for want of a GPU: it says in one line
 * why there is none to use, and takes the CPU.
 */
#include "kernels/device.h"

#include <string.h>

#include "common/log.h"
#include "kernels/plugin.h"

extern const struct device_ops cpu_device_ops;

static struct device *open_cuda(const char *args, struct err *e)
{
    const struct device_ops *ops = plugin_load(e);
    return ops ? ops->open(args, e) : NULL;
}

static struct device *open_auto(struct err *e)
{
    struct err why = {0};
    char quoted[600];
    struct device *dev = open_cuda("0", &why);
    if (dev) {
        return dev;
    }
    log_info("device", "the CPU is used", "why=%s", log_quote(quoted, sizeof(quoted), why.message));
    return cpu_device_ops.open("", e);
}

struct device *dev_open(const char *name, struct err *e)
{
    size_t length = strcspn(name, ":");
    const char *args = name[length] == ':' ? name + length + 1 : "";
    if (strcmp(name, "auto") == 0) {
        return open_auto(e);
    }
    if (length == 3 && strncmp(name, "cpu", length) == 0) {
        return cpu_device_ops.open(args, e);
    }
    if (length == 4 && strncmp(name, "cuda", length) == 0) {
        struct device *dev = open_cuda(args, e);
        if (!dev && e && e->code == ERR_UNSUPPORTED) {
            err_hint(e, "the device cpu:1 is everywhere");
        }
        return dev;
    }
    err_set(e, ERR_INVALID,
            "there is no device '%.60s'; devices are cpu:THREADS, cuda:INDEX and auto", name);
    return NULL;
}

void dev_close(struct device *dev)
{
    if (dev) {
        dev->ops->close(dev);
    }
}

int dev_use_precision(struct device *dev, const char *precision, struct err *e)
{
    if (dev->ops->use_precision) {
        return dev->ops->use_precision(dev, precision, e);
    }
    return strcmp(precision, "fp32") == 0 ? 0 : dev_lacks_precision(dev, precision, e);
}

int dev_lacks_precision(struct device *dev, const char *precision, struct err *e)
{
    err_set(e, ERR_UNSUPPORTED, "the device '%s' (%.100s) does not offer the precision '%.20s'",
            dev->ops->name, dev->ops->describe(dev), precision);
    err_hint(
        e,
        "fp32 is offered everywhere; tf32 needs a GPU, bf16 a GPU or a CPU that has avx512_bf16");
    return -ERR_UNSUPPORTED;
}

json_t *dev_tuning(struct device *dev)
{
    return dev->ops->tuning ? dev->ops->tuning(dev) : NULL;
}

void dev_tune(struct device *dev, const json_t *tuning)
{
    if (dev->ops->tune && tuning) {
        dev->ops->tune(dev, tuning);
    }
}
