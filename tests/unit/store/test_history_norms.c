/* Norms of a model's tensors in a history: what is kept, thinned and superseded. */
#include "tests/unit/store/history_fixture.h"

static struct tensor_norms tensors[2];

static struct norms norms_at(int64_t step)
{
    tensors[0] = (struct tensor_norms){"fc.weight", 100, (double)step, 0.5};
    tensors[1] = (struct tensor_norms){"fc.bias", 10, 2, (double)step / 1000};
    return (struct norms){step, (double)step / 100, 0.01 * (double)step, 2, 3, tensors};
}

static struct history *with_norms(int64_t last)
{
    struct history *h = history_open(dir, 2, two, &err_);
    for (int64_t step = 10; h && step <= last; step += 10) {
        struct norms n = norms_at(step);
        OK(history_norms(h, &n, &err_));
    }
    return h;
}

static json_t *answer(int points)
{
    json_t *j = history_norms_read(dir, points, &err_);
    assert_non_null(j);
    return j;
}

static double value(const json_t *j, const char *list, size_t tensor, size_t i)
{
    const json_t *values = json_array_get(json_object_get(j, list), tensor);
    return json_number_value(json_array_get(values, i));
}

static void what_was_told_is_read_as_it_was(void **state)
{
    struct history *h = with_norms(50), *again;
    struct norms n = norms_at(50);
    OK(history_norms(h, &n, &err_)); /* told twice */
    tensors[1].gradient = NAN;
    n.step = 60;
    OK(history_norms(h, &n, &err_));
    history_close(h);
    json_t *j = answer(0);
    assert_int_equal(number_at(j, "/total_points"), 6);
    assert_int_equal(number_at(j, "/left_out"), 3);
    assert_string_equal(json_string_value(at(j, "/tensors/1/name")), "fc.bias");
    assert_int_equal(number_at(j, "/tensors/1/elements"), 10);
    assert_int_equal(number_at(j, "/x/2"), 30);
    assert_true(value(j, "weights", 0, 2) == 30 && value(j, "gradients", 1, 2) == 0.03);
    assert_true(json_is_null(at(j, "/gradients/1/5")));
    json_decref(j);
    again = history_open(dir, 2, two, &err_); /* goes on where it ended */
    n.step = 55;
    OK(history_norms(again, &n, &err_));
    n.step = 70;
    OK(history_norms(again, &n, &err_));
    history_close(again);
    j = answer(0);
    assert_int_equal(number_at(j, "/total_points"), 7);
    assert_int_equal(number_at(j, "/x/6"), 70);
    json_decref(j);
}

static void few_points_keep_the_greatest_of_each_bucket(void **state)
{
    history_close(with_norms(1000));
    json_t *j = answer(10);
    assert_int_equal(number_at(j, "/total_points"), 100);
    assert_int_equal(json_array_size(at(j, "/x")), 10);
    for (size_t i = 0; i < 10; i++) {
        double last = 100 * (double)(i + 1);
        assert_true(json_number_value(json_array_get(at(j, "/x"), i)) == last);
        assert_true(value(j, "weights", 0, i) == last && value(j, "gradients", 0, i) == 0.5);
    }
    json_decref(j);
}

static void norms_past_the_checkpoint_do_not_count(void **state)
{
    struct history *h = with_norms(100);
    struct norms n;
    OK(history_supersede(h, 45, &err_));
    n = norms_at(50);
    tensors[0].weight = 7;
    OK(history_norms(h, &n, &err_));
    history_close(h);
    json_t *j = answer(0);
    assert_int_equal(number_at(j, "/total_points"), 5);
    assert_int_equal(number_at(j, "/x/3"), 40);
    assert_true(number_at(j, "/x/4") == 50 && value(j, "weights", 0, 4) == 7);
    json_decref(j);
}

static void other_tensors_are_refused(void **state)
{
    struct history *h = with_norms(10);
    struct norms n = norms_at(20);
    snprintf(tensors[0].name, sizeof tensors[0].name, "other.weight");
    assert_int_equal(history_norms(h, &n, &err_), -ERR_DATA);
    assert_string_equal(err_.message,
                        "the norms of step 20 are of other tensors than those before");
    history_close(h);
}

static void a_run_without_norms_has_none(void **state)
{
    history_close(history_open(dir, 2, two, &err_));
    json_t *j = answer(0);
    assert_int_equal(json_array_size(at(j, "/tensors")), 0);
    assert_int_equal(json_array_size(at(j, "/x")), 0);
    assert_int_equal(number_at(j, "/total_points"), 0);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(what_was_told_is_read_as_it_was),
        EACH(few_points_keep_the_greatest_of_each_bucket),
        EACH(norms_past_the_checkpoint_do_not_count),
        EACH(other_tensors_are_refused),
        EACH(a_run_without_norms_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
