/* Device buffers of an exchange (dev_memory_ops in kernels/device.h): memory of the GPU, in the
 * flat block's order, that an MPI which takes GPU pointers sends from and receives into. Also the
 * few words that the host adds to a message, and the sums of the ring. replica.cu copies blocks to
 * such a buffer and back. There is no CPU twin: there the blocks themselves are the buffers.
 *
 * The communication thread adds, and waits for each sum before it passes it on. Sums have a stream
 * of their own, or that wait would include the backward pass. Words go over the copy stream, like
 * blocks; the thread that trains copies them.
 */
#include "kernels/cuda/elements.h"

static int buffer_enter(struct device *dev, struct err *e)
{
    return cuda_enter((struct cuda_device *)dev, e);
}

static int buffer_add(struct device *dev, float *sum, const float *other, size_t n, struct err *e)
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

static int buffer_put(struct device *dev, float *buffer, const float *pinned, size_t n,
                      struct err *e)
{
    return copy(dev, buffer, pinned, n, cudaMemcpyHostToDevice, e);
}

static int buffer_get(struct device *dev, float *pinned, const float *buffer, size_t n,
                      struct err *e)
{
    return copy(dev, pinned, buffer, n, cudaMemcpyDeviceToHost, e);
}

static float *buffer_alloc(struct device *dev, size_t floats, bool pinned, struct err *e)
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

static void buffer_free(struct device *dev, float *memory, bool pinned)
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

/* In the host build the GPU's memory is the host's, so a test may let any MPI access it. */
static bool buffer_reachable(struct device *dev)
{
#ifdef __CUDACC__
    return false;
#else
    return standin_device_pointers();
#endif
}

const struct dev_memory_ops cuda_memory_ops = {
    .reachable = buffer_reachable,
    .alloc = buffer_alloc,
    .free = buffer_free,
    .enter = buffer_enter,
    .fetch = cuda_fetch_buffer,
    .store = cuda_store_buffer,
    .put = buffer_put,
    .get = buffer_get,
    .add = buffer_add,
};
