/* Operations on each element: out[i] = f(a[i], b[i]). A functor has a name, for the meter, and may
 * contain numbers.
 *
 * Threads read and write 16 bytes at once where arrays are aligned so (where float and bf16 meet,
 * 16 bytes of float and 8 of bf16). Arrays of an arena are aligned; a part of a block that ranks
 * exchange need not be.
 */
#ifndef KERNELS_CUDA_ELEMENTS_H
#define KERNELS_CUDA_ELEMENTS_H

#include "kernels/cuda/cuda.h"

struct f_sum {
    static constexpr const char *name = "sum";
    bool relu;
    DEVICE_FN_MEMBER float of(float a, float b) const
    {
        return relu ? port_relu(a + b) : a + b;
    }
};
struct f_convert {
    static constexpr const char *name = "convert";
    DEVICE_FN_MEMBER float of(float a, float b) const
    {
        return a;
    }
};

template <typename F, int N, typename To, typename From>
KERNEL each(F f, To *out, const From *a, const From *b, size_t n)
{
    size_t packs = n / N;
    for (size_t i = port_index(); i < packs; i += port_stride()) {
        port_some<From, N> x = ((const port_some<From, N> *)a)[i],
                           y = b ? ((const port_some<From, N> *)b)[i] : x;
        port_some<To, N> r;
        for (int k = 0; k < N; k++) {
            r.v[k] = port_from<To>(f.of(port_float(x.v[k]), port_float(y.v[k])));
        }
        ((port_some<To, N> *)out)[i] = r;
    }
    for (size_t i = packs * N + port_index(); i < n; i += port_stride()) {
        out[i] = port_from<To>(f.of(port_float(a[i]), port_float(b ? b[i] : a[i])));
    }
}

/* out, a, b: [n]. If b is NULL, f's second number equals its first. out may be a or b. `what` names
 * the operation in an error. */
template <typename F, typename To, typename From>
static int elements_each(const struct cuda_device *d, cudaStream_t stream, F f, To *out,
                         const From *a, const From *b, size_t n, const char *what, struct err *e)
{
    constexpr int MOST =
        port_pack<To>::N < port_pack<From>::N ? port_pack<To>::N : port_pack<From>::N;
    size_t bytes = n * (sizeof(To) + (b ? 2 : 1) * sizeof(From));
    if (n == 0) {
        return 0;
    }
    if (((uintptr_t)out | (uintptr_t)a | (uintptr_t)b) % 16 != 0) {
        return cuda_check(LAUNCH_AS(F::name, (each<F, 1, To, From>), cuda_blocks(d, n), bytes,
                                    stream, f, out, a, b, n),
                          what, e);
    }
    return cuda_check(LAUNCH_AS(F::name, (each<F, MOST, To, From>), cuda_blocks(d, n / MOST + 1),
                                bytes, stream, f, out, a, b, n),
                      what, e);
}

#endif
