/* Training on the CUDA device compared with the CPU: curves of many steps, every preset,
 * minibatches that change, buckets, and NaN.
 *
 * Two devices that start alike and train on drift apart by rounding alone, so after some steps
 * their curves say nothing. Each step of a curve begins from the CPU's parameters; then a bound
 * holds for each: 1e-4 for the loss, 1e-5 for the gradient.
 */
#include <pthread.h>

#include "tests/cuda/judge.h"
#include "tests/kernels/cases.h"

/* A preset with a quarter of its filters. */
static char *quarter_of(const char *preset)
{
    json_t *model = network_preset(preset), *layer;
    size_t i;
    json_array_foreach(json_object_get(model, "layers"), i, layer) {
        json_t *filters = json_object_get(layer, "filters");
        if (filters) {
            json_integer_set(filters, json_integer_value(filters) / 4);
        }
    }
    char *text = json_dumps(model, JSON_COMPACT);
    json_decref(model);
    return text;
}

static const struct optimizer_spec momentum = {
    .type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-3};
static const struct optimizer_spec adam = {
    .type = CAT_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

/* ---- curves ---------------------------------------------------------------------------------- */

/* Of the gradient's length. A relu that rounding switches changes what lies before it by more than
 * rounding: once in a while, and never by much. */
static const double exact = 1e-5, switched = 5e-2;

/* One step on both from the CPU's parameters and statistics. The error of the gradient. */
static double step_both(struct judge *j, struct dev_program *a, struct dev_program *b,
                        const struct dev_input *in)
{
    judge_copy(j, DEV_PARAMS);
    judge_copy(j, DEV_STATS);
    struct dev_result x = judge_compute(j, a, in, NULL), y = judge_compute(j, b, in, NULL);
    assert_near(y.loss / in->count, x.loss / in->count, 1e-4, "loss", 0);
    judge_fetch(j, DEV_GRADS);
    judge_fetch(j, DEV_STATS);
    judge_near(j->on_gpu.host[DEV_STATS], j->on_cpu.host[DEV_STATS], j->net.n_stat_floats, 5e-5,
               "statistic");
    return judge_gradient_error(j);
}

static void check_curve(const char *model, int batch)
{
    enum { STEPS = 50 };
    struct judge *j = judge_new(model, &momentum, "fp32");
    struct dev_program *a = judge_program(j, &j->on_cpu, batch),
                       *b = judge_program(j, &j->on_gpu, batch);
    int inexact = 0;
    for (int step = 0; step < STEPS; step++) {
        struct dev_input in =
            ref_input(&j->net, batch - step % 2,
                      (uint64_t)step % 7 + 1); /* seven minibatches, again and again */
        in.epoch = step;
        double error = step_both(j, a, b, &in);
        assert_near(error, 0, switched, "error of the gradient in step", (size_t)step);
        inexact += error > exact;
        judge_ok(j, j->cpu->ops->update(&j->on_cpu, 0.01, 1, &j->e));
        ref_input_free(&in);
    }
    assert_in_range(inexact, 0, STEPS / 10);
    j->cpu->ops->program_free(a);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

static void fifty_steps_of_mlp_have_the_cpus_loss(void **state)
{
    check_curve("\"mlp\"", 8);
}

static void fifty_steps_of_a_quarter_of_cifar_quick_have_the_cpus_loss(void **state)
{
    char *model = quarter_of("cifar-quick");
    check_curve(model, 4);
    free(model);
}

static void fifty_steps_of_a_quarter_of_resnet20_have_the_cpus_loss(void **state)
{
    char *model = quarter_of("resnet20");
    check_curve(model, 4);
    free(model);
}

/* Nothing is copied from the CPU between the steps: what the device keeps (velocity, moments, count
 * of steps) is its own. */
static void steps_on_the_devices_own_state_follow_the_cpu(void **state)
{
    static const char small[] =
        "{\"input\": [6, 5, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, "
        "\"kernel\": 3}, {\"type\": \"tanh\"},"
        "{\"type\": \"dense\", \"units\": 7}]}";
    const struct optimizer_spec *const all[] = {&momentum, &adam};
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
        struct judge *j = judge_new(small, all[k], "fp32");
        struct dev_program *a = judge_program(j, &j->on_cpu, 5),
                           *b = judge_program(j, &j->on_gpu, 5);
        for (uint64_t step = 1; step <= 8; step++) {
            struct dev_input in = ref_input(&j->net, 5, step);
            struct dev_result x = judge_compute(j, a, &in, NULL),
                              y = judge_compute(j, b, &in, NULL);
            assert_near(y.loss, x.loss, 1e-4, "loss", step);
            judge_ok(j, j->cpu->ops->update(&j->on_cpu, 0.01 / (double)step, 0.5, &j->e));
            judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.01 / (double)step, 0.5, &j->e));
            ref_input_free(&in);
        }
        judge_fetch(j, DEV_PARAMS);
        judge_near(j->on_gpu.host[DEV_PARAMS], j->on_cpu.host[DEV_PARAMS], j->net.n_params, 1e-4,
                   "parameter");
        judge_fetch(j, DEV_OPTIM);
        judge_near(j->on_gpu.host[DEV_OPTIM], j->on_cpu.host[DEV_OPTIM], j->on_cpu.count[DEV_OPTIM],
                   1e-4, "state");
        j->cpu->ops->program_free(a);
        j->gpu->ops->program_free(b);
        judge_free(j);
    }
}

