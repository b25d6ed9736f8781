/* Folders of one rank, and folders that a killed rank left (worker/program/files/own_folder.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include "common/process/proc.h"
#include "worker/program/files/own_folder.h"

static struct err err_;
static char base[64];

static int make_base(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/evenstep-test-XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
    (void)state;
    proc_remove_tree(base, NULL);
    return 0;
}

static void put_file(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(proc_write_file(path, "x", 1, 0600, &err_), 0);
}

static void make_old(const char *path)
{
    const struct utimbuf then = {.actime = 1000, .modtime = 1000};
    assert_int_equal(utime(path, &then), 0);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void a_folder_is_its_users_alone_and_goes_with_what_is_in_it(void **state)
{
    struct own_folder f;
    struct stat st;
    char path[PATH_MAX];
    (void)state;
    assert_int_equal(own_folder_make(&f, base, "kind-", &err_), 0);
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    put_file(f.path, "socket");
    snprintf(path, sizeof path, "%s", f.path);
    own_folder_remove(&f);
    assert_false(is_there(path));
    own_folder_remove(&f); /* of none */
}

static void what_a_killed_rank_left_goes_when_the_next_one_begins(void **state)
{
    struct own_folder killed, used, next, other;
    (void)state;
    assert_int_equal(own_folder_make(&killed, base, "kind-", &err_), 0);
    assert_int_equal(own_folder_make(&used, base, "kind-", &err_), 0);
    assert_int_equal(own_folder_make(&other, base, "other-", &err_), 0);
    put_file(killed.path, "socket");
    close(killed.lock);
    close(other.lock);
    assert_int_equal(own_folder_make(&next, base, "kind-", &err_), 0);
    assert_true(is_there(killed.path)); /* it could be new, and not locked yet */
    own_folder_remove(&next);
    make_old(killed.path);
    make_old(used.path);
    make_old(other.path);
    assert_int_equal(own_folder_make(&next, base, "kind-", &err_), 0);
    assert_false(is_there(killed.path));
    assert_true(is_there(used.path) && is_there(next.path) && is_there(other.path));
    own_folder_remove(&used);
    own_folder_remove(&next);
}

static void where_nothing_can_be_made_the_folder_is_named(void **state)
{
    struct own_folder f;
    (void)state;
    assert_int_equal(own_folder_make(&f, "/proc/nowhere", "kind-", &err_), -(int)ERR_IO);
    assert_non_null(strstr(err_.message, "cannot make a folder in '/proc/nowhere'"));
    own_folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_is_its_users_alone_and_goes_with_what_is_in_it,
                                        make_base, remove_base),
        cmocka_unit_test_setup_teardown(what_a_killed_rank_left_goes_when_the_next_one_begins,
                                        make_base, remove_base),
        cmocka_unit_test(where_nothing_can_be_made_the_folder_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
