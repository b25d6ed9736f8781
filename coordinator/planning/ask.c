/* See ask.h. */
#include "coordinator/planning/ask.h"

#include "common/process/answer.h"
#include "job/documents/results/scored.h"

static void say_ended(const struct answer_question *q, const struct answer *a, struct err *e)
{
    if (a->code < 0) {
        err_set(e, ERR_TIMEOUT, "'%s %s' did not answer within %g s", q->argv[0], q->argv[1],
                q->seconds);
    } else {
        err_set(e, ERR_INTERNAL, "'%s %s' ended with code %d: %.200s", q->argv[0], q->argv[1],
                a->code, a->said ? a->said : "");
    }
}

json_t *ask_program(const char *const *argv, const char *dir, const struct ask_limits *limits,
                    struct err *e)
{
    const struct answer_question q = {
        .argv = argv, .seconds = limits->seconds, .memory_bytes = limits->memory_bytes};
    struct answer a;
    json_t *document = NULL;
    if (answer_get(&a, &q, dir, e) < 0) {
        return NULL;
    }
    if (a.code == 0 || (a.code > 0 && scored_is_refusal(a.document, ERR_DATA, NULL))) {
        document = json_incref(a.document);
        if (!document && e) {
            *e = a.unread;
        }
    } else {
        say_ended(&q, &a, e);
    }
    answer_release(&a);
    return document;
}
