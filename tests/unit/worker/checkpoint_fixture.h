/* Shared by the tests of checkpoints and artifacts: a job's folder, and the state of its training
 * to be written and read again. */
#ifndef TESTS_UNIT_WORKER_CHECKPOINT_FIXTURE_H
#define TESTS_UNIT_WORKER_CHECKPOINT_FIXTURE_H

#include "fixture.h"

#include "worker/checkpoint/checkpoint.h"

/* A folder, and a job of a small network that has trained for a while. */
struct place {
    char *dir;
    struct jobspec *spec;
    struct run_state *state;
    float *params, *optim;
};

static const char *const spec_text =
    "{\"name\": \"t\", \"model\": {\"input\": [4, 4, 1], \"layers\": [{\"type\": \"conv2d\", "
    "\"filters\": 2, \"kernel\": 3}, {\"type\": \"relu\"},"
    "{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 3}]}, "
    "\"data\": {\"format\": \"npy\", \"path\": \"small\"}, \"optimizer\": {\"type\": \"sgd\","
    "\"learning_rate\": 0.1, \"momentum\": 0.9}, \"strategy\": {\"type\": \"sync\"}, "
    "\"batching\": {\"global_batch\": 32, \"policy\": \"equal\"},"
    "\"workers\": 2, \"epochs\": 2, \"seed\": 5}";

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    p->dir = make_folder();
    p->spec = make_spec(spec_text);
    p->state = calloc(1, sizeof *p->state);
    size_t n = p->spec->network.n_params;
    p->params = calloc(n, sizeof(float));
    p->optim = calloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++) {
        p->params[i] = (float)i * 0.1f;
        p->optim[i] = -(float)i / 3.0f;
    }
    *p->state = (struct run_state){.params = p->params,
                                   .optim = p->optim,
                                   .n_params = n,
                                   .n_optim = n,
                                   .version = 1234,
                                   .applied_samples = 39488,
                                   .cursor = {60000, 2, 0, 39488},
                                   .n_out = 2,
                                   .test_accuracy = -1};
    p->state->out[0] = (struct slice){0, 128, 32};
    p->state->out[1] = (struct slice){1, 0, 7};
    p->state->best = 0.25;
    p->state->elapsed = 71.5;
    p->state->staleness = json_pack("[i,i]", 1, 2);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    json_decref(p->state->staleness);
    remove_folder(p->dir);
    drop_spec(p->spec);
    free(p->state);
    free(p->params);
    free(p->optim);
    free(p);
    return 0;
}

static void write_at(struct place *p, int64_t version, int keep, char path[4096])
{
    p->state->version = version;
    OK(checkpoint_write(p->dir, p->spec, p->state, keep, path, 4096, &err_));
}

/* A test with its own place */
#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
