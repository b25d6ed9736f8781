/* A spec as a test looks at it: parsed, with its problems beside it. Every test file has an example
 * of its own, a spec without a mistake, and parses it with a patch merged into its top level.
 *
 * A spec that is refused is no failure here; `rc` and `problems` say what became of it, and done()
 * is owed either way.
 */
#ifndef TESTS_JOB_PARSED_H
#define TESTS_JOB_PARSED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "job/spec/spec.h"

struct parsed {
    struct jobspec spec;
    struct jsonx_problems problems;
    int rc;
};

static inline struct parsed *parse_json(json_t *j)
{
    struct parsed *p = calloc(1, sizeof *p);
    p->rc = jobspec_parse(&p->spec, j, &p->problems);
    assert_int_equal(p->rc<0, p->problems.count> 0);
    return p;
}

static inline void done(struct parsed *p)
{
    jobspec_release(&p->spec);
    jsonx_problems_release(&p->problems);
    free(p);
}

/* The example with `patch` (an object) merged into its top level; both are texts. */
static inline struct parsed *parse_patched(const char *example, const char *patch)
{
    struct err e;
    json_t *j = jsonx_parse(example, strlen(example), &e),
           *p = jsonx_parse(patch, strlen(patch), &e);
    if (!j || !p) {
        fail_msg("%s", e.message);
    }
    json_object_update(j, p);
    struct parsed *out = parse_json(j);
    json_decref(j);
    json_decref(p);
    return out;
}

/* Is there a problem at this pointer whose message contains this part? */
static inline bool has(const struct parsed *p, const char *pointer, const char *part)
{
    for (int i = 0; i < p->problems.count; i++) {
        if (strcmp(p->problems.items[i].pointer, pointer) == 0 &&
            strstr(p->problems.items[i].message, part)) {
            return true;
        }
    }
    return false;
}

/* Fails unless there is such a problem; ends with done(p). */
static inline void refused_with(struct parsed *p, const char *patch, const char *pointer,
                                const char *part)
{
    if (p->rc == 0 || !has(p, pointer, part)) {
        fail_msg("%s: nothing says '%s' of %s among %d problems, the first: %s %s", patch, part,
                 pointer, p->problems.count, p->problems.count ? p->problems.items[0].pointer : "",
                 p->problems.count ? p->problems.items[0].message : "none");
    }
    done(p);
}

#endif
