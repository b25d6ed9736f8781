/* The stand-ins themselves: what the real libraries would refuse, or punish much later, ends a test
 * there and then, with a sentence. Each mistake is made in a process of its own. Nothing of ours
 * runs here, and on a GPU there is nothing to ask (the suite of the real libraries leaves this
 * program out).
 */
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include <cublas_v2.h>
#include <cudnn.h>

#include "tests/cuda/standin/control.h"

extern "C" {
#include <cmocka.h>
const struct standin_control *standin_control(void);
}

typedef cudnnBackendDescriptor_t part;
static std::vector<part> parts; /* of the test that does nothing wrong */

static part begin(cudnnBackendDescriptorType_t type)
{
    part d = NULL;
    assert_int_equal(cudnnBackendCreateDescriptor(type, &d), CUDNN_STATUS_SUCCESS);
    parts.push_back(d);
    return d;
}

static void put(part d, int name, cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    assert_int_equal(
        cudnnBackendSetAttribute(d, (cudnnBackendAttributeName_t)name, type, n, values),
        CUDNN_STATUS_SUCCESS);
}

static void put_part(part d, int name, part other)
{
    put(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
}

static part end(part d)
{
    assert_int_equal(cudnnBackendFinalize(d), CUDNN_STATUS_SUCCESS);
    return d;
}

static part tensor(int64_t id, int64_t n, int64_t channels, int64_t side)
{
    const cudnnDataType_t kind = CUDNN_DATA_FLOAT;
    const int64_t dims[] = {n, channels, side, side},
                  strides[] = {side * side * channels, 1, side * channels, channels},
                  alignment = 16;
    part d = begin(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    put(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kind);
    put(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    put(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    put(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    put(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    return end(d);
}

static part convolution(void)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t two = 2, ones[] = {1, 1}, none[] = {0, 0};
    part d = begin(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    put(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    put(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    put(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two);
    put(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    put(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, ones);
    put(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, none);
    put(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, none);
    return end(d);
}

/* The operation of a forward pass; not final. */
static part operation(part x, part w, part y)
{
    const float one = 1, zero = 0;
    part d = begin(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    put(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    put(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    put_part(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution());
    put_part(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    put_part(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    put_part(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    return d;
}

static part gpu(void)
{
    const int32_t index = 0;
    part d = begin(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    put(d, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &index);
    return end(d);
}

static part graph(void)
{
    part d = begin(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put_part(d, CUDNN_ATTR_OPERATIONGRAPH_OPS,
             end(operation(tensor(1, 2, 4, 4), tensor(2, 4, 4, 1), tensor(3, 2, 4, 4))));
    return end(d);
}

/* A plan of this engine; not final. */
static part plan(int64_t index)
{
    const cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_TILE_SIZE;
    const int64_t value = 0;
    part knob = begin(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR),
         engine = begin(CUDNN_BACKEND_ENGINE_DESCRIPTOR),
         config = begin(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
         d = begin(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    put(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    put(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    end(knob);
    put_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph());
    put(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    put_part(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, gpu());
    put_part(config, CUDNN_ATTR_ENGINECFG_ENGINE, end(engine));
    put(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &knob);
    put_part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, end(config));
    put_part(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu());
    return d;
}

/* A convolution that is right in every way: 2 pictures of 4×4×4, 4 filters of 1×1. */
struct right {
    cudaStream_t stream;
    cudnnHandle_t dnn;
    part plan;
    char *memory, *workspace; /* x, then y, then w, then the workspace */
};
enum { X = 2 * 4 * 4 * 4 * 4, W = 4 * 4 * 4, BYTES = 2 * X + W + 4096 };

static struct right make(void)
{
    struct right r = {};
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudnnCreate(&r.dnn), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetStream(r.dnn, r.stream), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudaMalloc((void **)&r.memory, BYTES), cudaSuccess);
    r.plan = end(plan(3));
    r.workspace = r.memory + 2 * X + W;
    return r;
}

static cudnnStatus_t run(const struct right &r, char *x)
{
    static const int64_t names[] = {1, 2, 3};
    const void *data[] = {x, r.memory + 2 * X, r.memory + X};
    part pack = begin(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    put(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names);
    put(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data);
    put(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &r.workspace);
    return cudnnBackendExecute(r.dnn, r.plan, end(pack));
}

/* ---- mistakes: what each returns where it does not end the process --------------------------- */

static cublasStatus_t multiply(cudaStream_t stream, char *memory, bool workspace, int lda)
{
    cublasHandle_t blas;
    const float one = 1, zero = 0;
    cublasCreate(&blas);
    cublasSetStream(blas, stream);
    if (workspace) {
        cublasSetWorkspace(blas, memory + 1024, 1024);
    }
    cublasStatus_t code = cublasGemmEx(
        blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, memory, CUDA_R_32F, lda, memory + 64,
        CUDA_R_32F, 4, &zero, memory + 128, CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
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

static void write_one(float *to)
{
    *to = 1;
}

static const struct mistake {
    const char *name, *says; /* says: NULL, it is refused with a code and not with the end */
    int (*make)(struct right r);
} mistakes[] = {
    {"a descriptor that is not final", "not final",
     [](struct right r) { return r.plan = plan(3), (int)run(r, r.memory); }},
    {"a part that is not final", NULL,
     [](struct right r) {
         part d = begin(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
              other = operation(tensor(1, 2, 4, 4), tensor(2, 4, 4, 1), tensor(3, 2, 4, 4));
         return (int)cudnnBackendSetAttribute(d, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
     }},
    {"a descriptor that lacks something", NULL,
     [](struct right r) {
         return (int)cudnnBackendFinalize(begin(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
     }},
    {"an attribute of another type", NULL,
     [](struct right r) {
         int64_t index = 0;
         return (int)cudnnBackendSetAttribute(begin(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR),
                                              CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT64, 1,
                                              &index);
     }},
    {"a descriptor that is gone", "no live cuDNN descriptor",
     [](struct right r) { return cudnnBackendDestroyDescriptor(r.plan), (int)run(r, r.memory); }},
    {"shapes that do not belong together", NULL,
     [](struct right r) {
         return (int)cudnnBackendFinalize(
             operation(tensor(1, 2, 4, 4), tensor(2, 4, 3, 1), tensor(3, 2, 4, 4)));
     }},
    {"an engine that makes no plan", NULL,
     [](struct right r) { return (int)cudnnBackendFinalize(plan(0)); }},
    {"an engine that is not repeatable", "not repeatable",
     [](struct right r) { return r.plan = end(plan(1)), (int)run(r, r.memory); }},
    {"a workspace that is too small", "past the end",
     [](struct right r) { return r.workspace = r.memory + BYTES - 256, (int)run(r, r.memory); }},
    {"a tensor that is not aligned", "not aligned",
     [](struct right r) { return (int)run(r, r.memory + 4); }},
    {"a tensor of the host's", "no memory of the GPU",
     [](struct right r) { return (int)run(r, (char *)calloc(1, X)); }},
    {"a tensor that reaches past its memory", "past the end",
     [](struct right r) { return (int)run(r, r.memory + BYTES - X / 2); }},
    {"memory that was given back", "no memory of the GPU",
     [](struct right r) { return cudaFree(r.memory), (int)run(r, r.memory); }},
    {"memory that is given back twice", "freed twice",
     [](struct right r) { return cudaFree(r.memory), (int)cudaFree(r.memory); }},
    {"a handle without a stream", "no live stream",
     [](struct right r) {
         return cudnnDestroy(r.dnn), cudnnCreate(&r.dnn), (int)run(r, r.memory);
     }},
    {"a handle of a stream that is gone", "no live stream",
     [](struct right r) { return cudaStreamDestroy(r.stream), (int)run(r, r.memory); }},
    {"a handle that is gone", "no live cuDNN handle",
     [](struct right r) { return cudnnDestroy(r.dnn), (int)run(r, r.memory); }},
    {"a product in the library's own workspace", "own workspace",
     [](struct right r) { return (int)multiply(r.stream, r.memory, false, 4); }},
    {"a leading dimension that is too short", NULL,
     [](struct right r) { return (int)multiply(r.stream, r.memory, true, 3); }},
    {"a copy of another kind than is said", "is not of the kind",
     [](struct right r) {
         return (int)cudaMemcpyAsync(r.memory, r.memory + 64, 64, cudaMemcpyHostToDevice, r.stream);
     }},
    {"a copy to memory that is not pinned", "not pinned",
     [](struct right r) {
         return (int)cudaMemcpyAsync(calloc(1, 64), r.memory, 64, cudaMemcpyDeviceToHost, r.stream);
     }},
    {"a host that reads what is the GPU's", "code of the host",
     [](struct right r) { return (int)*(volatile char *)r.memory; }},
    {"a host that reads what was the GPU's work, after it", "code of the host",
     [](struct right r) {
         return (int)run(r, r.memory), cudaStreamSynchronize(r.stream),
                (int)*(volatile char *)(r.memory + X);
     }},
    {"a kernel that is given memory of the host's", "neither the GPU's memory nor pinned",
     [](struct right r) {
         return (int)standin_launch("write_one", write_one, 1, 32, r.stream,
                                    (float *)calloc(1, sizeof(float)));
     }},
    {"an error that nobody asked for, before a kernel is started", NULL,
     [](struct right r) {
         void *none;
         cudaMalloc(&none, (size_t)1 << 50);
         return standin_launch("write_one", write_one, 1, 32, r.stream, (float *)r.memory),
                (int)cudaGetLastError();
     }},
    {"a stream of another GPU", "a stream of GPU 0",
     [](struct right r) {
         return cudaSetDevice(1), (int)cudaEventRecord(mark(branch()), r.stream);
     }},
    {"a handle of another GPU", "a cuDNN descriptor of GPU 0",
     [](struct right r) { return cudaSetDevice(1), (int)run(r, r.memory); }},
    {"a kernel that is given memory of another GPU", "memory of GPU 0",
     [](struct right r) {
         return cudaSetDevice(1),
                (int)standin_launch("write_one", write_one, 1, 32, branch(), (float *)r.memory);
     }},
    {"a GPU that is not there", NULL, [](struct right r) { return (int)cudaSetDevice(2); }},
    {"memory taken while a stream is captured", NULL,
     [](struct right r) {
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal),
                (int)cudaMalloc((void **)&r.memory, 64);
     }},
    {"a wait while a stream is captured", NULL,
     [](struct right r) {
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal),
                (int)cudaStreamSynchronize(r.stream);
     }},
    {"a captured branch that nobody waits for", NULL,
     [](struct right r) {
         cudaGraph_t graph;
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal),
                fork(r, branch()), (int)cudaStreamEndCapture(r.stream, &graph);
     }},
    {"a host that waits for a captured event", "no event that the host can wait for",
     [](struct right r) {
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal),
                (int)cudaEventSynchronize(fork(r, branch()));
     }},
    {"a captured stream that waits for one that is not", "of another that is not",
     [](struct right r) {
         cudaStream_t other = branch();
         cudaEvent_t event = mark(other);
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal),
                (int)cudaStreamWaitEvent(r.stream, event, 0);
     }},
    {"engines looked for while a stream is captured", "while a stream is captured",
     [](struct right r) {
         const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
         part rules = begin(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
         put_part(rules, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph());
         put_part(rules, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu());
         put(rules, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
         return cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal),
                (int)cudnnBackendFinalize(rules);
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
        bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
             refused = WIFEXITED(status) && WEXITSTATUS(status) == 1;
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
    assert_int_equal(cudaMemcpyAsync(r.memory, pinned, BYTES, cudaMemcpyHostToDevice, r.stream),
                     cudaSuccess);
    assert_int_equal(run(r, r.memory), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudaMemcpyAsync(pinned, r.memory, BYTES, cudaMemcpyDeviceToHost, r.stream),
                     cudaSuccess);
    assert_true(pinned[X / 4] == 2); /* nothing has run: nobody has waited */
    assert_int_equal(cudaStreamSynchronize(r.stream), cudaSuccess);
    assert_true(pinned[0] == 2 && pinned[X / 4] == 16 && pinned[2 * X / 4 - 1] == 16);
    assert_int_equal(multiply(r.stream, r.memory, true, 4), CUBLAS_STATUS_SUCCESS);
    cudaFreeHost(pinned);
    cudaFree(r.memory);
    for (part d : parts) {
        assert_int_equal(cudnnBackendDestroyDescriptor(d), CUDNN_STATUS_SUCCESS);
    }
    parts.clear();
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
