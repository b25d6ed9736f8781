/* Checks the trials of a sweep: see sweep_check.h. Checks that need no machine are made for each
 * trial. Checks that need one (data, placement, memory) are made for the first few trials that
 * differ in more than the optimizer, since each is a process. A user's program is checked in every
 * trial, since the sender may not be allowed to run it.
 */
#include "http/api/sweep_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/rights/limits.h"
#include "http/request/request.h"

enum { PLANS = 4 };

struct check {
    struct request *q;
    const struct sweep *sweep;
    struct jobspec *spec;           /* room for one spec */
    json_t *seen;                   /* "POINTER MESSAGE" of the problems that were reported */
    json_t *planned;                /* specs that were checked on machines */
    struct jsonx_problems problems; /* problems of one trial */
};

/* ---- reporting ------------------------------------------------------------------------------- */

/* The parameter that set the value at the pointer, or -1. */
static int culprit(const struct sweep *s, const char *pointer)
{
    for (int i = 0; i < s->n_parameters; i++) {
        size_t n = strlen(s->parameters[i].pointer);
        if (strncmp(pointer, s->parameters[i].pointer, n) == 0 &&
            (!pointer[n] || pointer[n] == '/')) {
            return i;
        }
    }
    return -1;
}

static void report(struct check *c, const char *pointer, const char *message, int trial)
{
    char key[600];
    snprintf(key, sizeof key, "%s %s", pointer, message);
    if (!json_object_get(c->seen, key)) {
        json_object_set_new(c->seen, key, json_true());
        jsonx_problem(&c->q->problems, pointer, "trial %d: %s", trial + 1, message);
    }
}

/* Reports the problems of a trial at their source. */
static void report_all(struct check *c, int trial)
{
    char pointer[240];
    for (int i = 0; i < c->problems.count; i++) {
        const struct jsonx_problem *p = &c->problems.items[i];
        int parameter = culprit(c->sweep, p->pointer);
        if (parameter >= 0) {
            snprintf(pointer, sizeof pointer, "/parameters/%d", parameter);
        } else {
            snprintf(pointer, sizeof pointer, "/spec%s", p->pointer);
        }
        report(c, pointer, p->message, trial);
    }
    jsonx_problems_release(&c->problems);
    memset(&c->problems, 0, sizeof c->problems);
}

/* ---- a trial --------------------------------------------------------------------------------- */

/* Was a spec planned that is the same in all that machines check? If not, notes this one. */
static bool was_planned(struct check *c)
{
    static const char *const beside[] = {"name", "seed", "optimizer", "tags", "note"};
    json_t *part = json_copy(c->spec->json), *one;
    size_t i;
    for (size_t k = 0; k < sizeof beside / sizeof *beside; k++) {
        json_object_del(part, beside[k]);
    }
    bool found = json_array_size(c->planned) >= PLANS && !c->spec->program.given;
    json_array_foreach(c->planned, i, one) {
        found = found || json_equal(one, part);
    }
    if (!found) {
        json_array_append(c->planned, part);
    }
    json_decref(part);
    return found;
}

static void ask_machines(struct check *c)
{
    const struct http_hooks *hooks = &c->q->server->hooks;
    struct err why = {0};
    if (hooks->plan && c->problems.count == 0 && !was_planned(c)) {
        json_decref(hooks->plan(hooks->ctx, c->spec->json, c->q->who.role >= ROLE_PROGRAMS,
                                &c->problems, &why));
    }
}

/* Reports what the owner's quota does not allow. */
static void ask_quota(struct check *c)
{
    struct jsonx_problems others = c->q->problems;
    c->q->problems = c->problems;
    limits_check(c->q, c->spec);
    c->problems = c->q->problems;
    c->q->problems = others;
}

static void check_trial(struct check *c, int trial)
{
    char pointer[64];
    int failed;
    json_t *spec = sweep_run_spec(c->sweep, "0000000000000000", (struct sweep_run_id){trial, 0, 0},
                                  NULL, &failed);
    if (!spec) {
        if (failed < c->sweep->n_parameters) {
            snprintf(pointer, sizeof pointer, "/parameters/%d/pointer", failed);
        } else {
            snprintf(pointer, sizeof pointer, "/method/epochs_at");
        }
        report(c, pointer, "this leads nowhere in the spec", trial);
        return;
    }
    if (jobspec_parse(c->spec, spec, &c->problems) == 0) {
        sweep_check_run(c->sweep, c->spec, &c->problems);
        ask_quota(c);
        ask_machines(c);
    }
    report_all(c, trial);
    jobspec_release(c->spec);
    json_decref(spec);
}

void sweep_check(struct request *q, const struct sweep *sweep)
{
    struct check c = {.q = q,
                      .sweep = sweep,
                      .spec = calloc(1, sizeof *c.spec),
                      .seen = json_object(),
                      .planned = json_array()};
    for (int i = 0; c.spec && i < sweep->trials && q->problems.dropped == 0; i++) {
        check_trial(&c, i);
    }
    free(c.spec);
    json_decref(c.seen);
    json_decref(c.planned);
}
