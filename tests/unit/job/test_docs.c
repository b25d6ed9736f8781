/* docs/catalog.md equals the output of docs/print/catalog. Starts in the repository's root, like
 * all tests; the program is in the same build folder as this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/proc.h"

static const char page[] = "docs/catalog.md", program[] = "docs/print/catalog",
                  here[] = "tests/unit/job/test_docs";
enum { PAGE_BYTES = 1 << 20 };

static char *printed(void)
{
    struct err e = {0};
    char path[PATH_MAX + sizeof program], *text = calloc(1, PAGE_BYTES);
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    assert_true(n > (ssize_t)strlen(here));
    snprintf(path + n - strlen(here), sizeof program, "%s", program);
    const char *const argv[] = {path, NULL};
    if (proc_output(argv, 60, text, PAGE_BYTES, &e) != 0) {
        fail_msg("cannot run %s: %s", path, e.message);
    }
    return text;
}

static void the_page_of_the_catalogue_is_what_the_code_says(void **state)
{
    struct err e = {0};
    char *want = printed(), *have = proc_read_file(page, PAGE_BYTES, NULL, &e);
    (void)state;
    if (!have) {
        fail_msg("%s (tests run in the repository's root)", e.message);
    }
    if (strcmp(have, want) != 0) {
        size_t at = 0;
        while (have[at] == want[at]) {
            at++;
        }
        while (at > 0 && want[at - 1] != '\n') {
            at--;
        }
        fail_msg("%s is stale, run `make docs`; the code says: %.*s", page,
                 (int)strcspn(want + at, "\n"), want + at);
    }
    free(have);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_of_the_catalogue_is_what_the_code_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
