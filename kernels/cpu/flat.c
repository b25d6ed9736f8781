/* Loops over flat blocks: see flat.h. Each is a function of its own, because a whole function is
 * compiled for several instruction sets (CPU_CLONES). */
#include "kernels/flat.h"

#include <math.h>

#include "kernels/cpu/cpu.h"

CPU_CLONES void flat_add(float *restrict sum, const float *restrict other, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] += other[i];
    }
}

CPU_CLONES void flat_subtract(float *restrict w, const float *restrict d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i] -= d[i];
    }
}

CPU_CLONES void flat_scale(float *to, const float *from, float share, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = share * from[i];
    }
}

CPU_CLONES void flat_scale_add(float *restrict sum, const float *restrict from, float share,
                               const float *restrict other, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] = share * from[i] + other[i];
    }
}

CPU_CLONES void flat_look_up(float *restrict to, const uint8_t *restrict from,
                             const float table[restrict 256], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = table[from[i]];
    }
}

CPU_CLONES void flat_descend(float *restrict x, float *restrict sum, const float *restrict g,
                             const uint8_t *restrict decays, const struct flat_step *step, size_t n)
{
    float scale = step->scale, decay = step->decay, rate = step->rate, weight = step->weight;
    for (size_t i = 0; i < n; i++) {
        float u = scale * g[i] + (decays[i] ? decay * x[i] : 0);
        sum[i] += weight * u;
        x[i] -= rate * u;
    }
}

CPU_CLONES double flat_length(const float *a, size_t n)
{
    double lane[FLAT_LANES] = {0}, sum = 0;
    size_t whole = n / FLAT_LANES * FLAT_LANES;
    for (size_t i = 0; i < whole; i += FLAT_LANES) {
        for (size_t k = 0; k < FLAT_LANES; k++) {
            lane[k] += (double)a[i + k] * (double)a[i + k];
        }
    }
    for (size_t i = whole; i < n; i++) {
        lane[i - whole] += (double)a[i] * (double)a[i];
    }
    for (size_t k = 0; k < FLAT_LANES; k++) {
        sum += lane[k];
    }
    return sqrt(sum);
}

CPU_CLONES double flat_distance(const float *restrict a, const float *restrict b, size_t n)
{
    double lane[FLAT_LANES] = {0}, sum = 0;
    size_t whole = n / FLAT_LANES * FLAT_LANES;
    for (size_t i = 0; i < whole; i += FLAT_LANES) {
        for (size_t k = 0; k < FLAT_LANES; k++) {
            double d = (double)a[i + k] - (double)b[i + k];
            lane[k] += d * d;
        }
    }
    for (size_t i = whole; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        lane[i - whole] += d * d;
    }
    for (size_t k = 0; k < FLAT_LANES; k++) {
        sum += lane[k];
    }
    return sqrt(sum);
}

CPU_CLONES float flat_largest(const float *a, size_t n)
{
    float most = 0;
#pragma omp simd reduction(max : most)
    for (size_t i = 0; i < n; i++) {
        most = a[i] > most ? a[i] : most;
    }
    return most;
}
