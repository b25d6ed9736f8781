/* The loader: whatever the hints say, the samples are those of the slice asked for, and they are there for the whole step. */
#include "fixture.h"

#include "worker/data/loader.h"

enum { SAMPLES = 500 };
static struct data_spec spec_ = {.format = CAT_FORMAT_GLYPHS, .samples = SAMPLES, .test_samples = 40, .shuffle = true, .normalize_unit = true};

static int setup(void **state)
{
    struct dataset *d = calloc(1, sizeof *d);
    OK(dataset_open(d, &spec_, 3, "", &err_));
    *state = d;
    return 0;
}

static int teardown(void **state)
{
    dataset_release(*state);
    free(*state);
    return 0;
}

static void assert_is_slice(const struct dataset *d, const struct slice *s, const struct dev_input *in)
{
    assert_int_equal(in->count, s->count);
    assert_int_equal(in->epoch, s->epoch);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t index = sample_index(3, s->epoch, s->start + i, SAMPLES, true);
        assert_int_equal(in->sample[i], index);
        assert_int_equal(((const int32_t *)in->y)[i], ((const int32_t *)d->train.y)[index]);
        assert_true(in->x[i * 784 + 400] == (float)((const uint8_t *)d->train.x)[index * 784 + 400] / 255.0f);
    }
}

static void every_slice_is_right_with_right_wrong_and_no_hints(void **state)
{
    struct dataset *d = *state;
    for (int threaded = 0; threaded < 2; threaded++) {
        struct loader l;
        struct cursor c;
        struct slice now, next, wrong = {5, 7, 9};
        OK(loader_start(&l, d, &spec_, 3, 32, threaded, &err_));
        cursor_init(&c, SAMPLES, 4);
        bool more = cursor_take(&c, 32, &now);
        for (int i = 0; more; i++) {
            struct dev_input in = {0};
            more = cursor_take(&c, 8 + i % 50, &next);
            OK(loader_get(&l, &now, &in, &err_));
            if (more && i % 3 != 2) {
                loader_hint(&l, i % 3 == 0 ? &next : &wrong);
            }
            assert_is_slice(d, &now, &in);
            assert_true(in.training);
            now = next;
        }
        loader_stop(&l);
    }
}

static void what_was_given_stays_while_the_next_slice_is_gathered(void **state)
{
    struct dataset *d = *state;
    struct loader l;
    struct slice a = {0, 0, 16}, b = {0, 16, 400};
    struct dev_input in = {0}, later = {0};
    OK(loader_start(&l, d, &spec_, 3, 16, true, &err_));
    OK(loader_get(&l, &a, &in, &err_));
    loader_hint(&l, &b); /* larger than the room: the other slot grows */
    assert_is_slice(d, &a, &in);
    OK(loader_get(&l, &b, &later, &err_));
    assert_is_slice(d, &a, &in);
    assert_is_slice(d, &b, &later);
    loader_stop(&l);
}

static void test_samples_come_in_the_order_of_the_file(void **state)
{
    struct dataset *d = *state;
    struct loader l;
    struct slice hinted = {0, 20, 20};
    struct dev_input in = {0};
    OK(loader_start(&l, d, &spec_, 3, 8, true, &err_));
    loader_hint(&l, &hinted);
    OK(loader_get_test(&l, 20, 20, &in, &err_));
    assert_false(in.training);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(in.sample[i], 20 + i);
        assert_int_equal(((const int32_t *)in.y)[i], ((const int32_t *)d->test.y)[20 + i]);
    }
    loader_stop(&l);
}

static void a_slice_beyond_the_samples_is_an_error(void **state)
{
    struct loader l;
    struct slice beyond = {0, SAMPLES - 3, 4};
    struct dev_input in = {0};
    OK(loader_start(&l, *state, &spec_, 3, 8, true, &err_));
    loader_hint(&l, &beyond);
    FAILS(loader_get(&l, &beyond, &in, &err_), ERR_INTERNAL, "a slice of 4 samples from 497 on is not within 500");
    loader_stop(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slice_is_right_with_right_wrong_and_no_hints),
        cmocka_unit_test(what_was_given_stays_while_the_next_slice_is_gathered),
        cmocka_unit_test(test_samples_come_in_the_order_of_the_file),
        cmocka_unit_test(a_slice_beyond_the_samples_is_an_error),
    };
    return cmocka_run_group_tests_name("loader", tests, setup, teardown);
}
