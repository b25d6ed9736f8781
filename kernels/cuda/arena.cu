/* Memory of a program or a replica: operators reserve what they need while they are prepared, then
 * all of it is allocated at once. So a program costs one cudaMalloc, its size is known before
 * anything is allocated, and an error can name the minibatch that would fit.
 *
 * A pointer is filled in by cuda_allocate; until then it is NULL. In the host build there is a
 * guarded gap behind each piece (guard below), so that a read past its end is found.
 */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

#ifdef __CUDACC__
enum { GAP = 0 };
static void guard(char *from, size_t bytes)
{
}
#else
enum { GAP = 256 };
static void guard(char *from, size_t bytes)
{
    standin_guard(from, bytes);
}
#endif

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256 + GAP;
}

int cuda_reserve_bytes(struct cuda_arena *a, void **pointer, size_t bytes, bool grows,
                       struct err *e)
{
    if (a->n == a->room) {
        int room = a->room ? 2 * a->room : 64;
        struct cuda_piece *pieces =
            (struct cuda_piece *)realloc(a->pieces, (size_t)room * sizeof(*pieces));
        if (!pieces) {
            return err_set(e, ERR_MEMORY, "memory ran out");
        }
        a->pieces = pieces;
        a->room = room;
    }
    a->pieces[a->n++] = {pointer, bytes};
    a->bytes += rounded(bytes);
    a->batch_bytes += grows ? rounded(bytes) : 0;
    *pointer = NULL;
    return 0;
}

static int no_memory(const struct cuda_arena *a, int batch, struct err *e)
{
    const double mib = 1024.0 * 1024.0;
    size_t there = 0, all = 0, fixed = a->bytes - a->batch_bytes;
    cudaGetLastError(); /* so that the next call does not report it */
    if (cudaMemGetInfo(&there, &all) != cudaSuccess) {
        there = 0;
    }
    if (batch <= 0) {
        return err_set(e, ERR_MEMORY, "%.0f MiB are needed on the GPU, %.0f MiB of %.0f are free",
                       (double)a->bytes / mib, (double)there / mib, (double)all / mib);
    }
    double fits = there > fixed && a->batch_bytes > 0
                      ? (double)(there - fixed) / (double)a->batch_bytes * batch
                      : 0;
    fits = fits < batch ? fits : batch - 1; /* the free memory is in pieces */
    err_set(
        e, ERR_MEMORY,
        "a minibatch of %d needs %.0f MiB on the GPU, %.0f MiB of %.0f are free: at most %d fits",
        batch, (double)a->bytes / mib, (double)there / mib, (double)all / mib, (int)fits);
    err_hint(e, "a smaller global batch, or more workers");
    return -ERR_MEMORY;
}

int cuda_allocate(struct cuda_arena *a, int batch, cudaStream_t stream, struct err *e)
{
    size_t bytes = a->bytes ? a->bytes : 256, at = 0;
    cudaError_t code = cudaMalloc(&a->memory, bytes);
    if (code == cudaErrorMemoryAllocation) {
        a->memory = NULL;
        return no_memory(a, batch, e);
    }
    TRY(cuda_check(code, "allocate memory on the GPU", e));
    TRY(cuda_check(cudaMemsetAsync(a->memory, 0, bytes, stream), "clear memory on the GPU", e));
    TRY(cuda_check(cudaStreamSynchronize(stream), "clear memory on the GPU", e));
    for (int i = 0; i < a->n; i++) {
        char *piece = (char *)a->memory + at;
        *a->pieces[i].pointer = piece;
        at += rounded(a->pieces[i].bytes);
        guard(piece + a->pieces[i].bytes, rounded(a->pieces[i].bytes) - a->pieces[i].bytes);
    }
    return 0;
}

void cuda_arena_free(struct cuda_arena *a)
{
    if (a->memory) {
        cudaFree(a->memory);
    }
    free(a->pieces);
    *a = {};
}
