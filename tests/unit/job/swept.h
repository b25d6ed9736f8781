/* Parses a sweep from a text for a test; a failure fails the test. */
#ifndef TESTS_JOB_SWEPT_H
#define TESTS_JOB_SWEPT_H

#include "tests/unit/job/parsed.h"

#include "job/sweep/sweep.h"

/* A sweep of a spec that is not a real one: no code here reads it. */
#define SWEEP(parameters, method)                                                  \
    "{\"spec\": {\"name\": \"base\", \"a\": {\"b\": [1, 2]}, \"optimizer\": {}}, " \
    "\"parameters\": " parameters ", \"method\": " method "}"
#define RATE "[{\"pointer\": \"/optimizer/rate\", \"range\": [0.001, 0.1], \"scale\": \"log\"}]"

static inline json_t *json_of(const char *text)
{
    struct err e;
    json_t *j = jsonx_parse(text, strlen(text), &e);
    if (!j) {
        fail_msg("%s: %s", e.message, text);
    }
    return j;
}

static inline void read_patched(struct sweep *s, const char *text, const char *patch)
{
    struct err e = {0};
    json_t *j = json_of(text), *more = json_of(patch);
    json_object_update(j, more);
    if (sweep_read(s, j, &e) < 0) {
        fail_msg("%s", e.message);
    }
    json_decref(j);
    json_decref(more);
}

static inline void read_text(struct sweep *s, const char *text)
{
    read_patched(s, text, "{}");
}

#endif
