/* The language of our kernels: CUDA under nvcc, plain C++ under tests/cuda (make check-cuda-host).
 *
 * A kernel is a function that begins with KERNEL, and only LAUNCH starts it. threadIdx, blockIdx,
 * blockDim and gridDim mean the same as in CUDA. Shared memory is SHARED, a barrier is port_sync,
 * threads of a warp communicate by a port_warp_… below, and bf16 is the struct of that name.
 * Kernels use nothing else of CUDA's device language, so the host build only needs this file and
 * the stand-ins of tests/cuda/include.
 *
 * A thread that has left the kernel never reaches a barrier. So in kernels with port_sync or
 * port_warp_… all threads run to the end, and guard their reads and writes instead.
 */
#ifndef KERNELS_CUDA_PORT_H
#define KERNELS_CUDA_PORT_H

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime.h>

enum { PORT_THREADS = 256, PORT_WARP = 32 }; /* threads per block; per warp */

struct bf16 {
    uint16_t bits;
};

#ifdef __CUDACC__

#include <cuda_bf16.h>

#define KERNEL static __global__ void __launch_bounds__(PORT_THREADS)
#define DEVICE_FN static __device__ __forceinline__
#define DEVICE_FN_MEMBER __device__ __forceinline__
#define SHARED __shared__
#define PORT_START(kernel, blocks, stream, ...) \
    (kernel<<<(unsigned)(blocks), PORT_THREADS, 0, stream>>>(__VA_ARGS__), cudaGetLastError())

DEVICE_FN void port_sync(void)
{
    __syncthreads();
}

template <typename T> DEVICE_FN T port_warp_from(T x, int lane_mask)
{
    return __shfl_xor_sync(0xffffffffu, x, lane_mask);
}

/* Other blocks see the thread's writes before this call earlier than its writes after it. */
DEVICE_FN void port_fence(void)
{
    __threadfence();
}

/* Counts the caller. True for the last of `all`, which also resets the count to zero. */
DEVICE_FN bool port_count(unsigned *at, unsigned all)
{
    return atomicInc(at, all - 1) == all - 1;
}

DEVICE_FN float port_float(struct bf16 x)
{
    return __uint_as_float((unsigned)x.bits << 16);
}

DEVICE_FN struct bf16 port_bf16(float x)
{
    struct bf16 r = {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
    return r;
}

#else

#include <math.h>
#include <string.h>

#define KERNEL static void
#define DEVICE_FN static inline
#define DEVICE_FN_MEMBER inline
#define SHARED static
#define PORT_START(kernel, blocks, stream, ...)                                              \
    (standin_launch(#kernel, kernel, (unsigned)(blocks), PORT_THREADS, stream, __VA_ARGS__), \
     cudaGetLastError())

DEVICE_FN void port_sync(void)
{
    standin_sync();
}

template <typename T> DEVICE_FN T port_warp_from(T x, int lane_mask)
{
    return standin_warp_from(x, lane_mask);
}

DEVICE_FN void port_fence(void)
{
}

DEVICE_FN bool port_count(unsigned *at, unsigned all) /* blocks run one after the other */
{
    *at = *at < all - 1 ? *at + 1 : 0;
    return *at == 0;
}

DEVICE_FN float port_float(struct bf16 x)
{
    uint32_t word = (uint32_t)x.bits << 16;
    float r;
    memcpy(&r, &word, sizeof(r));
    return r;
}

/* To the nearest, ties to even; NaN stays NaN. */
DEVICE_FN struct bf16 port_bf16(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof(word));
    bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    struct bf16 r = {(uint16_t)(nan ? 0x7fff : (word + 0x7fffu + (word >> 16 & 1)) >> 16)};
    return r;
}

#endif

/* ---- starting -------------------------------------------------------------------------------- */

/* Starts a kernel and returns the cudaError_t of the start. bytes: the least that it has to read
 * and write, whatever the caches do. The meter divides them by the kernel's time and compares the
 * result with the memory's bandwidth (meter.cu). */
#define LAUNCH_AS(name, kernel, blocks, bytes, stream, ...)        \
    (cuda_meter_begin(__FILE__, name, (double)(bytes), 0, stream), \
     cuda_meter_end(stream, PORT_START(kernel, blocks, stream, __VA_ARGS__)))
#define LAUNCH(kernel, blocks, bytes, stream, ...) \
    LAUNCH_AS(#kernel, kernel, blocks, bytes, stream, __VA_ARGS__)
void cuda_meter_begin(const char *file, const char *name, double bytes, double flops,
                      cudaStream_t stream);
cudaError_t cuda_meter_end(cudaStream_t stream, cudaError_t code);

/* ---- numbers of either kind as floats -------------------------------------------------------- */

DEVICE_FN float port_float(float x)
{
    return x;
}

DEVICE_FN void port_round_to(float *to, float x)
{
    *to = x;
}

DEVICE_FN void port_round_to(struct bf16 *to, float x)
{
    *to = port_bf16(x);
}

template <typename T> DEVICE_FN T port_from(float x)
{
    T r;
    port_round_to(&r, x);
    return r;
}

/* Several numbers that a thread reads or writes at once; port_pack<T>::N of them take 16 bytes.
 * Arrays of an arena begin at multiples of 256 bytes. */
template <typename T, int COUNT> struct alignas(COUNT * sizeof(T)) port_some {
    T v[COUNT];
};
template <typename T> struct port_pack {
    static constexpr int N = 16 / (int)sizeof(T);
};

template <typename T, int N> DEVICE_FN void port_add(float *sums, port_some<T, N> v)
{
    for (int k = 0; k < N; k++) {
        sums[k] += port_float(v.v[k]);
    }
}

/* NaN stays NaN. */
DEVICE_FN float port_relu(float x)
{
    return x < 0 ? 0 : x;
}

/* A gradient where a relu's output is above 0, else 0. */
template <typename T, int N>
DEVICE_FN port_some<T, N> port_masked(port_some<T, N> gradient, port_some<T, N> output)
{
    for (int k = 0; k < N; k++) {
        gradient.v[k] = port_float(output.v[k]) > 0 ? gradient.v[k] : port_from<T>(0);
    }
    return gradient;
}

/* ---- sums over a warp or a block ------------------------------------------------------------- */

template <typename T> DEVICE_FN T port_warp_sum(T x)
{
    for (int mask = PORT_WARP / 2; mask > 0; mask /= 2) {
        x += port_warp_from(x, mask);
    }
    return x;
}

/* ---- the last block -------------------------------------------------------------------------- */

/* Have `all` - 1 other blocks called this before? If so, their writes are visible, and *done is
 * zero again. Every thread of the block calls it. */
DEVICE_FN bool port_is_last(unsigned *done, unsigned all)
{
    SHARED bool last;
    port_fence();
    port_sync();
    if (threadIdx.x == 0) {
        last = port_count(done, all);
    }
    port_sync();
    port_fence();
    return last;
}

/* ---- indices --------------------------------------------------------------------------------- */

DEVICE_FN size_t port_index(void)
{
    return (size_t)blockIdx.x * PORT_THREADS + threadIdx.x;
}

DEVICE_FN size_t port_stride(void)
{
    return (size_t)gridDim.x * PORT_THREADS;
}

#endif
