/* A network of two layers, written by hand, that reads drawn digits: digits-alone.c made
 * distributed by three calls: es_join, es_step, es_gradients. Alone it runs as before.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evenstep.h>

enum { SAMPLES = 6000, TEST = 1000, BATCH = 60, EPOCHS = 5, HIGH = 11, WIDE = 7 };
enum { IN = HIGH * WIDE, HIDDEN = 32, OUT = 10 };
enum { W1 = 0, B1 = W1 + HIDDEN * IN, W2 = B1 + HIDDEN, B2 = W2 + OUT * HIDDEN, PARAMS = B2 + OUT };

static float x[SAMPLES + TEST][IN];
static int label[SAMPLES + TEST];
static float velocity[PARAMS];

static uint64_t state = 1;
static float uniform(void) /* in [0, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) / (1 << 24);
}

/* Seven segments, with noise that is stronger than a segment. */
static void draw(int sample)
{
    static const int lit[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e, 0x6b, 0x7b, 0x25, 0x7f, 0x6f};

    label[sample] = (int)(uniform() * 10);
    for (int i = 0; i < IN; i++) {
        int row = i / WIDE, col = i % WIDE, s = -1;

        s = row == 0 ? 0 : row == HIGH / 2 ? 3 : row == HIGH - 1 ? 6 : s;
        s = s < 0 && col == 0 ? (row < HIGH / 2 ? 1 : 4) : s;
        s = s < 0 && col == WIDE - 1 ? (row < HIGH / 2 ? 2 : 5) : s;
        x[sample][i] = (s >= 0 && lit[label[sample]] >> s & 1) + 1.6f * (uniform() - 0.5f);
    }
}

static float forward(const float *p, const float *in, float *hidden, float *out, int right)
{
    float top = -INFINITY, sum = 0;

    for (int h = 0; h < HIDDEN; h++) {
        float a = p[B1 + h];

        for (int i = 0; i < IN; i++) {
            a += p[W1 + h * IN + i] * in[i];
        }
        hidden[h] = tanhf(a);
    }
    for (int o = 0; o < OUT; o++) {
        out[o] = p[B2 + o];
        for (int h = 0; h < HIDDEN; h++) {
            out[o] += p[W2 + o * HIDDEN + h] * hidden[h];
        }
        top = out[o] > top ? out[o] : top;
    }
    for (int o = 0; o < OUT; o++) {
        sum += out[o] = expf(out[o] - top);
    }
    for (int o = 0; o < OUT; o++) {
        out[o] /= sum;
    }
    return -logf(out[right] + 1e-12f);
}

/* Mean loss of these samples; g becomes its gradient. */
static double gradients(const float *p, const int64_t *samples, int64_t n, float *g)
{
    double loss = 0;

    for (int i = 0; i < PARAMS; i++) {
        g[i] = 0;
    }
    for (int64_t k = 0; k < n; k++) {
        const float *in = x[samples[k]];
        float hidden[HIDDEN], out[OUT], back[HIDDEN] = {0};

        loss += forward(p, in, hidden, out, label[samples[k]]);
        out[label[samples[k]]] -= 1;
        for (int o = 0; o < OUT; o++) {
            g[B2 + o] += out[o] / n;
            for (int h = 0; h < HIDDEN; h++) {
                g[W2 + o * HIDDEN + h] += out[o] * hidden[h] / n;
                back[h] += out[o] * p[W2 + o * HIDDEN + h] * (1 - hidden[h] * hidden[h]);
            }
        }
        for (int h = 0; h < HIDDEN; h++) {
            g[B1 + h] += back[h] / n;
            for (int i = 0; i < IN; i++) {
                g[W1 + h * IN + i] += back[h] * in[i] / n;
            }
        }
    }
    return n ? loss / n : NAN;
}

static void step(float *p, const float *g)
{
    for (int i = 0; i < PARAMS; i++) {
        velocity[i] = 0.9f * velocity[i] + g[i];
        p[i] -= 0.05f * velocity[i];
    }
}

/* The same step for a strategy that asks for the difference (ES_GO_DIFFERENCE). */
static int send_difference(float *p, float *g)
{
    static float before[PARAMS];

    memcpy(before, p, sizeof(before));
    step(p, g);
    for (int i = 0; i < PARAMS; i++) {
        g[i] = before[i] - p[i];
        p[i] = before[i];
    }
    return es_difference();
}

static double accuracy(const float *p)
{
    int right = 0;

    for (int k = SAMPLES; k < SAMPLES + TEST; k++) {
        float hidden[HIDDEN], out[OUT];
        int best = 0;

        forward(p, x[k], hidden, out, 0);
        for (int o = 1; o < OUT; o++) {
            best = out[o] > out[best] ? o : best;
        }
        right += best == label[k];
    }
    return (double)right / TEST;
}

int main(void)
{
    static float initial[PARAMS];
    const struct es_tensor tensor = {
        .name = "network", .dims = 1, .shape = (int64_t[]){PARAMS}, .initial = initial};
    const struct es_about about = {
        .abi = ES_ABI,
        .samples = SAMPLES,
        .global_batch = BATCH,
        .epochs = EPOCHS,
        .n_params = 1,
        .params = &tensor,
        .optimizer = {.name = "SGD", .server = 1, .learning_rate = 0.05, .momentum = 0.9},
    };
    struct es_result result = {.samples = -1, .correct = -1, .learning_rate = 0.05};
    struct es_slice slice;
    struct es_run run;
    int rc;

    for (int k = 0; k < SAMPLES + TEST; k++) {
        draw(k);
    }
    for (int i = 0; i < PARAMS; i++) {
        initial[i] = 0.2f * (uniform() - 0.5f);
    }
    rc = es_join(&about, &run);
    while (rc >= 0 && (rc = es_step(&slice)) == 1) {
        result.loss = gradients(run.params, slice.indices, slice.count, run.grads);
        rc = es_gradients(&result);
        if (rc == ES_GO_STEP) {
            step(run.params, run.grads);
        } else if (rc == ES_GO_DIFFERENCE) {
            rc = send_difference(run.params, run.grads);
        }
    }
    if (rc < 0) {
        fprintf(stderr, "%s\n", es_error());
        return 1;
    }
    printf("accuracy %.3f\n", accuracy(run.params));
    return 0;
}
