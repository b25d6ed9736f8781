/* See limits.h. */
#include "http/rights/limits.h"

#include <pthread.h>
#include <string.h>

#include "http/request/request.h"

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

/* Sets the usual value where a spec gives none. */
static void set_usual(json_t *body, const char *key, double seconds)
{
    if (seconds > 0 && json_is_object(body) && !json_object_get(body, key)) {
        json_object_set_new(body, key, json_real(seconds));
    }
}

/* Checks a number of seconds; `most` <= 0: there is no limit. */
static void check_seconds(struct request *q, const char *pointer, double asked, double most,
                          const char *how)
{
    if (most > 0 && (asked <= 0 || asked > most)) {
        jsonx_problem(&q->problems, pointer, "a job of '%s' may take at most %g s%s", q->who.owner,
                      most, how);
    }
}

void limits_complete(const struct request *q, json_t *body)
{
    struct quota quota;
    limits_find(q, q->who.owner, &quota);
    double usual = quota.seconds > 0 ? quota.seconds : quota.max_seconds;
    if (quota.max_seconds > 0 && usual > quota.max_seconds) {
        usual = quota.max_seconds;
    }
    set_usual(body, "max_seconds", usual);
    set_usual(body, "max_wall_seconds", quota.max_wall_seconds);
}

void limits_check(struct request *q, const struct jobspec *spec)
{
    struct quota quota;
    limits_find(q, q->who.owner, &quota);
    check_seconds(q, "/max_seconds", spec->max_seconds, quota.max_seconds, "");
    check_seconds(q, "/max_wall_seconds", spec->max_wall_seconds, quota.max_wall_seconds,
                  " by the wall clock");
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

/* How many jobs of this owner are queued; negative: an error. */
static int count_queued(struct store *store, const char *owner, struct err *e)
{
    json_t *ids = store_job_ids(store, JOB_QUEUED, e), *one;
    json_t *owners = ids ? store_job_owners(store, ids, e) : NULL;
    int n = owners ? 0 : -(int)e->code;
    size_t i;
    json_array_foreach(owners, i, one) {
        n += strcmp(json_string_value(one), owner) == 0;
    }
    json_decref(owners);
    json_decref(ids);
    return n;
}

static int check_queued(const struct quota *quota, const char *owner, struct store *store,
                        struct err *e)
{
    int queued = count_queued(store, owner, e);
    if (queued < quota->queued) {
        return queued < 0 ? queued : 0;
    }
    err_set(e, ERR_QUOTA, "cannot queue the job: '%s' has %d of %d queued job%s", owner, queued,
            quota->queued, quota->queued == 1 ? "" : "s");
    return err_hint(e, "wait until one of them has started, or cancel one");
}

/* Checks the owner's disk space. It reads every job, since all their folders count. */
static int check_disk(const struct quota *quota, const char *owner, struct store *store,
                      struct err *e)
{
    json_t *owners = store_owners(store, e);
    if (!owners) {
        return -(int)e->code;
    }
    int64_t bytes = store_owner_disk_bytes(owners, owner);
    json_decref(owners);
    if (bytes < quota->disk_bytes) {
        return 0;
    }
    err_set(e, ERR_QUOTA, "cannot queue the job: the jobs of '%s' take %lld of %lld bytes of disk",
            owner, (long long)bytes, (long long)quota->disk_bytes);
    return err_hint(e, "delete jobs that have ended");
}

static int find_room(const struct quota *quota, const char *owner, struct store *store,
                     struct err *e)
{
    int rc = quota->queued >= 0 ? check_queued(quota, owner, store, e) : 0;
    return rc == 0 && quota->disk_bytes >= 0 ? check_disk(quota, owner, store, e) : rc;
}

int limits_enter_as(const char *owner, const struct quota *quota, struct store *store,
                    const char *key, struct limits_place *place, struct err *e)
{
    place->held = is_limited(quota);
    if (!place->held) {
        return 0;
    }
    pthread_mutex_lock(&submitting);
    int made = key ? store_job_made(store, key, e) : 0;
    int rc = made != 0 ? made : find_room(quota, owner, store, e);
    if (rc < 0) {
        limits_leave(place);
    }
    return rc < 0 ? rc : 0;
}

int limits_enter(const struct request *q, struct store *store, const char *key,
                 struct limits_place *place, struct err *e)
{
    struct quota quota;
    limits_find(q, q->who.owner, &quota);
    return limits_enter_as(q->who.owner, &quota, store, key, place, e);
}

void limits_leave(struct limits_place *place)
{
    if (place->held) {
        pthread_mutex_unlock(&submitting);
    }
    place->held = false;
}
