/* Two spirals and a small network, as one writes it in an afternoon: its own Adam, data from a
 * file, minibatches that OpenMP's threads compute, gradients of two minibatches in a step, across
 * the end of an epoch too, and a rate by the epoch. With -DALONE it is the program as it was, on
 * one machine; else the same on the library's calls, with its state given and taken back.
 *
 *     spiral DATA OUTPUT      DATA: floats x, y, class of each point; OUTPUT-RANK.raw: parameters
 *
 * TEST_DIE=N: rank 1's first process ends in its Nth slice; TEST_REFUSE=N: the attempt ends there.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evenstep.h>

enum { N = 600, H = 24, BATCH = 40, EPOCHS = 4, EVERY = 2 };
enum { W = 0, B = 2 * H, OUT = 3 * H, PARAMS = 4 * H + 1 };

static struct state {
    int64_t steps;
    int held; /* minibatches whose gradients are in sum */
    float m[PARAMS], v[PARAMS], sum[PARAMS];
} state;
static float points[N][3], initial[PARAMS];

static double gradients(const float *p, const int64_t *which, int64_t n, float *g)
{
    double loss = 0, sum[PARAMS] = {0};

#pragma omp parallel for reduction(+ : loss, sum[:PARAMS]) schedule(static)
    for (int64_t k = 0; k < n; k++) {
        const float *at = points[which[k]];
        float h[H], z = p[PARAMS - 1], error;

        for (int j = 0; j < H; j++) {
            h[j] = tanhf(p[W + 2 * j] * at[0] + p[W + 2 * j + 1] * at[1] + p[B + j]);
            z += p[OUT + j] * h[j];
        }
        z = 1 / (1 + expf(-z));
        error = z - at[2];
        loss -= log((at[2] > 0 ? z : 1 - z) + 1e-9) / (double)n;
        sum[PARAMS - 1] += error;
        for (int j = 0; j < H; j++) {
            float d = error * p[OUT + j] * (1 - h[j] * h[j]);

            sum[OUT + j] += error * h[j];
            sum[B + j] += d;
            sum[W + 2 * j] += d * at[0];
            sum[W + 2 * j + 1] += d * at[1];
        }
    }
    for (int i = 0; i < PARAMS; i++) {
        g[i] = n ? (float)(sum[i] / (double)n) : 0;
    }
    return n ? loss : NAN;
}

static double rate(int64_t epoch)
{
    return 0.02 * pow(0.9, (double)epoch);
}

/* Of gradients of one minibatch, which are of the whole batch; every second time it steps. */
static void learn(float *p, const float *g, double rate_now)
{
    for (int i = 0; i < PARAMS; i++) {
        state.sum[i] += g[i] / EVERY;
    }
    if (++state.held < EVERY) {
        return;
    }
    state.steps++;
    for (int i = 0; i < PARAMS; i++) {
        double first, second;

        state.m[i] = 0.9f * state.m[i] + 0.1f * state.sum[i];
        state.v[i] = 0.999f * state.v[i] + 0.001f * state.sum[i] * state.sum[i];
        first = state.m[i] / (1 - pow(0.9, (double)state.steps));
        second = state.v[i] / (1 - pow(0.999, (double)state.steps));
        p[i] -= (float)(rate_now * first / (sqrt(second) + 1e-3));
    }
    memset(state.sum, 0, sizeof(state.sum));
    state.held = 0;
}

#ifdef ALONE

static int train(const char *output)
{
    static float p[PARAMS], g[PARAMS];
    static int64_t order[N];
    char path[4096];
    FILE *file;

    memcpy(p, initial, sizeof(p));
    for (int i = 0; i < N; i++) {
        order[i] = i;
    }
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int at = 0; at < N; at += BATCH) {
            gradients(p, order + at, at + BATCH > N ? N - at : BATCH, g);
            learn(p, g, rate(epoch));
        }
    }
    snprintf(path, sizeof(path), "%s-0.raw", output);
    file = fopen(path, "wb");
    return file && fwrite(p, sizeof(p), 1, file) == 1 ? fclose(file) : -1;
}

#else

static int give(void)
{
    return es_state(&state, sizeof(state));
}

static void maybe_end(long slices)
{
    const char *rank = getenv("EVENSTEP_RANK"), *die = getenv("TEST_DIE"),
               *refuse = getenv("TEST_REFUSE");

    if (die && atol(die) == slices && atoi(rank) == 1 && !atoi(getenv("EVENSTEP_INCARNATION"))) {
        abort();
    }
    if (refuse && atol(refuse) == slices) {
        es_refused("it would end here again");
        exit(1);
    }
}

static int train_slice(const struct es_run *run, const struct es_slice *s)
{
    struct es_result result = {.samples = -1, .correct = -1, .learning_rate = rate(s->epoch)};
    int rc;

    result.loss = gradients(run->params, s->indices, s->count, run->grads);
    while ((rc = es_gradients(&result)) == ES_GO_SAVE && give() == 0) {
    }
    if (rc == ES_GO_STEP) {
        learn(run->params, run->grads, result.learning_rate);
    }
    return rc;
}

static int loop(const struct es_run *run)
{
    struct es_slice s;
    long slices = 0;
    int rc;

    while ((rc = es_next(&s)) == 1) {
        if (s.number >= 0) {
            while ((rc = es_begin(s.number)) == ES_SAVE && give() == 0) {
            }
            if (rc != 0) {
                break;
            }
            maybe_end(++slices);
            if ((rc = train_slice(run, &s)) < 0) {
                break;
            }
        }
        if (s.epoch_last) {
            while ((rc = es_epoch_end(s.epoch)) == ES_SAVE && give() == 0) {
            }
            if (rc != 0) {
                break;
            }
        }
    }
    while (rc >= 0 && (rc = es_leave()) == ES_SAVE && give() == 0) {
    }
    return rc;
}

static int train(const char *output)
{
    const struct es_tensor tensor = {
        .name = "network", .dims = 1, .shape = (int64_t[]){PARAMS}, .initial = initial};
    const struct es_about about = {.abi = ES_ABI,
                                   .samples = N,
                                   .global_batch = BATCH,
                                   .epochs = EPOCHS,
                                   .in_order = 1,
                                   .has_state = 1,
                                   .n_params = 1,
                                   .params = &tensor,
                                   .optimizer = {.name = "Adam", .learning_rate = 0.02}};
    struct es_run run;
    char path[4096];
    FILE *file;

    if (es_join(&about, &run) < 0) {
        return -1;
    }
    if (run.state_bytes == sizeof(state)) {
        memcpy(&state, run.state, sizeof(state));
    }
    if (loop(&run) < 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s-%d.raw", output, run.rank);
    file = fopen(path, "wb");
    return file && fwrite(run.params, sizeof(float), PARAMS, file) == PARAMS ? fclose(file) : -1;
}

#endif

int main(int argc, char **argv)
{
    FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;

    if (!file || fread(points, sizeof(points), 1, file) != 1 || fclose(file)) {
        fprintf(stderr, "spiral DATA OUTPUT: no data\n");
        return 2;
    }
    for (int i = 0; i < PARAMS; i++) {
        initial[i] = sinf((float)(7 * i + 1)) / 2;
    }
    if (train(argv[2]) < 0) {
#ifndef ALONE
        fprintf(stderr, "%s\n", es_error());
#endif
        return 1;
    }
    return 0;
}
