/* GPU statistics against a stand-in for the driver's library (tests/cuda/standin/nvml.c), which is
 * in the programs' folder as libevenstep-nvml.so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/machine/gpu.h"

static double number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static void what_the_driver_tells_is_told(void **state)
{
    (void)state;
    struct gpus *g = gpus_open();
    assert_non_null(g);
    assert_int_equal(gpus_count(g), 2);
    assert_int_equal(gpus_memory(g, 1), (int64_t)2 << 30);
    assert_int_equal(gpus_memory(g, 2), 0);
    json_t *first = gpus_json(g, 0), *second = gpus_of_device(g, "cuda:1");
    assert_string_equal(json_string_value(json_object_get(first, "name")), "stand-in, no GPU");
    assert_true(number(first, "busy") == 0.87 && number(first, "celsius") == 64 &&
                number(first, "watts") == 351.5);
    assert_true(number(first, "memory_bytes") == 1073741824.0 &&
                number(first, "memory_used_bytes") == 268435456.0);
    assert_true(number(second, "index") == 1 && number(second, "busy") == 0.87);
    assert_null(json_object_get(second, "celsius"));
    assert_null(json_object_get(second, "watts"));
    assert_null(gpus_json(g, 2));
    assert_null(gpus_json(g, -1));
    assert_null(gpus_of_device(g, "cpu:1"));
    json_decref(first);
    json_decref(second);
    gpus_close(g);
}

static void a_host_without_gpus_has_none(void **state)
{
    (void)state;
    setenv("EVENSTEP_NVML_FAILS", "1", 1);
    assert_null(gpus_open());
    unsetenv("EVENSTEP_NVML_FAILS");
    setenv("EVENSTEP_NVML_COUNT", "0", 1);
    assert_null(gpus_open());
    unsetenv("EVENSTEP_NVML_COUNT");
    setenv("EVENSTEP_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    assert_null(gpus_open());
    assert_int_equal(gpus_count(NULL), 0);
    assert_null(gpus_of_device(NULL, "cuda:0"));
    gpus_close(NULL);
}

int main(void)
{
    char file[4096], self[2048];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *end = strstr(self, "/tests/unit/common/");
    if (!end) {
        return 2;
    }
    *end = 0;
    snprintf(file, sizeof file, "%s/libevenstep-nvml.so", self);
    setenv("EVENSTEP_NVML", file, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_driver_tells_is_told),
        cmocka_unit_test(a_host_without_gpus_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
