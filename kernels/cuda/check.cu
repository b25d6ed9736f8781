/* What all files of this folder share about CUDA: errors of the three libraries as text, the
 * current device, captured graphs.
 *
 * In CUDA the current device is a setting of the calling thread. So every entry sets it, also in
 * the thread that prepares programs while another one trains.
 */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

/* ---- errors ---------------------------------------------------------------------------------- */

int cuda_check(cudaError_t code, const char *what, struct err *e)
{
    if (code == cudaSuccess) {
        return 0;
    }
    cudaGetLastError();
    return err_set(e, code == cudaErrorMemoryAllocation ? ERR_MEMORY : ERR_DEVICE,
                   "cannot %s: CUDA says '%s'", what, cudaGetErrorString(code));
}

int cuda_check_dnn(cudnnStatus_t code, const char *what, struct err *e)
{
    if (code == CUDNN_STATUS_SUCCESS) {
        return 0;
    }
    char more[160] = "";
    cudnnGetLastErrorString(more, sizeof(more));
    for (char *at = more; *at; at++) { /* makes one line */
        *at = *at == '\n' || *at == '\r' || *at == '\t' ? ' ' : *at;
    }
    size_t length = strlen(more);
    while (length > 0 && strchr(" .", more[length - 1])) {
        more[--length] = 0;
    }
    return err_set(e, ERR_DEVICE, "cannot %s: cuDNN says '%s'%s%s", what, cudnnGetErrorString(code),
                   length ? ", " : "", more);
}

int cuda_check_blas(cublasStatus_t code, const char *what, struct err *e)
{
    if (code == CUBLAS_STATUS_SUCCESS) {
        return 0;
    }
    return err_set(e, code == CUBLAS_STATUS_ALLOC_FAILED ? ERR_MEMORY : ERR_DEVICE,
                   "cannot %s: cuBLAS says '%s'", what, cublasGetStatusString(code));
}

int cuda_enter(struct cuda_device *d, struct err *e)
{
    return cuda_check(cudaSetDevice(d->index), "use the GPU", e);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

int cuda_capture_begin(cudaStream_t stream, const char *what, struct err *e)
{
    char doing[64];
    snprintf(doing, sizeof(doing), "capture %s", what);
    return cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), doing, e);
}

int cuda_capture_end(cudaStream_t stream, const char *what, int rc, cudaGraphExec_t *out,
                     struct err *e)
{
    char doing[64];
    cudaGraph_t graph = NULL;
    cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (rc < 0) {
        cudaGetLastError(); /* the first error is the one to report */
    } else {
        snprintf(doing, sizeof(doing), "capture %s", what);
        rc = cuda_check(code, doing, e);
    }
    if (rc >= 0) {
        snprintf(doing, sizeof(doing), "make a graph of %s", what);
        rc = cuda_check(cudaGraphInstantiate(out, graph, 0), doing, e);
    }
    if (graph) {
        cudaGraphDestroy(graph);
    }
    return rc;
}
