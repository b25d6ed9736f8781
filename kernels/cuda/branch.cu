/* A branch of the backward pass: gradients of weights run on a second stream, because nothing else
 * in the pass reads them. In a captured graph they are a branch.
 *
 *   build   … mask, bias ─┬─► gradient of the input ─► layer before: … ─┬─► …       ─► update
 *   branch                └─► gradient of the weights ─────────────────►┴─► of the layer before ─┘
 *
 * A small minibatch does not fill a GPU with one kernel, so both take little longer than one. The
 * branch has one layer at a time; it is joined before the next layer's and at the end of a bucket.
 *
 * The branch reads the gradient of the layer's output, which must not change until the next branch
 * begins; plan_gradients (program.cu) keeps its buffer until then. A library's handle has one
 * stream at a time, and cuBLAS forgets its workspace when the stream changes.
 */
#include "kernels/cuda/cuda.h"

int cuda_libraries_use(struct cuda_program *p, cudaStream_t stream, struct err *e)
{
    void *workspace = stream == p->dev->branch ? p->branch.memory : p->workspace;
    size_t bytes = stream == p->dev->branch ? p->branch.bytes : p->workspace_bytes;
    TRY(cuda_check_dnn(cudnnSetStream(p->dev->dnn, stream), "give cuDNN its stream", e));
    TRY(cuda_check_blas(cublasSetStream(p->dev->blas, stream), "give cuBLAS its stream", e));
    return bytes == 0 ? 0
                      : cuda_check_blas(cublasSetWorkspace(p->dev->blas, workspace, bytes),
                                        "give cuBLAS its workspace", e);
}

static int follow(cudaStream_t stream, cudaEvent_t event, cudaStream_t other, struct err *e)
{
    TRY(cuda_check(cudaEventRecord(event, other), "mark work on the GPU", e));
    return cuda_check(cudaStreamWaitEvent(stream, event, 0), "order work on the GPU", e);
}

int cuda_branch(struct cuda_program *p, struct cuda_step *s, cuda_branch_fn *work, struct err *e)
{
    struct cuda_device *d = p->dev;
    if (cuda_metering()) { /* the meter needs each kernel alone */
        return work(p, s, d->build, e);
    }
    TRY(cuda_branch_join(p, e));
    TRY(follow(d->branch, d->forked, d->build, e));
    p->branch.under_way = true;
    TRY(cuda_libraries_use(p, d->branch, e));
    TRY(work(p, s, d->branch, e));
    return cuda_libraries_use(p, d->build, e);
}

int cuda_branch_join(struct cuda_program *p, struct err *e)
{
    if (!p->branch.under_way) {
        return 0;
    }
    p->branch.under_way = false;
    return follow(p->dev->build, p->dev->joined, p->dev->branch, e);
}

void cuda_branch_workspace(struct cuda_program *p, size_t bytes)
{
    p->branch.bytes = bytes > p->branch.bytes ? bytes : p->branch.bytes;
}
