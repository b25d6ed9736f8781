/* Requests about jobs: cancel, pause, resume, priority, delete. */
#include <stdlib.h>

#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"

static void print_state(const json_t *job)
{
    char id[COLUMN_BYTES_MOST], state[COLUMN_BYTES_MOST];
    printf("%s %s\n", column_text(id, job, "id", COLUMN_TEXT),
           column_text(state, job, "state", COLUMN_TEXT));
}

static int ask(struct session *s, const char *what)
{
    char path[256];
    int rc = job_path(s, session_argument(s, 0), what, path);
    return rc < 0 ? rc : session_show(s, "POST", path, print_state);
}

int command_cancel(struct session *s)
{
    return ask(s, "/cancel");
}

int command_pause(struct session *s)
{
    return ask(s, "/pause");
}

int command_resume(struct session *s)
{
    return ask(s, "/resume");
}

/* ---- priority -------------------------------------------------------------------------------- */

static void print_priority(const json_t *job)
{
    char id[COLUMN_BYTES_MOST], priority[COLUMN_BYTES_MOST];
    printf("%s priority %s\n", column_text(id, job, "id", COLUMN_TEXT),
           column_text(priority, job, "priority", COLUMN_COUNT));
}

int command_priority(struct session *s)
{
    const char *given = session_argument(s, 1);
    char path[256], *end;
    long priority = strtol(given, &end, 10);
    if (end == given || *end) {
        return err_set(&s->err, ERR_INVALID, "the priority '%.40s' is not a number", given);
    }
    int rc = job_path(s, session_argument(s, 0), "", path);
    if (rc < 0) {
        return rc;
    }
    json_t *body = json_pack("{s:I}", "priority", (json_int_t)priority);
    json_t *job = client_call(&s->client, "PATCH", path, body, &s->err);
    json_decref(body);
    return session_print(s, job, print_priority);
}

/* ---- delete ---------------------------------------------------------------------------------- */

static void print_deleted(const json_t *answer)
{
    columns_lines(json_object_get(answer, "deleted"), "", " deleted", stdout);
}

/* It looks up all names before it deletes the first job. */
int command_delete(struct session *s)
{
    json_t *ids = json_array(), *deleted = json_array();
    char id[JOB_ID_BYTES], path[256];
    int rc = 0;
    for (int i = 0; rc == 0 && session_argument(s, i); i++) {
        if ((rc = job_find(s, session_argument(s, i), id)) == 0) {
            json_array_append_new(ids, json_string(id));
        }
    }
    for (size_t i = 0; rc == 0 && i < json_array_size(ids); i++) {
        json_t *one = json_array_get(ids, i);
        snprintf(path, sizeof path, "/api/v1/jobs/%s", json_string_value(one));
        json_t *answer = client_call(&s->client, "DELETE", path, NULL, &s->err);
        rc = answer ? json_array_append(deleted, one) : -(int)s->err.code;
        json_decref(answer);
    }
    json_decref(ids);
    if (rc == 0 || json_array_size(deleted) > 0) {
        session_print(s, json_pack("{s:O}", "deleted", deleted), print_deleted);
    }
    json_decref(deleted);
    return rc;
}
