/* Optimizers against the formulas in plain double loops (PyTorch's SGD, Adam, AdamW), clipping, and
 * bits that do not depend on threads. */
#include "tests/kernels/bench.h"

static const char model[] =
    "{\"input\": [9, 9, 3], \"layers\": [{\"type\": \"conv2d\", \"filters\": 5, \"kernel\": 3}, "
    "{\"type\": \"relu\"},"
    "{\"type\": \"dense\", \"units\": 7}]}";

static void random_gradient(struct bench *b, uint64_t stream)
{
    for (size_t i = 0; i < b->net.n_params; i++) {
        b->replica.host[DEV_GRADS][i] = (float)rng_normal(4, stream, i);
    }
}

static bool decays(const struct network *net, size_t i)
{
    int t = 0;
    while (i >= net->tensors[t].first + net->tensors[t].count) {
        t++;
    }
    return net->tensors[t].decay;
}

/* Four steps on the device and in double; m1 doubles as velocity. */
static void check_optimizer(struct optimizer_spec o)
{
    enum { STEPS = 4 };
    struct bench *b = bench_new(bench_device(), model, &o);
    size_t n = b->net.n_params;
    double *w = calloc(n, sizeof(double)), *m1 = calloc(n, sizeof(double)),
           *m2 = calloc(n, sizeof(double));
    for (size_t i = 0; i < n; i++) {
        w[i] = (double)b->replica.host[DEV_PARAMS][i];
    }
    for (int step = 1; step <= STEPS; step++) {
        double scale = 0.5, lr = 0.1 / step, norm = 0;
        random_gradient(b, (uint64_t)step);
        for (size_t i = 0; i < n; i++) {
            norm += pow(scale * (double)b->replica.host[DEV_GRADS][i], 2);
        }
        norm = sqrt(norm);
        double clip = o.clip_norm > 0 && norm > o.clip_norm ? o.clip_norm / norm : 1;
        for (size_t i = 0; i < n; i++) {
            double u = clip * scale * (double)b->replica.host[DEV_GRADS][i],
                   decay = decays(&b->net, i) ? o.weight_decay : 0;
            if (o.type == CAT_OPTIMIZER_SGD) {
                u += decay * w[i];
                m1[i] = o.momentum * m1[i] + u;
                w[i] -= lr * (o.nesterov ? u + o.momentum * m1[i] : m1[i]);
                continue;
            }
            u += o.type == CAT_OPTIMIZER_ADAM ? decay * w[i] : 0;
            w[i] -= o.type == CAT_OPTIMIZER_ADAMW ? lr * decay * w[i] : 0;
            m1[i] = o.beta1 * m1[i] + (1 - o.beta1) * u;
            m2[i] = o.beta2 * m2[i] + (1 - o.beta2) * u * u;
            w[i] -= lr * (m1[i] / (1 - pow(o.beta1, step))) /
                    (sqrt(m2[i] / (1 - pow(o.beta2, step))) + o.eps);
        }
        assert_int_equal(b->dev->ops->store(&b->replica, DEV_GRADS, 0, n, &b->e), 0);
        assert_int_equal(b->dev->ops->update(&b->replica, lr, scale, &b->e), 0);
    }
    assert_int_equal(b->dev->ops->fetch(&b->replica, DEV_PARAMS, 0, n, &b->e), 0);
    for (size_t i = 0; i < n; i++) {
        assert_near((double)b->replica.host[DEV_PARAMS][i], w[i], 2e-6 * (1 + fabs(w[i])),
                    "parameter", i);
    }
    free(w);
    free(m1);
    free(m2);
    bench_free(b);
}

static void sgd_follows_its_formula(void **state)
{
    check_optimizer((struct optimizer_spec){.type = CAT_OPTIMIZER_SGD});
    check_optimizer((struct optimizer_spec){.type = CAT_OPTIMIZER_SGD, .weight_decay = 0.01});
    check_optimizer((struct optimizer_spec){.type = CAT_OPTIMIZER_SGD, .momentum = 0.9});
    check_optimizer(
        (struct optimizer_spec){.type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.01});
    check_optimizer((struct optimizer_spec){
        .type = CAT_OPTIMIZER_SGD, .momentum = 0.8, .weight_decay = 0.01, .nesterov = true});
}

