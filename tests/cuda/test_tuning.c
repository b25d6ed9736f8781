/* Which engines of cuDNN a program uses, as only stand-ins can show: what is measured, kept for
 * later processes and borrowed of another minibatch, and what is said where no engine will do.
 *
 * On a real GPU (make check-gpu) these tests are skipped: they ask and tell the stand-ins
 * (standin/control.h).
 */
#include "tests/cuda/judge.h"

/* How often engines were looked for for a program of this minibatch; it trains a step. */
static long measured_for(struct judge *j, int batch)
{
    const struct standin_control *c = judge_need_control();
    c->fail_at(0);
    struct dev_program *p = judge_program(j, &j->on_gpu, batch);
    struct dev_input in = ref_input(&j->net, batch, 1);
    judge_compute(j, p, &in, NULL);
    ref_input_free(&in);
    j->gpu->ops->program_free(p);
    return c->measured();
}

static void what_was_measured_is_told_once_and_not_measured_again_by_a_later_process(void **state)
{
    struct judge *first = judge_new(judge_small, NULL, "fp32"),
                 *later = judge_new(judge_small, NULL, "fp32");
    assert_null(dev_tuning(first->gpu));
    assert_true(measured_for(first, 4) > 0);
    json_t *tuning = dev_tuning(first->gpu);
    assert_non_null(tuning);
    assert_null(dev_tuning(first->gpu));
    assert_int_equal(measured_for(first, 3), 0); /* its power of two is known */
    assert_null(dev_tuning(first->gpu));
    dev_tune(later->gpu, tuning);
    assert_null(dev_tuning(later->gpu));
    assert_int_equal(measured_for(later, 4), 0);
    long more = measured_for(later, 5);
    assert_true(more > 0);
    json_t *both = dev_tuning(later->gpu); /* what it was given too */
    assert_int_equal(json_array_size(json_object_get(both, "choices")),
                     2 * json_array_size(json_object_get(tuning, "choices")));
    json_decref(tuning);
    json_decref(both);
    judge_free(first);
    judge_free(later);
}

static void a_minibatch_that_has_to_be_ready_borrows_the_engines_of_another(void **state)
{
    setenv("EVENSTEP_CUDA_MEASURE_SECONDS", "0", 1);
    struct judge *j = judge_new(judge_small, NULL, "fp32");
    assert_true(measured_for(j, 4) > 0); /* nothing to borrow */
    json_t *four = dev_tuning(j->gpu);
    assert_int_equal(measured_for(j, 8), 0);
    assert_int_equal(measured_for(j, 33), 0);
    assert_null(dev_tuning(j->gpu)); /* borrowed is not measured */
    judge_free(j);
    unsetenv("EVENSTEP_CUDA_MEASURE_SECONDS");
    j = judge_new(judge_small, NULL, "fp32");
    dev_tune(j->gpu, four);
    assert_true(measured_for(j, 8) > 0); /* there is time */
    json_decref(four);
    judge_free(j);
}

static void tuning_that_is_not_of_this_gpu_or_was_altered_does_no_harm(void **state)
{
    struct judge *j = judge_new(judge_small, NULL, "fp32");
    long all = measured_for(j, 4);
    json_t *tuning = dev_tuning(j->gpu), *row;
    judge_free(j);
    for (int i = 0; i < 8; i++) {
        json_t *bad = json_deep_copy(tuning);
        json_t *list = json_object_get(bad, "choices");
        size_t k;
        if (i == 0) {
            json_object_set_new(bad, "device", json_string("another GPU, cuDNN 1"));
        } else if (i == 1) {
            json_object_set_new(bad, "choices", json_string("none"));
        }
        json_array_foreach(list, k, row) {
            json_t *key = json_array_get(row, 0),
                   *engine = json_array_get(json_array_get(row, 1), 0);
            if (i == 2) {
                json_array_set_new(engine, 0, json_integer(999)); /* no such engine */
            } else if (i == 3) {
                json_array_clear(engine);
                json_array_append_new(engine, json_integer(2)); /* rounds to half precision */
            } else if (i == 4) {
                json_array_set_new(key, 3, json_string("x"));
            } else if (i == 5) {
                json_array_remove(key, 0);
            } else if (i == 6) {
                json_array_remove(engine, 1);
            } else if (i == 7) {
                json_array_set_new(engine, 2, json_integer(77)); /* no such knob */
            }
        }
        j = judge_new(judge_small, NULL, "fp32");
        dev_tune(j->gpu, bad);
        dev_tune(j->gpu, json_array_get(list, 0));
        dev_tune(j->gpu, NULL);
        bool one_pass = i == 2 || i == 3 || i == 7; /* the others are as good as before */
        assert_int_equal(measured_for(j, 4), one_pass ? (long)json_array_size(list) : all);
        assert_int_equal(measured_for(j, 3), 0);
        judge_free(j);
        json_decref(bad);
    }
    json_decref(tuning);
}

