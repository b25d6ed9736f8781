/* A network of two layers that learns the parity of short bit strings, as the manual (evenstep.h)
 * says it: Adam, whose state is given and taken back; gradients of two slices make a step; each
 * layer's gradients are told as they are there; an evaluation after each epoch.
 *
 *     bits OUTPUT summed|held      OUTPUT-RANK.raw: the parameters that it ends with
 *
 * summed: each slice's gradients are summed over the ranks; held: those of the first stay here.
 * TEST_DIE=N: rank 1's first process ends in its Nth slice. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <evenstep.h>

enum { BITS = 10, HIDDEN = 256, SAMPLES = 960, TEST = 64, BATCH = 32, EVERY = 2, EPOCHS = 4 };
enum { W1 = 0, B1 = W1 + HIDDEN * BITS, W2 = B1 + HIDDEN, B2 = W2 + HIDDEN, PARAMS = B2 + 1 };

struct adam {
    int64_t steps;
    int held; /* slices whose gradients are in `kept` */
    float m[PARAMS], v[PARAMS], kept[PARAMS];
};

static float initial[PARAMS], x[SAMPLES + TEST][BITS], y[SAMPLES + TEST];
static struct adam adam;

static float drawn(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (float)((z ^ (z >> 31)) >> 40) / 16777216.0f - 0.5f;
}

static double out_of(const float *p, const float *in, float *hidden)
{
    double out = p[B2];

    for (int h = 0; h < HIDDEN; h++) {
        double sum = p[B1 + h];

        for (int i = 0; i < BITS; i++) {
            sum += p[W1 + h * BITS + i] * in[i];
        }
        hidden[h] = (float)tanh(sum);
        out += p[W2 + h] * hidden[h];
    }
    return out;
}

/* Mean loss; the second layer's gradients are told as soon as they are there. */
static double pass(const struct es_run *run, const struct es_slice *s, float *g, int tell)
{
    static double sum[PARAMS];
    static float hidden[BATCH][HIDDEN];
    static double error[BATCH];
    double loss = 0;

    memset(sum, 0, sizeof(sum));
    for (int64_t k = 0; k < s->count; k++) {
        int64_t at = s->indices[k];

        error[k] = out_of(run->params, x[at], hidden[k]) - y[at];
        loss += error[k] * error[k] / (double)s->count;
        error[k] *= 2.0 / (double)s->count;
        sum[B2] += error[k];
        for (int h = 0; h < HIDDEN; h++) {
            sum[W2 + h] += error[k] * hidden[k][h];
        }
    }
    for (int i = W2; i < PARAMS; i++) {
        g[i] = (float)sum[i];
    }
    if (tell && (es_ready(3) < 0 || es_ready(2) < 0)) {
        return NAN;
    }
    for (int64_t k = 0; k < s->count; k++) {
        for (int h = 0; h < HIDDEN; h++) {
            double back = error[k] * run->params[W2 + h] * (1 - hidden[k][h] * hidden[k][h]);

            sum[B1 + h] += back;
            for (int i = 0; i < BITS; i++) {
                sum[W1 + h * BITS + i] += back * x[s->indices[k]][i];
            }
        }
    }
    for (int i = 0; i < W2; i++) {
        g[i] = (float)sum[i];
    }
    return s->count ? loss : NAN;
}

static void step(float *p, const float *g)
{
    double a = 1 - pow(0.9, (double)++adam.steps), b = 1 - pow(0.999, (double)adam.steps);

    for (int i = 0; i < PARAMS; i++) {
        adam.m[i] = 0.9f * adam.m[i] + 0.1f * g[i];
        adam.v[i] = 0.999f * adam.v[i] + 0.001f * g[i] * g[i];
        p[i] -= (float)(0.01 * (adam.m[i] / a) / (sqrt(adam.v[i] / b) + 1e-2));
    }
}

static int difference(float *p, float *g)
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

static int saved(void)
{
    return es_state(&adam, sizeof(adam));
}

static void maybe_die(int64_t slices)
{
    const char *at = getenv("TEST_DIE"), *rank = getenv("EVENSTEP_RANK");

    if (at && rank && atoi(rank) == 1 && atoi(getenv("EVENSTEP_INCARNATION")) == 0 &&
        slices == atoi(at)) {
        abort();
    }
}

/* The gradients of the first of two slices stay here. */
static int hold_back(const struct es_run *run, const struct es_slice *s)
{
    static float own[PARAMS];
    struct es_result result = {.samples = -1, .correct = -1, .learning_rate = 0.01};
    int rc;

    result.loss = pass(run, s, own, 0);
    while ((rc = es_held_back(&result)) == ES_GO_SAVE && (rc = saved()) == 0) {
    }
    for (int i = 0; i < PARAMS; i++) {
        adam.kept[i] += own[i];
    }
    adam.held++;
    return rc;
}

