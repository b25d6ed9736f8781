/* Programs: minibatches that are split, sizes that change, threads, buckets, memory. */
#include <malloc.h>
#include <pthread.h>

#include "tests/kernels/cases.h"
#include "tests/kernels/bench.h"

static float *gradients(struct bench *b, struct dev_program *p, const struct dev_input *in,
                        float *logits)
{
    float *copy = malloc(b->net.n_params * sizeof(float));
    memset(b->replica.host[DEV_GRADS], 0x7f,
           b->net.n_params * sizeof(float)); /* what compute must overwrite */
    bench_compute(b, p, in, logits);
    memcpy(copy, b->replica.host[DEV_GRADS], b->net.n_params * sizeof(float));
    return copy;
}

static void check_split(const char *model)
{
    struct bench *b = bench_new("cpu:2", model, NULL);
    struct dev_program *whole = bench_program(b, 7), *three = bench_program(b, 3),
                       *five = bench_program(b, 5);
    struct dev_input in = ref_input(&b->net, 7, 5);
    struct dev_input left = ref_part(&in, &b->net, 0, 3), right = ref_part(&in, &b->net, 3, 4);
    size_t outputs = shape_count(&b->net.output);
    float *logits = calloc(7 * outputs, sizeof(float)), *parts = calloc(7 * outputs, sizeof(float));
    float *all = gradients(b, whole, &in, logits), *g3 = gradients(b, three, &left, parts);
    float *g4 = gradients(b, five, &right, parts + 3 * outputs);
    for (size_t i = 0; i < 7 * outputs; i++) {
        assert_near((double)parts[i], (double)logits[i], 1e-5 * (1 + fabs((double)logits[i])),
                    "output", i);
    }
    for (size_t i = 0; i < b->net.n_params; i++) {
        assert_near((3.0 * (double)g3[i] + 4.0 * (double)g4[i]) / 7, (double)all[i],
                    1e-5 * (0.1 + fabs((double)all[i])), "gradient", i);
    }
    free(all);
    free(g3);
    free(g4);
    free(logits);
    free(parts);
    ref_input_free(&in);
    b->dev->ops->program_free(whole);
    b->dev->ops->program_free(three);
    b->dev->ops->program_free(five);
    bench_free(b);
}

static void gradients_of_parts_average_to_the_gradient_of_the_whole(void **state)
{
    check_split("\"mlp\"");
    check_split("\"lenet5\"");
}

static void dropout_does_not_depend_on_the_division_of_the_minibatch(void **state)
{
    check_split(sample_wise_net);
}

static void another_size_and_back_gives_the_same_bits(void **state)
{
    struct bench *b = bench_new("cpu:2", "\"lenet5\"", NULL);
    struct dev_input in = ref_input(&b->net, 6, 5);
    struct dev_program *p = bench_program(b, 6);
    float *before = gradients(b, p, &in, NULL);
    b->dev->ops->program_free(p);
    struct dev_program *other = bench_program(b, 13);
    float *through = gradients(b, other, &in, NULL);
    p = bench_program(b, 6);
    float *after = gradients(b, p, &in, NULL);
    assert_memory_equal(before, after, b->net.n_params * sizeof(float));
    for (size_t i = 0; i < b->net.n_params; i++) {
        assert_near((double)through[i], (double)before[i], 1e-5 * (0.1 + fabs((double)before[i])),
                    "gradient", i);
    }
    free(before);
    free(through);
    free(after);
    b->dev->ops->program_free(p);
    b->dev->ops->program_free(other);
    ref_input_free(&in);
    bench_free(b);
}

static void the_number_of_threads_changes_nothing_but_rounding(void **state)
{
    float *expected = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        char name[16];
        snprintf(name, sizeof(name), "cpu:%d", threads);
        struct bench *b = bench_new(name, sample_wise_net, NULL);
        assert_int_equal(b->dev->ops->threads(b->dev), threads);
        struct dev_input in = ref_input(&b->net, 37, 5);
        struct dev_program *p = bench_program(b, 37);
        float *g = gradients(b, p, &in, NULL);
        for (size_t i = 0; expected && i < b->net.n_params; i++) {
            assert_near((double)g[i], (double)expected[i], 1e-5 * (0.1 + fabs((double)expected[i])),
                        "gradient", i);
        }
        free(expected);
        expected = g;
        ref_input_free(&in);
        b->dev->ops->program_free(p);
        bench_free(b);
    }
    free(expected);
}

