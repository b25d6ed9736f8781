/* Graphs: what is captured, how often, and what a step starts; and that a fused step gives the bits
 * of compute and update. Only stand-ins can tell what is captured, so on a real GPU (make
 * check-gpu) those tests are skipped.
 */
#include "tests/cuda/judge.h"

static void graphs_are_captured_once_per_minibatch_and_the_update_once(void **state)
{
    const struct standin_control *c = judge_need_control();
    c->fail_at(0);
    struct judge *j = judge_new(judge_small, &judge_adam, "fp32");
    assert_int_equal(c->captures(), 1); /* the update, with the replica */
    struct dev_program *a = judge_program(j, &j->on_gpu, 4), *b = judge_program(j, &j->on_gpu, 6);
    int parts = ((struct dev_program_head *)a)->n_buckets;
    assert_int_equal(c->captures(),
                     1 + 2 * (parts + 1)); /* each bucket's part, and the evaluation */
    long captured = c->captures(), kernels = c->kernels();
    for (int step = 0; step < 10; step++) { /* other samples, counts, rates, epochs: nothing is
                                               captured or launched singly again */
        struct dev_input in = ref_input(&j->net, 4 - step % 3, (uint64_t)step);
        in.epoch = step;
        in.training = step % 4 != 3;
        judge_compute(j, step % 2 ? a : b, &in, NULL);
        judge_ok(j, j->gpu->ops->update(&j->on_gpu, 0.1 / (step + 1), 1.0 / (step + 2), &j->e));
        ref_input_free(&in);
    }
    assert_int_equal(c->captures(), captured);
    assert_int_equal(c->kernels(), kernels);
    j->gpu->ops->program_free(a);
    j->gpu->ops->program_free(b);
    judge_free(j);
}

/* Steps of two sizes in turns, with other samples and rates; what the replica holds then. whole:
 * each is one call, else compute and update. */
static void some_steps(struct judge *j, bool whole, float *out)
{
    const struct device_ops *ops = j->gpu->ops;
    size_t n = j->net.n_params;
    j->on_gpu.alone = true;
    struct dev_program *a = judge_program(j, &j->on_gpu, 4), *b = judge_program(j, &j->on_gpu, 6);
    for (int step = 0; step < 8; step++) {
        struct dev_program *p = step % 3 == 1 ? b : a;
        struct dev_input in = ref_input(&j->net, 4 - step % 2, (uint64_t)step);
        struct dev_result result;
        double lr = 0.1 / (step + 1), scale = 1.0 / (step + 2);
        in.epoch = step;
        if (whole) {
            judge_ok(j, ops->fused->step(p, &in, lr, scale, &result, &j->e));
        } else {
            result = judge_compute(j, p, &in, NULL);
            judge_ok(j, ops->update(&j->on_gpu, lr, scale, &j->e));
        }
        assert_true(result.finite && result.loss > 0);
        *out++ = (float)result.loss;
        if (step == 4) { /* an update that nobody has waited for, then a step: they share what
                            updates read */
            judge_ok(j, ops->update(&j->on_gpu, 0.01, 0.5, &j->e));
        }
        if (step == 5) { /* parameters from elsewhere, as after a reduction */
            judge_copy(j, DEV_PARAMS);
        }
        ref_input_free(&in);
    }
    judge_fetch(j, DEV_PARAMS);
    judge_fetch(j, DEV_OPTIM);
    judge_fetch(j, DEV_STATS);
    memcpy(out, j->on_gpu.host[DEV_PARAMS], n * sizeof(float));
    memcpy(out + n, j->on_gpu.host[DEV_OPTIM], j->on_gpu.count[DEV_OPTIM] * sizeof(float));
    memcpy(out + n + j->on_gpu.count[DEV_OPTIM], j->on_gpu.host[DEV_STATS],
           j->net.n_stat_floats * sizeof(float));
    ops->program_free(a);
    ops->program_free(b);
}

/* This one holds on a real GPU too. */
static void a_step_in_one_gives_the_bits_of_compute_and_update(void **state)
{
    static const char *const precisions[] = {"fp32", "bf16"};
    const struct standin_control *c = judge_control();
    for (int i = 0; i < 2; i++) {
        float *results[3];
        size_t bytes = 0;
        for (int way = 0; way < 3; way++) { /* two calls; one; one, of which work runs at once */
            if (c) {
                c->set_eager(way == 2);
            }
            struct judge *j = judge_new(judge_small, &judge_adam, precisions[i]);
            bytes = (8 + j->net.n_params + j->on_gpu.count[DEV_OPTIM] + j->net.n_stat_floats) *
                    sizeof(float);
            results[way] = calloc(1, bytes);
            some_steps(j, way > 0, results[way]);
            judge_free(j);
        }
        if (c) {
            c->set_eager(0);
        }
        assert_memory_equal(results[1], results[0], bytes);
        assert_memory_equal(results[2], results[0], bytes);
        for (int way = 0; way < 3; way++) {
            free(results[way]);
        }
    }
}

static void a_step_of_one_that_is_alone_is_one_graph(void **state)
{
    const struct standin_control *c = judge_need_control();
    c->fail_at(0);
    struct judge *j = judge_new(judge_small, &judge_adam, "fp32");
    struct dev_program *others = judge_program(j, &j->on_gpu, 4);
    long with_others = c->captures();
    struct dev_input in = ref_input(&j->net, 4, 1);
    struct dev_result result;
    assert_int_equal(dev_step(others, &in, 0.1, 1, &result, &j->e), -ERR_INTERNAL);
    j->on_gpu.alone = true;
    struct dev_program *p = judge_program(j, &j->on_gpu, 4);
    assert_int_equal(c->captures(), 2 * with_others); /* the update was captured with the replica; a
                                                         whole step with this program */
    long captured = c->captures(), kernels = c->kernels(), launches = c->launches();
    for (int step = 0; step < 6; step++) {
        in.count = 4 - step % 3;
        judge_ok(j, dev_step(p, &in, 0.1 / (step + 1), 1, &result, &j->e));
    }
    assert_int_equal(c->captures(), captured);
    assert_int_equal(c->kernels(), kernels);
    assert_int_equal(c->launches(), launches + 6);
    in.training = false;
    assert_int_equal(dev_step(p, &in, 0.1, 1, &result, &j->e), -ERR_INTERNAL);
    ref_input_free(&in);
    j->gpu->ops->program_free(others);
    j->gpu->ops->program_free(p);
    judge_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_captured_once_per_minibatch_and_the_update_once),
        cmocka_unit_test(a_step_in_one_gives_the_bits_of_compute_and_update),
        cmocka_unit_test(a_step_of_one_that_is_alone_is_one_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
