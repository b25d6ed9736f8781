/* A line through points by plain SGD, with steps of 0.1 ms, of which a rank that is alone grants
 * several at a time and hears late.
 *
 *     quick OUTPUT      OUTPUT: the parameters that it ends with
 *
 * TEST_STEP=SECONDS: a step takes longer than that.
 * TEST_KILL="N N …": each process but the last is killed within its slice N: the first one as its
 * gradients are there, the second in the middle of its step, the third after it, and so on.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <evenstep.h>

enum { SAMPLES = 16000, BATCH = 8, EPOCHS = 2, D = 24, BEFORE_STEP = 0, WITHIN_STEP, AFTER_STEP };

static float initial[D], x[SAMPLES][D], y[SAMPLES];

static void draw(void)
{
    uint64_t state = 1;

    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < D; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            x[i][k] = (float)(state >> 40) / (1 << 24) - 0.5f;
            y[i] += x[i][k] * (float)(k % 5);
        }
    }
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double gradients(const struct es_run *run, const struct es_slice *s)
{
    const char *seconds = getenv("TEST_STEP");
    double loss = 0, until = now() + (seconds ? atof(seconds) : 1e-4);

    memset(run->grads, 0, D * sizeof(float));
    for (int64_t i = 0; i < s->count; i++) {
        const float *in = x[s->indices[i]];
        float off = -y[s->indices[i]];

        for (int k = 0; k < D; k++) {
            off += run->params[k] * in[k];
        }
        for (int k = 0; k < D; k++) {
            run->grads[k] += off * in[k] / (float)s->count;
        }
        loss += off * off / 2;
    }
    while (now() < until) {
    }
    return s->count ? loss / (double)s->count : 0;
}

/* The slice in which this process is killed; -1: in none. */
static int64_t killed_in(void)
{
    const char *at = getenv("TEST_KILL"), *process = getenv("EVENSTEP_INCARNATION");
    int64_t slice = -1;

    for (int i = process ? atoi(process) : 0; at && i >= 0; i--) {
        slice = *at ? strtoll(at, (char **)&at, 10) : -1;
    }
    return slice;
}

static void maybe_end(int64_t slice, int where)
{
    const char *process = getenv("EVENSTEP_INCARNATION");

    if (slice == killed_in() && where == atoi(process) % 3) {
        raise(SIGKILL);
    }
}

static void step(const struct es_run *run, int64_t slice)
{
    for (int k = 0; k < D; k++) {
        if (k == D / 2) {
            maybe_end(slice, WITHIN_STEP);
        }
        run->params[k] -= 0.05f * run->grads[k];
    }
}

int main(int argc, char **argv)
{
    const int64_t shape[] = {D};
    const struct es_tensor line = {.dims = 1, .shape = shape, .initial = initial};
    const struct es_about about = {.abi = ES_ABI,
                                   .samples = SAMPLES,
                                   .global_batch = BATCH,
                                   .epochs = EPOCHS,
                                   .n_params = 1,
                                   .params = &line};
    struct es_run run;
    struct es_slice s;
    FILE *out;
    int more;

    draw();
    if (argc != 2 || es_join(&about, &run) < 0) {
        fprintf(stderr, "quick: %s\n", es_error());
        return 1;
    }
    while ((more = es_step(&s)) == 1) {
        struct es_result result = {.samples = -1, .correct = -1, .learning_rate = 0.05};

        result.loss = gradients(&run, &s);
        maybe_end(s.number, BEFORE_STEP);
        if (es_gradients(&result) == ES_GO_STEP) {
            step(&run, s.number);
        }
        maybe_end(s.number, AFTER_STEP);
    }
    out = more < 0 ? NULL : fopen(argv[1], "wb");
    if (!out || fwrite(run.params, sizeof(float), D, out) != D || fclose(out) != 0) {
        fprintf(stderr, "quick: %s\n", es_error());
        return 1;
    }
    return 0;
}
