/* The meter: every kernel that a program, an update, a copy or a rule starts is reported once, in
 * order, with the bytes and operations that it needs. Times are the stand-ins' here and mean
 * nothing; on a GPU they are what bench-gpu prints.
 */
#include "tests/cuda/judge.h"

static const char model[] =
    "{\"input\": [6, 6, 2], \"layers\": [{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3, "
    "\"padding\": 1}, {\"type\": \"relu\"},"
    "{\"type\": \"max_pool\", \"size\": 2}, {\"type\": \"dense\", \"units\": 3}]}";

struct expected {
    const char *kernel;
    double bytes, flops;
};

/* Worked out by hand for a minibatch of 4: 576 elements behind the convolution, 144 behind the
 * pool, 12 outputs; one chunk of rows everywhere. */
static const struct expected of_program[] = {
    {"conv.forward", 0, 2 * 576 * 9 * 2}, /* its bias and relu are the pool's */
    {"pool.max_forward", 576 * 4 + 144 * 5, 0},
    {"dense.product", 0, 2 * 4 * 3 * 36},
    {"pointwise.add_bias", 2 * 12 * 4, 0},
    {"loss.softmax_cross_entropy", 2 * 12 * 4 + 4 * 28, 0},
    {"pointwise.mask_and_sum", 12 * 4 + 2 * 3 * 4, 0},
    {"dense.product", 0, 864},
    {"dense.product", 0, 864},
    {"pool.max_backward", 576 * 4 + 144 * 5 + 144 * 4, 0},
    {"pointwise.mask_and_sum", 576 * 4 + 2 * 4 * 4, 0},
    {"conv.filter", 0, 20736}, /* nobody wants the gradient of the input */
    /* the evaluation */
    {"conv.forward", 0, 20736},
    {"pool.max_forward", 576 * 4 + 144 * 5, 0},
    {"dense.product", 0, 864},
    {"pointwise.add_bias", 2 * 12 * 4, 0},
    {"loss.softmax_cross_entropy", 12 * 4 + 4 * 28, 0},
};
/* Tensors begin at multiples of 64 floats: 128 + 64 + 128 + 64 on the device, 72 + 4 + 108 + 3 in
 * the flat block. */
static const struct expected of_the_rest[] = {
    {"update.step", 384 * 3 * 4 + 384 / 64, 0},
    {"replica.gather", 187 * 8, 0},
    {"replica.scatter", 187 * 8, 0},
    {"elements.sum", 187 * 12, 0},
    {"rule.apply_trust", 100 * (3 + 2) * 4, 0},
    {"rule.apply_dc_asgd", 100 * (3 + 2 + 2 + 1) * 4, 0},
    {"rule.apply_dc_asgd", 2 * (3 + 1) * 4, 0},
};

static void check_rows(json_t *rows, const struct expected *want, size_t n)
{
    assert_int_equal(json_array_size(rows), n);
    for (size_t i = 0; i < n; i++) {
        const char *kernel;
        double bytes, flops, seconds;
        assert_int_equal(json_unpack(json_array_get(rows, i), "{s:s, s:f, s:f, s:f}", "kernel",
                                     &kernel, "bytes", &bytes, "flops", &flops, "seconds",
                                     &seconds),
                         0);
        if (strcmp(kernel, want[i].kernel) != 0 || bytes != want[i].bytes ||
            flops != want[i].flops || !(seconds >= 0)) {
            fail_msg("row %zu: %s moves %g bytes and makes %g operations, not %s %g %g", i, kernel,
                     bytes, flops, want[i].kernel, want[i].bytes, want[i].flops);
        }
    }
    json_decref(rows);
}

