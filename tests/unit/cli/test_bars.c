/* The line of a job as `evenstep watch` draws it. */
#include "cli/jobs/bars.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void draw(int step, char out[BARS_LINE])
{
    json_t *job = json_pack("{s:s, s:{s:f, s:f, s:f, s:i}}", "state", "running", "progress",
                            "epoch", step > 0 ? 8.1 : 0.0, "epochs", 10.0, "fraction",
                            step > 0 ? 0.81 : 0.0, "step", step);
    bars_job(job, 0, 0, out);
    json_decref(job);
}

static void an_epoch_is_told_once_a_step_was_made(void **state)
{
    (void)state;
    char line[BARS_LINE];
    draw(0, line);
    assert_null(strstr(line, "epoch")); /* a job that goes on at 8.1 was at "epoch 0.0" */
    draw(812, line);
    assert_non_null(strstr(line, " 81 %  epoch 8.1/10"));
}

static void a_program_without_an_accuracy_shows_what_it_logs(void **state)
{
    (void)state;
    char line[BARS_LINE], name[64];
    json_t *job = json_pack("{s:s, s:{s:f}, s:{s:f, s:n, s:f, s:f}, s:{s:n}}", "state", "running",
                            "progress", "fraction", 0.5, "logged", "bleu", 31.25, "broken",
                            "eval/\x1b[1m", 0.5, "third", 1.0, "metrics", "test_accuracy");
    bars_job(job, 0, 0, line);
    assert_non_null(strstr(line, "  bleu 31.25  eval/\\u001b[1m 0.5"));
    assert_null(strstr(line, "third"));
    json_object_set_new(json_object_get(job, "metrics"), "test_accuracy", json_real(0.5));
    bars_job(job, 0, 0, line);
    assert_null(strstr(line, "bleu"));
    json_object_set_new(json_object_get(job, "metrics"), "test_accuracy", json_null());
    memset(name, 'x', sizeof name);
    name[63] = '\0';
    json_object_clear(json_object_get(job, "logged"));
    json_object_set_new(json_object_get(job, "logged"), name, json_real(2));
    bars_job(job, 0, 0, line);
    assert_non_null(strstr(line, "  xxxxxxxxxxxxxxxxxxx… 2"));
    json_decref(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_is_told_once_a_step_was_made),
        cmocka_unit_test(a_program_without_an_accuracy_shows_what_it_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
