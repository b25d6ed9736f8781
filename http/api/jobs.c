/* Jobs as a whole: submit, list, show, change, ask, delete. The store does the work. This file
 * turns a request into a spec that is checked twice: by job/spec/spec.c for what needs no machine,
 * by the coordinator's hook for what does. Both add to one list of problems, so a user sees every
 * mistake at once.
 */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/process/proc.h"
#include "http/api/api.h"
#include "http/api/job_query.h"
#include "http/rights/owner.h"
#include "http/rights/limits.h"
#include "http/request/request.h"
#include "http/request/trail.h"
#include "job/spec/spec.h"
#include "job/tags.h"

static void wake(struct request *q)
{
    if (q->server->hooks.wake) {
        q->server->hooks.wake(q->server->hooks.ctx);
    }
}

/* ---- submit ---------------------------------------------------------------------------------- */

/* Checks that need the machines: placement, data, `init`. NULL without problems: the check could
 * not be made.
 */
static json_t *ask_plan(struct request *q, const json_t *spec, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    bool programs = q->who.role >= ROLE_PROGRAMS;
    return hooks->plan ? hooks->plan(hooks->ctx, spec, programs, &q->problems, e) : json_object();
}

/* If no prediction can be made, the answer has none, and says why. */
static json_t *ask_prediction(struct request *q, const struct jobspec *spec, const json_t *plan)
{
    const struct http_hooks *hooks = &q->server->hooks;
    struct err why = {0};
    int64_t samples = json_integer_value(json_object_get(plan, "samples"));
    json_t *prediction = NULL;
    if (spec->program.given) {
        err_set(&why, ERR_UNSUPPORTED, "what a program computes is not known before it ran");
    } else if (hooks->predict) {
        prediction = hooks->predict(hooks->ctx, spec->json, samples, &why);
    }
    if (!prediction && hooks->predict) {
        prediction = json_pack("{s:b, s:s, s:n, s:[]}", "approximate", 1, "reason", why.message,
                               "cluster", "strategies");
    }
    return prediction;
}

static int answer_dry_run(struct request *q, struct reply *out, const struct jobspec *spec,
                          json_t *plan, struct err *e)
{
    json_t *prediction = ask_prediction(q, spec, plan);
    json_t *parameters = spec->program.given ? json_null() /* the program reports it when it
                                                              joins */
                                             : json_integer((json_int_t)spec->network.n_params);
    json_t *body =
        json_pack("{s:b, s:O, s:o}", "valid", 1, "spec", spec->json, "parameters", parameters);
    if (spec->network.n_layers > 0) {
        json_object_set_new(body, "layers", network_outline(&spec->network));
        json_object_set_new(body, "activation_bytes",
                            json_integer((json_int_t)network_activation_bytes(&spec->network)));
    }
    json_object_update_missing(body, plan);
    if (prediction) {
        json_object_set_new(body, "prediction", prediction);
    }
    json_decref(plan);
    return reply_set_json(out, 200, body, e);
}

/* The job's document, with its version in the ETag. */
static int answer_job(struct request *q, struct reply *out, int status, const char *id,
                      struct err *e)
{
    char version[STORE_VERSION];
    size_t len = 0;
    struct store *store = request_store(q, e);
    char *job = store ? store_job_text(store, id, version, &len, e) : NULL;
    if (!job) {
        return -(int)e->code;
    }
    int rc = reply_set_text(out, status, "application/json", job, len, e);
    reply_version(out, version);
    return rc;
}

/* `key` may be NULL. */
static int queue_job(struct request *q, struct reply *out, const struct jobspec *spec,
                     const char *key, struct err *e)
{
    char id[STORE_ID], location[64];
    struct limits_place place;
    struct store *store = request_store(q, e);
    int rc = store ? limits_enter(q, store, key, &place, e) : -(int)e->code;
    if (rc < 0) {
        return rc;
    }
    int made = store_job_create(store, spec->json, spec->priority, key, q->who.owner, id, e);
    limits_leave(&place);
    if (made < 0) {
        return made;
    }
    trail_note(q, "job %s '%.100s'", id, jsonx_string_at(spec->json, "name"));
    wake(q);
    if ((rc = answer_job(q, out, 201, id, e)) < 0) {
        return rc;
    }
    snprintf(location, sizeof(location), "/api/v1/jobs/%s", id);
    reply_header(out, "Location", location);
    if (made == JOB_CREATED_BEFORE) {
        reply_header(out, "Idempotency-Replayed", "true");
    }
    return 0;
}

