/* Curves and the last steps of a job, read from its history on disk (store/history.h); neither
 * needs the store, so charts are available while it is away. A job that is known but has no history
 * yet has empty series, not an error.
 */
#include <math.h>
#include <stdio.h>

#include "http/api/api.h"
#include "http/content/csv.h"
#include "http/request.h"
#include "store/history.h"

enum { PATH_BYTES = 1024, POINTS_USUAL = 600, LAST_USUAL = 50 };

int api_job_series(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    const char *names = request_param(q, "names"), *x = request_param(q, "x");
    double from = request_real(q, "from", NAN), to = request_real(q, "to", NAN);
    if (request_job_folder(q, "", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    json_t *body = history_series(folder, names && *names ? names : "train_loss", x ? x : "step",
                                  from, to, (int)request_int(q, "points", POINTS_USUAL), e);
    if (!body && e->code == ERR_INVALID) {
        jsonx_problem(&q->problems, "names", "%s", e->message);
    }
    if (!body) {
        return -(int)e->code;
    }
    return request_wants_csv(q)
               ? csv_reply(out, csv_of_series(json_object_get(body, "series")), body, e)
               : reply_set_json(out, 200, body, e);
}

int api_job_steps(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    if (request_job_folder(q, "", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    json_t *nodes = history_last(folder, (int)request_int(q, "last", LAST_USUAL), e);
    return nodes ? reply_set_json(out, 200, json_pack("{s:o}", "nodes", nodes), e) : -(int)e->code;
}
