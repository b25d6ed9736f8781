/* How busy nodes were: readings of this host, their means, and what the store keeps. */
#include "tests/unit/store/fixture.h"

#include "job/documents/hosts/load.h"
#include "store/loads.h"

static json_t *lists_of(struct place *p, const char *node, double since)
{
    json_t *j = store_loads(p->store, node, since, &err_);
    assert_non_null(j);
    return j;
}

static double value(const json_t *j, const char *list, size_t i)
{
    return json_number_value(json_array_get(json_object_get(j, list), i));
}

static void this_host_is_read(void **state)
{
    struct load_meter m = {0};
    struct load first, second;
    (void)state;
    load_read(&m, &first);
    assert_true(isnan(first.cpu) && isnan(first.received) && isnan(first.gpu));
    assert_true(first.memory > 0 && first.memory_used > 0 && first.memory_used < first.memory);
    do { /* the machine counts in ticks */
        load_read(&m, &second);
    } while (isnan(second.cpu));
    assert_true(second.cpu >= 0 && second.cpu <= 1 && second.seconds > 0);
}

static void a_mean_weighs_by_seconds_and_leaves_out_what_is_not_known(void **state)
{
    struct load_means m = {0};
    struct load out, l = {.seconds = 1, .cpu = 0.25, .memory_used = 100, .gpu = NAN};
    (void)state;
    assert_false(load_mean_add(&m, 0, &l, &out));
    l.cpu = NAN;
    l.memory_used = 300;
    assert_true(load_mean_add(&m, 0, &l, &out));
    assert_true(out.seconds == 2 && out.cpu == 0.25 && out.memory_used == 200 && isnan(out.gpu));
    assert_false(load_mean_add(&m, 0, &l, &out)); /* the next one begins */
    assert_false(load_mean_add(&m, 1, &l, &out));
}

static void a_load_is_read_as_it_was_printed(void **state)
{
    struct load l = {2, 0.421, 1.25e9, 4e9, 15000, 8000, NAN, NAN, NAN}, got;
    char text[LOAD_TEXT + 16] = "1764028800000";
    double ms;
    (void)state;
    load_print(&l, text + strlen(text));
    assert_string_equal(text, "1764028800000[2,0.421,1.25e+09,4e+09,1.5e+04,8000,null,null,null]");
    assert_true(load_parse(&got, &ms, text));
    assert_true(ms == 1764028800000 && got.seconds == 2 && got.cpu == 0.421 && got.sent == 8000 &&
                isnan(got.gpu));
    static const char *const wrong[] = {"",
                                        "12",
                                        "[1,2,3,4,5,6,7,8,9]",
                                        "5[1,2]",
                                        "5{}",
                                        "5[1,2,3,4,5,6,7,8,-9]",
                                        "5[1,2,3,4,5,6,7,8,\"9\"]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(load_parse(&got, &ms, wrong[i]));
    }
}

/* The store's own clock sets the time; each tier has its list. */
static void the_store_keeps_the_last_ones_with_its_own_time(void **state)
{
    struct place *p = *state;
    struct loads *loads = loads_new(2);
    double began = (double)clock_wall_ms() / 1000;
    json_t *gpu = json_pack("{s:f, s:I}", "busy", 0.5, "memory_bytes", (json_int_t)1000);
    json_t *j = lists_of(p, "n1", 0);
    assert_int_equal(json_array_size(json_object_get(j, "at")), 0);
    double until = clock_now() + 60;
    while (json_array_size(json_object_get(j, "at")) < 1) { /* a mean is over 2 s */
        assert_true(clock_now() < until);
        clock_sleep(0.1);
        loads_read(loads);
        loads_take(loads, 0, "n1", gpu);
        loads_take(loads, 1, "n3", NULL);
        loads_send(loads, p->store);
        json_decref(j);
        j = lists_of(p, "n1", 0);
    }
    assert_true(value(j, "at", 0) >= began && value(j, "at", 0) < began + 600);
    assert_true(value(j, "seconds", 0) >= 1.5 && value(j, "gpu_busy", 0) == 0.5);
    assert_true(value(j, "gpu_memory_bytes", 0) == 1000);
    assert_true(json_is_null(json_array_get(json_object_get(j, "gpu_memory_used_bytes"), 0)));
    json_decref(j);
    j = lists_of(p, "n3", 0);
    assert_int_equal(json_array_size(json_object_get(j, "at")), 1);
    assert_true(json_is_null(json_array_get(json_object_get(j, "gpu_busy"), 0)));
    json_decref(j);
    j = lists_of(p, "n1", began + 3600); /* of the future */
    assert_int_equal(json_array_size(json_object_get(j, "cpu")), 0);
    json_decref(j);
    json_decref(gpu);
    loads_free(loads);
}

static void add(struct place *p, const char *key, double ms, const char *figures)
{
    char command[256];
    snprintf(command, sizeof command, "RPUSH %s %.0f%s", key, ms, figures);
    raw(p, command);
}

/* Every 2 s while those are kept, before that every minute, before that every ten minutes. */
static void coarse_means_stand_before_the_fine_ones(void **state)
{
    struct place *p = *state;
    add(p, "es:load:n2:2", 1000000, "[2,0.5,1,2,0,0,null,null,null]");
    add(p, "es:load:n2:2", 1002000, "[2,0.6,1,2,0,0,null,null,null]");
    add(p, "es:load:n2:60", 940000, "[60,0.3,1,2,0,0,null,null,null]");
    add(p, "es:load:n2:60", 1000000, "[60,0.4,1,2,0,0,null,null,null]"); /* until the finer ones */
    add(p, "es:load:n2:600", 500000, "[600,0.1,1,2,0,0,null,null,null]");
    add(p, "es:load:n2:600", 600000, "damaged");
    json_t *j = lists_of(p, "n2", 0);
    static const double cpu[] = {0.1, 0.3, 0.4, 0.5, 0.6}, at[] = {500, 940, 998, 1000, 1002};
    assert_int_equal(json_array_size(json_object_get(j, "cpu")), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(value(j, "cpu", i) == cpu[i] && value(j, "at", i) == at[i]);
    }
    assert_true(value(j, "seconds", 2) == 58);
    json_decref(j);
    j = lists_of(p, "n2", 900);
    assert_int_equal(json_array_size(json_object_get(j, "cpu")), 4);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_host_is_read),
        cmocka_unit_test(a_mean_weighs_by_seconds_and_leaves_out_what_is_not_known),
        cmocka_unit_test(a_load_is_read_as_it_was_printed),
        cmocka_unit_test(the_store_keeps_the_last_ones_with_its_own_time),
        cmocka_unit_test(coarse_means_stand_before_the_fine_ones),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
