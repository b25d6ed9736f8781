/* cuBLAS on plain loops (see standin.h), with what the real one checks: a live handle, the stream
 * that it was given, matrices inside memory of the GPU, leading dimensions, and combinations of
 * kinds that exist. A workspace must be the caller's while a stream is captured: the library's own
 * is not safe beside other programs.
 */
#include <vector>

#include "tests/cuda/standin/standin.h"

struct standin_blas {
    cudaStream_t stream;
    void *workspace;
    size_t bytes;
};

extern "C" const char *cublasGetStatusString(cublasStatus_t code)
{
    return code == CUBLAS_STATUS_SUCCESS            ? "CUBLAS_STATUS_SUCCESS"
           : code == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
           : code == CUBLAS_STATUS_ALLOC_FAILED     ? "CUBLAS_STATUS_ALLOC_FAILED"
                                                    : "CUBLAS_STATUS_INVALID_VALUE";
}

extern "C" cublasStatus_t cublasCreate(cublasHandle_t *out)
{
    CALL("cublasCreate", CUBLAS_STATUS_EXECUTION_FAILED);
    *out = new standin_blas{};
    standin_born(*out, "cuBLAS handle");
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    standin_gone(handle, "cuBLAS handle");
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    CALL("cublasSetStream", CUBLAS_STATUS_EXECUTION_FAILED);
    standin_need_here(handle, "cuBLAS handle");
    standin_need_here(stream, "stream");
    *handle = {stream, NULL, 0}; /* the real one forgets its workspace too */
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *memory, size_t bytes)
{
    CALL("cublasSetWorkspace", CUBLAS_STATUS_EXECUTION_FAILED);
    standin_need_here(handle, "cuBLAS handle");
    standin_need_device(memory, bytes, 256, "cublasSetWorkspace");
    handle->workspace = memory;
    handle->bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static size_t size_of(cudaDataType kind)
{
    return kind == CUDA_R_16BF ? 2 : 4;
}

static std::vector<float> read(const void *p, size_t n, cudaDataType kind,
                               cublasComputeType_t compute)
{
    std::vector<float> x(n);
    if (kind == CUDA_R_16BF) {
        plain_widen(x.data(), (const uint16_t *)p, n);
    } else {
        memcpy(x.data(), p, n * sizeof(float));
    }
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
        plain_tf32(x.data(), n);
    }
    return x;
}

extern "C" cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a,
                                       cublasOperation_t op_b, int m, int n, int k,
                                       const void *alpha, const void *a, cudaDataType kind_a,
                                       int lda, const void *b, cudaDataType kind_b, int ldb,
                                       const void *beta, void *c, cudaDataType kind_c, int ldc,
                                       cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    CALL("cublasGemmEx", CUBLAS_STATUS_EXECUTION_FAILED);
    standin_need_here(handle, "cuBLAS handle");
    bool ta = op_a == CUBLAS_OP_T, tb = op_b == CUBLAS_OP_T;
    if (m < 1 || n < 1 || k < 1 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m ||
        kind_a != kind_b || (kind_c != kind_a && kind_c != CUDA_R_32F) ||
        (compute == CUBLAS_COMPUTE_32F_FAST_TF32 && kind_a != CUDA_R_32F)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!handle->workspace) {
        standin_die("a product is captured or run with the library's own workspace");
    }
    size_t na = (size_t)lda * (ta ? m : k), nb = (size_t)ldb * (tb ? k : n), nc = (size_t)ldc * n;
    standin_need_device(a, na * size_of(kind_a), size_of(kind_a), "matrix A");
    standin_need_device(b, nb * size_of(kind_b), size_of(kind_b), "matrix B");
    standin_need_device(c, nc * size_of(kind_c), size_of(kind_c), "matrix C");
    if (*(const float *)alpha != 1 || *(const float *)beta != 0) {
        standin_die("a product with factors that the stand-in does not have");
    }
    void *workspace = handle->workspace;
    size_t bytes = handle->bytes;
    return standin_push(handle->stream,
                        [=] {
                            standin_need_device(workspace, bytes, 256, "workspace");
                            memset(workspace, 0xff,
                                   bytes < 4096 ? bytes : 4096); /* whatever stood there is gone */
                            std::vector<float> x = read(a, na, kind_a, compute),
                                               y = read(b, nb, kind_b, compute), z(nc);
                            plain_gemm(ta, tb, m, n, k, x.data(), lda, y.data(), ldb, z.data(),
                                       ldc);
                            if (kind_c == CUDA_R_16BF) {
                                plain_round((uint16_t *)c, z.data(), nc);
                            } else {
                                memcpy(c, z.data(), nc * sizeof(float));
                            }
                        }) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
