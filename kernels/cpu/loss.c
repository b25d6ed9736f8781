/* Losses. The sum over the samples is reported; the gradient is that of the mean over the samples
 * in use. Samples beyond them (the program may be larger than the slice) get a zero gradient and
 * are not counted.
 *
 * Mean squared error is a mean over a sample's outputs too, as PyTorch's is. Sums are taken in
 * double and in order, so the reported loss does not depend on the number of threads.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* One sample: its loss; the gradient, times `scale`, into grad unless that is NULL. */
static double softmax_cross_entropy(const float *logits, size_t n, int32_t label, float scale,
                                    float *grad, bool *correct)
{
    size_t best = 0;
    for (size_t k = 1; k < n; k++) {
        best = logits[k] > logits[best] ? k : best;
    }
    *correct = best == (size_t)label;
    float top = logits[best];
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
        float x = expf(logits[k] - top);
        sum += x;
        if (grad) {
            grad[k] = x;
        }
    }
    if (grad) {
        float factor = (float)(scale / sum);
        for (size_t k = 0; k < n; k++) {
            grad[k] *= factor;
        }
        grad[label] -= scale;
    }
    return log(sum) - ((double)logits[label] - top);
}

static double squared_error(const float *y, const float *target, size_t n, float scale, float *grad)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
        float d = y[k] - target[k];
        sum += (double)d * d;
        if (grad) {
            grad[k] = 2 * scale / (float)n * d;
        }
    }
    return sum / (double)n;
}

int cpu_loss(const struct cpu_program *p, const struct dev_input *in, struct dev_result *out,
             struct err *e)
{
    const struct cpu_value *output = &p->head_fp32;
    size_t n = output->count;
    int present = cpu_present(p, in);
    float scale = in->count > 0 ? 1.0f / (float)in->count : 0;
    for (int i = 0; i < present; i++) {
        const float *y = (const float *)output->data + (size_t)i * n;
        float *grad = in->training && output->grad ? (float *)output->grad + (size_t)i * n : NULL;
        size_t sample = (size_t)(p->first + i);
        if (p->net->loss == LOSS_MSE) {
            out->loss += squared_error(y, (const float *)in->y + sample * n, n, scale, grad);
            continue;
        }
        int32_t label = ((const int32_t *)in->y)[sample];
        bool correct;
        if (label < 0 || (size_t)label >= n) {
            return err_set(e, ERR_DATA, "sample %lld has label %d, but the network has %zu outputs",
                           (long long)(in->sample ? in->sample[sample] : (int64_t)sample), label,
                           n);
        }
        out->loss += softmax_cross_entropy(y, n, label, scale, grad, &correct);
        out->correct += correct;
    }
    if (in->training && output->grad && present < p->samples) {
        memset((float *)output->grad + (size_t)present * n, 0,
               (size_t)(p->samples - present) * n * sizeof(float));
    }
    out->finite = isfinite(out->loss);
    return 0;
}