static void every_kernel_is_told_of_with_its_bytes_and_operations(void **state)
{
    struct judge *j = judge_new(model, NULL, "fp32");
    const struct device_ops *ops = j->gpu->ops;
    struct dev_program *warm = judge_program(j, &j->on_gpu, 4);
    ops->meter->begin(j->gpu);
    struct dev_program *p = judge_program(j, &j->on_gpu, 4);
    struct dev_input in = ref_input(&j->net, 4, 1);
    judge_compute(j, p, &in, NULL); /* graphs: nothing to tell */
    check_rows(ops->meter->end(j->gpu), of_program, sizeof(of_program) / sizeof(*of_program));
    judge_compute(j, p, &in, NULL);
    judge_ok(j, ops->update(&j->on_gpu, 0.1, 1, &j->e)); /* not metered */
    judge_fetch(j, DEV_PARAMS);
    float before = j->on_gpu.host[DEV_PARAMS][0];
    judge_fetch(j, DEV_GRADS);

    struct judge_memory m = judge_alloc(1000 * sizeof(float));
    static const float zeros[1000];
    judge_upload(&m, 0, zeros, sizeof(zeros));
    float *x = m.at;
    struct rule_state s = {.w = x, .v = x + 100, .n = 100};
    struct rule_args a = {.g = x + 200, .pulled = x + 400, .lr = 0.1f, .factor = 1};
    ops->meter->begin(j->gpu);
    judge_ok(j,
             ops->update(&j->on_gpu, 0.1, 1, &j->e)); /* kernel by kernel: a step as every other */
    judge_fetch(j, DEV_PARAMS);
    judge_store(j, DEV_PARAMS);
    judge_ok(j, ops->memory->add(j->gpu, x, x + 300, 187, &j->e));
    judge_ok(j, ops->rules->apply(j->gpu, RULE_TRUST, &s, &a, &j->e));
    s.m2 = x + 300;
    judge_ok(j, ops->rules->apply(j->gpu, RULE_DC_ASGD, &s, &a, &j->e));
    s = (struct rule_state){.w = x + 1, .n = 2}; /* not aligned, and less than a pack */
    judge_ok(j, ops->rules->apply(j->gpu, RULE_DC_ASGD, &s, &a, &j->e));
    check_rows(ops->meter->end(j->gpu), of_the_rest, sizeof(of_the_rest) / sizeof(*of_the_rest));
    assert_near(j->on_gpu.host[DEV_PARAMS][0], before - 0.1f * j->on_gpu.host[DEV_GRADS][0], 1e-6,
                "parameter", 0);
    judge_give_back(&m);
    ref_input_free(&in);
    ops->program_free(p);
    ops->program_free(warm);
    judge_free(j);
}

static void a_sum_behind_a_batch_norm_starts_no_kernel(void **state)
{
    struct judge *j = judge_new(
        "{\"input\": [6, 6, 2], \"layers\": [{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3, "
        "\"padding\": 1, \"name\": \"a\"},"
        "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": 3, \"padding\": 1}, "
        "{\"type\": \"batch_norm\", \"name\": \"n\"},"
        "{\"type\": \"add\", \"inputs\": [\"n\", \"a\"]}, {\"type\": \"relu\"}, "
        "{\"type\": \"dense\", \"units\": 3}]}",
        NULL, "fp32");
    const struct device_ops *ops = j->gpu->ops;
    size_t i, norms = 0;
    json_t *row;
    ops->meter->begin(j->gpu);
    struct dev_program *p = judge_program(j, &j->on_gpu, 4);
    json_t *rows = ops->meter->end(j->gpu);
    json_array_foreach(rows, i, row) {
        const char *kernel = json_string_value(json_object_get(row, "kernel"));
        assert_true(strncmp(kernel, "join.", 5) != 0 && strcmp(kernel, "elements.sum") != 0 &&
                    strcmp(kernel, "elements.mask") != 0);
        if (strcmp(kernel, "batch_norm.apply") == 0) {
            norms++;
            assert_true(json_number_value(json_object_get(row, "bytes")) ==
                        3 * 4 * 144 * 4); /* both summands, and the sum */
        }
    }
    assert_int_equal(norms, 2); /* training, evaluation */
    json_decref(rows);
    ops->program_free(p);
    judge_free(j);
}

static void the_meter_keeps_nothing(void **state)
{
    const struct standin_control *c = judge_control();
    if (!c) {
        skip();
    }
    long before = c->live();
    struct judge *j = judge_new(model, NULL, "bf16");
    j->gpu->ops->meter->begin(j->gpu);
    j->gpu->ops->program_free(judge_program(j, &j->on_gpu, 4));
    j->gpu->ops->meter->begin(j->gpu); /* begun again: what was there is forgotten */
    json_t *rows = j->gpu->ops->meter->end(j->gpu);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    judge_free(j);
    assert_int_equal(c->live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_is_told_of_with_its_bytes_and_operations),
        cmocka_unit_test(a_sum_behind_a_batch_norm_starts_no_kernel),
        cmocka_unit_test(the_meter_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
