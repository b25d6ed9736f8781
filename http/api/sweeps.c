/* Sweeps over the API: list, show, start, cancel, delete. This file checks a sweep and puts it into
 * the store; the coordinator submits its jobs (coordinator/sweeps). A sweep belongs to its maker as
 * a job does, and so do its jobs.
 */
#include "store/sweeps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/api.h"
#include "http/api/sweep_check.h"
#include "http/api/sweep_view.h"
#include "http/rights/limits.h"
#include "http/rights/owner.h"
#include "http/request/request.h"
#include "http/request/trail.h"
#include "job/sweep/record.h"

enum { LISTED = 100 };

/* ---- showing --------------------------------------------------------------------------------- */

int api_sweeps_list(struct request *q, struct reply *out, struct err *e)
{
    struct store *store = request_store(q, e);
    int limit = (int)request_int(q, "limit", LISTED);
    json_t *all = store ? store_sweeps(store, limit, e) : NULL, *list = json_array(), *one;
    size_t i;
    bool failed = !all;
    json_array_foreach(all, i, one) {
        failed = failed || json_array_append_new(list, sweep_view(one, false, e)) < 0;
    }
    json_decref(all);
    if (failed) {
        json_decref(list);
        return -(int)e->code;
    }
    return reply_set_json(out, 200, json_pack("{s:o}", "sweeps", list), e);
}

/* The sweep of the path. New reference; NULL with ERR_NOT_FOUND. */
static json_t *sweep_of(struct request *q, struct store **store, struct err *e)
{
    const char *id = q->match.args[0];
    if (!request_is_job(id)) { /* sweeps and webhooks have ids of the same form as jobs */
        err_set(e, ERR_NOT_FOUND, "there is no sweep '%.60s'", id);
        return NULL;
    }
    *store = request_store(q, e);
    return *store ? store_sweep_get(*store, id, e) : NULL;
}

static int answer(struct reply *out, int status, const json_t *kept, struct err *e)
{
    json_t *shown = sweep_view(kept, true, e);
    return shown ? reply_set_json(out, status, shown, e) : -(int)e->code;
}

int api_sweep_get(struct request *q, struct reply *out, struct err *e)
{
    struct store *store;
    json_t *kept = sweep_of(q, &store, e);
    int rc = kept ? answer(out, 200, kept, e) : -(int)e->code;
    json_decref(kept);
    return rc;
}

/* ---- starting -------------------------------------------------------------------------------- */

static void wake(struct request *q)
{
    if (q->server->hooks.wake) {
        q->server->hooks.wake(q->server->hooks.ctx);
    }
}

static int put(struct request *q, struct reply *out, const struct sweep *sweep, const char *key,
               struct err *e)
{
    char id[STORE_ID], location[64];
    struct store *store = request_store(q, e);
    int made =
        store ? store_sweep_create(store, sweep->json, key, q->who.owner, id, e) : -(int)e->code;
    json_t *kept = made < 0 ? NULL : store_sweep_get(store, id, e);
    if (!kept) {
        return -(int)e->code;
    }
    trail_note(q, "sweep %s '%.100s', %d trials", id, sweep->name, sweep->trials);
    wake(q);
    int rc = answer(out, 201, kept, e);
    json_decref(kept);
    if (rc < 0) {
        return rc;
    }
    snprintf(location, sizeof(location), "/api/v1/sweeps/%s", id);
    reply_header(out, "Location", location);
    if (made == JOB_CREATED_BEFORE) {
        reply_header(out, "Idempotency-Replayed", "true");
    }
    return 0;
}

static int start(struct request *q, struct reply *out, struct sweep *sweep, json_t *body,
                 struct err *e)
{
    char key[REQUEST_KEY];
    int keyed = request_idempotency_key(q, "sweep ", key, e);
    if (keyed < 0) {
        return keyed;
    }
    limits_complete(q, json_object_get(body, "spec"));
    if (sweep_parse(sweep, body, &q->problems) == 0) {
        sweep_check(q, sweep);
    }
    if (q->problems.count > 0) {
        return request_document_not_valid(q, "the sweep", e);
    }
    return request_bool(q, "dryRun") ? reply_set_json(out, 200, sweep_plan(sweep), e)
                                     : put(q, out, sweep, keyed ? key : NULL, e);
}

int api_sweep_start(struct request *q, struct reply *out, struct err *e)
{
    struct sweep sweep = {0};
    json_t *body = request_json(q, e);
    int rc = body ? start(q, out, &sweep, body, e) : -(int)e->code;
    sweep_release(&sweep);
    json_decref(body);
    return rc;
}

/* ---- changing -------------------------------------------------------------------------------- */

/* As sweep_of(), if the sender may change it. */
static json_t *own_sweep(struct request *q, struct store **store, struct err *e)
{
    json_t *kept = sweep_of(q, store, e);
    if (kept && owner_check(q, "sweep", q->match.args[0], sweep_record_owner(kept), e) < 0) {
        json_decref(kept);
        kept = NULL;
    }
    return kept;
}

int api_sweep_cancel(struct request *q, struct reply *out, struct err *e)
{
    struct store *store;
    json_t *kept = own_sweep(q, &store, e);
    const char *id = q->match.args[0];
    int was = kept ? store_sweep_change(store, id, NULL, SWEEP_RUNNING, SWEEP_CANCELLING, e)
                   : -(int)e->code;
    json_decref(kept);
    if (was >= 0 && sweep_state_ended((enum sweep_state)was)) {
        was = err_set(e, ERR_CONFLICT, "sweep '%s' has ended: its state is %s", id,
                      sweep_state_name((enum sweep_state)was));
    }
    if (was < 0) {
        return was;
    }
    wake(q);
    return api_sweep_get(q, out, e);
}

int api_sweep_delete(struct request *q, struct reply *out, struct err *e)
{
    struct store *store;
    json_t *kept = own_sweep(q, &store, e);
    int rc = kept ? store_sweep_remove(store, q->match.args[0], e) : -(int)e->code;
    json_decref(kept);
    return rc < 0 ? rc : reply_set_empty(out, 204, e);
}
