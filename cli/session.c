/* See session.h. */
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"

void session_complain(const struct err *e, const char *problems)
{
    fprintf(stderr, "evenstep: %s\n%s", e->message, problems ? problems : "");
    if (e->hint[0]) {
        fprintf(stderr, "  %s\n", e->hint);
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

json_t *session_call(struct session *s, const char *method, const char *path, const json_t *body)
{
    json_t *answer = client_call(&s->client, method, path, body, &s->err);
    if (answer && opt_flag(s->options, "json")) {
        char *text = jsonx_dump(answer, true, NULL);
        printf("%s\n", text ? text : "");
        free(text);
        json_decref(answer);
        return NULL;
    }
    return answer;
}
