/* The products of the two libraries as plain loops, NHWC. Slow and obvious where it can be; the
 * inner loops run over what stands together, so that fifty steps of a network take seconds. Callers
 * have checked every range, so these loops need no sanitizer (the Makefile compiles this file
 * without).
 */
#include <math.h>

#include "tests/cuda/standin/standin.h"

static size_t at4(int n, int h, int w, int c, int i, int y, int x, int k)
{
    return (((size_t)i * h + y) * w + x) * c + k;
}

/* Calls f(x offset, w offset, y offset) for every pixel of the output and element of the window
 * that lies inside the image. */
template <typename F> static void over_windows(const struct plain_conv &d, F f)
{
    for (int i = 0; i < d.n; i++) {
        for (int oy = 0; oy < d.oh; oy++) {
            for (int ox = 0; ox < d.ow; ox++) {
                size_t y = at4(d.n, d.oh, d.ow, d.k, i, oy, ox, 0);
                for (int r = 0; r < d.kh; r++) {
                    for (int s = 0; s < d.kw; s++) {
                        int row = oy * d.stride[0] + r - d.padding[0],
                            column = ox * d.stride[1] + s - d.padding[1];
                        if (row >= 0 && column >= 0 && row < d.h && column < d.w) {
                            f(at4(d.n, d.h, d.w, d.c, i, row, column, 0),
                              ((size_t)r * d.kw + s) * d.c, y);
                        }
                    }
                }
            }
        }
    }
}

void plain_forward(const struct plain_conv &d, const float *x, const float *w, float *y)
{
    size_t plane = (size_t)d.kh * d.kw * d.c;
    memset(y, 0, (size_t)d.n * d.oh * d.ow * d.k * sizeof(*y));
    over_windows(d, [&](size_t px, size_t pw, size_t py) {
        for (int k = 0; k < d.k; k++) {
            const float *a = x + px, *b = w + k * plane + pw;
            float sum = 0;
            for (int c = 0; c < d.c; c++) {
                sum += a[c] * b[c];
            }
            y[py + k] += sum;
        }
    });
}

void plain_data(const struct plain_conv &d, const float *w, const float *dy, float *dx)
{
    size_t plane = (size_t)d.kh * d.kw * d.c;
    memset(dx, 0, (size_t)d.n * d.h * d.w * d.c * sizeof(*dx));
    over_windows(d, [&](size_t px, size_t pw, size_t py) {
        for (int k = 0; k < d.k; k++) {
            const float *b = w + k * plane + pw;
            float g = dy[py + k], *to = dx + px;
            for (int c = 0; c < d.c; c++) {
                to[c] += g * b[c];
            }
        }
    });
}

void plain_filter(const struct plain_conv &d, const float *x, const float *dy, float *dw)
{
    size_t plane = (size_t)d.kh * d.kw * d.c;
    memset(dw, 0, (size_t)d.k * plane * sizeof(*dw));
    over_windows(d, [&](size_t px, size_t pw, size_t py) {
        for (int k = 0; k < d.k; k++) {
            const float *a = x + px;
            float g = dy[py + k], *to = dw + k * plane + pw;
            for (int c = 0; c < d.c; c++) {
                to[c] += g * a[c];
            }
        }
    });
}

void plain_gemm(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b,
                int ldb, float *c, int ldc)
{
    for (int j = 0; j < n; j++) {
        float *to = c + (size_t)j * ldc;
        memset(to, 0, (size_t)m * sizeof(*to));
        for (int i = 0; ta && !tb && i < m; i++) { /* both run along k */
            const float *x = a + (size_t)i * lda, *y = b + (size_t)j * ldb;
            float sum[8] = {0}, rest = 0;
            for (int l = 0; l + 8 <= k; l += 8) {
                for (int q = 0; q < 8; q++) {
                    sum[q] += x[l + q] * y[l + q];
                }
            }
            for (int l = k / 8 * 8; l < k; l++) {
                rest += x[l] * y[l];
            }
            to[i] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) +
                    ((sum[4] + sum[5]) + (sum[6] + sum[7])) + rest;
        }
        for (int l = 0; !(ta && !tb) && l < k; l++) {
            float factor = tb ? b[(size_t)l * ldb + j] : b[(size_t)j * ldb + l];
            for (int i = 0; i < m; i++) {
                to[i] += (ta ? a[(size_t)i * lda + l] : a[(size_t)l * lda + i]) * factor;
            }
        }
    }
}

void plain_widen(float *to, const uint16_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t word = (uint32_t)from[i] << 16;
        memcpy(&to[i], &word, sizeof(word));
    }
}

void plain_round(uint16_t *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &from[i], sizeof(word));
        bool nan = (word & 0x7fffffffu) > 0x7f800000u;
        to[i] = (uint16_t)(nan ? 0x7fff : (word + 0x7fffu + (word >> 16 & 1)) >> 16);
    }
}

void plain_tf32(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &x[i], sizeof(word));
        word = (word & 0x7f800000u) == 0x7f800000u ? word : (word + 0x1000u) & ~0x1fffu;
        memcpy(&x[i], &word, sizeof(word));
    }
}
