/* Parts of a job: workers, staleness, assignments, evaluations, artifacts. Artifacts are served
 * without the store, so they can be seen while it is away; only for a job without a folder is the
 * store asked.
 */
#include <stdio.h>

#include "http/api/api.h"
#include "http/content/csv.h"
#include "http/content/files.h"
#include "http/request/request.h"

enum { PATH_BYTES = 1024 };

/* ---- what the store has ---------------------------------------------------------------------- */

int api_job_workers(struct request *q, struct reply *out, struct err *e)
{
    json_t *job = request_whole_job(q, e);
    if (!job) {
        return -(int)e->code;
    }
    json_t *body = json_pack("{s:O, s:O}", "workers", json_object_get(job, "workers"), "servers",
                             json_object_get(job, "servers"));
    json_decref(job);
    return reply_set_json(out, 200, body, e);
}

/* A document of the monitor; before it has written one, {key: []}. */
static json_t *detail_of(struct request *q, const char *doc, const char *key, struct err *e)
{
    enum job_state state;
    const char *id = request_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    if (!store || store_job_state(store, id, &state, e) < 0) {
        return NULL;
    }
    err_clear(e);
    json_t *body = store_doc_get(store, id, doc, e);
    return body || e->code ? body : json_pack("{s:[]}", key);
}

int api_job_staleness(struct request *q, struct reply *out, struct err *e)
{
    json_t *body = detail_of(q, "detail:staleness", "nodes", e);
    return body ? reply_set_json(out, 200, body, e) : -(int)e->code;
}

int api_job_evaluations(struct request *q, struct reply *out, struct err *e)
{
    json_t *body = detail_of(q, "detail:evaluations", "evaluations", e);
    if (!body) {
        return -(int)e->code;
    }
    return request_wants_csv(q)
               ? csv_reply(out, csv_of_evaluations(json_object_get(body, "evaluations")), body, e)
               : reply_set_json(out, 200, body, e);
}

int api_job_assignments(struct request *q, struct reply *out, struct err *e)
{
    enum job_state state;
    const char *id = request_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    if (!store || store_job_state(store, id, &state, e) < 0) {
        return -(int)e->code;
    }
    json_t *list = store_assignments(store, id, e);
    return list ? reply_set_json(out, 200, json_pack("{s:o}", "assignments", list), e)
                : -(int)e->code;
}

/* ---- confusion ------------------------------------------------------------------------------- */

int api_job_confusion(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    char folder[PATH_BYTES];
    if (request_job_folder(q, "artifacts", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    if (!hooks->scored) {
        return err_set(e, ERR_UNSUPPORTED, "models are not evaluated here");
    }
    err_clear(e);
    json_t *scored = hooks->scored(hooks->ctx, q->match.args[0], e);
    return scored ? reply_set_json(out, 200, scored, e) : -(int)e->code;
}

/* ---- artifacts ------------------------------------------------------------------------------- */

int api_job_artifacts(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    if (request_job_folder(q, "artifacts", folder, sizeof(folder), e) < 0) {
        return -(int)e->code;
    }
    json_t *list = files_list(q->server->digests, folder, e);
    return list ? reply_set_json(out, 200, json_pack("{s:o}", "artifacts", list), e)
                : -(int)e->code;
}

int api_job_artifact(struct request *q, struct reply *out, struct err *e)
{
    char folder[PATH_BYTES];
    int made = request_job_folder(q, "artifacts", folder, sizeof(folder), e);
    return made < 0 ? made : files_send(q, folder, q->match.args[1], true, out, e);
}
