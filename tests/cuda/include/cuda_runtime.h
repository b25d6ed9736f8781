/* The part of the CUDA runtime that kernels/cuda uses, for the host build (make check-cuda-host):
 * declarations with CUDA's own names and numbers, bodies in tests/cuda/standin. Nothing here comes
 * from a CUDA package, and none is needed.
 *
 * This is not an emulator to run on, it is a strict judge. Work on a stream is not done before
 * somebody waits for it; pinned and device memory are told apart; calls that a capture forbids
 * fail; and any call can be told to fail.
 */
#ifndef STANDIN_CUDA_RUNTIME_H
#define STANDIN_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

#define CUDART_VERSION 13000

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureUnjoined = 904,
} cudaError_t;

typedef struct standin_stream *cudaStream_t;
typedef struct standin_event *cudaEvent_t;
typedef struct standin_graph *cudaGraph_t;
typedef struct standin_exec *cudaGraphExec_t;

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount;
};

typedef enum {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
} cudaMemcpyKind;
typedef enum {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
} cudaStreamCaptureMode;
typedef enum { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType;
typedef enum {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
} cudaStreamCaptureStatus;
enum {
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventDisableTiming = 2,
    cudaHostAllocPortable = 1
};

extern "C" {
const char *cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaMemGetInfo(size_t *there, size_t *all);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
}

/* ---- what kernels see ------------------------------------------------------------------------ */

struct standin_index {
    unsigned x;
};
extern struct standin_index threadIdx, blockIdx, blockDim, gridDim;

void standin_sync(void);
/* Deposits 8 bytes, waits for the warp, and returns what the lane `mask` away deposited. */
uint64_t standin_exchange(uint64_t word, int mask);
void standin_guard(void *from, size_t bytes);
/* Tests hand pointers to the GPU's memory to an MPI. */
bool standin_device_pointers(void);
void standin_check_argument(const void *argument, size_t bytes, bool pointer);

template <typename T> static inline T standin_warp_from(T x, int mask)
{
    uint64_t word = 0;
    memcpy(&word, &x, sizeof(x));
    word = standin_exchange(word, mask);
    memcpy(&x, &word, sizeof(x));
    return x;
}

/* Puts a grid of the kernel of this name on the stream; `thread` is one thread's run of it. */
cudaError_t standin_enqueue_grid(const char *name, unsigned blocks, unsigned threads,
                                 cudaStream_t stream, std::function<void()> thread);

/* As CUDA does, arguments are evaluated and copied now, whenever the kernel runs. */
template <typename... P, typename... A>
static inline cudaError_t standin_launch(const char *name, void (*kernel)(P...), unsigned blocks,
                                         unsigned threads, cudaStream_t stream, A... args)
{
    std::tuple<P...> values(args...);
    std::apply(
        [](const P &...value) {
            (standin_check_argument(&value, sizeof(value), std::is_pointer_v<P>), ...);
        },
        values);
    return standin_enqueue_grid(name, blocks, threads, stream,
                                [kernel, values] { std::apply(kernel, values); });
}

#endif
