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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_is_told_once_a_step_was_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