/* A step or, on a GPU, which has the time, fifty (or EVENSTEP_PRESET_STEPS). A gradient that no
 * relu has switched in is seen at least once. */
static void steps_of_every_preset_have_the_cpus_loss(void **state)
{
    const char *asked = getenv("EVENSTEP_PRESET_STEPS");
    int least_steps = asked             ? (int)strtol(asked, NULL, 10)
                      : judge_control() ? 1
                                        : 50,
        most_steps = least_steps > 12 ? least_steps : 12;
    static const struct {
        const char *model;
        int batch;
    } presets[] = {{"\"mlp\"", 3},         {"\"lenet5\"", 3},   {"\"tf-cifar\"", 2},
                   {"\"cifar-quick\"", 3}, {"\"resnet20\"", 2}, {"\"resnet18\"", 2}};
    for (size_t i = 0; i < sizeof(presets) / sizeof(*presets); i++) {
        struct judge *j = judge_new(presets[i].model, &momentum, "fp32");
        struct dev_program *a = judge_program(j, &j->on_cpu, presets[i].batch),
                           *b = judge_program(j, &j->on_gpu, presets[i].batch);
        double least = 1;
        for (int step = 0; step < least_steps || (step < most_steps && least > exact); step++) {
            struct dev_input in = ref_input(&j->net, presets[i].batch, (uint64_t)step % 7 + 3);
            in.epoch = step;
            double error = step_both(j, a, b, &in);
            assert_near(error, 0, switched, presets[i].model, (size_t)step);
            least = error < least ? error : least;
            judge_ok(j, j->cpu->ops->update(&j->on_cpu, 0.01, 1, &j->e));
            ref_input_free(&in);
        }
        assert_near(least, 0, exact, presets[i].model, 0);
        j->cpu->ops->program_free(a);
        j->gpu->ops->program_free(b);
        judge_free(j);
    }
}

/* ---- minibatches that change ----------------------------------------------------------------- */

static void keep_gradients(struct judge *j, struct dev_program *p, const struct dev_input *in,
                           float *out)
{
    judge_compute(j, p, in, NULL);
    judge_fetch(j, DEV_GRADS);
    memcpy(out, j->on_gpu.host[DEV_GRADS], j->net.n_params * sizeof(float));
}

