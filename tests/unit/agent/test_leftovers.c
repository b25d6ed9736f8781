/* What killed agents leave over (agent/leftovers.c): only remains without a living owner are
 * removed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/leftovers.h"
#include "common/process/proc.h"

static char parent[64];

static int make_parent(void **state)
{
    (void)state;
    snprintf(parent, sizeof parent, "/tmp/evenstep-test-XXXXXX");
    return mkdtemp(parent) ? 0 : -1;
}

static int remove_parent(void **state)
{
    (void)state;
    return proc_remove_tree(parent, NULL);
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", parent, name);
    return path;
}

static bool is_there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* A folder with something in it, owned by a process that has been killed. */
static void leave(const char *name)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char inner[300];
        mkdir(path_of(name), 0700);
        snprintf(inner, sizeof inner, "%s/deep", path_of(name));
        mkdir(inner, 0700);
        leftovers_own(path_of(name));
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(is_there(name));
}

static void rewrite(const char *name, const char *from, const char *to)
{
    char path[300], changed[400];
    snprintf(path, sizeof path, "%s/.agent", path_of(name));
    char *text = proc_read_file(path, 300, NULL, NULL), *at = strstr(text, from);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_equal(proc_write_file(path, changed, strlen(changed), 0600, NULL), 0);
    free(text);
}

static void folders_of_killed_agents_go(void **state)
{
    (void)state;
    leave("es-0-one");
    leave("es-0-two");
    assert_int_equal(leftovers_sweep(parent, "es-0-"), 2);
    assert_false(is_there("es-0-one") || is_there("es-0-two"));
}

static void what_may_be_somebodys_stays(void **state)
{
    (void)state;
    mkdir(path_of("es-0-living"), 0700);
    leftovers_own(path_of("es-0-living"));
    mkdir(path_of("es-0-unmarked"), 0700);
    leave("other-0-dead");
    leave("es-0-elsewhere"); /* of another boot or namespace */
    rewrite("es-0-elsewhere", "-", "x");
    assert_int_equal(leftovers_sweep(parent, "es-0-"), 0);
    assert_true(is_there("es-0-living") && is_there("es-0-unmarked"));
    assert_true(is_there("other-0-dead") && is_there("es-0-elsewhere"));
}

/* The owner's start differs from this process's by one tick, because a child that is forked at once
 * may start within the same tick. */
static void a_number_that_another_process_has_now_is_not_its_owner(void **state)
{
    char path[300], place[200], marker[300];
    (void)state;
    leave("es-0-old");
    snprintf(path, sizeof path, "%s/.agent", path_of("es-0-old"));
    char *text = proc_read_file(path, 300, NULL, NULL);
    assert_int_equal(sscanf(text, "%199s", place), 1);
    free(text);
    int n = snprintf(marker, sizeof marker, "%s %d %" PRIu64 "\n", place, (int)getpid(),
                     proc_start_ticks(getpid()) - 1);
    assert_int_equal(proc_write_file(path, marker, (size_t)n, 0600, NULL), 0);
    assert_int_equal(leftovers_sweep(parent, "es-0-"), 1);
}

static void a_folder_that_is_not_there_has_nothing(void **state)
{
    (void)state;
    assert_int_equal(leftovers_sweep("/nowhere", "es-"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_of_killed_agents_go),
        cmocka_unit_test(what_may_be_somebodys_stays),
        cmocka_unit_test(a_number_that_another_process_has_now_is_not_its_owner),
        cmocka_unit_test(a_folder_that_is_not_there_has_nothing),
    };
    return cmocka_run_group_tests(tests, make_parent, remove_parent);
}
