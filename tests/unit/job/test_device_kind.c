/* The table of devices: the entries of job/node/devices.def by a device's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "job/spec/catalog.h"
#include "job/node/device_kind.h"

static void a_kind_is_found_by_the_name_before_the_colon(void **state)
{
    assert_int_equal(device_kind_of("cpu:2")->id, CAT_DEVICE_CPU);
    assert_int_equal(device_kind_of("cuda")->id, CAT_DEVICE_CUDA);
    assert_int_equal(device_kind_of("cuda:0")->argument, DEVICE_INDEX);
    static const char *const none[] = {"", ":", "cp", "cpux:1", "auto", "tpu:0"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_null(device_kind_of(none[i]));
    }
    assert_null(device_kind_of(NULL));
}

static void every_kind_of_the_catalogue_has_a_row_with_sensible_facts(void **state)
{
    int n, rows = 0;
    char forms[200];
    const char *const *names = catalog_names(CATALOG_DEVICE, &n);
    device_kind_forms(forms, sizeof forms);
    for (const struct device_kind *k; (k = device_kind_at(rows)); rows++) {
        assert_string_equal(k->name, names[rows]);
        assert_ptr_equal(device_kind_of(k->name), k);
        assert_true(k->quantum >= 1 && k->speed > 0);
        assert_true(device_kind_offers(k->name, "fp32"));
        assert_non_null(strstr(forms, k->name));
    }
    assert_int_equal(rows, n);
    assert_null(device_kind_at(-1));
}

static void facts_of_the_kinds_are_the_documented_ones(void **state)
{
    char forms[200], cut[8];
    device_kind_forms(forms, sizeof forms);
    assert_memory_equal(forms, "cpu:THREADS, cuda:INDEX", strlen("cpu:THREADS, cuda:INDEX"));
    device_kind_forms(cut, sizeof cut);
    assert_string_equal(cut, "cpu:THR");
    assert_int_equal(device_kind_quantum("cpu:3"), 4);
    assert_int_equal(device_kind_quantum("cuda:1"), 8);
    assert_int_equal(device_kind_quantum("gone:1"), 4);
    assert_int_equal(device_kind_least_quantum(0, "cuda:0"), 8);
    assert_int_equal(device_kind_least_quantum(8, "cuda:1"), 8);
    assert_int_equal(device_kind_least_quantum(8, "cpu:1"), 4);
    assert_int_equal(device_kind_least_quantum(4, "cuda:0"), 4);
    assert_true(device_kind_speed("cpu:3", 3) == 3 && device_kind_speed("cuda:3", 1) == 1000);
    assert_true(device_kind_speed("gone:1", 2) == 2);
    assert_true(device_kind_offers("cuda:0", "bf16") && device_kind_offers("cuda:0", "tf32"));
    assert_false(device_kind_offers("cpu:1", "bf16"));
    assert_false(device_kind_offers("cuda:0", "bf") || device_kind_offers("cuda:0", ""));
    assert_true(device_kind_offers("gone:1", "fp32") && !device_kind_offers("gone:1", "tf32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_is_found_by_the_name_before_the_colon),
        cmocka_unit_test(every_kind_of_the_catalogue_has_a_row_with_sensible_facts),
        cmocka_unit_test(facts_of_the_kinds_are_the_documented_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
