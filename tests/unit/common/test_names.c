/* Sets of names (common/text/names.h): their order, numbers, many names, removal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "common/text/names.h"

static void names_stand_in_the_order_in_which_they_came(void **state)
{
    struct names s = {0};
    (void)state;
    assert_false(names_has(&s, "b"));
    assert_false(names_has(NULL, "b"));
    names_add(&s, "b", 2);
    names_add(&s, "a", 1);
    names_add(&s, "b", 3); /* it is there: another number, and no other place */
    assert_int_equal(s.count, 2);
    assert_string_equal(s.all[0].name, "b");
    assert_string_equal(s.all[1].name, "a");
    assert_true(names_find(&s, "b")->number == 3 && names_find(&s, "a")->number == 1);
    assert_null(names_find(&s, "c"));
    names_release(&s);
    assert_int_equal(s.count, 0);
    assert_false(names_has(&s, "b"));
    names_add(&s, "", 7); /* a set that was released is an empty one; so short a name is one */
    assert_true(names_find(&s, "")->number == 7);
    names_release(&s);
}

static void one_that_is_removed_leaves_the_others(void **state)
{
    struct names s = {0};
    char name[16];
    (void)state;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        names_add(&s, name, i);
    }
    for (int i = 0; i < 1000; i += 3) {
        snprintf(name, sizeof name, "n%d", i);
        names_remove(&s, name);
        names_remove(&s, name); /* which it is not any more */
    }
    assert_int_equal(s.count, 666);
    for (int i = 0, before = -1; i < 1000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        const struct named *found = names_find(&s, name);
        assert_true(i % 3 == 0 ? !found : found && found->number == i);
        if (found) {
            assert_true(found - s.all > before);
            before = (int)(found - s.all);
        }
    }
    assert_false(s.failed);
    names_release(&s);
}

static void a_set_takes_all_of_another(void **state)
{
    struct names s = {0}, other = {0};
    (void)state;
    names_add_all(&s, &other);
    assert_int_equal(s.count, 0);
    names_add(&s, "a", 1);
    names_add(&other, "a", 5);
    names_add(&other, "b", 6);
    names_add_all(&s, &other);
    assert_int_equal(s.count, 2);
    assert_true(names_find(&s, "a")->number == 5 && names_find(&s, "b")->number == 6);
    names_release(&other);
    assert_string_equal(s.all[1].name, "b"); /* a copy */
    names_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_stand_in_the_order_in_which_they_came),
        cmocka_unit_test(one_that_is_removed_leaves_the_others),
        cmocka_unit_test(a_set_takes_all_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