static int submit(struct request *q, struct reply *out, struct jobspec *spec, json_t *body,
                  struct err *e)
{
    bool dry = request_bool(q, "dryRun");
    char key[REQUEST_KEY];
    int keyed = request_idempotency_key(q, "", key, e);
    if (keyed < 0) {
        return keyed;
    }
    limits_complete(q, body);
    if (jobspec_parse(spec, body, &q->problems) < 0 || q->problems.count > 0) {
        return request_document_not_valid(q, "the job", e);
    }
    err_clear(e);
    limits_check(q, spec);
    json_t *plan = ask_plan(q, spec->json, e);
    if (q->problems.count > 0) {
        json_decref(plan);
        return request_document_not_valid(q, "the job", e);
    }
    if (dry) {
        return plan      ? answer_dry_run(q, out, spec, plan, e)
               : e->code ? -(int)e->code
                         : err_set(e, ERR_INTERNAL, "cannot plan the job");
    }
    if (!plan) { /* a failed check does not refuse a valid job; the scheduler will find out */
        log_warn("http", "a job is queued without having asked where it would run", "reason=\"%s\"",
                 e->message);
    }
    json_decref(plan);
    return queue_job(q, out, spec, keyed ? key : NULL, e);
}

int api_jobs_submit(struct request *q, struct reply *out, struct err *e)
{
    json_t *body = request_json(q, e);
    struct jobspec *spec = body ? calloc(1, sizeof(*spec)) : NULL;
    int done;
    if (spec) {
        done = submit(q, out, spec, body, e);
        jobspec_release(spec);
    } else {
        done =
            body ? err_set(e, ERR_MEMORY, "cannot check the job: memory ran out") : -(int)e->code;
    }
    free(spec);
    json_decref(body);
    return done;
}

/* ---- list, show ------------------------------------------------------------------------------ */

int api_jobs_list(struct request *q, struct reply *out, struct err *e)
{
    struct job_query query;
    struct filter where;
    size_t len = 0;
    if (job_query_read(q, &query, &where, e) < 0) {
        return -(int)e->code;
    }
    struct store *store = request_store(q, e);
    char *text = store ? store_job_page(store, &query, &len, e) : NULL;
    return text ? reply_set_text(out, 200, "application/json", text, len, e)
                : request_blame(q, "cursor", e);
}

int api_job_get(struct request *q, struct reply *out, struct err *e)
{
    const char *id = request_job(q, e);
    return id ? answer_job(q, out, 200, id, e) : -(int)e->code;
}

/* ---- change ---------------------------------------------------------------------------------- */

/* Reads the version that the client saw into seen[], from If-Match; "" without one. Returns 0, or 1
 * with `out` set to 412. */
static int read_seen(struct request *q, struct store *store, const char *id, struct reply *out,
                     char seen[STORE_VERSION], struct err *e)
{
    char etag[STORE_VERSION + 2];
    seen[0] = '\0';
    if (!request_header(q, "If-Match")) {
        return 0;
    }
    int rc = store_job_version(store, id, seen, e);
    if (rc < 0) {
        return rc;
    }
    snprintf(etag, sizeof(etag), "\"%s\"", seen);
    return request_matches(q, etag, out) ? 0 : 1;
}

