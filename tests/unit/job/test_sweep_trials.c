/* The settings of a sweep's trials, and the specs of their jobs (job/sweep/trials.c). */
#include "tests/unit/job/swept.h"

static void assert_settings(const struct sweep *s, int trial, const char *text)
{
    json_t *settings = sweep_settings(s, trial);
    char *got = jsonx_dump(settings, false, NULL);
    assert_string_equal(got, text);
    free(got);
    json_decref(settings);
}

/* 4 trials of 4 values had one of the values twice, and another one never. */
static void of_few_combinations_none_is_drawn_twice(void **state)
{
    static const char text[] = SWEEP(
        "[{\"pointer\": \"/n\", \"range\": [3, 5], \"scale\": \"int\"}, "
        "{\"pointer\": \"/c\", \"values\": [0, 1, 2, 3]}]",
        "{\"type\": \"random\", \"trials\": 24, \"seed\": 7}");
    struct sweep s, other;
    int seen[3][4] = {{0}}, moved = 0;
    (void)state;
    read_text(&s, text);
    read_patched(&other, text, "{\"method\": {\"type\": \"random\", \"trials\": 12, \"seed\": 8}}");
    for (int i = 0; i < 24; i++) {
        json_t *a = sweep_settings(&s, i), *b = sweep_settings(&other, i % 12);
        json_int_t n = json_integer_value(json_object_get(a, "/n")),
                   c = json_integer_value(json_object_get(a, "/c"));
        assert_in_range(n, 3, 5);
        assert_int_equal(seen[n - 3][c]++, i / 12);
        moved += !json_equal(a, b);
        json_decref(a);
        json_decref(b);
    }
    assert_true(moved > 12); /* the seed determines the order */
    sweep_release(&s);
    sweep_release(&other);
}

static void a_programs_arguments_are_texts_and_may_take_the_epochs(void **state)
{
    static const char text[] =
        "{\"spec\": {\"program\": {\"args\": [\"--lr\", \"1\", \"--epochs\", \"9\"]}}, "
        "\"parameters\": [{\"pointer\": \"/program/args/1\", \"values\": [0.1]}, "
        "{\"pointer\": \"/program/env/WIDTH\", \"values\": [32]}], \"method\": {\"type\": "
        "\"halving\", \"trials\": 2, \"eta\": 2, \"rungs\": [1, 3], \"epochs_at\": "
        "\"/program/args/3\"}}";
    struct sweep s, again;
    struct err e = {0};
    int failed;
    (void)state;
    read_text(&s, text);
    assert_int_equal(sweep_read(&again, s.json, &e), 0);
    json_t *spec = sweep_run_spec(&again, "1", (struct sweep_run_id){0, 1, 0}, "2", &failed);
    char *got = jsonx_dump(json_object_get(spec, "program"), false, NULL);
    assert_string_equal(got,
                        "{\"args\":[\"--lr\",\"0.1\",\"--epochs\",\"3\"],"
                        "\"env\":{\"WIDTH\":\"32\"}}");
    free(got);
    json_decref(spec);
    sweep_release(&again);
    snprintf(s.epochs_at, sizeof s.epochs_at, "/program/args/4");
    assert_null(sweep_run_spec(&s, "1", (struct sweep_run_id){0, 0, 0}, NULL, &failed));
    assert_int_equal(failed, 2);
    sweep_release(&s);
}

static void a_grid_has_every_combination_and_the_ends_of_its_ranges(void **state)
{
    struct sweep s;
    (void)state;
    read_text(&s,
              SWEEP("[{\"pointer\": \"/r\", \"range\": [0.001, 0.1], \"scale\": \"log\", "
                    "\"steps\": 3}, {\"pointer\": \"/n\", \"range\": [1, 4], \"scale\": \"int\", "
                    "\"steps\": 2}, {\"pointer\": \"/c\", \"values\": [\"x\", {\"t\": 1}]}]",
                    "{\"type\": \"grid\"}"));
    assert_int_equal(s.trials, 12);
    assert_settings(&s, 0, "{\"/r\":0.001,\"/n\":1,\"/c\":\"x\"}");
    assert_settings(&s, 1, "{\"/r\":0.001,\"/n\":1,\"/c\":{\"t\":1}}");
    assert_settings(&s, 2, "{\"/r\":0.001,\"/n\":4,\"/c\":\"x\"}");
    assert_settings(&s, 4, "{\"/r\":0.01,\"/n\":1,\"/c\":\"x\"}");
    assert_settings(&s, 11, "{\"/r\":0.1,\"/n\":4,\"/c\":{\"t\":1}}");
    sweep_release(&s);
}

