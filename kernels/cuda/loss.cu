/* Losses, twin of cpu/loss.c: the sum over the samples is reported; the gradient is that of the
 * mean over the samples in use; samples beyond them get a zero gradient and are not counted.
 * logits: [batch][outputs]. One warp per sample; then the last block adds the samples up, in double
 * and in a fixed order, and writes the result to pinned memory. The host checks labels.
 */
#include "kernels/cuda/loss.h"

/* The outcome of each sample, and of all in pinned host memory. */
struct outcome {
    double *losses;
    int *hits;
    struct cuda_result *result;
    unsigned *done;
};

/* Every thread calls it, after its warp has written the figures of its sample. */
DEVICE_FN void add_up(struct outcome o, int batch)
{
    SHARED double sums[PORT_THREADS / PORT_WARP];
    SHARED int counts[PORT_THREADS / PORT_WARP];
    double sum = 0;
    int count = 0;
    if (!port_is_last(o.done, gridDim.x)) {
        return;
    }
    for (int i = (int)threadIdx.x; i < batch; i += PORT_THREADS) {
        sum += o.losses[i];
        count += o.hits[i];
    }
    sum = port_warp_sum(sum);
    count = port_warp_sum(count);
    if (threadIdx.x % PORT_WARP == 0) {
        sums[threadIdx.x / PORT_WARP] = sum;
        counts[threadIdx.x / PORT_WARP] = count;
    }
    port_sync();
    if (threadIdx.x == 0) {
        for (int i = 1; i < PORT_THREADS / PORT_WARP; i++) {
            sum += sums[i];
            count += counts[i];
        }
        o.result->loss = sum;
        o.result->correct = count;
    }
}

/* The larger value; of two equal values the first. */
DEVICE_FN void warp_largest(float *value, int *index)
{
    for (int mask = PORT_WARP / 2; mask > 0; mask /= 2) {
        float other = port_warp_from(*value, mask);
        int other_index = port_warp_from(*index, mask);
        if (other > *value || (other == *value && other_index < *index)) {
            *value = other;
            *index = other_index;
        }
    }
}

template <typename T>
KERNEL softmax_cross_entropy(struct outcome o, T *grad, const T *logits, const int32_t *labels,
                             const struct cuda_head *head, int n, int batch)
{
    int sample = (int)(port_index() / PORT_WARP), lane = (int)(threadIdx.x % PORT_WARP);
    bool there = sample < batch, used = there && sample < head->count;
    const T *x = logits + (size_t)(there ? sample : 0) * n;
    float scale = used ? 1.0f / (float)head->count : 0, top = -INFINITY;
    int best = lane < n ? lane : 0, label = used ? labels[sample] : 0;
    for (int k = lane; k < n; k += PORT_WARP) {
        if (port_float(x[k]) > top) {
            top = port_float(x[k]);
            best = k;
        }
    }
    warp_largest(&top, &best);
    double sum = 0;
    for (int k = lane; k < n; k += PORT_WARP) {
        sum += (double)expf(port_float(x[k]) - top);
    }
    sum = port_warp_sum(sum);
    float factor = (float)((double)scale / sum);
    for (int k = lane; there && grad && k < n; k += PORT_WARP) {
        float g = expf(port_float(x[k]) - top) * factor - (k == label ? scale : 0);
        grad[(size_t)sample * n + k] = port_from<T>(used ? g : 0);
    }
    if (there && lane == 0) {
        o.losses[sample] = used ? log(sum) - ((double)port_float(x[label]) - (double)top) : 0;
        o.hits[sample] = used && best == label;
    }
    add_up(o, batch);
}

template <typename T>
KERNEL squared_error(struct outcome o, T *grad, const T *outputs, const float *targets,
                     const struct cuda_head *head, int n, int batch)
{
    int sample = (int)(port_index() / PORT_WARP), lane = (int)(threadIdx.x % PORT_WARP);
    bool there = sample < batch, used = there && sample < head->count;
    float scale = used ? 1.0f / (float)head->count : 0;
    double sum = 0;
    for (int k = lane; there && k < n; k += PORT_WARP) {
        size_t at = (size_t)sample * n + k;
        float d = used ? port_float(outputs[at]) - targets[at] : 0;
        sum += (double)d * (double)d;
        if (grad) {
            grad[at] = port_from<T>(2 * scale / (float)n * d);
        }
    }
    sum = port_warp_sum(sum);
    if (there && lane == 0) {
        o.losses[sample] = sum / (double)n;
        o.hits[sample] = 0;
    }
    add_up(o, batch);
}

template <typename T> static cudaError_t launch(struct cuda_program *p, T *grad)
{
    const struct cuda_value *v = p->graph.output;
    int n = (int)v->count, batch = p->head.batch;
    unsigned blocks = (unsigned)(((size_t)batch * PORT_WARP + PORT_THREADS - 1) / PORT_THREADS);
    const char *labels = p->input + p->labels_at;
    const struct outcome o = {p->losses, p->hits, p->result, p->parts.done};
    /* plus labels or targets, losses, and hits twice */
    size_t logits = (grad ? 2 : 1) * (size_t)batch * (size_t)n * sizeof(T);
    if (p->net->loss == LOSS_MSE) {
        return LAUNCH(squared_error<T>, blocks, logits + (size_t)batch * (n * sizeof(float) + 24),
                      p->dev->build, o, grad, (const T *)v->data, (const float *)labels,
                      cuda_head(p), n, batch);
    }
    return LAUNCH(softmax_cross_entropy<T>, blocks, logits + (size_t)batch * 28, p->dev->build, o,
                  grad, (const T *)v->data, (const int32_t *)labels, cuda_head(p), n, batch);
}

int cuda_loss(struct cuda_program *p, bool training, struct err *e)
{
    void *grad = training ? p->graph.output->grad : NULL;
    CUDA_KIND(p, T, return cuda_check(launch<T>(p, (T *)grad), "compute the loss", e));
}

int cuda_check_labels(const struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    size_t n = p->graph.output->count;
    const int32_t *labels = (const int32_t *)in->y;
    for (int i = 0; in->y && p->net->loss == LOSS_SOFTMAX_CROSS_ENTROPY && i < in->count; i++) {
        if (labels[i] < 0 || (size_t)labels[i] >= n) {
            return err_set(e, ERR_DATA, "sample %lld has label %d, but the network has %zu outputs",
                           (long long)(in->sample ? in->sample[i] : i), labels[i], n);
        }
    }
    return 0;
}