/* Reads and checks the body. *change borrows from it and from *priority. */
static int read_change(struct request *q, const json_t *body, const char *id, int *priority,
                       struct job_change *change, struct err *e)
{
    const json_t *given = json_object_get(body, "priority");
    json_int_t value = json_integer_value(given);
    *change = (struct job_change){.tags = json_object_get(body, "tags"),
                                  .note = json_object_get(body, "note")};
    if (given && (!json_is_integer(given) || value < -SPEC_PRIORITY || value > SPEC_PRIORITY)) {
        jsonx_problem(&q->problems, "/priority", "expected a whole number from %d to %d",
                      -SPEC_PRIORITY, SPEC_PRIORITY);
    }
    *priority = (int)value;
    change->priority = given ? priority : NULL;
    if (change->tags) {
        tags_check(change->tags, "/tags", &q->problems);
    }
    if (change->note) {
        note_check(change->note, "/note", &q->problems);
    }
    char what[80];
    snprintf(what, sizeof what, "the change of job '%s'", id);
    return q->problems.count == 0 ? 0 : request_not_valid(q, what, e);
}

static void note_change(struct request *q, const struct job_change *change)
{
    char priority[32] = "";
    if (change->priority) {
        snprintf(priority, sizeof(priority), "priority %d", *change->priority);
    }
    trail_note(q, "%s%s%s%s%s", priority, change->priority && change->tags ? ", " : "",
               change->tags ? "tags" : "",
               change->note && (change->priority || change->tags) ? ", " : "",
               change->note ? "note" : "");
}

static int patch(struct request *q, struct reply *out, const json_t *body, const char *id,
                 struct err *e)
{
    struct job_change change;
    char seen[STORE_VERSION];
    int priority, rc = read_change(q, body, id, &priority, &change, e);
    struct store *store = rc < 0 ? NULL : request_store(q, e);
    if (!store || (rc = read_seen(q, store, id, out, seen, e)) != 0) {
        return rc > 0 ? 0 : -(int)e->code;
    }
    rc = store_job_change(store, id, &change, seen[0] ? seen : NULL, e);
    if (rc != JOB_CHANGED) {
        return rc < 0 ? rc : reply_precondition(out);
    }
    note_change(q, &change);
    if (change.priority) {
        wake(q);
    }
    return answer_job(q, out, 200, id, e);
}

int api_job_patch(struct request *q, struct reply *out, struct err *e)
{
    static const char *const keys[] = {"priority", "tags", "note", NULL};
    const char *id = owner_job(q, e);
    json_t *body = id ? request_object(q, keys, e) : NULL;
    int done = body ? patch(q, out, body, id, e) : -(int)e->code;
    json_decref(body);
    return done;
}

static int ask(struct request *q, struct reply *out, const char *what, struct err *e)
{
    const char *id = owner_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    if (!store || store_job_request(store, id, what, e) < 0) {
        return -(int)e->code;
    }
    wake(q);
    return answer_job(q, out, 200, id, e);
}

int api_job_cancel(struct request *q, struct reply *out, struct err *e)
{
    return ask(q, out, "cancel", e);
}

int api_job_pause(struct request *q, struct reply *out, struct err *e)
{
    return ask(q, out, "pause", e);
}

int api_job_resume(struct request *q, struct reply *out, struct err *e)
{
    return ask(q, out, "resume", e);
}

int api_job_delete(struct request *q, struct reply *out, struct err *e)
{
    char folder[1024], seen[STORE_VERSION];
    struct err kept;
    const char *id = owner_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    int rc = store ? request_job_path(q, "", folder, sizeof(folder), e) : -(int)e->code;
    if (rc < 0 || (rc = read_seen(q, store, id, out, seen, e)) != 0) {
        return rc < 0 ? rc : 0;
    }
    rc = store_job_delete(store, id, seen[0] ? seen : NULL, e);
    if (rc != JOB_CHANGED) {
        return rc < 0 ? rc : reply_precondition(out);
    }
    if (proc_remove_tree(folder, &kept) < 0 && kept.code != ERR_NOT_FOUND) {
        log_warn("http", "the files of a deleted job could not be removed", "job=%s reason=\"%s\"",
                 id, kept.message);
    }
    return reply_set_empty(out, 204, e);
}
