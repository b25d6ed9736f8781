/* The arithmetic of a device: see device.h. */
#include <string.h>

#include "kernels/device.h"

int dev_use_precision(struct device *dev, const char *precision, struct err *e)
{
    if (dev->ops->precision) {
        return dev->ops->precision->use(dev, precision, e);
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
