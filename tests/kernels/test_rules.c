/* Server rules: the loops that were compiled for several instruction sets against the formulas of
 * kernels/rules/, element by element in double.
 */
#include "kernels/rules/dc_asgd.h"
#include "tests/kernels/bench.h"

enum { N = 1003 };

struct shard {
    float w[N], v[N], m2[N], g[N], pulled[N];
    uint8_t decay[N];
};

static struct shard *shard_new(void)
{
    struct shard *s = calloc(1, sizeof(*s));
    for (size_t i = 0; i < N; i++) {
        s->w[i] = (float)rng_normal(1, 1, i);
        s->v[i] = (float)rng_normal(1, 2, i);
        s->m2[i] = (float)rng_double(1, 3, i);
        s->g[i] = (float)rng_normal(1, 4, i);
        s->pulled[i] = s->w[i] + 0.1f * (float)rng_normal(1, 5, i);
        s->decay[i] = i % 3 != 0;
    }
    return s;
}

static const struct rule_args common = {
    .lr = 0.1f, .factor = 0.75f, .momentum = 0.9f, .weight_decay = 0.01f, .tau = 3};

/* Runs the rule and leaves what was before in `before`. */
static struct shard *apply(enum rule rule, bool velocity, bool adaptive, bool decay,
                           const struct rule_args *args, struct shard **before)
{
    struct shard *s = shard_new();
    struct rule_state state = {.w = s->w,
                               .v = velocity ? s->v : NULL,
                               .m2 = adaptive ? s->m2 : NULL,
                               .decay = decay ? s->decay : NULL,
                               .n = N};
    struct rule_args a = *args;
    a.g = s->g;
    a.pulled = s->pulled;
    rule_apply(rule, &state, &a);
    *before = shard_new();
    struct shard *other = shard_new(); /* the same with the weights before elsewhere, which stay */
    struct rule_state elsewhere = {.w = other->w,
                                   .v = velocity ? other->v : NULL,
                                   .m2 = adaptive ? other->m2 : NULL,
                                   .decay = decay ? other->decay : NULL,
                                   .n = N,
                                   .from = (*before)->w};
    memset(other->w, 0, sizeof other->w);
    rule_apply(rule, &elsewhere, &a);
    assert_memory_equal(other, s, sizeof *s);
    free(other);
    return s;
}

static void check_plain(bool velocity, bool decay)
{
    struct shard *was, *s = apply(RULE_SGD, velocity, false, decay, &common, &was);
    for (size_t i = 0; i < N; i++) {
        double u =
            0.75 * ((double)was->g[i] + (decay && was->decay[i] ? 0.01 : 0) * (double)was->w[i]);
        double v = velocity ? 0.9 * (double)was->v[i] + u : u;
        assert_near((double)s->w[i], (double)was->w[i] - 0.1 * v, 1e-6, "w", i);
        assert_near((double)s->v[i], velocity ? v : (double)was->v[i], 1e-6, "v", i);
    }
    free(was);
    free(s);
}

static void plain_servers_make_a_momentum_step(void **state)
{
    for (int way = 0; way < 4; way++) {
        check_plain(way & 1, way & 2);
    }
}

static void dc_asgd_compensates_before_the_step(void **state)
{
    for (int way = 0; way < 8; way++) {
        bool velocity = way & 1, decay = way & 2, adaptive = way & 4;
        struct rule_args args = common;
        args.p0 = 0.04f;
        args.p1 = 0.95f;
        args.p2 = 1e-7f;
        struct shard *was, *s = apply(RULE_DC_ASGD, velocity, adaptive, decay, &args, &was);
        for (size_t i = 0; i < N; i++) {
            double g = (double)was->g[i], w = (double)was->w[i], lambda = 0.04;
            if (adaptive) {
                double ms = 0.95 * (double)was->m2[i] + 0.05 * g * g;
                lambda /= sqrt(ms + 1e-7);
                assert_near((double)s->m2[i], ms, 1e-6, "mean square", i);
            }
            double h = g + lambda * g * g * (w - (double)was->pulled[i]);
            double u = 0.75 * (h + (decay && was->decay[i] ? 0.01 : 0) * w);
            double v = velocity ? 0.9 * (double)was->v[i] + u : u;
            assert_near((double)s->w[i], w - 0.1 * v, 2e-6, "w", i);
        }
        free(was);
        free(s);
    }
}

static void without_eps_an_element_that_never_had_a_gradient_stays(void **state)
{
    float ms = 0;
    assert_true(rule_dc_adaptive(0.5f, 0.25f, &ms, 0, 2, 0.95f, 0) == 0 && ms == 0);
    assert_true(isfinite(rule_dc_adaptive(0.5f, 0.25f, &ms, 1e-30f, 2, 0.95f, 0)));
}

static void dc_asgd_without_lambda_is_asgd_bit_for_bit(void **state)
{
    struct shard *was, *a = apply(RULE_SGD, true, false, true, &common, &was);
    free(was);
    struct shard *b = apply(RULE_DC_ASGD, true, false, true, &common, &was);
    assert_memory_equal(a->w, b->w, sizeof(a->w));
    assert_memory_equal(a->v, b->v, sizeof(a->v));
    free(was);
    free(a);
    free(b);
}

static void trust_weighs_the_kept_step_against_the_gradient(void **state)
{
    for (int way = 0; way < 2; way++) {
        bool decay = way;
        struct rule_args args = common;
        args.p0 = 0.75f;
        args.p1 = 0.25f;
        struct shard *was, *s = apply(RULE_TRUST, true, false, decay, &args, &was);
        for (size_t i = 0; i < N; i++) {
            double u = 0.75 * ((double)was->g[i] +
                               (decay && was->decay[i] ? 0.01 : 0) * (double)was->w[i]);
            double d = 0.75 * (double)was->v[i] - 0.25 * 0.1 * u;
            assert_near((double)s->v[i], d, 1e-6, "d", i);
            assert_near((double)s->w[i], (double)was->w[i] + d, 1e-6, "w", i);
        }
        free(was);
        free(s);
    }
}

static void a_group_is_summed_with_each_gradients_own_weight(void **state)
{
    struct shard *s = shard_new();
    float sum[N] = {0};
    struct rule_state state_of = {.w = s->w, .decay = s->decay, .n = N};
    struct rule_args a = common;
    a.g = s->g;
    rule_gather(sum, &state_of, &a);
    a.factor = 0.25f;
    rule_gather(sum, &state_of, &a);
    for (size_t i = 0; i < N; i++) {
        double expected = 1.0 * ((double)s->g[i] + (s->decay[i] ? 0.01 : 0) * (double)s->w[i]);
        assert_near((double)sum[i], expected, 1e-6, "sum", i);
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_servers_make_a_momentum_step),
        cmocka_unit_test(dc_asgd_compensates_before_the_step),
        cmocka_unit_test(without_eps_an_element_that_never_had_a_gradient_stays),
        cmocka_unit_test(dc_asgd_without_lambda_is_asgd_bit_for_bit),
        cmocka_unit_test(trust_weighs_the_kept_step_against_the_gradient),
        cmocka_unit_test(a_group_is_summed_with_each_gradients_own_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
