/* One run of a program. The minibatch is copied to pinned memory and from there to the GPU in one
 * copy; samples that are on the GPU already, or are being copied there, come from samples.cu or
 * feed.cu. Then the graphs are launched, and each bucket is marked when its event has come. All
 * launches are made before the first wait, so the GPU never waits for the host. A whole step, where
 * no bucket is marked, is one graph.
 *
 * A minibatch may have fewer samples than the program. The rest of the input must be zero, not what
 * a larger minibatch left there, because a gradient of zero times NaN is not zero.
 */
#include <math.h>
#include <string.h>

#include "kernels/cuda/feed.h"
#include "kernels/cuda/loss.h"
#include "kernels/cuda/samples.h"

static void fill_input(struct cuda_program *p, const struct dev_input *in)
{
    size_t n = p->graph.values[0].count, used = (size_t)in->count;
    size_t target =
        p->net->loss == LOSS_MSE ? p->graph.output->count * sizeof(float) : sizeof(int32_t);
    struct cuda_head *head = (struct cuda_head *)p->input_host;
    int64_t *sample = (int64_t *)(p->input_host + sizeof(*head));
    float *x = (float *)(p->input_host + p->x_at);
    head->count = in->count;
    head->epoch = in->epoch;
    head->seed = in->seed;
    if (in->sample) {
        memcpy(sample, in->sample, used * sizeof(*sample));
    }
    if (in->y) {
        memcpy(p->input_host + p->labels_at, in->y, used * target);
    } else {
        memset(p->input_host + p->labels_at, 0, used * target);
    }
    if (in->from && in->view) {
        memcpy(p->input_host + p->views_at, in->view, used * sizeof(*in->view));
    }
    if (in->from || in->fed) { /* the host's x is unchanged, and so is `filled` */
        return;
    }
    memcpy(x, in->x, used * n * sizeof(*x));
    if (p->filled > in->count) {
        memset(x + used * n, 0, (size_t)(p->filled - in->count) * n * sizeof(*x));
    }
    p->filled = in->count;
}

static int send_input(struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    cudaStream_t stream = p->dev->main;
    size_t bytes = in->from || in->fed ? p->x_at : p->input_bytes;
    TRY(cuda_check(cudaMemcpyAsync(p->input, p->input_host, bytes, cudaMemcpyHostToDevice, stream),
                   "copy samples to the GPU", e));
    if (in->from) {
        TRY(cuda_samples_take(p, in, e));
    } else if (in->fed) {
        TRY(cuda_feed_take(p, in, e));
    }
    return 0;
}

static int launch(struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    cudaStream_t stream = p->dev->main;
    TRY(send_input(p, in, e));
    if (!in->training) {
        return cuda_check(cudaGraphLaunch(p->evaluate, stream), "start the network", e);
    }
    for (int k = 0; k < p->n_segments; k++) {
        TRY(cuda_check(cudaGraphLaunch(p->train[k], stream), "start the network", e));
        TRY(cuda_check(cudaEventRecord(p->ready[k], stream), "mark a bucket", e));
    }
    return 0;
}

static int wait_buckets(struct cuda_program *p, dev_mark_fn *mark, void *ctx, struct err *e)
{
    for (int k = 0; k < p->head.n_buckets; k++) {
        TRY(cuda_check(cudaEventSynchronize(p->ready[k]), "wait for a bucket of gradients", e));
        if (mark) {
            p->replica->marking = true;
            mark(ctx, k);
            p->replica->marking = false;
        }
    }
    return 0;
}

static int take_logits(struct cuda_program *p, int count, float *logits, struct err *e)
{
    size_t n = (size_t)count * p->graph.output->count;
    cudaStream_t stream = p->dev->main;
    TRY(cuda_check(cudaMemcpyAsync(p->logits_host, p->graph.output->data, n * cuda_element(p),
                                   cudaMemcpyDeviceToHost, stream),
                   "copy from the GPU", e));
    TRY(cuda_check(cudaStreamSynchronize(stream), "copy from the GPU", e));
    if (p->precision != CUDA_BF16) {
        memcpy(logits, p->logits_host, n * sizeof(*logits));
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)p->logits_host + i * sizeof(half), sizeof(half));
        uint32_t word = (uint32_t)half << 16;
        memcpy(&logits[i], &word, sizeof(word));
    }
    return 0;
}

/* Checks the input, and writes it to the pinned memory that is copied to the GPU. */
static int begin(struct cuda_program *p, const struct dev_input *in, struct err *e)
{
    if (in->count < 1 || in->count > p->head.batch) {
        return err_set(e, ERR_INTERNAL, "a minibatch of %d does not fit a program for %d",
                       in->count, p->head.batch);
    }
    TRY(cuda_enter(p->dev, e));
    TRY(cuda_check_labels(p, in, e));
    if (in->from) {
        TRY(cuda_samples_check(p, in, e));
    } else if (in->fed) {
        TRY(cuda_feed_check(p, in, e));
    }
    fill_input(p, in);
    return 0;
}

/* Waits, also after an error (rc): until then the pinned memory is in use. */
static int end(struct cuda_program *p, const struct dev_input *in, int rc, struct dev_result *out,
               struct err *e)
{
    int waited =
        cuda_check(cudaStreamSynchronize(p->dev->main), "run the network", rc < 0 ? NULL : e);
    TRY(rc);
    TRY(waited);
    *out = {.finite = true};
    if (in->y) {
        out->loss = p->result->loss;
        out->correct = p->result->correct;
        out->finite = isfinite(out->loss);
    }
    return 0;
}

int cuda_program_compute(struct dev_program *program, const struct dev_input *in,
                         struct dev_result *out, float *logits, dev_mark_fn *mark, void *ctx,
                         struct err *e)
{
    struct cuda_program *p = (struct cuda_program *)program;
    TRY(begin(p, in, e));
    int rc = launch(p, in, e);
    if (rc == 0 && in->training) {
        rc = wait_buckets(p, mark, ctx, e);
    }
    TRY(end(p, in, rc, out, e));
    return logits ? take_logits(p, in->count, logits, e) : 0;
}

static int launch_whole(struct cuda_program *p, const struct dev_input *in, double lr, double scale,
                        struct err *e)
{
    TRY(send_input(p, in, e));
    TRY(cuda_update_begin(p->replica, lr, scale, e));
    TRY(cuda_check(cudaGraphLaunch(p->whole, p->dev->main), "start a step", e));
    return cuda_update_end(p->replica, e);
}

int cuda_program_step(struct dev_program *program, const struct dev_input *in, double lr,
                      double scale, struct dev_result *out, struct err *e)
{
    struct cuda_program *p = (struct cuda_program *)program;
    if (!p->whole || !in->training) {
        return err_set(e, ERR_INTERNAL,
                       "a step in one is for training, and for replicas that are alone");
    }
    TRY(begin(p, in, e));
    return end(p, in, launch_whole(p, in, lr, scale, e), out, e);
}
