/* A program that cannot continue says why. */
#include <stdlib.h>
#include <string.h>

#include "client/lib/session.h"

static int give_up(const char *call, const struct wire_message *m, const char *text, size_t n)
{
    struct session *s = &es_session;

    if (es_usable(call) < 0) {
        return -1;
    }
    s->open = false;
    if (talk_message(s, m, text, n) < 0) {
        return -1;
    }
    session_part(s);
    return 0;
}

PUBLIC int es_failed(const char *sentence)
{
    const struct wire_message m = {.type = WIRE_FAILED};

    return give_up("es_failed", &m, sentence, strlen(sentence));
}

PUBLIC int es_refused(const char *sentence)
{
    const struct wire_message m = {.type = WIRE_FAILED, .flags = WIRE_FINAL};

    return give_up("es_refused", &m, sentence, strlen(sentence));
}

PUBLIC int es_raised(const char *sentence, const char *exception, const char *file, int line)
{
    struct wire_message m = {.type = WIRE_FAILED, .failed = {.line = file ? line : 0}};
    size_t first = strlen(sentence) + 1, n = first + strlen(exception);
    char *text = malloc(n + 1);
    int rc;

    if (!text) {
        return es_failed(sentence);
    }
    memcpy(text, sentence, first);
    memcpy(text + first, exception, n - first + 1);
    memcpy(m.failed.file, file ? file : "", strnlen(file ? file : "", sizeof(m.failed.file)));
    rc = give_up("es_raised", &m, text, n);
    free(text);
    return rc;
}

int es_settled(const char *call)
{
    if (es_usable(call) < 0) {
        return -1;
    }
    if (!es_session.owed || es_session.over) {
        return 0;
    }
    es_fail(
        "%s: es_gradients answered ES_GO_DIFFERENCE: put parameters before minus after the "
        "optimizer step into run.grads, and call es_difference",
        call);
    es_refused(es_error());
    return -1;
}