static void adam_and_adamw_follow_their_formulas(void **state)
{
    struct optimizer_spec o = {
        .type = CAT_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    check_optimizer(o);
    o.weight_decay = 0.1;
    check_optimizer(o);
    o.type = CAT_OPTIMIZER_ADAMW;
    check_optimizer(o);
    o.beta1 = 0;
    o.eps = 1e-3;
    check_optimizer(o);
}

static void a_long_gradient_is_shortened_and_a_short_one_is_not(void **state)
{
    check_optimizer((struct optimizer_spec){
        .type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = 1.5, .weight_decay = 0.01});
    check_optimizer((struct optimizer_spec){.type = CAT_OPTIMIZER_SGD, .clip_norm = 1e6});
    check_optimizer((struct optimizer_spec){
        .type = CAT_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .clip_norm = 0.5});
}

static void clipping_and_steps_give_the_same_bits_with_any_number_of_threads(void **state)
{
    struct optimizer_spec o = {
        .type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = 0.1, .weight_decay = 1e-3};
    float *expected = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        char name[16];
        snprintf(name, sizeof(name), "cpu:%d", threads);
        struct bench *b = bench_new(name, "\"lenet5\"", &o);
        size_t bytes = b->net.n_params * sizeof(float);
        for (uint64_t step = 0; step < 2; step++) {
            random_gradient(b, step);
            b->dev->ops->update(&b->replica, 0.1, 1, &b->e);
        }
        if (!expected) {
            expected = malloc(bytes);
            memcpy(expected, b->replica.host[DEV_PARAMS], bytes);
        }
        assert_memory_equal(b->replica.host[DEV_PARAMS], expected, bytes);
        bench_free(b);
    }
    free(expected);
}

/* Parts of odd lengths that begin and end within tensors, from the end to the beginning and from
 * the middle on. */
static void a_step_in_parts_has_the_bits_of_a_whole_one(void **state)
{
    static const struct optimizer_spec optimizers[] = {
        {.type = CAT_OPTIMIZER_SGD, .weight_decay = 0.01},
        {.type = CAT_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
        {.type = CAT_OPTIMIZER_ADAMW,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .eps = 1e-8,
         .weight_decay = 0.1},
    };
    enum { PARTS = 5, STEPS = 3 };
    for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++) {
        struct bench *whole = bench_new("cpu:2", "\"lenet5\"", &optimizers[k]),
                     *parts = bench_new("cpu:2", "\"lenet5\"", &optimizers[k]);
        size_t n = whole->net.n_params;
        for (int step = 0; step < STEPS; step++) {
            random_gradient(whole, (uint64_t)step);
            random_gradient(parts, (uint64_t)step);
            assert_int_equal(whole->dev->ops->update(&whole->replica, 0.1, 0.5, &whole->e), 0);
            for (int i = 0; i < PARTS; i++) {
                size_t part = (size_t)(step % 2 ? PARTS - 1 - i : (i + 2) % PARTS),
                       first = n * part / PARTS;
                assert_int_equal(dev_update_part(&parts->replica, first,
                                                 n * (part + 1) / PARTS - first, 0.1, 0.5,
                                                 i == PARTS - 1, &parts->e),
                                 0);
            }
        }
        for (int b = 0; b < DEV_BLOCKS; b++) {
            assert_memory_equal(whole->replica.host[b], parts->replica.host[b],
                                whole->replica.count[b] * sizeof(float));
        }
        bench_free(whole);
        bench_free(parts);
    }
}

static void optimizer_state_has_the_size_that_the_optimizer_needs(void **state)
{
    struct network net = ref_network(model);
    struct optimizer_spec o = {.type = CAT_OPTIMIZER_SGD};
    assert_int_equal(dev_optim_floats(&net, &o), 0);
    o.momentum = 0.1;
    assert_int_equal(dev_optim_floats(&net, &o), net.n_params);
    o.type = CAT_OPTIMIZER_ADAM;
    assert_int_equal(dev_optim_floats(&net, &o), 2 * net.n_params + 1);
    network_release(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_follows_its_formula),
        cmocka_unit_test(adam_and_adamw_follow_their_formulas),
        cmocka_unit_test(a_long_gradient_is_shortened_and_a_short_one_is_not),
        cmocka_unit_test(clipping_and_steps_give_the_same_bits_with_any_number_of_threads),
        cmocka_unit_test(a_step_in_parts_has_the_bits_of_a_whole_one),
        cmocka_unit_test(optimizer_state_has_the_size_that_the_optimizer_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