static void what_is_drawn_lies_in_its_range_and_depends_on_the_seed_alone(void **state)
{
    static const char text[] = SWEEP(
        "[{\"pointer\": \"/r\", \"range\": [1e-4, 1], \"scale\": \"log\"}, "
        "{\"pointer\": \"/n\", \"range\": [-2, 3], \"scale\": \"int\"}, "
        "{\"pointer\": \"/c\", \"values\": [0, 1, 2]}]",
        "{\"type\": \"random\", \"trials\": 200, \"seed\": 7}");
    struct sweep s, again;
    int below = 0, whole[6] = {0}, choices[3] = {0};
    (void)state;
    read_text(&s, text);
    read_text(&again, text);
    for (int i = 0; i < s.trials; i++) {
        json_t *a = sweep_settings(&s, i), *b = sweep_settings(&again, i);
        double rate = json_number_value(json_object_get(a, "/r"));
        assert_true(json_equal(a, b));
        assert_true(rate >= 1e-4 && rate <= 1);
        below += rate < 0.01;
        whole[json_integer_value(json_object_get(a, "/n")) + 2]++;
        choices[json_integer_value(json_object_get(a, "/c"))]++;
        json_decref(a);
        json_decref(b);
    }
    assert_true(below > 60 && below < 140); /* half of a log scale */
    for (int i = 0; i < 6; i++) {
        assert_true(whole[i] > 10);
    }
    assert_true(choices[0] > 30 && choices[1] > 30 && choices[2] > 30);
    sweep_release(&again);
    read_patched(&again, text, "{\"method\": {\"type\": \"random\", \"trials\": 2, \"seed\": 8}}");
    json_t *a = sweep_settings(&s, 0), *b = sweep_settings(&again, 0);
    assert_false(json_equal(a, b));
    json_decref(a);
    json_decref(b);
    sweep_release(&s);
    sweep_release(&again);
}

static void a_job_has_the_settings_name_seed_and_tag_of_its_place(void **state)
{
    struct sweep s;
    int failed;
    (void)state;
    read_patched(&s,
                 SWEEP("[{\"pointer\": \"/a/b/1\", \"values\": [5, 6]}, "
                       "{\"pointer\": \"/new/deep~1er\", \"values\": [true]}]",
                       "{\"type\": \"halving\", \"trials\": 4, \"rungs\": [2, 6], \"eta\": 2}"),
                 "{\"seeds\": 3, \"name\": \"n\"}");
    json_t *spec = sweep_run_spec(&s, "0123456789abcdef", (struct sweep_run_id){2, 1, 1},
                                  "fedcba9876543210", &failed);
    json_t *value = sweep_value(&s, 2, 0);
    assert_string_equal(jsonx_string_at(spec, "name"), "n-3-r2-s2");
    assert_int_equal(json_integer_value(json_object_get(spec, "seed")), 2);
    assert_int_equal(json_integer_value(json_object_get(spec, "epochs")), 6);
    assert_string_equal(json_string_value(json_array_get(json_object_get(spec, "tags"), 0)),
                        "sweep:0123456789abcdef");
    assert_string_equal(jsonx_string_at(json_object_get(spec, "init"), "path"),
                        "fedcba9876543210/checkpoints");
    assert_true(json_is_true(json_object_get(json_object_get(spec, "init"), "continue")));
    assert_true(json_is_true(json_object_get(json_object_get(spec, "new"), "deep/er")));
    assert_true(
        json_equal(json_array_get(json_object_get(json_object_get(spec, "a"), "b"), 1), value));
    json_decref(spec);
    json_decref(value);
    sweep_release(&s);
    read_text(&s, SWEEP("[{\"pointer\": \"/r\", \"values\": [1]}, {\"pointer\": \"/a/b/7\", "
                        "\"values\": [5]}]",
                        "{\"type\": \"grid\"}"));
    assert_null(
        sweep_run_spec(&s, "0123456789abcdef", (struct sweep_run_id){0, 0, 0}, NULL, &failed));
    assert_int_equal(failed, 1);
    sweep_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_few_combinations_none_is_drawn_twice),
        cmocka_unit_test(a_programs_arguments_are_texts_and_may_take_the_epochs),
        cmocka_unit_test(a_grid_has_every_combination_and_the_ends_of_its_ranges),
        cmocka_unit_test(what_is_drawn_lies_in_its_range_and_depends_on_the_seed_alone),
        cmocka_unit_test(a_job_has_the_settings_name_seed_and_tag_of_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
