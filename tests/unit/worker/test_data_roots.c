/* Where a data set may be: below a data root, also through a link that the operator made there, and
 * nowhere else. */
#include "roots.h"

#include <unistd.h>

#include "worker/data/dataset.h"

static void a_path_is_found_beneath_the_first_root_that_has_it(void **state)
{
    struct place *p = *state;
    char roots[8200], out[4096], want[4096];
    snprintf(roots, sizeof roots, "/nowhere:%s:%s", p->outside, p->root);
    OK(dataset_find(roots, "set", out, &err_));
    snprintf(want, sizeof want, "%s/set", p->root);
    assert_string_equal(out, want);
}

static void a_path_that_leads_outside_is_refused_symbolic_links_included(void **state)
{
    struct place *p = *state;
    char out[4096], link[4096], up[4096];
    snprintf(link, sizeof link, "%s/set/link", p->root);
    assert_int_equal(symlink(p->outside, link), 0);
    FAILS(dataset_find(p->root, "set/link", out, &err_), ERR_FORBIDDEN, "leads outside");
    snprintf(up, sizeof up, "../%s", strrchr(p->outside, '/') + 1);
    FAILS(dataset_find(p->root, up, out, &err_), ERR_FORBIDDEN, "leads outside");
    FAILS(dataset_find(p->root, "/etc/passwd", out, &err_), ERR_NOT_FOUND,
          "cannot find '/etc/passwd'");
}

/* Common for large disks. */
static void an_operators_link_directly_beneath_a_root_leads_where_it_does(void **state)
{
    struct place *p = *state;
    char out[4096], link[4096], up[4096], above[4096];
    snprintf(link, sizeof link, "%s/large", p->root);
    assert_int_equal(symlink(p->outside, link), 0);
    OK(dataset_find(p->root, "large", out, &err_));
    assert_string_equal(out, p->outside);
    snprintf(above, sizeof above, "%s/up", p->outside); /* from there no link leads on */
    assert_int_equal(symlink("/etc", above), 0);
    FAILS(dataset_find(p->root, "large/up", out, &err_), ERR_FORBIDDEN, "leads outside");
    FAILS(dataset_find(p->root, "large/..", out, &err_), ERR_FORBIDDEN, "leads outside");
    snprintf(up, sizeof up, "large/../%s", strrchr(p->root, '/') + 1);
    OK(dataset_find(p->root, up, out, &err_));
    if (geteuid() == 0) { /* another user made it */
        assert_int_equal(lchown(link, 65534, 65534), 0);
        FAILS(dataset_find(p->root, "large", out, &err_), ERR_FORBIDDEN, "leads outside");
    }
}

#define TEST_(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_(a_path_is_found_beneath_the_first_root_that_has_it),
        TEST_(a_path_that_leads_outside_is_refused_symbolic_links_included),
        TEST_(an_operators_link_directly_beneath_a_root_leads_where_it_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
