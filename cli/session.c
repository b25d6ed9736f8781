/* See session.h. */
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

#include "cli/choices.h"
#include "common/json/jsonx.h"
#include "common/text/text.h"

enum { NAMES_MOST = 1000 };

void session_complain(const struct err *e, const char *problems)
{
    char message[6 * sizeof e->message]; /* a line: it may quote a name with a line end in it */
    fprintf(stderr, "evenstep: %s\n", text_shown(message, sizeof message, e->message));
    text_print(stderr, problems ? problems : "");
    if (e->hint[0]) {
        fputs("  ", stderr);
        text_print(stderr, e->hint);
        fputc('\n', stderr);
    }
}

/* ---- begin and end --------------------------------------------------------------------------- */

bool session_open(struct session *s, const struct usage *use, int argc, char **argv, int *status)
{
    memset(s, 0, sizeof *s);
    int rc = opt_begin(use->options, use->text, argc, argv, &s->options, &s->err);
    if (rc == 0 && (rc = choices_check(use->options, s->options, &s->err)) < 0) {
        opt_free(s->options);
    }
    if (rc != 0) {
        if (rc < 0) {
            session_complain(&s->err, NULL);
        }
        *status = rc < 0 ? STATUS_USAGE : STATUS_DONE;
        return false;
    }
    int given = opt_positionals(s->options);
    if (given < use->least || (use->most >= 0 && given > use->most)) {
        fprintf(stderr, "usage: %s\n", use->text);
        opt_free(s->options);
        *status = STATUS_USAGE;
        return false;
    }
    s->json = opt_flag(s->options, "json");
    if (client_open(&s->client, s->options, &s->err) < 0) {
        *status = session_close(s, STATUS_USAGE); /* an address or a token that cannot be */
        return false;
    }
    return true;
}

/* What the service answered decides; where it was not asked, or did well, our own error does. */
static enum status status_of(const struct session *s)
{
    int refusal = s->client.refusal;
    if (s->err.code == ERR_NONE) {
        return STATUS_DONE;
    }
    if (refusal >= 400) {
        return refusal >= 500   ? STATUS_UNREACHABLE
               : refusal == 404 ? STATUS_NOT_FOUND
                                : STATUS_REFUSED;
    }
    switch (s->err.code) {
    case ERR_INVALID:
        return STATUS_USAGE;
    case ERR_NOT_FOUND:
        return STATUS_NOT_FOUND;
    case ERR_IO:
        return STATUS_NOT_WRITTEN;
    case ERR_UNAVAILABLE:
    case ERR_SYNTAX: /* an answer that is not of a service of ours */
    case ERR_DATA:
        return STATUS_UNREACHABLE;
    default:
        return STATUS_FAILED;
    }
}

int session_close(struct session *s, int result)
{
    int status = result > 0 ? result : (int)status_of(s);
    fflush(stdout);
    if (s->err.code != ERR_NONE) {
        session_complain(&s->err, s->client.problems);
    }
    client_close(&s->client);
    opt_free(s->options);
    return status;
}

const char *session_argument(const struct session *s, int i)
{
    return opt_positional(s->options, i);
}

