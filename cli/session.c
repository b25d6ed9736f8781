/* See session.h. */
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/text.h"

void session_complain(const struct err *e, const char *problems)
{
    fputs("evenstep: ", stderr);
    text_print(stderr, e->message);
    fputc('\n', stderr);
    text_print(stderr, problems ? problems : "");
    if (e->hint[0]) {
        fputs("  ", stderr);
        text_print(stderr, e->hint);
        fputc('\n', stderr);
    }
}

int session_open(struct session *s, const struct opt *table, const char *usage, int positionals,
                 int argc, char **argv)
{
    memset(s, 0, sizeof *s);
    int rc = opt_begin(table, usage, argc, argv, &s->options, &s->err);
    if (rc < 0) {
        session_complain(&s->err, s->client.problems);
        return 2;
    }
    if (rc > 0) {
        return 1;
    }
    if (opt_positionals(s->options) != positionals) {
        fprintf(stderr, "usage: %s\n", usage);
        opt_free(s->options);
        return 2;
    }
    if (client_open(&s->client, s->options, &s->err) < 0) {
        session_complain(&s->err, s->client.problems);
        client_close(&s->client);
        opt_free(s->options);
        return 3;
    }
    return 0;
}

int session_close(struct session *s, int failed)
{
    if (failed) {
        session_complain(&s->err, s->client.problems);
    }
    client_close(&s->client);
    opt_free(s->options);
    return failed ? 1 : 0;
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
        char *shown = malloc(size);
        if (shown) {
            json_string_set(j, text_shown(shown, size, text));
        }
        free(shown);
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

json_t *session_call(struct session *s, const char *method, const char *path, const json_t *body)
{
    json_t *answer = client_call(&s->client, method, path, body, &s->err);
    if (answer && opt_flag(s->options, "json")) {
        char *text = jsonx_dump(answer, true, NULL);
        text_print(stdout, text ? text : ""); /* \u009b means the same in JSON */
        putchar('\n');
        free(text);
        json_decref(answer);
        return NULL;
    }
    return make_safe(answer);
}
