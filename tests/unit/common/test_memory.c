/* Available memory and processors (common/machine/memory.h, groups.h): the machine's, or what the
 * strictest control group above this process leaves. Pages of files count as free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine/groups.h"
#include "common/machine/memory.h"
#include "common/process/proc.h"

static const char *const meminfo =
    "MemTotal:        1000 kB\nMemFree:   100 kB\nMemAvailable:    600 kB\n";

static void put(const char *root, const char *path, const char *text)
{
    char at[512];
    snprintf(at, sizeof at, "%s/%s", root, path);
    char *slash = strrchr(at, '/');
    *slash = '\0';
    assert_int_equal(proc_mkdirs(at, 0755, NULL), 0);
    *slash = '/';
    assert_int_equal(proc_write_file(at, text, strlen(text), 0644, NULL), 0);
}

static int setup(void **state)
{
    char *root = strdup("/tmp/evenstep-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    put(root, "proc/meminfo", meminfo);
    *state = root;
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(proc_remove_tree(*state, NULL), 0);
    free(*state);
    return 0;
}

static void assert_memory(const char *root, int64_t limit, int64_t room)
{
    char proc[300], groups[300];
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(groups, sizeof groups, "%s/groups", root);
    struct memory m = memory_read_in(proc, groups);
    assert_int_equal(m.limit, limit);
    assert_int_equal(m.room, room);
}

static void without_a_group_it_is_the_machines(void **state)
{
    assert_memory(*state, 1024000, 614400);
    put(*state, "proc/self/cgroup", "0::/\n");
    assert_memory(*state, 1024000, 614400);
}

static void a_group_of_version_2_and_those_above_it_count(void **state)
{
    put(*state, "proc/self/cgroup", "0::/a/b\n");
    put(*state, "groups/a/b/memory.max", "max\n");
    put(*state, "groups/a/b/memory.current", "90000\n");
    put(*state, "groups/a/memory.max", "200000\n");
    put(*state, "groups/a/memory.current", "190000\n");
    put(*state, "groups/a/memory.stat", "anon 1\ninactive_file 70000\nactive_file 50000\n");
    assert_memory(*state, 200000, 200000 - 190000 + 120000);
    put(*state, "groups/a/b/memory.max", "100000\n");
    assert_memory(*state, 100000, 10000);
}

static void a_group_of_version_1_has_other_names(void **state)
{
    put(*state, "proc/self/cgroup", "4:memory:/docker/7\n3:cpu:/x\n0::/\n");
    put(*state, "groups/memory/docker/7/memory.limit_in_bytes", "300000\n");
    put(*state, "groups/memory/docker/7/memory.usage_in_bytes", "300000\n");
    put(*state, "groups/memory/docker/7/memory.stat",
        "inactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 500\n");
    put(*state, "groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(*state, "groups/memory/memory.usage_in_bytes", "5000000\n");
    assert_memory(*state, 300000, 1500);
}

static void in_a_container_the_root_is_the_group(void **state)
{
    put(*state, "proc/self/cgroup", "4:memory:/docker/7\n");
    put(*state, "groups/memory/memory.limit_in_bytes", "300000\n");
    put(*state, "groups/memory/memory.usage_in_bytes", "100000\n");
    assert_memory(*state, 300000, 200000);
}

static void assert_quota(const char *root, double quota, const char *group)
{
    char proc[300], groups[300];
    struct group least = {.path = ""};
    snprintf(proc, sizeof proc, "%s/proc", root);
    snprintf(groups, sizeof groups, "%s/groups", root);
    assert_true(group_cpu_quota(proc, groups, &least) == quota);
    assert_string_equal(*least.path ? least.path + strlen(groups) : "", group);
}

static void the_least_quota_of_the_groups_holds(void **state)
{
    assert_quota(*state, 0, "");
    put(*state, "proc/self/cgroup", "0::/a/b\n");
    assert_quota(*state, 0, "");
    put(*state, "groups/a/b/cpu.max", "max 100000\n");
    assert_quota(*state, 0, "");
    put(*state, "groups/a/cpu.max", "150000 100000\n");
    assert_quota(*state, 1.5, "/a");
    put(*state, "groups/a/b/cpu.max", "20000 100000\n");
    assert_quota(*state, 0.2, "/a/b");
}

static void a_quota_of_version_1_is_in_two_files(void **state)
{
    put(*state, "proc/self/cgroup", "4:cpuset:/a\n3:cpu,cpuacct:/x/y\n2:memory:/z\n0::/\n");
    put(*state, "groups/cpu/x/y/cpu.cfs_quota_us", "-1\n");
    put(*state, "groups/cpu/x/y/cpu.cfs_period_us", "100000\n");
    assert_quota(*state, 0, "");
    put(*state, "groups/cpu/x/cpu.cfs_quota_us", "40000\n");
    put(*state, "groups/cpu/x/cpu.cfs_period_us", "100000\n");
    assert_quota(*state, 0.4, "/cpu/x");
}

#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_(without_a_group_it_is_the_machines),
        TEST_(a_group_of_version_2_and_those_above_it_count),
        TEST_(a_group_of_version_1_has_other_names),
        TEST_(in_a_container_the_root_is_the_group),
        TEST_(the_least_quota_of_the_groups_holds),
        TEST_(a_quota_of_version_1_is_in_two_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
