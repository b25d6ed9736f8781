/* Curves and the last steps of a job, read from its history on disk (store/history.h); neither
 * needs the store, so charts are available while it is away. A job that is known but has no history
 * yet has empty series, not an error.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "http/api.h"
#include "http/request.h"
#include "store/history.h"

enum { PATH_BYTES = 1024, POINTS_USUAL = 600, LAST_USUAL = 50 };

static int job_folder(struct request *q, char path[PATH_BYTES], struct err *e)
{
    struct stat st;
    enum job_state state;
    int made = request_job_path(q, "", path, PATH_BYTES, e);
    if (made < 0 || stat(path, &st) == 0) {
        return made;
    }
    struct store *store = request_store(q, e);
    return store ? store_job_state(store, q->match.args[0], &state, e) : -(int)e->code;
}

int api_job_series(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    const char *names = request_param(q, "names"), *x = request_param(q, "x");
    double from = request_real(q, "from", NAN), to = request_real(q, "to", NAN);
    if (job_folder(q, folder, e) < 0) {
        return -(int)e->code;
    }
    json_t *body = history_series(folder, names && *names ? names : "train_loss", x ? x : "step",
                                  from, to, (int)request_int(q, "points", POINTS_USUAL), e);
    if (!body && e->code == ERR_INVALID) {
        jsonx_problem(&q->problems, "/names", "%s", e->message);
    }
    return body ? reply_set_json(out, 200, body, e) : -(int)e->code;
}

int api_job_steps(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    if (job_folder(q, folder, e) < 0) {
        return -(int)e->code;
    }
    json_t *nodes = history_last(folder, (int)request_int(q, "last", LAST_USUAL), e);
    return nodes ? reply_set_json(out, 200, json_pack("{s:o}", "nodes", nodes), e) : -(int)e->code;
}