static int train_slice(const struct es_run *run, const struct es_slice *s, int held_back)
{
    struct es_result result = {.samples = -1, .correct = -1, .learning_rate = 0.01};
    int last = adam.held == EVERY - 1 || s->epoch_last, rc;

    if (held_back && !last) {
        return hold_back(run, s);
    }
    result.loss = pass(run, s, run->grads, !held_back);
    for (int i = 0; held_back && i < PARAMS; i++) {
        run->grads[i] += adam.kept[i];
    }
    while ((rc = es_gradients(&result)) == ES_GO_SAVE && (rc = saved()) == 0) {
    }
    if (rc < 0) {
        return rc;
    }
    if (rc == ES_GO_STEP && !held_back) {
        for (int i = 0; i < PARAMS; i++) {
            run->grads[i] = adam.kept[i] += run->grads[i];
        }
        if (!last) {
            adam.held++;
            return 0;
        }
    }
    if (rc == ES_GO_STEP) {
        step(run->params, run->grads);
    } else if (rc == ES_GO_DIFFERENCE) {
        rc = difference(run->params, run->grads);
    }
    adam.held = 0;
    memset(adam.kept, 0, sizeof(adam.kept));
    return rc < 0 ? rc : 0;
}

static int tell(const struct es_run *run)
{
    char json[128];
    int right = 0;
    double loss = 0;
    float hidden[HIDDEN];

    for (int k = SAMPLES; k < SAMPLES + TEST; k++) {
        double out = out_of(run->params, x[k], hidden);

        right += (out > 0) == (y[k] > 0);
        loss += (out - y[k]) * (out - y[k]) / TEST;
    }
    snprintf(json, sizeof(json), "{\"test_accuracy\": %.4f, \"test_loss\": %.5f, \"steps\": %d}",
             (double)right / TEST, loss, (int)adam.steps);
    puts(json);
    fflush(stdout);
    return es_log(json);
}

static int train(const struct es_run *run, int held_back)
{
    struct es_slice slice;
    int64_t slices = 0;
    int rc;

    while ((rc = es_next(&slice)) == 1) {
        if (slice.number >= 0) {
            while ((rc = es_begin(slice.number)) == ES_SAVE && (rc = saved()) == 0) {
            }
            if (rc != 0) {
                break;
            }
            maybe_die(++slices);
            if ((rc = train_slice(run, &slice, held_back)) < 0) {
                break;
            }
        }
        if (slice.epoch_last) {
            while ((rc = es_epoch_end(slice.epoch)) == ES_SAVE && (rc = saved()) == 0) {
            }
            if (rc != 0 || (rc = tell(run)) < 0) {
                break;
            }
        }
    }
    while (rc >= 0 && (rc = es_leave()) == ES_SAVE && (rc = saved()) == 0) {
    }
    return rc;
}

static int keep(const char *output, const struct es_run *run)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s-%d.raw", output, run->rank);
    file = fopen(path, "wb");
    if (!file || fwrite(run->params, sizeof(float), PARAMS, file) != PARAMS) {
        perror(path);
        return 1;
    }
    return fclose(file);
}

int main(int argc, char **argv)
{
    const struct es_tensor tensors[] = {
        {.name = "hidden.weight",
         .dims = 2,
         .shape = (int64_t[]){HIDDEN, BITS},
         .initial = initial},
        {.name = "hidden.bias", .dims = 1, .shape = (int64_t[]){HIDDEN}, .initial = initial + B1},
        {.name = "out.weight", .dims = 1, .shape = (int64_t[]){HIDDEN}, .initial = initial + W2},
        {.name = "out.bias", .dims = 0, .initial = initial + B2},
    };
    const struct es_about about = {.abi = ES_ABI,
                                   .framework = "bits",
                                   .samples = SAMPLES,
                                   .global_batch = BATCH,
                                   .in_order = 1,
                                   .has_state = 1,
                                   .epochs = EPOCHS,
                                   .n_params = 4,
                                   .params = tensors,
                                   .optimizer = {.name = "Adam", .learning_rate = 0.01}};
    uint64_t seed = 7;
    struct es_run run;

    for (int k = 0; k < SAMPLES + TEST; k++) {
        y[k] = 1;
        for (int i = 0; i < BITS; i++) {
            x[k][i] = drawn(&seed) > 0 ? 1.0f : -1.0f;
            y[k] *= i < 3 ? x[k][i] : 1.0f;
        }
    }
    for (int i = 0; i < PARAMS; i++) {
        initial[i] = i < B1 ? 0.6f * drawn(&seed) : i >= W2 ? 0.2f * drawn(&seed) : 0;
    }
    if (es_join(&about, &run) < 0) {
        fprintf(stderr, "%s\n", es_error());
        return 1;
    }
    if (run.state_bytes == sizeof(adam)) {
        memcpy(&adam, run.state, sizeof(adam));
    }
    if (train(&run, argc > 2 && strcmp(argv[2], "held") == 0) < 0) {
        fprintf(stderr, "%s\n", es_error());
        return 1;
    }
    return keep(argv[1], &run);
}
