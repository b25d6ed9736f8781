/* See failure.h. */
#include "job/documents/people/failure.h"

#include <stdio.h>
#include <string.h>

struct failure failure_of(enum err_code code, const char *message, int rank, const char *node,
                          int attempt)
{
    struct failure f = {.code = code, .rank = rank, .attempt = attempt};
    snprintf(f.message, sizeof f.message, "%s", message);
    snprintf(f.node, sizeof f.node, "%s", node ? node : "");
    return f;
}

struct failure failure_of_loss(const char *how, int rank, const char *node, int attempt)
{
    char message[DOCUMENT_MESSAGE];
    snprintf(message, sizeof message, "rank %d on node '%s' is lost: %s", rank, node, how);
    struct failure f = failure_of(ERR_PEER, message, rank, node, attempt);
    snprintf(f.lost, sizeof f.lost, "%s", how);
    return f;
}

json_t *failure_json(const struct failure *f)
{
    json_t *rank = f->rank == COORDINATOR ? json_null() : json_integer(f->rank),
           *node = f->node[0] ? json_string(f->node) : json_null();
    json_t *j =
        json_pack("{s:s, s:o, s:o, s:o, s:i}", "code", err_name(f->code), "message",
                  jsonx_text(f->message), "rank", rank, "node", node, "attempt", f->attempt);
    if (f->lost[0]) {
        json_object_set_new(j, "lost", jsonx_text(f->lost));
    }
    if (f->phase[0]) {
        json_object_set_new(j, "phase", json_string(f->phase));
        json_object_set_new(j, "age_seconds", json_real(f->age_seconds));
    }
    if (f->program.there) {
        json_object_set_new(j, "program", program_end_json(&f->program));
    }
    return j;
}

void failure_tell_before(struct failure *f, const char *before)
{
    json_t *error = before ? json_loads(before, 0, NULL) : NULL;
    const char *message = jsonx_string_at(error, "message");
    size_t n = strlen(f->message);
    if (message[0]) {
        snprintf(f->message + n, sizeof f->message - n, "; the attempt before ended so: %s",
                 message);
    }
    json_decref(error);
}

bool failure_repeats(const char *before, const struct failure *now)
{
    json_t *error = now->code == ERR_PROGRAM && before ? json_loads(before, 0, NULL) : NULL;
    bool same = false;
    if (error && strcmp(jsonx_string_at(error, "code"), err_name(ERR_PROGRAM)) == 0) {
        struct jsonx_problems problems = {0};
        struct document d = document_plain(error, &problems);
        struct program_end then;
        program_end_parse(&d, &then);
        same = document_close(&d, "the error", NULL) >= 0 && program_end_same(&then, &now->program);
    }
    json_decref(error);
    return same;
}

bool failure_code(const char *name, enum err_code *out)
{
    int code = ERR_NONE;
    while (code < ERR_INTERNAL && strcmp(err_name((enum err_code)code), name) != 0) {
        code++;
    }
    *out = (enum err_code)code;
    return strcmp(err_name(*out), name) == 0;
}