static void another_minibatch_and_back_gives_the_same_bits(void **state)
{
    struct judge *j = judge_new(sample_wise_net, NULL, "fp32");
    struct dev_input in = ref_input(&j->net, 6, 5);
    size_t n = j->net.n_params;
    float *before = calloc(n, sizeof(float)), *through = calloc(n, sizeof(float)),
          *after = calloc(n, sizeof(float));
    struct dev_program *p = judge_program(j, &j->on_gpu, 6);
    keep_gradients(j, p, &in, before);
    j->gpu->ops->program_free(p);
    struct dev_program *larger = judge_program(j, &j->on_gpu, 13);
    struct dev_input many =
        ref_input(&j->net, 13, 9); /* what the larger minibatch leaves in memory must not be seen */
    judge_compute(j, larger, &many, NULL);
    keep_gradients(j, larger, &in, through);
    p = judge_program(j, &j->on_gpu, 6);
    keep_gradients(j, p, &in, after);
    assert_memory_equal(before, after, n * sizeof(float));
    judge_near(through, before, n, 1e-5, "gradient");
    j->gpu->ops->program_free(p);
    j->gpu->ops->program_free(larger);
    ref_input_free(&in);
    ref_input_free(&many);
    free(before);
    free(through);
    free(after);
    judge_free(j);
}

/* Dropout's choices belong to the sample, whoever computes it beside which others: a job may mix
 * devices. */
static void dropout_is_the_same_on_every_device_in_any_division(void **state)
{
    struct judge *j = judge_new(sample_wise_net, NULL, "fp32");
    size_t n = j->net.n_params;
    float *left = calloc(n, sizeof(float)), *right = calloc(n, sizeof(float)),
          *whole = calloc(n, sizeof(float));
    struct dev_input in = ref_input(&j->net, 7, 5), first = ref_part(&in, &j->net, 0, 3),
                     second = ref_part(&in, &j->net, 3, 4);
    struct dev_program *a = judge_program(j, &j->on_cpu, 7),
                       *three = judge_program(j, &j->on_gpu, 3),
                       *five = judge_program(j, &j->on_gpu, 5);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        in.epoch = first.epoch = second.epoch = epoch;
        judge_compute(j, a, &in, NULL);
        keep_gradients(j, three, &first, left);
        keep_gradients(j, five, &second, right);
        for (size_t i = 0; i < n; i++) {
            whole[i] = (3 * left[i] + 4 * right[i]) / 7;
        }
        judge_near(whole, j->on_cpu.host[DEV_GRADS], n, 1e-5, "gradient");
    }
    j->cpu->ops->program_free(a);
    j->gpu->ops->program_free(three);
    j->gpu->ops->program_free(five);
    ref_input_free(&in);
    free(left);
    free(right);
    free(whole);
    judge_free(j);
}

static void a_minibatch_is_prepared_beside_one_that_trains(void **state)
{
    struct judge *j = judge_new(sample_wise_net, &momentum, "fp32");
    struct dev_input in = ref_input(&j->net, 8, 5);
    size_t n = j->net.n_params;
    float *first = calloc(n, sizeof(float)), *again = calloc(n, sizeof(float));
    struct dev_program *p = judge_program(j, &j->on_gpu, 8);
    struct ref_builder b = {.replica = &j->on_gpu};
    pthread_t thread;
    keep_gradients(j, p, &in, first);
    assert_int_equal(pthread_create(&thread, NULL, ref_build_programs, &b), 0);
    for (int i = 0; i < 20; i++) {
        keep_gradients(j, p, &in, again);
        assert_memory_equal(again, first, n * sizeof(float));
    }
    pthread_join(thread, NULL);
    if (b.failed) {
        fail_msg("%s", b.e.message);
    }
    free(first);
    free(again);
    ref_input_free(&in);
    j->gpu->ops->program_free(p);
    judge_free(j);
}

/* ---- buckets and evaluation ------------------------------------------------------------------ */

struct marked {
    struct judge *j;
    const struct dev_program_head *head;
    float *seen;
    int next;
};

