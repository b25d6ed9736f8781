/* See limits.h. */
#include "http/limits.h"

#include <pthread.h>

#include "http/request.h"

static pthread_mutex_t submitting = PTHREAD_MUTEX_INITIALIZER;

void limits_find(const struct request *q, const char *owner, struct quota *out)
{
    const struct http_hooks *hooks = &q->server->hooks;
    if (hooks->quota && owner[0]) {
        hooks->quota(hooks->ctx, owner, out);
    } else {
        quota_of(NULL, owner, out);
    }
}

/* ---- what the spec asks ---------------------------------------------------------------------- */

void limits_complete(const struct request *q, json_t *body)
{
    struct quota quota;
    limits_find(q, q->who.owner, &quota);
    double usual = quota.seconds > 0 ? quota.seconds : quota.max_seconds;
    if (quota.max_seconds > 0 && usual > quota.max_seconds) {
        usual = quota.max_seconds;
    }
    if (usual > 0 && json_is_object(body) && !json_object_get(body, "max_seconds")) {
        json_object_set_new(body, "max_seconds", json_real(usual));
    }
}

void limits_check(struct request *q, const struct jobspec *spec)
{
    struct quota quota;
    limits_find(q, q->who.owner, &quota);
    if (quota.max_seconds > 0 &&
        (spec->max_seconds <= 0 || spec->max_seconds > quota.max_seconds)) {
        jsonx_problem(&q->problems, "/max_seconds", "a job of '%s' may take at most %g s",
                      q->who.owner, quota.max_seconds);
    }
    if (quota.nodes >= 0 && !spec->cluster && spec->workers > quota.nodes) {
        jsonx_problem(&q->problems, "/workers",
                      "the jobs of '%s' may use %d node%s at a time, and this one asks for %d",
                      q->who.owner, quota.nodes, quota.nodes == 1 ? "" : "s", spec->workers);
    }
}

/* ---- room ------------------------------------------------------------------------------------ */

static bool is_limited(const struct quota *quota)
{
    return quota->queued >= 0 || quota->disk_bytes >= 0;
}

static int find_room(const struct quota *quota, const char *owner, struct store *store,
                     struct err *e)
{
    json_t *owners = store_owners(store, e);
    int rc = owners ? quota_room(quota, owner, owners, e) : -(int)e->code;
    json_decref(owners);
    return rc;
}

int limits_enter(const struct request *q, struct store *store, const char *key,
                 struct limits_place *place, struct err *e)
{
    struct quota quota;
    limits_find(q, q->who.owner, &quota);
    place->held = is_limited(&quota);
    if (!place->held) {
        return 0;
    }
    pthread_mutex_lock(&submitting);
    int made = key ? store_job_made(store, key, e) : 0;
    int rc = made != 0 ? made : find_room(&quota, q->who.owner, store, e);
    if (rc < 0) {
        limits_leave(place);
    }
    return rc < 0 ? rc : 0;
}

void limits_leave(struct limits_place *place)
{
    if (place->held) {
        pthread_mutex_unlock(&submitting);
    }
    place->held = false;
}
