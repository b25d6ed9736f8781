/* The stand-ins themselves: what the real libraries would refuse, or punish much later, ends a test there and then, with a sentence. Each
 * mistake is made in a process of its own. Nothing of ours runs here, and on a GPU there is nothing to ask (the suite of the real libraries
 * leaves this program out).
 */
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include <cublas_v2.h>
#include <cudnn.h>

#include "tests/cuda/standin/control.h"

extern "C" {
#include <cmocka.h>
const struct standin_control *standin_control(void);
}

/* A convolution that is right in every way: 2 pictures of 4×4×4, 4 filters of 1×1. */
struct right {
    cudaStream_t stream;
    cudnnHandle_t dnn;
    cudnnTensorDescriptor_t x;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    char *memory; /* x, then y, then w, then the workspace */
    size_t workspace;
};
enum { X = 2 * 4 * 4 * 4 * 4, W = 4 * 4 * 4, BYTES = 2 * X + W + 4096 };

static struct right make(void)
{
    struct right r = {};
    r.workspace = 2048;
    assert_int_equal(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudnnCreate(&r.dnn), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetStream(r.dnn, r.stream), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnCreateTensorDescriptor(&r.x), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnCreateFilterDescriptor(&r.w), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnCreateConvolutionDescriptor(&r.conv), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetTensor4dDescriptor(r.x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 2, 4, 4, 4), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetFilter4dDescriptor(r.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 4, 4, 1, 1), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetConvolution2dDescriptor(r.conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudaMalloc((void **)&r.memory, BYTES), cudaSuccess);
    return r;
}

static cudnnStatus_t run(const struct right &r, char *x)
{
    const float one = 1, zero = 0;
    return cudnnConvolutionForward(r.dnn, &one, r.x, x, r.w, r.memory + 2 * X, r.conv, (cudnnConvolutionFwdAlgo_t)1, r.memory + 2 * X + W,
                                   r.workspace, &zero, r.x, r.memory + X);
}

/* ---- mistakes: what each returns where it does not end the process ------------------------------------------------------------ */

static cublasStatus_t multiply(cudaStream_t stream, char *memory, bool workspace, int lda)
{
    cublasHandle_t blas;
    const float one = 1, zero = 0;
    cublasCreate(&blas);
    cublasSetStream(blas, stream);
    if (workspace) {
        cublasSetWorkspace(blas, memory + 1024, 1024);
    }
    cublasStatus_t code = cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, memory, CUDA_R_32F, lda, memory + 64, CUDA_R_32F, 4,
                                       &zero, memory + 128, CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cublasDestroy(blas);
    return code;
}

static cudaStream_t branch(void)
{
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    return s;
}

static cudaEvent_t mark(cudaStream_t stream)
{
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, stream);
    return event;
}

/* Something on another stream, after what is on r's; an event behind it. */
static cudaEvent_t fork(struct right r, cudaStream_t other)
{
    cudaStreamWaitEvent(other, mark(r.stream), 0);
    cudaMemsetAsync(r.memory, 0, 64, other);
    return mark(other);
}