static void fetch_bucket(void *ctx, int bucket)
{
    struct marked *m = ctx;
    const struct dev_bucket *k = &m->head->buckets[bucket];
    assert_int_equal(bucket, m->next++);
    judge_ok(m->j, m->j->gpu->ops->fetch(&m->j->on_gpu, DEV_GRADS, k->first, k->count, &m->j->e));
    memcpy(m->seen + k->first, m->j->on_gpu.host[DEV_GRADS] + k->first, k->count * sizeof(float));
}

static void check_buckets(const char *model, size_t bucket_bytes)
{
    struct judge *j = judge_new(model, NULL, "fp32");
    struct dev_program *a = j->cpu->ops->program_new(&j->on_cpu, 3, bucket_bytes, &j->e);
    struct dev_program *b = j->gpu->ops->program_new(&j->on_gpu, 3, bucket_bytes, &j->e);
    const struct dev_program_head *x = (const struct dev_program_head *)a,
                                  *y = (const struct dev_program_head *)b;
    struct dev_input in = ref_input(&j->net, 3, 5);
    struct marked m = {.j = j, .head = y, .seen = calloc(j->net.n_params, sizeof(float))};
    struct dev_result result;
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(x->n_buckets, y->n_buckets); /* a job may mix devices: they must cut alike */
    for (int i = 0; i < y->n_buckets; i++) {
        assert_int_equal(x->buckets[i].first, y->buckets[i].first);
        assert_int_equal(x->buckets[i].count, y->buckets[i].count);
        assert_true(y->buckets[i].work_done > (i > 0 ? y->buckets[i - 1].work_done : 0) &&
                    y->buckets[i].work_done <= 1);
    }
    judge_ok(j, j->gpu->ops->compute(b, &in, &result, NULL, fetch_bucket, &m, &j->e));
    assert_int_equal(m.next, y->n_buckets);
    judge_fetch(j, DEV_GRADS);
    assert_memory_equal(m.seen, j->on_gpu.host[DEV_GRADS], j->net.n_params * sizeof(float));
    free(m.seen);
    ref_input_free(&in);
    j->cpu->ops->program_free(a);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

static void buckets_are_those_of_the_cpu_and_complete_when_marked(void **state)
{
    check_buckets("\"cifar-quick\"", 0);
    check_buckets("\"cifar-quick\"", 100000);
    check_buckets("\"mlp\"", (size_t)1 << 30);
    char *model = quarter_of("resnet20");
    check_buckets(model, 4096);
    free(model);
}

static void an_evaluation_changes_neither_gradients_nor_statistics(void **state)
{
    char *model = quarter_of("resnet20");
    struct judge *j = judge_new(model, NULL, "fp32");
    struct dev_program *b = judge_program(j, &j->on_gpu, 4);
    struct dev_input in = ref_input(&j->net, 4, 5);
    size_t n = j->net.n_params, s = j->net.n_stat_floats;
    float *grads = calloc(n, sizeof(float)), *stats = calloc(s, sizeof(float));
    keep_gradients(j, b, &in, grads);
    judge_fetch(j, DEV_STATS);
    memcpy(stats, j->on_gpu.host[DEV_STATS], s * sizeof(float));
    in.training = false;
    judge_compute(j, b, &in, NULL);
    judge_fetch(j, DEV_GRADS);
    judge_fetch(j, DEV_STATS);
    assert_memory_equal(grads, j->on_gpu.host[DEV_GRADS], n * sizeof(float));
    assert_memory_equal(stats, j->on_gpu.host[DEV_STATS], s * sizeof(float));
    free(grads);
    free(stats);
    free(model);
    ref_input_free(&in);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

/* ---- what is not a number -------------------------------------------------------------------- */

static void check_nan(const char *layers, const char *precision)
{
    char model[600];
    snprintf(model, sizeof(model),
             "{\"input\": [6, 6, 3], \"layers\": [%s, {\"type\": \"dense\", \"name\": \"last\", "
             "\"units\": 5}]}",
             layers);
    struct judge *j = judge_new(model, NULL, precision);
    struct dev_program *b = judge_program(j, &j->on_gpu, 3);
    struct dev_input in = ref_input(&j->net, 3, 5);
    float *x = (float *)(uintptr_t)in.x, kept = x[40];
    assert_true(judge_compute(j, b, &in, NULL).finite);
    x[40] = NAN;
    if (judge_compute(j, b, &in, NULL).finite) {
        fail_msg("%s (%s): what is not a number is not seen in the loss", layers, precision);
    }
    judge_fetch(j, DEV_GRADS);
    const struct tensor *t =
        &j->net.tensors[j->net.n_tensors - 1]; /* the last layer's bias: every sample reaches it */
    size_t bad = 0;
    for (size_t i = 0; i < t->count; i++) {
        bad += isnan(j->on_gpu.host[DEV_GRADS][t->first + i]) != 0;
    }
    assert_int_equal(bad, t->count);
    x[40] = kept;
    if (!judge_compute(j, b, &in, NULL).finite &&
        !strstr(layers, "batch_norm")) { /* whose running statistics keep it, as they should */
        fail_msg("%s: what is not a number stays in the program", layers);
    }
    ref_input_free(&in);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

static void what_is_not_a_number_stays_visible(void **state)
{
    static const char *const layers[] = {
        "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}, {\"type\": \"relu\"}",
        "{\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 6}, {\"type\": \"relu\"}",
        "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3}, {\"type\": \"batch_norm\"}, "
        "{\"type\": \"relu\"}",
        "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"leaky_relu\"}",
        "{\"type\": \"average_pool\", \"size\": 3}, {\"type\": \"tanh\"}",
        "{\"type\": \"global_average_pool\"}, {\"type\": \"sigmoid\"}",
        "{\"type\": \"lrn\"}, {\"type\": \"dropout\", \"rate\": 0}",
        "{\"type\": \"relu\", \"name\": \"r\"}, "
        "{\"type\": \"add\", \"inputs\": [\"r\", \"input\"]}",
    };
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
        check_nan(layers[i], "fp32");
        check_nan(layers[i], "bf16");
    }
}

/* A smaller minibatch after one that held what is not a number: zero times that is not zero. */
static void samples_beyond_the_minibatch_do_not_count(void **state)
{
    struct judge *j = judge_new(sample_wise_net, NULL, "fp32");
    struct dev_program *a = judge_program(j, &j->on_cpu, 6), *b = judge_program(j, &j->on_gpu, 6);
    struct dev_input in = ref_input(&j->net, 6, 5), few = ref_part(&in, &j->net, 0, 2);
    float *x = (float *)(uintptr_t)in.x;
    x[5 * shape_count(&j->net.input) + 3] = NAN;
    judge_compute(j, b, &in, NULL);
    struct dev_result expected = judge_compute(j, a, &few, NULL),
                      got = judge_compute(j, b, &few, NULL);
    assert_near(got.loss, expected.loss, 1e-4, "loss", 0);
    judge_fetch(j, DEV_GRADS);
    judge_near_gradients(j, 1e-5);
    ref_input_free(&in);
    j->cpu->ops->program_free(a);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifty_steps_of_mlp_have_the_cpus_loss),
        cmocka_unit_test(fifty_steps_of_a_quarter_of_cifar_quick_have_the_cpus_loss),
        cmocka_unit_test(fifty_steps_of_a_quarter_of_resnet20_have_the_cpus_loss),
        cmocka_unit_test(steps_on_the_devices_own_state_follow_the_cpu),
        cmocka_unit_test(steps_of_every_preset_have_the_cpus_loss),
        cmocka_unit_test(another_minibatch_and_back_gives_the_same_bits),
        cmocka_unit_test(dropout_is_the_same_on_every_device_in_any_division),
        cmocka_unit_test(a_minibatch_is_prepared_beside_one_that_trains),
        cmocka_unit_test(buckets_are_those_of_the_cpu_and_complete_when_marked),
        cmocka_unit_test(an_evaluation_changes_neither_gradients_nor_statistics),
        cmocka_unit_test(what_is_not_a_number_stays_visible),
        cmocka_unit_test(samples_beyond_the_minibatch_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
