/* See results.h. */
#include "coordinator/monitor/results.h"

#include <string.h>

#include "common/log.h"

void results_open(struct results *r, struct store *store, const char *job)
{
    struct err why = {0};
    char quoted[600];
    memset(r, 0, sizeof *r);
    json_t *j = store_doc_get(store, job, "detail:evaluations", NULL);
    if (j && evaluations_read(&r->evaluations, j, &why) < 0) {
        log_warn("monitor", "the job's evaluations cannot be read", "job=%s why=%s", job,
                 log_quote(quoted, sizeof quoted, why.message));
        evaluations_release(&r->evaluations);
    }
    json_decref(j);
}

void results_close(struct results *r)
{
    evaluations_release(&r->evaluations);
}

int results_save(struct results *r, struct store *store, const char *job, struct err *e)
{
    if (!r->unsaved) {
        return 0;
    }
    json_t *j = evaluations_json(&r->evaluations);
    int rc = store_doc_set(store, job, "detail:evaluations", j, e);
    json_decref(j);
    r->unsaved = rc < 0;
    return rc;
}

/* How much a rank's end says about why the attempt ended. An echo is a rank that failed because
 * another one did. A rank that gave up knows less than one that met the failure. */
enum severity { SEVERITY_NONE, SEVERITY_GAVE_UP, SEVERITY_ECHO, SEVERITY_CAUSE };

static enum severity severity(const struct ended *end)
{
    if (end->outcome != OUTCOME_FAILED) {
        return SEVERITY_NONE;
    }
    switch (end->code) {
    case ERR_CANCELLED:
        return SEVERITY_GAVE_UP;
    case ERR_PEER:
    case ERR_TIMEOUT:
        return SEVERITY_ECHO;
    default:
        return SEVERITY_CAUSE;
    }
}

void results_end(struct results *r, const struct ended *end)
{
    if (!r->has_ended || severity(end) > severity(&r->ended)) {
        r->has_ended = true;
        r->ended = *end;
    }
}
