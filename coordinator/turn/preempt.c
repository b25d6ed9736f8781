/* See preempt.h. What would be free is tried with a copy of the nodes, by the placement itself. */
#include "coordinator/turn/preempt.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "job/node.h"

struct victim {
    struct run *run;
    int priority;
    bool spared;
};

/* In the copy: the nodes of this job are free, or busy again. */
static void set_nodes(json_t *nodes, const char *job, const char *from, const char *to)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        if (strcmp(node_user(node), job) == 0 && strcmp(node_state(node), from) == 0) {
            json_object_set_new(node, "state", json_string(to));
        }
    }
}

static void give(json_t *nodes, const struct run *r)
{
    set_nodes(nodes, r->attempt.job, "busy", "ready");
}

static void take_back(json_t *nodes, const struct run *r)
{
    set_nodes(nodes, r->attempt.job, "ready", "busy");
}

static bool would_fit(const struct placement_ask *ask, const json_t *nodes)
{
    struct placement_ask then = *ask;
    struct placement p;
    then.nodes = nodes;
    bool fits = placement_find(&p, &then);
    placement_release(&p);
    return fits;
}

static int priority_of(struct attempts *a, const struct run *r)
{
    char *text = store_job_field(a->store, r->attempt.job, "priority", NULL);
    int priority = text ? (int)strtol(text, NULL, 10) : r->spec->priority;
    free(text);
    return priority;
}

static bool is_ending(const struct run *r)
{
    return r->leaving || r->over || r->failed || r->cancel_at > 0 || r->drain_at > 0;
}

static int lowest_first(const void *a, const void *b)
{
    const struct victim *x = a, *y = b;
    double later = y->run->launched_at - x->run->launched_at;
    return x->priority != y->priority ? x->priority - y->priority : later > 0 ? 1 : -(later < 0);
}

/* Attempts that may be paused for this priority, in the order in which they are. */
static int find_victims(struct attempts *a, struct victim *out, int priority, double keep,
                        double now)
{
    int n = 0;
    for (struct run *r = a->runs; r; r = r->next) {
        bool runs = r->monitor && monitor_stepped(r->monitor) && now - r->launched_at >= keep;
        if (runs && !is_ending(r) && priority_of(a, r) < priority) {
            out[n++] = (struct victim){.run = r, .priority = priority_of(a, r)};
        }
    }
    if (n > 1) {
        qsort(out, (size_t)n, sizeof *out, lowest_first);
    }
    return n;
}

/* The first so many that make room, without those that are not needed for it. 0: all do not. */
static int choose(struct victim *victims, int n, const struct placement_ask *ask, json_t *nodes)
{
    int chosen = 0;
    bool fits = false;
    while (chosen < n && !fits) {
        give(nodes, victims[chosen++].run);
        fits = would_fit(ask, nodes);
    }
    for (int i = chosen - 1; fits && i >= 0; i--) { /* the highest priority first */
        take_back(nodes, victims[i].run);
        victims[i].spared = would_fit(ask, nodes);
        if (!victims[i].spared) {
            give(nodes, victims[i].run);
        }
    }
    return fits ? chosen : 0;
}

static void pause(struct attempts *a, const struct victim *v, const char *job, int priority)
{
    v->run->leaving = v->run->yields = true;
    store_job_set(a->store, v->run->attempt.job, "yielded_to", job, NULL);
    log_info("sched",
             "gives its nodes to a job of higher priority: it writes a checkpoint and is "
             "queued again",
             "job=%s priority=%d for=%s its_priority=%d", v->run->attempt.job, v->priority, job,
             priority);
}

void preempt_for(struct attempts *a, const char *job, const struct placement_ask *ask, double keep,
                 double now)
{
    json_t *nodes = json_deep_copy(ask->nodes);
    struct victim *victims = calloc((size_t)a->n_runs + 1, sizeof *victims);
    for (const struct run *r = a->runs; r; r = r->next) {
        if (is_ending(r)) {
            give(nodes, r);
        }
    }
    if (nodes && victims && !would_fit(ask, nodes)) {
        int priority = ask->spec->priority, n = find_victims(a, victims, priority, keep, now),
            chosen = choose(victims, n, ask, nodes);
        for (int i = 0; i < chosen; i++) {
            if (!victims[i].spared) {
                pause(a, &victims[i], job, priority);
            }
        }
    }
    free(victims);
    json_decref(nodes);
}
