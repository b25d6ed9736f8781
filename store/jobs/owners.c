/* The owners of jobs, and what each owner's jobs have together. A round trip reads five hundred
 * jobs, so 20,000 take a fraction of a second.
 */
#include <stdlib.h>
#include <string.h>

#include "job/node/node.h"
#include "store/internal.h"

enum { OWNERS_CHUNK = 500, OWNERS_FIELDS = 3 };
static const char *const fields[OWNERS_FIELDS] = {"owner", "state", "disk_bytes"};

/* Takes the values of one job's fields: [n], NULL where the job has none. */
typedef void take_fn(void *ctx, const char *id, const char *const *values);

static int append(struct store *s, const json_t *ids, size_t from, size_t n, int n_fields,
                  struct err *e)
{
    char key[STORE_KEY];
    int rc = 0;
    for (size_t i = from; rc >= 0 && i < from + n; i++) {
        const char *argv[2 + OWNERS_FIELDS] = {"HMGET", key};
        memcpy(argv + 2, fields, sizeof *fields * (size_t)n_fields);
        if ((rc = key_of_job(key, KEY_JOB, json_string_value(json_array_get(ids, i)), e)) >= 0) {
            rc = store_append_argv(s, 2 + n_fields, argv, e);
        }
    }
    return rc;
}

/* A job's values, borrowed from the reply. Returns how many there are, or negative. */
static int read_values(const redisReply *reply, int n_fields, const char *values[], struct err *e)
{
    int have = reply_array(reply, (size_t)n_fields, e);
    for (int k = 0, rc; have >= n_fields && k < n_fields; k++) {
        if ((rc = reply_text(reply->element[k], &values[k], NULL, e)) < 0) {
            return rc;
        }
    }
    return have;
}

static int read_chunk(struct store *s, const json_t *ids, size_t from, size_t n, int n_fields,
                      take_fn *take, void *ctx, struct err *e)
{
    redisReply *replies[OWNERS_CHUNK];
    int rc = append(s, ids, from, n, n_fields, e);
    if (rc < 0 || (rc = store_replies(s, replies, e)) < 0) {
        return rc;
    }
    for (size_t i = 0; i < n; i++) {
        const char *values[OWNERS_FIELDS] = {NULL};
        if (rc >= 0 && (rc = read_values(replies[i], n_fields, values, e)) >= n_fields) {
            take(ctx, json_string_value(json_array_get(ids, from + i)), values);
        }
        freeReplyObject(replies[i]);
    }
    return rc < 0 ? rc : 0;
}

/* Reads the first n_fields of `fields` of all these jobs in their order. */
static int read_all(struct store *s, const json_t *ids, int n_fields, take_fn *take, void *ctx,
                    struct err *e)
{
    size_t all = json_array_size(ids), n;
    int rc = 0;
    for (size_t from = 0; rc >= 0 && from < all; from += n) {
        n = all - from < OWNERS_CHUNK ? all - from : OWNERS_CHUNK;
        rc = read_chunk(s, ids, from, n, n_fields, take, ctx, e);
    }
    return rc;
}

/* ---- whose they are -------------------------------------------------------------------------- */

static void take_owner(void *ctx, const char *id, const char *const *values)
{
    (void)id;
    json_array_append_new(ctx, json_string(values[0] ? values[0] : ""));
}

json_t *store_job_owners(struct store *s, const json_t *ids, struct err *e)
{
    json_t *out = json_array();
    if (read_all(s, ids, 1, take_owner, out, e) < 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* ---- what they have -------------------------------------------------------------------------- */

struct sums {
    json_t *owners; /* the answer */
    json_t *jobs;   /* id → owner, for jobs that may hold nodes */
};

static void add(json_t *owner, const char *key, json_int_t more)
{
    json_int_t before = json_integer_value(json_object_get(owner, key));
    json_object_set_new(owner, key, json_integer(before + more));
}

static const char *group_of(int state)
{
    return state == JOB_QUEUED                     ? "queued"
           : state == JOB_PAUSED                   ? "paused"
           : jobstate_ended((enum job_state)state) ? "ended"
                                                   : "running";
}

static void take_job(void *ctx, const char *id, const char *const *values)
{
    struct sums *sums = ctx;
    int state = values[1] ? jobstate_find(values[1]) : -1;
    if (!values[0] || state < 0) {
        return; /* it has no owner, or was deleted meanwhile */
    }
    json_t *owner = json_object_get(sums->owners, values[0]);
    if (!owner) {
        owner = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "queued", 0, "running", 0, "paused", 0,
                          "ended", 0, "nodes", 0, "disk_bytes", 0);
        json_object_set_new(sums->owners, values[0], owner);
    }
    add(owner, group_of(state), 1);
    add(owner, "disk_bytes", values[2] ? strtoll(values[2], NULL, 10) : 0);
    if (strcmp(group_of(state), "running") == 0) {
        json_object_set_new(sums->jobs, id, json_string(values[0]));
    }
}

static int count_nodes(struct store *s, const struct sums *sums, struct err *e)
{
    json_t *nodes = store_nodes(s, e), *node;
    size_t i;
    json_array_foreach(nodes, i, node) {
        const json_t *owner = json_object_get(sums->jobs, node_user(node));
        if (owner) {
            add(json_object_get(sums->owners, json_string_value(owner)), "nodes", 1);
        }
    }
    int rc = nodes ? 0 : store_failed(e);
    json_decref(nodes);
    return rc;
}

json_t *store_owners(struct store *s, struct err *e)
{
    struct sums sums = {json_object(), json_object()};
    json_t *ids = json_array();
    redisReply *r = store_commandf(s, e, "ZRANGE %s 0 -1", key_text(KEY_JOBS));
    int n = r ? reply_array(r, 0, e) : store_failed(e), rc = n;
    for (int i = 0; i < n; i++) {
        const char *id = NULL;
        if (reply_text(r->element[i], &id, NULL, e) > 0) {
            json_array_append_new(ids, json_string(id));
        }
    }
    freeReplyObject(r);
    if (rc < 0 || (rc = read_all(s, ids, OWNERS_FIELDS, take_job, &sums, e)) < 0 ||
        (rc = count_nodes(s, &sums, e)) < 0) {
        json_decref(sums.owners);
        sums.owners = NULL;
    }
    json_decref(sums.jobs);
    json_decref(ids);
    return sums.owners;
}

int64_t store_owner_disk_bytes(const json_t *owners, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(owners, name), "disk_bytes"));
}
