/* Work beside the rest of a backward pass: gradients of weights, which nothing in the pass reads. A
 * second stream takes them, one layer's at a time; in a captured graph it is a branch.
 *
 *   build    … mask, bias ─┬─► gradient of the input ─► layer before: … ─┬─► …                 ─► update, or the end of a bucket
 *   beside                 └─► gradient of the weights ────────────────► ┴─► of the layer before ─┘
 *
 * A small minibatch does not fill a GPU with one kernel, so both take little longer than one.
 *
 * What a newcomer would get wrong: what it reads, the gradient of the layer's output, must stay as
 * it is until the next such layer begins, so plan_gradients (program.cu) keeps its buffer from
 * others until then. The libraries' handles are of one stream at a time, and cuBLAS forgets its
 * workspace with its stream.
 */
#include "kernels/cuda/cuda.h"

int cuda_libraries_use(struct cuda_program *p, cudaStream_t stream, struct err *e)
{
    void *workspace = stream == p->dev->beside ? p->beside.memory : p->workspace;
    size_t bytes = stream == p->dev->beside ? p->beside.bytes : p->workspace_bytes;
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

int cuda_beside(struct cuda_program *p, struct cuda_step *s, cuda_beside_fn *work, struct err *e)
{
    struct cuda_device *d = p->dev;
    if (cuda_metering()) { /* each kernel alone */
        return work(p, s, d->build, e);
    }
    TRY(cuda_beside_join(p, e));
    TRY(follow(d->beside, d->forked, d->build, e));
    p->beside.under_way = true;
    TRY(cuda_libraries_use(p, d->beside, e));
    TRY(work(p, s, d->beside, e));
    return cuda_libraries_use(p, d->build, e);
}

int cuda_beside_join(struct cuda_program *p, struct err *e)
{
    if (!p->beside.under_way) {
        return 0;
    }
    p->beside.under_way = false;
    return follow(p->dev->build, p->dev->joined, p->dev->beside, e);
}

void cuda_beside_want(struct cuda_program *p, size_t bytes)
{
    p->beside.bytes = bytes > p->beside.bytes ? bytes : p->beside.bytes;
}
