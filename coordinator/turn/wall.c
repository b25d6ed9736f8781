/* See wall.h. */
#include "coordinator/turn/wall.h"

#include <stdlib.h>

#include "common/clock.h"

/* The job's start, by clock_now(); 0: not known. */
static double read_start(struct store *s, const char *job)
{
    char *text = store_job_field(s, job, "started", NULL);
    int64_t ms = text ? clock_parse(text) : 0;
    free(text);
    return ms > 0 ? clock_now() - (double)(clock_wall_ms() - ms) / 1000 : 0;
}

bool wall_is_over(struct store *s, const char *job, const struct jobspec *spec, double *began,
                  struct err *why)
{
    double own = 0, *started = began ? began : &own;
    if (!spec || spec->max_wall_seconds <= 0) {
        return false;
    }
    if (*started == 0) {
        *started = read_start(s, job);
    }
    double spent = *started != 0 ? clock_now() - *started : 0;
    if (spent <= spec->max_wall_seconds) {
        return false;
    }
    err_set(why, ERR_TIMEOUT,
            "the job began %.0f s ago, and its max_wall_seconds allows %g s, waiting included",
            spent, spec->max_wall_seconds);
    return true;
}