static const struct mistake {
    const char *name, *says; /* says: NULL, it is refused with a code and not with the end */
    int (*make)(struct right r);
} mistakes[] = {
    {"a descriptor that was never set", "never set",
     [](struct right r) {
         return cudnnDestroyConvolutionDescriptor(r.conv), cudnnCreateConvolutionDescriptor(&r.conv), (int)run(r, r.memory);
     }},
    {"a descriptor that is gone", "no live tensor descriptor",
     [](struct right r) { return cudnnDestroyTensorDescriptor(r.x), (int)run(r, r.memory); }},
    {"shapes that do not belong together", NULL,
     [](struct right r) {
         return cudnnSetFilter4dDescriptor(r.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 4, 3, 1, 1), (int)run(r, r.memory);
     }},
    {"a workspace that is too small", NULL, [](struct right r) { return r.workspace = 1000, (int)run(r, r.memory); }},
    {"a tensor that is not aligned", "not aligned", [](struct right r) { return (int)run(r, r.memory + 4); }},
    {"a tensor of the host's", "no memory of the GPU", [](struct right r) { return (int)run(r, (char *)calloc(1, X)); }},
    {"a tensor that reaches past its memory", "past the end", [](struct right r) { return (int)run(r, r.memory + BYTES - X / 2); }},
    {"memory that was given back", "no memory of the GPU", [](struct right r) { return cudaFree(r.memory), (int)run(r, r.memory); }},
    {"memory that is given back twice", "freed twice", [](struct right r) { return cudaFree(r.memory), (int)cudaFree(r.memory); }},
    {"a handle without a stream", "no live stream",
     [](struct right r) { return cudnnDestroy(r.dnn), cudnnCreate(&r.dnn), (int)run(r, r.memory); }},
    {"a handle of a stream that is gone", "no live stream",
     [](struct right r) { return cudaStreamDestroy(r.stream), (int)run(r, r.memory); }},
    {"a handle that is gone", "no live cuDNN handle", [](struct right r) { return cudnnDestroy(r.dnn), (int)run(r, r.memory); }},
    {"a product in the library's own workspace", "own workspace",
     [](struct right r) { return (int)multiply(r.stream, r.memory, false, 4); }},
    {"a leading dimension that is too short", NULL, [](struct right r) { return (int)multiply(r.stream, r.memory, true, 3); }},
    {"a copy of another kind than is said", "is not of the kind",
     [](struct right r) { return (int)cudaMemcpyAsync(r.memory, r.memory + 64, 64, cudaMemcpyHostToDevice, r.stream); }},
    {"a copy to memory that is not pinned", "not pinned",
     [](struct right r) { return (int)cudaMemcpyAsync(calloc(1, 64), r.memory, 64, cudaMemcpyDeviceToHost, r.stream); }},
    {"memory taken while a stream is captured", NULL,
     [](struct right r) {
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), (int)cudaMalloc((void **)&r.memory, 64);
     }},
    {"a wait while a stream is captured", NULL,
     [](struct right r) {
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), (int)cudaStreamSynchronize(r.stream);
     }},
    {"a captured branch that nobody waits for", NULL,
     [](struct right r) {
         cudaGraph_t graph;
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), fork(r, branch()),
                (int)cudaStreamEndCapture(r.stream, &graph);
     }},
    {"a host that waits for a captured event", "no event that the host can wait for",
     [](struct right r) {
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), (int)cudaEventSynchronize(fork(r, branch()));
     }},
    {"a captured stream that waits for one that is not", "of another that is not",
     [](struct right r) {
         cudaStream_t other = branch();
         cudaEvent_t event = mark(other);
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), (int)cudaStreamWaitEvent(r.stream, event, 0);
     }},
    {"algorithms measured while a stream is captured", "while a stream is captured",
     [](struct right r) {
         int n;
         cudnnConvolutionFwdAlgoPerf_t list[4];
         cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal);
         return (int)cudnnFindConvolutionForwardAlgorithm(r.dnn, r.x, r.w, r.conv, r.x, 4, &n, list);
     }},
};

/* What a process that makes this mistake says; its exit status at *status. */
static void make_one(const struct mistake *m, char *said, size_t room, int *status)
{
    int pipes[2];
    size_t n = 0;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        _exit(m->make(make()) != 0 ? 1 : 0);
    }
    close(pipes[1]);
    for (ssize_t got; n < room - 1 && (got = read(pipes[0], said + n, room - 1 - n)) > 0;) {
        n += (size_t)got;
    }
    said[n] = 0;
    close(pipes[0]);
    assert_int_equal(waitpid(child, status, 0), child);
}

static void every_mistake_is_seen(void **state)
{
    for (const struct mistake &m : mistakes) {
        char said[2000];
        int status;
        make_one(&m, said, sizeof(said), &status);
        bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, refused = WIFEXITED(status) && WEXITSTATUS(status) == 1;
        if (m.says ? !ended || !strstr(said, "stand-in: ") || !strstr(said, m.says) : !refused) {
            fail_msg("%s: status %x, '%s'", m.name, (unsigned)status, said);
        }
    }
}

static void what_is_right_is_done(void **state)
{
    struct right r = make();
    float *pinned;
    assert_int_equal(cudaHostAlloc((void **)&pinned, BYTES, cudaHostAllocPortable), cudaSuccess);
    for (size_t i = 0; i < BYTES / sizeof(float); i++) {
        pinned[i] = 2;
    }
    assert_int_equal(cudaMemcpyAsync(r.memory, pinned, BYTES, cudaMemcpyHostToDevice, r.stream), cudaSuccess);
    assert_int_equal(run(r, r.memory), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudaMemcpyAsync(pinned, r.memory, BYTES, cudaMemcpyDeviceToHost, r.stream), cudaSuccess);
    assert_true(pinned[X / 4] == 2); /* nothing has run: nobody has waited */
    assert_int_equal(cudaStreamSynchronize(r.stream), cudaSuccess);
    assert_true(pinned[0] == 2 && pinned[X / 4] == 16 && pinned[2 * X / 4 - 1] == 16);
    assert_int_equal(multiply(r.stream, r.memory, true, 4), CUBLAS_STATUS_SUCCESS);
    cudaFreeHost(pinned);
    cudaFree(r.memory);
    cudnnDestroyTensorDescriptor(r.x);
    cudnnDestroyFilterDescriptor(r.w);
    cudnnDestroyConvolutionDescriptor(r.conv);
    cudnnDestroy(r.dnn);
    cudaStreamDestroy(r.stream);
    assert_int_equal(standin_control()->live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_is_done),
        cmocka_unit_test(every_mistake_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
