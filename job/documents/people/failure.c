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

json_t *failure_json(const struct failure *f)
{
    json_t *rank = f->rank == COORDINATOR ? json_null() : json_integer(f->rank),
           *node = f->node[0] ? json_string(f->node) : json_null();
    json_t *j =
        json_pack("{s:s, s:o, s:o, s:o, s:i}", "code", err_name(f->code), "message",
                  jsonx_text(f->message), "rank", rank, "node", node, "attempt", f->attempt);
    if (f->phase[0]) {
        json_object_set_new(j, "phase", json_string(f->phase));
        json_object_set_new(j, "age_seconds", json_real(f->age_seconds));
    }
    return j;
}

/* Behind "rank 1 on 'node'", if that stands here. */
static const char *behind_rank(const char *at)
{
    int end = 0;
    sscanf(at, "rank %*d on '%*[^']'%n", &end);
    return at + end;
}

/* Up to the last lines of a program, which may have times and names of folders. */
static bool same_words(const char *a, const char *b)
{
    static const char lines[] = "its last lines: ";
    for (;; a++, b++) {
        a = behind_rank(a);
        b = behind_rank(b);
        if (*a != *b || !*a || strncmp(a, lines, sizeof lines - 1) == 0) {
            return *a == *b;
        }
    }
}

bool failure_repeats(const char *before, const struct failure *now)
{
    json_t *error = now->code == ERR_PROGRAM && before ? json_loads(before, 0, NULL) : NULL;
    const char *code = NULL, *message = NULL;
    bool read = error && json_unpack(error, "{s:s, s:s}", "code", &code, "message", &message) == 0;
    bool same =
        read && strcmp(code, err_name(ERR_PROGRAM)) == 0 && same_words(message, now->message);
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
