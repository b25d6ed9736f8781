/* A line through points, with one mistake that people make with evenstep.h: misused HOW OUTPUT.
 *
 *     ignores    ES_GO_DIFFERENCE is no step, so the next slice is asked for
 *     zero       the result is set to zero, but for its loss
 *     twice      es_gradients is called once more in a slice
 *     keeps      gradients of two slices are added, and only the second one is told
 *     ends       the loop ends early, and with it the program
 *     right      none */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <evenstep.h>

enum { SAMPLES = 120, IN = 4, BATCH = 12 };

static float x[SAMPLES][IN], y[SAMPLES], initial[IN];

static double gradients(const struct es_run *run, const struct es_slice *s, int add)
{
    double loss = 0;

    for (int j = 0; j < IN && !add; j++) {
        run->grads[j] = 0;
    }
    for (int64_t k = 0; k < s->count; k++) {
        int64_t at = s->indices[k];
        float error = -y[at];

        for (int j = 0; j < IN; j++) {
            error += run->params[j] * x[at][j];
        }
        loss += error * error / (double)s->count;
        for (int j = 0; j < IN; j++) {
            run->grads[j] += 2 * error * x[at][j] / (float)s->count;
        }
    }
    return loss;
}

static int train(const char *how, const struct es_run *run)
{
    struct es_slice slice;
    int rc, keeps = strcmp(how, "keeps") == 0, zero = strcmp(how, "zero") == 0;

    for (long n = 1; (rc = es_step(&slice)) == 1; n++) {
        struct es_result result = {.samples = -1, .correct = -1, .learning_rate = NAN};

        result = zero ? (struct es_result){.loss = 0} : result;
        result.loss = gradients(run, &slice, keeps && n % 2 == 0);
        if (keeps && n % 2) {
            continue;
        }
        if (strcmp(how, "ends") == 0 && n == 14) {
            return 0;
        }
        rc = es_gradients(&result);
        if (rc >= 0 && strcmp(how, "twice") == 0) {
            rc = es_gradients(&result);
        }
        if (rc < 0) {
            break;
        }
        for (int j = 0; j < IN && rc == ES_GO_STEP; j++) {
            run->params[j] -= 0.05f * run->grads[j];
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    const struct es_tensor tensor = {
        .name = "line", .dims = 1, .shape = (int64_t[]){IN}, .initial = initial};
    const struct es_about about = {.abi = ES_ABI,
                                   .samples = SAMPLES,
                                   .global_batch = BATCH,
                                   .epochs = 3,
                                   .n_params = 1,
                                   .params = &tensor,
                                   .optimizer = {.name = "SGD", .learning_rate = 0.05}};
    struct es_run run;

    for (int i = 0; i < SAMPLES; i++) {
        for (int j = 0; j < IN; j++) {
            x[i][j] = (float)((i * 7 + j * 13) % 11) / 11 - 0.5f;
            y[i] += (float)j * x[i][j];
        }
    }
    if (es_join(&about, &run) < 0 || train(argc > 1 ? argv[1] : "right", &run) < 0) {
        fprintf(stderr, "%s\n", es_error());
        return 1;
    }
    return 0;
}