static void an_evaluation_leaves_gradients_alone_and_drops_nothing(void **state)
{
    struct bench *b = bench_new("cpu:1", sample_wise_net, NULL);
    struct dev_program *p = bench_program(b, 5);
    struct dev_input in = ref_input(&b->net, 4, 5);
    struct ref r = bench_reference(b, 4);
    float logits[4 * 4];
    in.training = false;
    for (size_t i = 0; i < b->net.n_params; i++) {
        b->replica.host[DEV_GRADS][i] = 17;
    }
    struct dev_result result = bench_compute(b, p, &in, logits);
    assert_near(result.loss, ref_loss(&r, &in), 1e-4, "loss", 0);
    int64_t correct = 0;
    for (int s = 0; s < 4; s++) {
        int best = 0;
        for (int k = 1; k < 4; k++) {
            best = logits[4 * s + k] > logits[4 * s + best] ? k : best;
        }
        correct += best == ((const int32_t *)in.y)[s];
    }
    assert_int_equal(result.correct, correct);
    for (size_t i = 0; i < b->net.n_params; i++) {
        assert_true(b->replica.host[DEV_GRADS][i] == 17.0f);
    }
    ref_free(&r);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

/* ---- buckets --------------------------------------------------------------------------------- */

struct marked {
    struct bench *b;
    const struct dev_program_head *head;
    float *seen; /* gradients as they stood when their bucket was marked */
    int next;
};

static void copy_bucket(void *ctx, int bucket)
{
    struct marked *m = ctx;
    const struct dev_bucket *k = &m->head->buckets[bucket];
    assert_int_equal(bucket, m->next++);
    memcpy(m->seen + k->first, m->b->replica.host[DEV_GRADS] + k->first, k->count * sizeof(float));
}

static void check_buckets(size_t bucket_bytes, int expected)
{
    struct bench *b = bench_new("cpu:2", "\"lenet5\"", NULL);
    struct dev_program *p = b->dev->ops->program_new(&b->replica, 4, bucket_bytes, &b->e);
    struct dev_input in = ref_input(&b->net, 4, 5);
    struct marked m = {.b = b, .head = (const struct dev_program_head *)p};
    struct dev_result result;
    size_t end = b->net.n_params;
    double done = 0;
    assert_non_null(p);
    assert_int_equal(m.head->n_buckets, expected);
    for (int i = 0; i < m.head->n_buckets; i++) {
        const struct dev_bucket *k = &m.head->buckets[i];
        assert_int_equal(k->first + k->count, end);
        assert_true(k->work_done > done && k->work_done <= 1);
        assert_true(k->count * sizeof(float) >= bucket_bytes || k->first == 0);
        end = k->first;
        done = k->work_done;
    }
    assert_int_equal(end, 0);
    assert_true(done == 1);
    m.seen = calloc(b->net.n_params, sizeof(float));
    assert_int_equal(b->dev->ops->compute(p, &in, &result, NULL, copy_bucket, &m, &b->e), 0);
    assert_int_equal(m.next, m.head->n_buckets);
    assert_memory_equal(m.seen, b->replica.host[DEV_GRADS], b->net.n_params * sizeof(float));
    free(m.seen);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static void buckets_tile_the_block_backwards_and_are_complete_when_marked(void **state)
{
    check_buckets(0, 4);
    check_buckets(100000, 3);
    check_buckets(1 << 20, 2);
    check_buckets((size_t)1 << 30, 1);
}

/* ---- beside each other, again and again ------------------------------------------------------ */

static void programs_are_built_beside_a_running_one(void **state)
{
    struct bench *b = bench_new("cpu:2", sample_wise_net, NULL);
    struct dev_program *p = bench_program(b, 8);
    struct dev_input in = ref_input(&b->net, 8, 5);
    float *expected = gradients(b, p, &in, NULL);
    struct ref_builder builder = {.replica = &b->replica};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ref_build_programs, &builder), 0);
    for (int i = 0; i < 20; i++) {
        float *g = gradients(b, p, &in, NULL);
        assert_memory_equal(g, expected, b->net.n_params * sizeof(float));
        free(g);
    }
    pthread_join(thread, NULL);
    assert_false(builder.failed);
    free(expected);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static void steps_and_rebuilds_do_not_grow_the_memory(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizer's allocator does not count this way */
#endif
    enum { ROUNDS = 64, SETTLED = 4 };
    struct optimizer_spec sgd = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9};
    struct bench *b = bench_new("cpu:1", sample_wise_net, &sgd);
    struct dev_input in = ref_input(&b->net, 8, 5);
    size_t before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct dev_program *p = bench_program(b, 8 + round % 2);
        size_t step = 0;
        for (int i = 0; i < 10; i++) {
            bench_compute(b, p, &in, NULL);
            b->dev->ops->update(&b->replica, 1e-3, 1, &b->e);
            size_t used = mallinfo2().uordblks;
            assert_true(i < 2 || used == step);
            step = used;
        }
        b->dev->ops->program_free(p);
        if (round == SETTLED - 1) {
            before = mallinfo2().uordblks;
        }
    }
    assert_true(mallinfo2().uordblks <=
                /* malloc keeps some kilobytes for itself now and then */
                before + (ROUNDS - SETTLED) * 256);
    ref_input_free(&in);
    bench_free(b);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void a_label_outside_the_outputs_is_an_error_that_names_the_sample(void **state)
{
    struct bench *b = bench_new("cpu:1", "\"mlp\"", NULL);
    struct dev_program *p = bench_program(b, 2);
    struct dev_input in = ref_input(&b->net, 2, 5);
    int32_t labels[2] = {3, 10};
    int64_t samples[2] = {100, 4711};
    struct dev_input bad = in;
    struct dev_result result;
    bad.y = labels;
    bad.sample = samples;
    assert_int_equal(b->dev->ops->compute(p, &bad, &result, NULL, NULL, NULL, &b->e), -ERR_DATA);
    assert_non_null(strstr(b->e.message, "4711"));
    labels[1] = -1;
    assert_int_equal(b->dev->ops->compute(p, &bad, &result, NULL, NULL, NULL, &b->e), -ERR_DATA);
    bad.count = 3;
    assert_true(b->dev->ops->compute(p, &bad, &result, NULL, NULL, NULL, &b->e) < 0);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static void a_loss_that_is_not_finite_is_reported(void **state)
{
    struct bench *b = bench_new("cpu:1", "\"mlp\"", NULL);
    struct dev_program *p = bench_program(b, 2);
    struct dev_input in = ref_input(&b->net, 2, 5);
    assert_true(bench_compute(b, p, &in, NULL).finite);
    b->replica.host[DEV_PARAMS][b->net.tensors[3].first + 1] = NAN;
    assert_false(bench_compute(b, p, &in, NULL).finite);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static void samples_may_stand_at_any_address(void **state)
{
    struct bench *b = bench_new("cpu:1", "\"lenet5\"", NULL);
    struct dev_program *p = bench_program(b, 3);
    struct dev_input in = ref_input(&b->net, 3, 5), moved = in;
    size_t n = 3 * shape_count(&b->net.input);
    float *copy = malloc((n + 1) * sizeof(float));
    memcpy(copy + 1, in.x, n * sizeof(float));
    moved.x = copy + 1;
    float *a = gradients(b, p, &in, NULL), *c = gradients(b, p, &moved, NULL);
    for (size_t i = 0; i < b->net.n_params; i++) {
        assert_near((double)c[i], (double)a[i], 1e-6, "gradient", i);
    }
    free(a);
    free(c);
    free(copy);
    ref_input_free(&in);
    b->dev->ops->program_free(p);
    bench_free(b);
}

static size_t bytes_in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* The estimate is for any device, and the CPU keeps but half of a residual network's activations.
 */
static void memory_needed_covers_what_a_program_takes_and_not_much_more(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    static const struct optimizer_spec sgd = {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9};
    static const char *const models[] = {"\"mlp\"", "\"lenet5\"", "\"tf-cifar\"", "\"resnet20\""};
    for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++) {
        for (int batch = 1; batch <= 65; batch += 64) {
            size_t before = bytes_in_use();
            struct bench *b = bench_new("cpu:2", models[m], &sgd);
            struct dev_program *p = bench_program(b, batch);
            size_t used = bytes_in_use() - before, needed = dev_memory_needed(&b->net, &sgd, batch);
            if (used > needed || needed > 5 * used + ((size_t)40 << 20)) {
                fail_msg("%s, minibatch %d: %zu bytes are used, %zu were said to be needed",
                         models[m], batch, used, needed);
            }
            b->dev->ops->program_free(p);
            bench_free(b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_parts_average_to_the_gradient_of_the_whole),
        cmocka_unit_test(dropout_does_not_depend_on_the_division_of_the_minibatch),
        cmocka_unit_test(another_size_and_back_gives_the_same_bits),
        cmocka_unit_test(the_number_of_threads_changes_nothing_but_rounding),
        cmocka_unit_test(an_evaluation_leaves_gradients_alone_and_drops_nothing),
        cmocka_unit_test(buckets_tile_the_block_backwards_and_are_complete_when_marked),
        cmocka_unit_test(programs_are_built_beside_a_running_one),
        cmocka_unit_test(steps_and_rebuilds_do_not_grow_the_memory),
        cmocka_unit_test(a_label_outside_the_outputs_is_an_error_that_names_the_sample),
        cmocka_unit_test(a_loss_that_is_not_finite_is_reported),
        cmocka_unit_test(samples_may_stand_at_any_address),
        cmocka_unit_test(memory_needed_covers_what_a_program_takes_and_not_much_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