/* Computed in another arithmetic, the gradient would be off by a thousand times the bound. */
static void fp32_is_fp32_where_no_engine_is_repeatable_and_refused_where_none_has_it(void **state)
{
    const struct standin_control *c = judge_need_control();
    c->set_shy(2);
    struct judge *j = judge_new(judge_small, NULL, "fp32");
    struct dev_program *a = judge_program(j, &j->on_cpu, 4), *b = judge_program(j, &j->on_gpu, 4);
    struct dev_input in = ref_input(&j->net, 4, 5);
    judge_compute(j, a, &in, NULL);
    judge_compute(j, b, &in, NULL);
    judge_fetch(j, DEV_GRADS);
    assert_true(judge_gradient_error(j) < 1e-5);
    c->set_shy(1);
    assert_null(j->gpu->ops->program_new(&j->on_gpu, 9, 1 << 20, &j->e));
    c->set_shy(0);
    assert_int_equal(j->e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(j->e.message, "the convolution: cuDNN has no engine"));
    ref_input_free(&in);
    j->cpu->ops->program_free(a);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

static const char twice_the_same[] =
    "{\"input\": [5, 4, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 3, \"kernel\": 3, "
    "\"padding\": 1},"
    "{\"type\": \"conv2d\", \"filters\": 3, \"kernel\": 3, \"padding\": 1}, "
    "{\"type\": \"dense\", \"units\": 4}]}";
static const char once[] =
    "{\"input\": [5, 4, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 3, \"kernel\": 3, "
    "\"padding\": 1},"
    "{\"type\": \"dense\", \"units\": 4}]}";

static void
the_gradient_of_a_first_layers_input_is_measured_when_a_later_layer_needs_it(void **state)
{
    struct judge *first = judge_new(once, NULL, "fp32"),
                 *both = judge_new(twice_the_same, NULL, "fp32"),
                 *later = judge_new(twice_the_same, NULL, "fp32");
    assert_int_equal(measured_for(first, 4), 2);
    json_t *some = dev_tuning(first->gpu);
    dev_tune(both->gpu, some);
    assert_int_equal(measured_for(both, 4), 1);
    json_t *all = dev_tuning(both->gpu);
    assert_non_null(all);
    assert_int_equal(json_array_size(json_object_get(all, "choices")), 1);
    dev_tune(later->gpu, all);
    assert_int_equal(measured_for(later, 4), 0);
    json_decref(some);
    json_decref(all);
    judge_free(first);
    judge_free(both);
    judge_free(later);
}

static void engines_are_borrowed_of_a_minibatch_that_has_them_all(void **state)
{
    setenv("EVENSTEP_CUDA_MEASURE_SECONDS", "0", 1);
    struct judge *first = judge_new(once, NULL, "fp32"),
                 *both = judge_new(twice_the_same, NULL, "fp32");
    assert_int_equal(measured_for(first, 4), 2);
    json_t *some = dev_tuning(first->gpu);
    dev_tune(both->gpu, some);
    assert_int_equal(measured_for(both, 8), 3); /* of the second convolution alone */
    unsetenv("EVENSTEP_CUDA_MEASURE_SECONDS");
    json_decref(some);
    judge_free(first);
    judge_free(both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_told_once_and_not_measured_again_by_a_later_process),
        cmocka_unit_test(a_minibatch_that_has_to_be_ready_borrows_the_engines_of_another),
        cmocka_unit_test(tuning_that_is_not_of_this_gpu_or_was_altered_does_no_harm),
        cmocka_unit_test(
            the_gradient_of_a_first_layers_input_is_measured_when_a_later_layer_needs_it),
        cmocka_unit_test(engines_are_borrowed_of_a_minibatch_that_has_them_all),
        cmocka_unit_test(fp32_is_fp32_where_no_engine_is_repeatable_and_refused_where_none_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
