/* The loader: whatever the hints are, the samples are those of the requested slice, and they stay
 * valid for the whole step. */
#include "fixture.h"

#include <stdatomic.h>

#include "common/clock.h"
#include "worker/data/loader.h"

enum { SAMPLES = 500 };
static struct data_spec spec_ = {.format = CAT_FORMAT_GLYPHS,
                                 .samples = SAMPLES,
                                 .test_samples = 40,
                                 .shuffle = true,
                                 .normalize_unit = true};

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

static void assert_is_slice(const struct dataset *d, const struct slice *s,
                            const struct dev_input *in)
{
    assert_int_equal(in->count, s->count);
    assert_int_equal(in->epoch, s->epoch);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t index = sample_index(3, s->epoch, s->start + i, SAMPLES, true);
        assert_int_equal(in->sample[i], index);
        assert_int_equal(((const int32_t *)in->y)[i], ((const int32_t *)d->train.y)[index]);
        assert_true(in->x[i * 784 + 400] ==
                    (float)((const uint8_t *)d->train.x)[index * 784 + 400] / 255.0f);
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
    FAILS(loader_get(&l, &beyond, &in, &err_), ERR_INTERNAL,
          "a slice of 4 samples from 497 on is not within 500");
    loader_stop(&l);
}

/* ---- a device that takes samples through feeds ----------------------------------------------- */

struct dev_feed {
    float *x;
    size_t room;
    _Atomic size_t sent;
    _Atomic float last; /* of the samples sent last */
};
static atomic_int feeds, sends, feeds_most = 100;

static struct dev_feed *feed_new(struct device *dev, size_t floats, float **x, struct err *e)
{
    if (feeds >= feeds_most) {
        err_set(e, ERR_MEMORY, "memory of the device ran out");
        return NULL;
    }
    struct dev_feed *f = calloc(1, sizeof *f);
    f->x = *x = malloc(floats * sizeof(float));
    f->room = floats;
    feeds++;
    return f;
}

static void feed_free(struct dev_feed *f)
{
    free(f->x);
    free(f);
    feeds--;
}

static int feed_send(struct dev_feed *f, size_t floats, struct err *e)
{
    assert_true(floats <= f->room);
    f->last = f->x[floats - 784 + 400];
    f->sent = floats;
    sends++;
    return 0;
}
static const struct dev_feed_ops feed_ops = {
    .make = feed_new, .free = feed_free, .send = feed_send};
static const struct device_ops feeding_ops = {.name = "fake", .feed = &feed_ops};

/* Without a call of loader_get: the thread sends the hinted samples while "the device computes". */
static void wait_sends(int n)
{
    double deadline = clock_now() + 60;
    while (sends < n && clock_now() < deadline) {
        clock_sleep(0.001);
    }
    assert_int_equal(sends, n);
}

static void hinted_slices_are_sent_to_the_device_before_they_are_asked_for(void **state)
{
    struct dataset *d = *state;
    struct device dev = {&feeding_ops};
    struct loader l;
    struct slice a = {0, 0, 16}, b = {0, 16, 40}, wrong = {0, 60, 10};
    struct dev_input in = {0};
    sends = 0;
    OK(loader_start(&l, d, &spec_, 3, 16, true, &err_));
    loader_feed(&l, &dev);
    OK(loader_get(&l, &a, &in, &err_));
    assert_is_slice(d, &a, &in);
    assert_int_equal(sends, 1);
    loader_hint(&l, &b); /* larger */
    wait_sends(2);
    assert_is_slice(d, &a, &in); /* what is computed on stays */
    assert_true(in.fed->sent == 16 * 784 && in.fed->last == in.x[15 * 784 + 400]);
    OK(loader_get(&l, &b, &in, &err_));
    assert_is_slice(d, &b, &in);
    assert_int_equal(sends, 2);
    assert_true(in.fed->sent == 40 * 784 && in.fed->last == in.x[39 * 784 + 400]);
    loader_hint_test(&l, 10, 20); /* an evaluation's next part */
    wait_sends(3);
    OK(loader_get_test(&l, 10, 20, &in, &err_));
    assert_int_equal(sends, 3);
    assert_int_equal(in.sample[0], 10);
    assert_int_equal(in.fed->sent, 20 * 784);
    loader_hint(&l, &wrong);
    wait_sends(4);
    OK(loader_get(&l, &a, &in, &err_));
    assert_is_slice(d, &a, &in);
    assert_int_equal(sends, 5);
    assert_int_equal(in.fed->sent, 16 * 784);
    loader_stop(&l);
    assert_int_equal(feeds, 0);
}

static void without_memory_for_a_feed_samples_come_from_the_host(void **state)
{
    struct device dev = {&feeding_ops};
    struct loader l;
    struct slice a = {0, 0, 16}, b = {0, 16, 16};
    struct dev_input in = {0};
    feeds_most = 1; /* one slot has a feed, the other none */
    OK(loader_start(&l, *state, &spec_, 3, 16, true, &err_));
    loader_feed(&l, &dev);
    OK(loader_get(&l, &a, &in, &err_));
    assert_non_null(in.fed);
    OK(loader_get(&l, &b, &in, &err_));
    assert_null(in.fed);
    assert_is_slice(*state, &b, &in);
    loader_stop(&l);
    assert_int_equal(feeds, 0);
    feeds_most = 100;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slice_is_right_with_right_wrong_and_no_hints),
        cmocka_unit_test(what_was_given_stays_while_the_next_slice_is_gathered),
        cmocka_unit_test(test_samples_come_in_the_order_of_the_file),
        cmocka_unit_test(hinted_slices_are_sent_to_the_device_before_they_are_asked_for),
        cmocka_unit_test(without_memory_for_a_feed_samples_come_from_the_host),
        cmocka_unit_test(a_slice_beyond_the_samples_is_an_error),
    };
    return cmocka_run_group_tests_name("loader", tests, setup, teardown);
}
