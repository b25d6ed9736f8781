/* Curves, norms, logged metrics and the last steps of a job, read from its history on disk
 * (store/history.h). None needs the store, so charts are available while it is away. A job that is
 * known but has no history yet has empty series, not an error.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "http/api/api.h"
#include "http/content/csv.h"
#include "http/request/request.h"
#include "store/history.h"

enum { PATH_BYTES = 1024, LAST_USUAL = 50 };

int api_job_series(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    const char *names = request_param(q, "names");
    struct series_ask ask = {.names = names && *names ? names : "train_loss",
                             .x = request_param(q, "x"),
                             .from = request_real(q, "from", NAN),
                             .to = request_real(q, "to", NAN),
                             .points = (int)request_int(q, "points", 0),
                             .node_points = (int)request_int(q, "node_points", 0)};
    if (request_job_folder(q, "", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    json_t *body = history_series(folder, &ask, e);
    if (!body) {
        return request_blame(q, "names", e);
    }
    return request_wants_csv(q)
               ? csv_reply(out, csv_of_series(json_object_get(body, "series")), body, e)
               : reply_set_json(out, 200, body, e);
}

int api_job_norms(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    if (request_job_folder(q, "", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    json_t *body = history_norms_read(folder, (int)request_int(q, "points", 0), e);
    if (!body) {
        return -(int)e->code;
    }
    return request_wants_csv(q) ? csv_reply(out, csv_of_norms(body), body, e)
                                : reply_set_json(out, 200, body, e);
}

int api_job_logged(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    if (request_job_folder(q, "", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    const char *by = request_param(q, "by");
    struct logged_ask ask = {.axis = !by || strcmp(by, "step") == 0 ? LOGGED_STEP
                                     : strcmp(by, "epoch") == 0     ? LOGGED_EPOCH
                                                                    : LOGGED_TIME,
                             .from = request_real(q, "from", NAN),
                             .to = request_real(q, "to", NAN),
                             .points = (int)request_int(q, "points", 0)};
    json_t *body = history_logged_read(folder, &ask, e);
    if (!body) {
        return -(int)e->code;
    }
    return request_wants_csv(q)
               ? csv_reply(out, csv_of_logged(json_object_get(body, "metrics")), body, e)
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
