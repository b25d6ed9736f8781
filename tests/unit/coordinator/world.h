/* How tests of coordinator/ begin and continue: a world with equal nodes, and a job that has made
 * some steps.
 */
#ifndef TESTS_COORDINATOR_WORLD_H
#define TESTS_COORDINATOR_WORLD_H

#include "job/documents/coordinator/control.h"
#include "store/history.h"
#include "tests/unit/coordinator/played_ranks.h"

/* Queues and starts a job, and makes steps. */
static inline void start_job(struct world *w, const char *changes, char id[STORE_ID])
{
    submit(w, changes, id);
    tick(w, 0.5);
    assert_state(w, id, "launching");
    ranks_step(w, id, 1, 1, 0.01);
    tick(w, 0.5);
    assert_state(w, id, "running");
}

/* n equal nodes: n1, n2 … */
static inline struct world *world_with(void **state, int nodes)
{
    struct world *w = *state;
    for (int i = 1; i <= nodes; i++) {
        char name[12];
        snprintf(name, sizeof name, "n%d", i);
        world_node(w, name, 1);
    }
    return w;
}

/* The scheduler has had one turn since then. */
static inline struct world *world_submitted(void **state, int nodes, const char *changes,
                                            char id[STORE_ID])
{
    struct world *w = world_with(state, nodes);
    submit(w, changes, id);
    tick(w, 0.5);
    return w;
}

static inline struct world *world_running(void **state, int nodes, const char *changes,
                                          char id[STORE_ID])
{
    struct world *w = world_with(state, nodes);
    start_job(w, changes, id);
    return w;
}

/* The job's ranks have reported this many steps of 10 ms; the scheduler has read the first one. */
static inline struct world *world_stepping(void **state, int nodes, const char *changes, int steps,
                                           char id[STORE_ID])
{
    struct world *w = world_running(state, nodes, changes, id);
    ranks_step(w, id, 2, steps, 0.01);
    return w;
}

/* ---- and how they go on ---------------------------------------------------------------------- */

static inline void end_well(struct world *w, const char *id, const char *outcome)
{
    char fact[100];
    snprintf(fact, sizeof fact, "{'type': 'ended', 'outcome': '%s'}", outcome);
    if (strcmp(outcome, "finished") == 0) {
        say_all_samples(w, id);
    }
    say_fact(w, id, fact);
    process_ends(w, id, 0, "");
}

/* Requests it, or ends the attempt, and makes the scheduler's next turn. */
static inline void asked(struct world *w, const char *id, const char *what)
{
    ask(w, id, what);
    tick(w, 0.5);
}

static inline void ended(struct world *w, const char *id, const char *outcome)
{
    end_well(w, id, outcome);
    tick(w, 0.5);
}

static inline const char *node_state(struct world *w, const char *name)
{
    static char state[32];
    json_t *node = store_node_get(w->store, name, &err_);
    assert_non_null(node);
    snprintf(state, sizeof state, "%s", text_at(node, "/state"));
    json_decref(node);
    return state;
}

static inline struct control control_of(struct world *w, const char *id)
{
    struct control c;
    json_t *j = store_doc_get(w->store, id, "control", &err_);
    assert_non_null(j);
    OK(control_read(&c, j, &err_));
    json_decref(j);
    return c;
}

/* The current control document. */
static inline bool control_says(struct world *w, const char *id, const char *key)
{
    json_t *control = store_doc_get(w->store, id, "control", &err_);
    bool yes = json_is_true(json_object_get(control, key));
    json_decref(control);
    return yes;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Points of a series on disk. */
static inline int points_of(struct world *w, const char *id, const char *series)
{
    char dir[200];
    snprintf(dir, sizeof dir, "%s/jobs/%s", w->place->dir, id);
    json_t *j = history_series(dir, &(struct series_ask){series, "step", NAN, NAN, 1000, 0}, &err_);
    assert_non_null(j);
    int n = (int)number_at(j, "/series/0/total_points");
    json_decref(j);
    return n;
}

static inline int count_rows(void *ctx, const struct store_rows *entry, struct err *e)
{
    (void)e;
    *(int *)ctx += entry->n;
    return 0;
}

static inline int rows_in_store(struct world *w, const char *id, int rank)
{
    char last[32] = "0-0";
    int n = 0;
    OK(rows_of(w->store, id, rank, last, 1000, count_rows, &n, &err_));
    return n;
}

#endif
