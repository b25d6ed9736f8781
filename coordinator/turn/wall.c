/* See wall.h. */
#include "coordinator/turn/wall.h"

#include <stdlib.h>

#include "common/clock.h"

static int64_t read_start(struct store *s, const char *job)
{
    char *text = store_job_field(s, job, "started", NULL);
    int64_t ms = text ? clock_parse(text) : 0;
    free(text);
    return ms > 0 ? ms : 0;
}

bool wall_is_over(struct store *s, const char *job, const struct jobspec *spec, int64_t *started_ms,
                  struct err *why)
{
    int64_t own = 0, *started = started_ms ? started_ms : &own;
    if (!spec || spec->max_wall_seconds <= 0) {
        return false;
    }
    if (*started == 0) {
        *started = read_start(s, job);
    }
    double spent = *started ? (double)(clock_wall_ms() - *started) / 1000 : 0;
    if (spent <= spec->max_wall_seconds) {
        return false;
    }
    err_set(why, ERR_TIMEOUT,
            "the job began %.0f s ago, and its max_wall_seconds allows %g s, waiting included",
            spent, spec->max_wall_seconds);
    return true;
}
