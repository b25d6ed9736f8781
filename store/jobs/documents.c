/* Fields of a job's hash, and its JSON documents: plan, control, live, details, assignments.
 *
 * All of them are written only while the job exists: a late worker or monitor never brings pieces
 * of a deleted job back.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some scripts answer 1, or 0 where the job is not there. */
int store_did(const char *id, redisReply *r, struct err *e)
{
    int64_t n = 0;
    if (!r) {
        return store_failed(e);
    }
    int rc = reply_int(r, &n, e);
    freeReplyObject(r);
    return rc < 0 ? rc : n ? 0 : store_no_job(id, e);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static struct script set_script = {.text = LUA_JOB_SET};

int store_job_set(struct store *s, const char *id, const char *field, const char *value,
                  struct err *e)
{
    char job[STORE_KEY];
    int rc = key_of_job(job, KEY_JOB, id, e);
    if (rc < 0) {
        return rc;
    }
    if (!strcmp(field, "state") || !strcmp(field, "number") || !strcmp(field, "priority")) {
        return err_set(e, ERR_INVALID,
                       "the field '%s' of a job is not set by hand: indexes depend on it", field);
    }
    const char *keys[] = {job};
    const char *args[] = {field, value};
    return store_did(id, store_script(s, &set_script, 1, keys, value ? 2 : 1, args, NULL, e), e);
}

char *store_job_field(struct store *s, const char *id, const char *field, struct err *e)
{
    char job[STORE_KEY], *copy = NULL;
    if (key_of_job(job, KEY_JOB, id, e) < 0) {
        return NULL;
    }
    redisReply *r = store_commandf(s, e, "HGET %s %s", job, field);
    const char *text = NULL;
    if (r && reply_text(r, &text, NULL, e) > 0 && !(copy = strdup(text))) {
        err_set(e, ERR_MEMORY, "cannot read field '%s' of job '%s': memory ran out", field, id);
    }
    freeReplyObject(r);
    return copy;
}

static struct script increment_script = {.text = LUA_JOB_INCREMENT};

int64_t store_job_increment(struct store *s, const char *id, const char *field, struct err *e)
{
    char job[STORE_KEY];
    int rc = key_of_job(job, KEY_JOB, id, e);
    if (rc < 0) {
        return rc;
    }
    const char *keys[] = {job};
    const char *args[] = {field};
    redisReply *r = store_script(s, &increment_script, 1, keys, 1, args, NULL, e);
    if (!r) {
        return store_failed(e);
    }
    int64_t n = 0;
    rc = r->type == REDIS_REPLY_NIL ? store_no_job(id, e) : reply_int(r, &n, e);
    freeReplyObject(r);
    return rc < 0 ? rc : n;
}

/* ---- documents ------------------------------------------------------------------------------- */

static struct script doc_script = {.text = LUA_JOB_DOCUMENT};

/* Finds a document's key and, for "detail:NAME", its field. */
static int doc_place(const char *id, const char *doc, char key[STORE_KEY], const char **field,
                     struct err *e)
{
    static const struct {
        const char *name;
        enum store_key key;
    } documents[] = {{"plan", KEY_JOB_PLAN}, {"control", KEY_JOB_CONTROL}, {"live", KEY_JOB_LIVE}};
    *field = "";
    if (!strncmp(doc, "detail:", 7) && doc[7]) {
        *field = doc + 7;
        return key_of_job(key, KEY_JOB_DETAIL, id, e);
    }
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        if (!strcmp(doc, documents[i].name)) {
            return key_of_job(key, documents[i].key, id, e);
        }
    }
    return err_set(e, ERR_INVALID,
                   "a job has the documents plan, control, live and detail:NAME, but no '%.60s'",
                   doc);
}

int store_doc_set(struct store *s, const char *id, const char *doc, const json_t *value,
                  struct err *e)
{
    char job[STORE_KEY], key[STORE_KEY];
    const char *field;
    int rc = doc_place(id, doc, key, &field, e);
    if (rc < 0 || (rc = key_of_job(job, KEY_JOB, id, e)) < 0) {
        return rc;
    }
    char *text = NULL;
    if (value && !(text = store_dump(value, doc, e))) {
        return store_failed(e);
    }
    const char *keys[] = {job, key};
    const char *args[] = {field, text};
    redisReply *r = store_script(s, &doc_script, 2, keys, text ? 2 : 1, args, NULL, e);
    free(text);
    return store_did(id, r, e);
}

json_t *store_doc_get(struct store *s, const char *id, const char *doc, struct err *e)
{
    char key[STORE_KEY];
    const char *field;
    err_clear(e);
    if (doc_place(id, doc, key, &field, e) < 0) {
        return NULL;
    }
    redisReply *r = field[0] ? store_commandf(s, e, "HGET %s %s", key, field)
                             : store_commandf(s, e, "GET %s", key);
    json_t *j = r ? reply_json(r, e) : NULL;
    freeReplyObject(r);
    return j;
}

static struct script assign_script = {.text = LUA_JOB_ASSIGN};

static int put_assignment(struct store *s, const char *id, const json_t *assignment, bool amends,
                          struct err *e)
{
    char job[STORE_KEY], key[STORE_KEY];
    int rc = key_of_job(job, KEY_JOB, id, e);
    if (rc < 0 || (rc = key_of_job(key, KEY_JOB_ASSIGN, id, e)) < 0) {
        return rc;
    }
    char *text = store_dump(assignment, "the assignment", e);
    if (!text) {
        return store_failed(e);
    }
    const char *keys[] = {job, key};
    const char *args[] = {text, STORE_ASSIGNMENTS, amends ? "1" : "0"};
    redisReply *r = store_script(s, &assign_script, 2, keys, 3, args, NULL, e);
    free(text);
    return store_did(id, r, e);
}

int store_assignment_add(struct store *s, const char *id, const json_t *assignment, struct err *e)
{
    return put_assignment(s, id, assignment, false, e);
}

int store_assignment_amend(struct store *s, const char *id, const json_t *assignment, struct err *e)
{
    return put_assignment(s, id, assignment, true, e);
}

json_t *store_assignments(struct store *s, const char *id, struct err *e)
{
    char key[STORE_KEY];
    if (key_of_job(key, KEY_JOB_ASSIGN, id, e) < 0) {
        return NULL;
    }
    redisReply *r = store_commandf(s, e, "LRANGE %s 0 -1", key);
    int n = r ? reply_array(r, 0, e) : -1;
    json_t *out = n < 0 ? NULL : json_array();
    for (int i = 0; out && i < n; i++) {
        json_t *j = reply_json(r->element[i], e);
        if (!j) {
            err_set(e, ERR_DATA,
                    "the store holds a damaged document among the assignments of job '%s'", id);
            json_decref(out);
            out = NULL;
        } else {
            json_array_append_new(out, j);
        }
    }
    freeReplyObject(r);
    return out;
}
