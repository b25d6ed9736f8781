/* Working memory of programs (kernels/cpu/arena.c): shared by programs that run one after another,
 * never by two at once. */
#include "kernels/cpu/cpu.h"
#include "tests/kernels/bench.h"

enum { SMALL = 10000, LARGE = 4 << 20 };

static struct cpu_arenas arenas;

static int fresh(void **state)
{
    return cpu_arenas_init(&arenas);
}

static int done(void **state)
{
    cpu_arenas_release(&arenas);
    return arenas.first != NULL;
}

static void smaller_programs_run_where_larger_ones_do(void **state)
{
    assert_true(cpu_arenas_prepare(&arenas, LARGE));
    assert_true(cpu_arenas_prepare(&arenas, SMALL));
    struct cpu_arena *large = cpu_arena_take(&arenas, LARGE);
    assert_true(large->bytes >= LARGE);
    cpu_arena_return(&arenas, large);
    assert_ptr_equal(cpu_arena_take(&arenas, SMALL), large);
    cpu_arena_return(&arenas, large);
    assert_int_equal(arenas.n, 1);
}

static void two_at_once_have_one_each_and_both_are_kept(void **state)
{
    struct cpu_arena *a = cpu_arena_take(&arenas, SMALL), *b = cpu_arena_take(&arenas, SMALL);
    assert_ptr_not_equal(a, b);
    cpu_arena_return(&arenas, b);
    assert_ptr_equal(cpu_arena_take(&arenas, SMALL), b);
    cpu_arena_return(&arenas, a);
    cpu_arena_return(&arenas, b);
    assert_int_equal(arenas.n, 2);
}

static void what_is_prepared_beside_a_run_replaces_its_memory_afterwards(void **state)
{
    struct cpu_arena *small = cpu_arena_take(&arenas, SMALL);
    memset(small->memory, 1, SMALL);
    assert_true(cpu_arenas_prepare(&arenas, LARGE));
    assert_int_equal(arenas.n, 2);
    assert_int_equal(small->memory[SMALL - 1], 1);
    cpu_arena_return(&arenas, small);
    assert_int_equal(arenas.n, 1);
    struct cpu_arena *large = cpu_arena_take(&arenas, SMALL);
    assert_true(large->bytes >= LARGE);
    cpu_arena_return(&arenas, large);
}

static void a_little_more_needs_no_new_memory(void **state)
{
    assert_true(cpu_arenas_prepare(&arenas, LARGE));
    assert_true(cpu_arenas_prepare(&arenas, LARGE + LARGE / 4));
    assert_int_equal(arenas.n, 1);
}

static void what_no_machine_has_is_refused(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer's allocator ends the process */
#endif
    assert_false(cpu_arenas_prepare(&arenas, (size_t)1 << 60));
    assert_null(cpu_arena_take(&arenas, (size_t)1 << 60));
    assert_int_equal(arenas.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(smaller_programs_run_where_larger_ones_do, fresh, done),
        cmocka_unit_test_setup_teardown(two_at_once_have_one_each_and_both_are_kept, fresh, done),
        cmocka_unit_test_setup_teardown(
            what_is_prepared_beside_a_run_replaces_its_memory_afterwards, fresh, done),
        cmocka_unit_test_setup_teardown(a_little_more_needs_no_new_memory, fresh, done),
        cmocka_unit_test_setup_teardown(what_no_machine_has_is_refused, fresh, done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
