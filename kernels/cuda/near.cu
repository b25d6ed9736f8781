/* Blocks that an exchange sends from the GPU's own memory and receives into it, where the MPI takes
 * such pointers (device.h, dev_memory_ops): memory in the flat block's order, the few words that
 * the host adds to a message, and the sums of the ring. No twin: on the CPU all memory is the
 * exchange's. Getting a block there and back is replica.cu's.
 *
 * What a newcomer would get wrong: sums are added by the communication thread, which waits for each
 * before it passes it on. They have a stream of their own, or that wait would be one for the
 * backward pass. Words are copied beside fetched blocks, on the copy stream, by the thread that
 * trains.
 */
#include "kernels/cuda/elements.h"

static int near_enter(struct device *dev, struct err *e)
{
    return cuda_enter((struct cuda_device *)dev, e);
}

static int near_add(struct device *dev, float *sum, const float *other, size_t n, struct err *e)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    if (n == 0) {
        return 0;
    }
    TRY(cuda_enter(d, e));
    TRY(elements_each(d, d->ring, f_sum{false}, sum, (const float *)sum, other, n, "add gradients",
                      e));
    return cuda_check(cudaStreamSynchronize(d->ring), "add gradients", e);
}

static int copy(struct device *dev, float *to, const float *from, size_t n, cudaMemcpyKind kind,
                struct err *e)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    if (n == 0) {
        return 0;
    }
    TRY(cuda_enter(d, e));
    TRY(cuda_check(cudaMemcpyAsync(to, from, n * sizeof(float), kind, d->copy),
                   "copy words of an exchange", e));
    return cuda_check(cudaStreamSynchronize(d->copy), "copy words of an exchange", e);
}

static int near_put(struct device *dev, float *near, const float *pinned, size_t n, struct err *e)
{
    return copy(dev, near, pinned, n, cudaMemcpyHostToDevice, e);
}

static int near_get(struct device *dev, float *pinned, const float *near, size_t n, struct err *e)
{
    return copy(dev, pinned, near, n, cudaMemcpyDeviceToHost, e);
}

static float *near_alloc(struct device *dev, size_t floats, bool pinned, struct err *e)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    float *memory = NULL;
    size_t bytes = (floats > 0 ? floats : 1) * sizeof(float);
    if (cuda_enter(d, e) < 0) {
        return NULL;
    }
    int rc = pinned
                 ? cuda_pin(&memory, bytes, e)
                 : cuda_check(cudaMalloc((void **)&memory, bytes), "allocate memory on the GPU", e);
    return rc < 0 ? NULL : memory;
}

static void near_free(struct device *dev, float *memory, bool pinned)
{
    if (memory) {
        cudaSetDevice(((struct cuda_device *)dev)->index);
        if (pinned) {
            cudaFreeHost(memory);
        } else {
            cudaFree(memory);
        }
        cudaGetLastError();
    }
}

/* On the host build the GPU's memory is the host's: there a test may have any MPI take it. */
static bool near_reachable(struct device *dev)
{
#ifdef __CUDACC__
    return false;
#else
    return standin_device_pointers();
#endif
}

const struct dev_memory_ops cuda_memory_ops = {
    .reachable = near_reachable,
    .alloc = near_alloc,
    .free = near_free,
    .enter = near_enter,
    .fetch = cuda_fetch_near,
    .store = cuda_store_near,
    .put = near_put,
    .get = near_get,
    .add = near_add,
};
