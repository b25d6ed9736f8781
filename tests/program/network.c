/* The C example's network (client/examples/digits.c: its gradients, its step, its loop) on samples
 * and first parameters of files, so that what a strategy makes of it can be compared with a job of
 * ours step by step, as network.py.
 *
 *     network FOLDER MOMENTUM IN-ORDER     FOLDER: x.raw, y.raw, first.raw
 */
#define main digits_main
#include "../../client/examples/digits.c"
#undef main

enum { FEW = 640, GLOBAL = 64 };

static int64_t right[FEW];
static float initial[PARAMS];

static void read_file(const char *folder, const char *name, void *to, size_t bytes)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file || fread(to, 1, bytes, file) != bytes) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
}

static int train(struct es_run *run, float momentum)
{
    struct es_result result = {.samples = -1, .correct = -1, .learning_rate = 0.05};
    struct es_slice slice;
    int rc;

    while ((rc = es_step(&slice)) == 1) {
        result.loss = gradients(run->params, slice.indices, slice.count, run->grads);
        rc = es_gradients(&result);
        if (momentum == 0) {
            memset(velocity, 0, sizeof(velocity)); /* the example's step has one */
        }
        if (rc == ES_GO_STEP) {
            step(run->params, run->grads);
        } else if (rc == ES_GO_DIFFERENCE) {
            rc = send_difference(run->params, run->grads);
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *folder = argv[1];
    float momentum = argc == 4 ? strtof(argv[2], NULL) : 0;
    const struct es_tensor tensor = {
        .name = "network", .dims = 1, .shape = (int64_t[]){PARAMS}, .initial = initial};
    const struct es_about about = {
        .abi = ES_ABI,
        .samples = FEW,
        .global_batch = GLOBAL,
        .in_order = argc == 4 && argv[3][0] == '1',
        .n_params = 1,
        .params = &tensor,
        .optimizer = {.name = "SGD", .server = 1, .learning_rate = 0.05, .momentum = momentum},
    };
    struct es_run run;

    read_file(folder, "x.raw", x, FEW * sizeof(x[0]));
    read_file(folder, "y.raw", right, sizeof(right));
    read_file(folder, "first.raw", initial, sizeof(initial));
    for (int k = 0; k < FEW; k++) {
        label[k] = (int)right[k];
    }
    if (es_join(&about, &run) < 0 || train(&run, momentum) < 0) {
        fprintf(stderr, "%s\n", es_error());
        return 1;
    }
    return 0;
}
