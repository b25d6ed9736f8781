/* The memory that a network needs, on any device. Placement asks before a program is built, and on
 * another machine, so it is an estimate from the network alone, and on the safe side. The CUDA
 * plug-in has a copy of its own.
 */
#include "kernels/device.h"

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
    size_t copies = 3 * net->n_params; /* weights and their gradient in the kernels' formats */
    size_t fixed = (size_t)32 << 20;   /* scratch memory and the kernels */
    return (blocks + copies) * sizeof(float) + fixed +
           2 * network_activation_bytes(net) * (size_t)(batch > 0 ? batch : 0);
}
