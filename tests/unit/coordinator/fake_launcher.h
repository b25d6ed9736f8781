/* A launcher that starts nothing, for the tests of coordinator/. It records its starts and stops,
 * and an attempt ends when the test says so.
 */
#ifndef TESTS_COORDINATOR_FAKE_LAUNCHER_H
#define TESTS_COORDINATOR_FAKE_LAUNCHER_H

#include "tests/unit/store/fixture.h"

#include "coordinator/launchers/launcher.h"

enum { FAKE_ATTEMPTS = 32 };

struct fake_attempt {
    char job[STORE_ID];
    int number;
    json_t *plan;
    bool over;
    int code, stops;
    char why[200];
};

struct fake {
    struct fake_attempt attempts[FAKE_ATTEMPTS];
    int n;
    int strangers; /* stopped without having been started here: leftovers of a dead coordinator */
    bool refuses;  /* every start fails */
    void (*on_start)(void *); /* or NULL: called once, in the middle of a start, with the world */
    void *world;
};

static inline struct fake_attempt *fake_find(struct fake *f, const char *job, int number)
{
    for (int i = 0; i < f->n; i++) {
        if (strcmp(f->attempts[i].job, job) == 0 && f->attempts[i].number == number) {
            return &f->attempts[i];
        }
    }
    return NULL;
}

static inline int fake_start(void *ctx, struct attempt *a, const struct plan *plan, struct err *e)
{
    struct fake *f = ctx;
    if (f->refuses) {
        return err_set(e, ERR_IO, "cannot start 'mpirun': it is not there");
    }
    assert_true(f->n < FAKE_ATTEMPTS);
    assert_null(fake_find(f, a->job, a->number));
    struct fake_attempt *t = &f->attempts[f->n++];
    memset(t, 0, sizeof *t);
    snprintf(t->job, sizeof t->job, "%s", a->job);
    t->number = a->number;
    t->plan = plan_json(plan);
    a->pid = 0x7f000000 + f->n; /* above every real pid */
    a->start_ticks = 1;
    if (f->on_start) {
        f->on_start(f->world);
        f->on_start = NULL;
    }
    return 0;
}

static inline bool fake_looked_for(void *ctx, struct attempt *a)
{
    struct fake *f = ctx;
    struct fake_attempt *t = fake_find(f, a->job, a->number);
    if (!t || t->over) {
        return false;
    }
    a->pid = 0x7f000000 + (int)(t - f->attempts) + 1;
    a->start_ticks = 1;
    return true;
}

/* Its output is read like mpirun's. */
static inline bool fake_poll(void *ctx, const struct attempt *a, struct attempt_end *end)
{
    struct fake_attempt *t = fake_find(ctx, a->job, a->number);
    if (t && !t->over) {
        return false;
    }
    *end = (struct attempt_end){.exit_code = t ? t->code : -1};
    snprintf(end->why, sizeof end->why, "%s", t ? t->why : "");
    mpirun_read_end(end);
    return true;
}

static inline void fake_stop(void *ctx, const struct attempt *a, double grace)
{
    struct fake *f = ctx;
    struct fake_attempt *t = fake_find(f, a->job, a->number);
    (void)grace;
    if (!t) {
        f->strangers++;
        return;
    }
    if (!t->over) {
        t->over = true;
        t->code = 143;
        t->stops++;
    }
}

#endif
