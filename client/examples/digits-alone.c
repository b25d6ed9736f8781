/* A network of two layers, written by hand, that reads drawn digits, on one machine. digits.c is
 * the same program made distributed; docs/own-program-frameworks.md shows the difference.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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
    static float params[PARAMS], grads[PARAMS];
    static int64_t order[SAMPLES];

    for (int k = 0; k < SAMPLES + TEST; k++) {
        draw(k);
    }
    for (int i = 0; i < PARAMS; i++) {
        params[i] = 0.2f * (uniform() - 0.5f);
    }
    for (int k = 0; k < SAMPLES; k++) {
        order[k] = k;
    }
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int k = SAMPLES - 1; k > 0; k--) {
            int other = (int)(uniform() * (k + 1));
            int64_t was = order[k];

            order[k] = order[other];
            order[other] = was;
        }
        for (int at = 0; at < SAMPLES; at += BATCH) {
            gradients(params, order + at, BATCH, grads);
            step(params, grads);
        }
    }
    printf("accuracy %.3f\n", accuracy(params));
    return 0;
}
