/* Gradients that an exchange sends from the GPU's own memory and receives into it, where the MPI takes such pointers (device.h,
 * dev_memory_ops): memory in the flat block's order, and the sums of the ring. No twin: on the CPU all memory is the exchange's. Getting a
 * block there and back is replica.cu's.
 *
 * What a newcomer would get wrong: sums are added by the communication thread, which waits for each before it passes it on. They have a
 * stream of their own, or that wait would be one for the backward pass.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

KERNEL add(float *sum, const float *other, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        sum[i] += other[i];
    }
}

static int near_add(struct device *dev, float *sum, const float *other, size_t n, struct err *e)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    TRY(cuda_enter(d, e));
    if (n == 0) {
        return 0;
    }
    TRY(cuda_check(LAUNCH(add, cuda_blocks(d, n), 3 * n * sizeof(float), d->ring, sum, other, n), "add gradients", e));
    return cuda_check(cudaStreamSynchronize(d->ring), "add gradients", e);
}

static float *near_take(struct device *dev, size_t floats, struct err *e)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    float *memory = NULL;
    size_t bytes = (floats > 0 ? floats : 1) * sizeof(float);
    if (cuda_enter(d, e) < 0 || cuda_check(cudaMalloc((void **)&memory, bytes), "allocate memory on the GPU", e) < 0) {
        return NULL;
    }
    return memory;
}

static void near_give_back(struct device *dev, float *memory)
{
    if (memory) {
        cudaSetDevice(((struct cuda_device *)dev)->index);
        cudaFree(memory);
        cudaGetLastError();
    }
}

/* On the host build the GPU's memory is the host's: there a test may have any MPI take it. */
static bool near_reachable(struct device *dev)
{
#ifdef __CUDACC__
    return false;
#else
    const char *asked = getenv("EVENSTEP_STANDIN_DEVICE_POINTERS");
    return asked && *asked == '1';
#endif
}

const struct dev_memory_ops cuda_memory_ops = {
    .reachable = near_reachable,
    .take = near_take,
    .give_back = near_give_back,
    .fetch = cuda_fetch_near,
    .store = cuda_store_near,
    .add = near_add,
};
