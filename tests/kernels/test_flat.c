/* Loops over flat blocks: at lengths that no register divides, bit for bit what a plain loop gives.
 */
#include "kernels/flat.h"
#include "tests/kernels/bench.h"

enum { N = 1003 };
static const size_t lengths[] = {0, 1, 7, 8, 16, 17, 63, N};

struct blocks {
    float a[N], b[N], c[N];
    uint8_t decays[N];
};

static struct blocks *blocks_new(void)
{
    struct blocks *s = calloc(1, sizeof(*s));
    for (size_t i = 0; i < N; i++) {
        s->a[i] = (float)rng_normal(1, 1, i);
        s->b[i] = (float)rng_normal(1, 2, i);
        s->c[i] = (float)rng_normal(1, 3, i);
        s->decays[i] = i % 3 != 0;
    }
    return s;
}

static void bytes_become_what_the_table_says(void **state)
{
    float table[256], to[N];
    uint8_t from[N];
    for (size_t v = 0; v < 256; v++) {
        table[v] = (float)rng_normal(2, 1, v);
    }
    for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
        for (size_t i = 0; i < N; i++) {
            from[i] = (uint8_t)(7 * i);
            to[i] = -9;
        }
        flat_look_up(to, from, table, lengths[k]);
        for (size_t i = 0; i < N; i++) {
            assert_true(to[i] == (i < lengths[k] ? table[from[i]] : -9));
        }
    }
}

/* Of the first n elements; the rest is as it was. */
static void sums_differences_and_shares_are_those_of_a_plain_loop(void **state)
{
    for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
        struct blocks *s = blocks_new(), *was = blocks_new();
        flat_add(s->a, s->b, lengths[k]);
        flat_subtract(s->b, s->c, lengths[k]);
        flat_scale(s->c, s->c, 0.3f, lengths[k]);
        for (size_t i = 0; i < N; i++) {
            bool in = i < lengths[k];
            float sum = was->a[i] + (in ? was->b[i] : 0),
                  difference = was->b[i] - (in ? was->c[i] : 0),
                  share = in ? 0.3f * was->c[i] : was->c[i];
            assert_true(s->a[i] == sum && s->b[i] == difference && s->c[i] == share);
        }
        free(s);
        free(was);
    }
}

static void a_step_moves_the_weights_and_collects_what_it_did(void **state)
{
    const struct flat_step step = {.scale = 0.5f, .decay = 0.01f, .rate = 0.1f, .weight = 0.025f};
    struct blocks *s = blocks_new(), *was = blocks_new();
    flat_descend(s->a, s->b, s->c, s->decays, &step, N);
    for (size_t i = 0; i < N; i++) {
        float decayed = i % 3 != 0 ? 0.01f * was->a[i] : 0, u = 0.5f * was->c[i] + decayed,
              moved = 0.1f * u, kept = 0.025f * u;
        assert_true(s->a[i] == was->a[i] - moved && s->b[i] == was->b[i] + kept);
    }
    free(s);
    free(was);
}

static void a_distance_is_a_length(void **state)
{
    for (size_t k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
        struct blocks *s = blocks_new();
        double squares = 0;
        for (size_t i = 0; i < lengths[k]; i++) {
            squares += ((double)s->a[i] - (double)s->b[i]) * ((double)s->a[i] - (double)s->b[i]);
        }
        double is = flat_distance(s->a, s->b, lengths[k]);
        assert_true(fabs(is - sqrt(squares)) <= 1e-14 * is);
        free(s);
    }
}

static void the_largest_may_stand_anywhere_and_is_no_nan(void **state)
{
    float a[N];
    for (size_t i = 0; i < N; i++) {
        a[i] = -1;
    }
    assert_true(flat_largest(a, N) == 0 && flat_largest(a, 0) == 0);
    for (size_t i = 0; i < N; i++) {
        a[i] = 2.5f;
        a[i == 0 ? 1 : i - 1] = NAN;
        assert_true(flat_largest(a, N) == 2.5f && flat_largest(a, i + 1) == 2.5f);
        assert_true(i == 0 || flat_largest(a, i) == 0);
        a[i] = a[i == 0 ? 1 : i - 1] = -1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_what_the_table_says),
        cmocka_unit_test(sums_differences_and_shares_are_those_of_a_plain_loop),
        cmocka_unit_test(a_step_moves_the_weights_and_collects_what_it_did),
        cmocka_unit_test(a_distance_is_a_length),
        cmocka_unit_test(the_largest_may_stand_anywhere_and_is_no_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
