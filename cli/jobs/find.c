/* See find.h. */
#include "cli/jobs/find.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/buf.h"

enum { ID_LENGTH = 16, LISTED_MOST = 10, LINES_BYTES = 1 << 16 };

static const char *text(const json_t *job, const char *key)
{
    const char *s = json_string_value(json_object_get(job, key));
    return s ? s : "";
}

bool job_is_id(const char *word)
{
    return strlen(word) == ID_LENGTH && word[strspn(word, "0123456789abcdef")] == '\0';
}

static bool is_meant(const json_t *job, const char *word)
{
    return strncmp(text(job, "id"), word, strlen(word)) == 0 ||
           strcmp(text(job, "name"), word) == 0;
}

/* Adds the jobs that `word` may name, from all pages. */
static int collect(struct session *s, const char *word, json_t *found)
{
    char cursor[512] = "";
    do {
        size_t i;
        json_t *job;
        struct buf path;
        client_address(&path);
        buf_adds(&path, "/api/v1/jobs?limit=500&fields=name,state");
        client_add_param(&path, "q", word);
        client_add_param(&path, "cursor", cursor[0] ? cursor : NULL);
        json_t *answer = session_ask(s, "GET", path.data, NULL);
        buf_release(&path);
        if (!answer) {
            return -(int)s->err.code;
        }
        json_array_foreach(json_object_get(answer, "jobs"), i, job) {
            if (is_meant(job, word)) {
                json_array_append(found, job);
            }
        }
        snprintf(cursor, sizeof cursor, "%s", text(answer, "next"));
        json_decref(answer);
    } while (cursor[0]);
    return 0;
}

static int list_candidates(struct session *s, const char *word, const json_t *found)
{
    struct buf lines;
    size_t i, n = json_array_size(found);
    json_t *job;
    buf_init(&lines, LINES_BYTES);
    json_array_foreach((json_t *)found, i, job) {
        if (i < LISTED_MOST) {
            buf_addf(&lines, "  %s  %s  %s\n", text(job, "id"), text(job, "name"),
                     text(job, "state"));
        }
    }
    if (n > LISTED_MOST) {
        buf_addf(&lines, "  and %zu more\n", n - LISTED_MOST);
    }
    free(s->client.problems);
    s->client.problems = lines.data ? strdup(lines.data) : NULL;
    buf_release(&lines);
    return err_set(&s->err, ERR_INVALID, "'%.100s' may be one of %zu jobs", word, n);
}

int job_find(struct session *s, const char *word, char id[JOB_ID_BYTES])
{
    if (job_is_id(word)) {
        snprintf(id, JOB_ID_BYTES, "%s", word);
        return 0;
    }
    if (!*word || strlen(word) > 127) {
        return err_set(&s->err, ERR_INVALID, "'%.40s' is neither the id nor the name of a job",
                       word);
    }
    if (session_check_text(s, word) < 0) {
        return -(int)s->err.code;
    }
    json_t *found = json_array();
    int rc = collect(s, word, found);
    if (rc == 0 && json_array_size(found) == 1) {
        snprintf(id, JOB_ID_BYTES, "%s", text(json_array_get(found, 0), "id"));
    } else if (rc == 0 && json_array_size(found) > 1) {
        rc = list_candidates(s, word, found);
    } else if (rc == 0) {
        rc = err_set(&s->err, ERR_NOT_FOUND, "there is no job '%.127s'", word);
        err_hint(&s->err, "`evenstep jobs` lists them");
        session_suggest(s, "/api/v1/jobs?limit=500&fields=name", "jobs", "name", word);
    }
    json_decref(found);
    return rc;
}

int job_path(struct session *s, const char *word, const char *rest, char out[256])
{
    char id[JOB_ID_BYTES];
    int rc = job_find(s, word, id);
    if (rc == 0) {
        snprintf(out, 256, "/api/v1/jobs/%s%s", id, rest);
    }
    return rc;
}
