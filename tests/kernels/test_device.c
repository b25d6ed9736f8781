/* The device seam itself: devices are opened by name, and a device with half a group ends the
 * process before anybody relies on it. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kernels/bench.h"

static void devices_are_found_by_name_or_refused_with_a_reason(void **state)
{
    struct err e = {0};
    struct device *dev = dev_open("auto", &e);
    assert_non_null(dev);
    assert_true(dev->ops->threads(dev) >= 1);
    assert_true(dev->ops->memory_bytes(dev) > 0);
    dev_close(dev);
    dev = dev_open("cpu:2", &e);
    assert_non_null(dev);
    assert_non_null(strstr(dev->ops->describe(dev), "2 threads"));
    dev_close(dev);
    static const char *const wrong[] = {"cpu:0", "cpu:x", "cpu:1x", "cpu:-1", "tpu", "", "cpux:1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_null(dev_open(wrong[i], &e));
        assert_int_equal(e.code, ERR_INVALID);
    }
}

static void a_name_that_no_device_has_is_refused_with_the_names_there_are(void **state)
{
    struct err e = {0};
    assert_null(dev_open("tpu:0", &e));
    assert_non_null(
        strstr(e.message, "there is no device 'tpu:0'; devices are cpu:THREADS, cuda:"));
    assert_non_null(strstr(e.message, " and auto"));
}

static void the_fastest_device_that_opens_is_taken_and_the_reason_is_told(void **state)
{
    struct err why, e = {0};
    assert_int_equal(setenv("EVENSTEP_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1), 0);
    struct device *dev = dev_open_fastest(&why, &e);
    assert_non_null(dev);
    assert_string_equal(dev->ops->name, "cpu");
    assert_int_equal(why.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(why.message, "there is no NVIDIA driver"));
    dev_close(dev);
    unsetenv("EVENSTEP_CUDA_DRIVER");
}

/* Does dev_check abort on these? */
static bool aborts(const struct device_ops *ops)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        fclose(stderr); /* the sentence of BUG_ON */
        dev_check(ops);
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void some_function(void)
{
}

enum { MOST = 32 };

/* A table of n functions that are all there but one; -1: all. */
static void fill(void (**functions)(void), size_t n, long missing)
{
    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        functions[i] = (long)i == missing ? NULL : some_function;
    }
}

static void a_device_with_half_a_group_is_refused(void **state)
{
#define GROUP(name)                                                     \
    {                                                                   \
        offsetof(struct device_ops, name),                              \
            sizeof(*((struct device_ops *)NULL)->name) / sizeof(void *) \
    }
    static const struct {
        size_t at, functions;
    } groups[] = {GROUP(memory), GROUP(samples), GROUP(feed),      GROUP(fused),  GROUP(parts),
                  GROUP(alias),  GROUP(rules),   GROUP(precision), GROUP(tuning), GROUP(meter)};
    struct err e = {0};
    struct device *dev = dev_open("cpu:1", &e);
    assert_non_null(dev);
    assert_int_equal(sizeof(struct device_ops),
                     offsetof(struct device_ops, memory) +
                         sizeof(groups) / sizeof(*groups) * sizeof(void *));
    for (size_t g = 0; g < sizeof(groups) / sizeof(*groups); g++) {
        void (*functions[MOST])(void);
        const void *group = functions;
        struct device_ops ops = *dev->ops;
        memcpy((char *)&ops + groups[g].at, &group, sizeof(group));
        fill(functions, groups[g].functions, -1);
        assert_false(aborts(&ops));
        for (size_t i = 0; i < groups[g].functions; i++) {
            fill(functions, groups[g].functions, (long)i);
            assert_true(aborts(&ops));
        }
    }
    dev_close(dev);
}

static void a_device_that_lacks_a_part_of_the_core_is_refused(void **state)
{
    struct err e = {0};
    struct device *dev = dev_open("cpu:1", &e);
    assert_non_null(dev);
    for (size_t at = 0; at < offsetof(struct device_ops, memory); at += sizeof(void *)) {
        struct device_ops ops = *dev->ops;
        memset((char *)&ops + at, 0, sizeof(void *));
        assert_true(aborts(&ops));
    }
    assert_false(aborts(dev->ops));
    dev_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: a plug-in that was loaded stays loaded */
        cmocka_unit_test(the_fastest_device_that_opens_is_taken_and_the_reason_is_told),
        cmocka_unit_test(devices_are_found_by_name_or_refused_with_a_reason),
        cmocka_unit_test(a_name_that_no_device_has_is_refused_with_the_names_there_are),
        cmocka_unit_test(a_device_with_half_a_group_is_refused),
        cmocka_unit_test(a_device_that_lacks_a_part_of_the_core_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
