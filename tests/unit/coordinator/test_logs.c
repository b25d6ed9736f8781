/* The attempt's output, split into the logs of ranks. */
#include "tests/unit/coordinator/fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/monitor/logs.h"

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void expect_file(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX + 60], got[300] = "";
    snprintf(path, sizeof path, "%s/logs/%s", dir, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(got, text);
    unlink(path);
}

/* dir: becomes the job's folder, and must live as long as the result. */
static struct logs open_logs(char *dir, int ranks)
{
    struct logs l = {.job_dir = dir, .ranks = ranks};
    char path[60];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/logs", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(l.output, sizeof l.output, "%s/attempt-1.out", dir);
    return l;
}

static void remove_logs(const struct logs *l)
{
    char path[60];
    unlink(l->output);
    snprintf(path, sizeof path, "%s/logs", l->job_dir);
    rmdir(path);
    rmdir(l->job_dir);
}

/* mpirun tags each piece of a rank's output as it reads it, wherever the piece ends. */
static void lines_that_mpirun_has_torn_are_whole_again(void **state)
{
    char dir[] = "/tmp/evenstep-logs-XXXXXX";
    (void)state;
    struct logs l = open_logs(dir, 2);
    write_file(l.output,
               "[1,0]<stderr>:first\n"
               "[1,0]<stderr>:to[1,0]<stderr>:rn\n"
               "[1,0]<stderr>:by an[1,1]<stderr>:another's [1,2] text\n"
               "[1,0]<stderr>:other\n"
               "mpirun's own\n");
    logs_read(&l, true);
    expect_file(dir, "rank-0.log", "first\ntorn\nby another\n");
    expect_file(dir, "rank-1.log", "another's [1,2] text\n");
    expect_file(dir, "attempt.log", "mpirun's own\n");
    remove_logs(&l);
}

/* The rest of a line may come in the next turn. The alarm ends a reader that would wait for it. */
static void a_line_without_its_end_waits_for_it(void **state)
{
    char dir[] = "/tmp/evenstep-logs-XXXXXX";
    (void)state;
    struct logs l = open_logs(dir, 1);
    write_file(l.output, "[1,0]<stderr>:whole\n[1,0]<stderr>:ha");
    alarm(60);
    logs_read(&l, true);
    alarm(0);
    write_file(l.output, "[1,0]<stderr>:whole\n[1,0]<stderr>:half\n");
    logs_read(&l, true);
    expect_file(dir, "rank-0.log", "whole\nhalf\n");
    remove_logs(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_mpirun_has_torn_are_whole_again),
        cmocka_unit_test(a_line_without_its_end_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
