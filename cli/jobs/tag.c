/* `evenstep tag`: tags of a job. Tags are added and removed one by one, but the service takes all
 * of a job's tags at once. So they are read, changed, and sent back with the version that was read.
 * If somebody else was quicker, it tries again.
 */
#include <string.h>

#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"

enum { ATTEMPTS = 8, HTTP_PRECONDITION = 412 };

const struct opt tag_options[] = {
    {"note", "TEXT", OPT_STRING, NULL, 0, 0, "sets the job's note; an empty text takes it away"},
    {0},
};

static void print_tags(const json_t *job)
{
    const json_t *tags = json_object_get(job, "tags");
    const char *note = json_string_value(json_object_get(job, "note"));
    char id[COLUMN_BYTES_MOST];
    printf("%s", column_text(id, job, "id", COLUMN_TEXT));
    for (size_t i = 0; i < json_array_size(tags); i++) {
        printf(" %s", json_string_value(json_array_get(tags, i)));
    }
    printf("\n");
    if (note) {
        printf("%s\n", note);
    }
}

static void take_away(json_t *tags, const char *tag)
{
    for (size_t i = json_array_size(tags); i-- > 0;) {
        if (strcmp(json_string_value(json_array_get(tags, i)), tag) == 0) {
            json_array_remove(tags, i);
        }
    }
}

/* The job's tags after the words: +a adds a, -a removes it. */
static json_t *changed(const struct session *s, const json_t *job)
{
    json_t *tags = json_copy(json_object_get(job, "tags"));
    for (int i = 1; session_argument(s, i); i++) {
        const char *word = session_argument(s, i);
        take_away(tags, word + 1);
        if (word[0] == '+') {
            json_array_append_new(tags, json_string(word + 1));
        }
    }
    return tags;
}

static int check_words(struct session *s)
{
    const char *note = opt_string(s->options, "note");
    if (note && session_check_text(s, note) < 0) {
        return -(int)s->err.code;
    }
    for (int i = 1; session_argument(s, i); i++) {
        const char *word = session_argument(s, i);
        if ((word[0] != '+' && word[0] != '-') || !word[1]) {
            return err_set(&s->err, ERR_INVALID, "'%.60s': expected +TAG or -TAG", word);
        }
        if (session_check_text(s, word) < 0) {
            return -(int)s->err.code;
        }
    }
    return 0;
}

/* Tries once. NULL with s->client.refusal 412: the job was changed meanwhile. */
static json_t *try_once(struct session *s, const char *path)
{
    const char *note = opt_string(s->options, "note");
    json_t *job = client_call(&s->client, "GET", path, NULL, &s->err);
    if (!job || (!session_argument(s, 1) && !note)) {
        return job;
    }
    json_t *body = json_object();
    if (session_argument(s, 1)) {
        json_object_set_new(body, "tags", changed(s, job));
    }
    if (note) {
        json_object_set_new(body, "note", json_string(note));
    }
    char etag[sizeof s->client.etag];
    snprintf(etag, sizeof etag, "%s", s->client.etag);
    json_decref(job);
    job = client_change(&s->client, path, etag, body, &s->err);
    json_decref(body);
    return job;
}

int command_tag(struct session *s)
{
    char path[256];
    json_t *job = NULL;
    if (check_words(s) < 0 || job_path(s, session_argument(s, 0), "", path) < 0) {
        return -(int)s->err.code;
    }
    for (int i = 0; i < ATTEMPTS && !job; i++) {
        err_clear(&s->err);
        job = try_once(s, path);
        if (!job && s->client.refusal != HTTP_PRECONDITION) {
            break;
        }
    }
    return session_print(s, job, print_tags);
}