int session_check_text(struct session *s, const char *word)
{
    json_t *j = json_string(word);
    json_decref(j);
    return j ? 0 : err_set(&s->err, ERR_INVALID, "'%.100s' is not UTF-8", word);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A note or an exception may have several lines; a sentence and a table's cell have one. */
static void put_on_one_line(char *text)
{
    for (char *at = text; (at = strpbrk(at, "\t\n\r")); at++) {
        *at = ' ';
    }
}

/* A text of an answer is printed in many places: what is unsafe in it is replaced once. */
static json_t *make_safe(json_t *j)
{
    size_t i;
    const char *key;
    json_t *item;
    const char *text = json_string_value(j);
    size_t n = json_string_length(j);
    if (text && text_unsafe(text, n) < n) {
        size_t size = 6 * n + 1;
        char *shown = malloc(size), *line = strdup(text);
        if (shown && line) {
            put_on_one_line(line);
            json_string_set(j, text_shown(shown, size, line));
        }
        free(shown);
        free(line);
    }
    json_array_foreach(j, i, item) {
        make_safe(item);
    }
    json_object_foreach(j, key, item) {
        make_safe(item);
    }
    return j;
}

json_t *session_ask(struct session *s, const char *method, const char *path, const json_t *body)
{
    return make_safe(client_call(&s->client, method, path, body, &s->err));
}

json_t *session_pages(struct session *s, const char *list, long most, long page, page_path *path,
                      json_t **next)
{
    struct buf address;
    json_t *all = json_array(), *cursor = json_null();
    client_address(&address);
    for (long left = most; left > 0; left = most - (long)json_array_size(all)) {
        buf_reset(&address);
        path(s, left < page ? left : page, json_string_value(cursor), &address);
        json_t *answer = client_call(&s->client, "GET", address.data, NULL, &s->err);
        json_t *some = json_object_get(answer, list);
        json_decref(cursor);
        cursor = json_incref(json_object_get(answer, "next"));
        json_array_extend(all, some);
        bool last = !json_is_string(cursor) || json_array_size(some) == 0;
        json_decref(answer);
        if (last) {
            break;
        }
    }
    buf_release(&address);
    if (s->err.code) {
        json_decref(all);
        json_decref(cursor);
        return NULL;
    }
    if (next) {
        *next = cursor ? cursor : json_null();
    } else {
        json_decref(cursor);
    }
    return all;
}

void session_put(const json_t *answer)
{
    char *text = jsonx_dump(answer, true, NULL);
    text_print(stdout, text ? text : ""); /* \u009b means the same in JSON */
    putchar('\n');
    free(text);
}

int session_print(struct session *s, json_t *answer, void (*print)(const json_t *answer))
{
    if (!answer) {
        return -(int)s->err.code;
    }
    if (s->json) {
        session_put(answer);
    } else {
        print(make_safe(answer));
    }
    json_decref(answer);
    return 0;
}

/* Lines of a table have \r\n at their end, those of a terminal \n. */
static void print_lines(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at != '\r') {
            *to++ = *at;
        }
    }
    *to = '\0';
    text_print(stdout, text);
}

int session_table(struct session *s, const char *path)
{
    size_t n = 0;
    if (s->json) {
        return err_set(&s->err, ERR_INVALID, "--csv and --json exclude each other");
    }
    char *text = client_text(&s->client, path, 0, &n, &s->err);
    if (text) {
        print_lines(text);
    }
    free(text);
    return -(int)s->err.code;
}

int session_delete_each(struct session *s, const char *path, const char *key, const char *none,
                        const char *hint, void (*print)(const json_t *answer))
{
    json_t *done = json_array();
    if (!session_argument(s, 1)) {
        err_set(&s->err, ERR_INVALID, "%s", none);
        err_hint(&s->err, "%s", hint);
    }
    for (int i = 1; s->err.code == ERR_NONE && session_argument(s, i); i++) {
        struct buf one;
        const char *id = session_argument(s, i);
        client_address(&one);
        buf_addf(&one, "%s/", path);
        client_add_escaped(&one, id);
        json_decref(client_call(&s->client, "DELETE", one.data, NULL, &s->err));
        buf_release(&one);
        if (s->err.code == ERR_NONE) {
            json_array_append_new(done, jsonx_text(id));
        }
    }
    if (s->err.code == ERR_NONE) {
        session_print(s, json_pack("{s:O}", key, done), print);
    } else if (s->err.code == ERR_NOT_FOUND) {
        err_hint(&s->err, "%s", hint);
    }
    json_decref(done);
    return -(int)s->err.code;
}

int session_show(struct session *s, const char *method, const char *path,
                 void (*print)(const json_t *answer))
{
    return session_print(s, client_call(&s->client, method, path, NULL, &s->err), print);
}

void session_suggest(struct session *s, const char *path, const char *list, const char *name,
                     const char *given)
{
    const char *names[NAMES_MOST];
    int n = 0, refusal = s->client.refusal;
    size_t i;
    json_t *one;
    struct err ignored = {0};
    char *problems = s->client.problems; /* of the error that is there, which stays */
    s->client.problems = NULL;
    json_t *answer = client_call(&s->client, "GET", path, NULL, &ignored);
    json_array_foreach(json_object_get(answer, list), i, one) {
        const char *known = json_string_value(json_object_get(one, name));
        if (known && n < NAMES_MOST) {
            names[n++] = known;
        }
    }
    const char *nearest = jsonx_nearest(given, names, n);
    if (nearest) {
        err_hint(&s->err, "did you mean '%.100s'?", nearest);
    }
    json_decref(answer);
    free(s->client.problems);
    s->client.problems = problems;
    s->client.refusal = refusal;
}

int session_no_action(struct session *s, const char *command, const char *can, const char *given,
                      const char *const *actions, int n)
{
    const char *nearest = jsonx_nearest(given, actions, n);
    err_set(&s->err, ERR_INVALID, "%s, not '%.40s'", can, given);
    return nearest ? err_hint(&s->err, "did you mean `evenstep %s %s`?", command, nearest)
                   : -(int)ERR_INVALID;
}
