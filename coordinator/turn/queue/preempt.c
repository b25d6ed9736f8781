/* See preempt.h. It marks nodes as free in a copy, and lets the placement try the job on it.
 *
 *   offers: B's n4, B's n3 (B is elastic), all of B, all of C
 *   taken one after another until the job fits; then those that are not needed for it are spared
 */
#include "coordinator/turn/queue/preempt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/turn/resize.h"
#include "job/node/node.h"

/* What an attempt may give: a node, or all it has. */
struct offer {
    struct run *run;
    const char *node; /* a node of an elastic job; NULL: the job is paused and gives all */
    int priority;
    int order; /* the order in which it was found */
    bool due;  /* it goes to another owner's job of the same priority */
    bool spared;
};

struct offers {
    struct offer *all;
    int n;
};

/* ---- the copy of the nodes ------------------------------------------------------------------- */

/* Marks the job's node `name` in the copy as free, or as busy again; NULL: all its nodes. */
static void set_nodes(json_t *nodes, const char *job, const char *name, const char *from,
                      const char *to)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node) {
        if (strcmp(node_user(node), job) == 0 && strcmp(node_state(node), from) == 0 &&
            (!name || strcmp(node_name(node), name) == 0)) {
            node_set_state(node, to);
        }
    }
}

static void give(json_t *nodes, const struct offer *o)
{
    set_nodes(nodes, o->run->attempt.job, o->node, "busy", "ready");
}

/* Takes the nodes of all[i] back, except those of earlier offers. */
static void take_back(json_t *nodes, const struct offers *offers, int i)
{
    const struct offer *o = &offers->all[i];
    set_nodes(nodes, o->run->attempt.job, o->node, "ready", "busy");
    for (int k = 0; k < i; k++) {
        if (offers->all[k].run == o->run) {
            give(nodes, &offers->all[k]);
        }
    }
}

/* Marks as free what an attempt that ends or shrinks is giving back already. */
static void give_ending(json_t *nodes, const struct run *r)
{
    if (!r->resize) {
        set_nodes(nodes, r->attempt.job, NULL, "busy", "ready");
    }
    for (size_t i = 0; r->resize && i < r->resize->gives.count; i++) {
        set_nodes(nodes, r->attempt.job, r->resize->gives.all[i].name, "busy", "ready");
    }
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

/* ---- what may be given ----------------------------------------------------------------------- */

static void add_offer(struct offers *out, struct run *r, const char *node, int priority, bool due)
{
    out->all[out->n] =
        (struct offer){.run = r, .node = node, .priority = priority, .order = out->n, .due = due};
    out->n++;
}

/* Is a node of this run due to the waiting job's owner? Yes if that owner, with the nodes that the
 * job asks for, uses no more nodes than the run's owner without `given` nodes and this one. */
static bool is_due(const struct preempt_ask *ask, const struct run *r, int given)
{
    const char *theirs = shares_owner(ask->shares, ask->job),
               *owner = shares_owner(ask->shares, r->attempt.job);
    int need = jobspec_least_workers(ask->place->spec);
    return theirs[0] && owner[0] && strcmp(theirs, owner) != 0 &&
           shares_used(ask->shares, theirs) + need <= shares_used(ask->shares, owner) - given - 1;
}

/* Nodes above the run's `min` that the waiting job could use, the slowest first: ranks begin with
 * the fastest. */
static void offer_surplus(const struct preempt_ask *ask, struct run *r, int priority,
                          const struct names *useful, struct offers *out)
{
    int surplus = run_workers(r) - r->spec->elastic.min, given = 0;
    bool higher = priority < ask->place->spec->priority,
         same = priority == ask->place->spec->priority;
    for (int i = r->plan->n_workers - 1; i >= 0 && given < surplus; i--) {
        const char *name = r->plan->workers[i].node;
        bool fits = !run_is_lost(r, i) && names_has(useful, name);
        if (fits && (higher || (same && is_due(ask, r, given)))) {
            add_offer(out, r, name, priority, !higher);
            given++;
        }
    }
}

/* Lowest priority first. Within a priority single nodes come before whole jobs, and jobs that
 * started last before others. */
static int in_order(const void *a, const void *b)
{
    const struct offer *x = a, *y = b;
    double later = y->run->launched_at - x->run->launched_at;
    if (x->priority != y->priority) {
        return x->priority - y->priority;
    }
    if (!x->node != !y->node) {
        return x->node ? -1 : 1;
    }
    return later > 0 ? 1 : later < 0 ? -1 : x->order - y->order;
}

static void find_offers(struct attempts *a, const struct preempt_ask *ask,
                        const struct names *useful, struct offers *out)
{
    for (struct run *r = a->runs; r; r = r->next) {
        if (!r->monitor || !monitor_stepped(r->monitor) || run_is_ending(r)) {
            continue;
        }
        int priority = attempts_priority(a, r, ask->now);
        if (r->spec->elastic.max > 0) {
            offer_surplus(ask, r, priority, useful, out);
        }
        if (ask->pauses && ask->now - r->launched_at >= ask->keep &&
            priority < ask->place->spec->priority) {
            add_offer(out, r, NULL, priority, false);
        }
    }
    if (out->n > 1) {
        qsort(out->all, (size_t)out->n, sizeof *out->all, in_order);
    }
}

/* Takes offers from the front until they make room, and drops those that are not needed. Returns
 * how many it took; 0: all together do not make room. */
static int choose(struct offers *offers, const struct placement_ask *ask, json_t *nodes)
{
    int chosen = 0;
    bool fits = false;
    while (chosen < offers->n && !fits) {
        give(nodes, &offers->all[chosen++]);
        fits = would_fit(ask, nodes);
    }
    for (int i = chosen - 1; fits && i >= 0; i--) { /* the highest priority first */
        take_back(nodes, offers, i);
        offers->all[i].spared = would_fit(ask, nodes);
        if (!offers->all[i].spared) {
            give(nodes, &offers->all[i]);
        }
    }
    return fits ? chosen : 0;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void pause(struct attempts *a, const struct offer *o, const struct preempt_ask *ask)
{
    o->run->leaving = o->run->yields = true;
    store_job_set(a->store, o->run->attempt.job, "yielded_to", ask->job, NULL);
    log_info("sched",
             "gives its nodes to a job of higher priority: it writes a checkpoint and is "
             "queued again",
             "job=%s priority=%d for=%s its_priority=%d", o->run->attempt.job, o->priority,
             ask->job, ask->place->spec->priority);
}

/* Asks a run to give up all its nodes among the chosen offers. */
static void shrink(const struct offers *offers, int chosen, const struct offer *first,
                   const struct preempt_ask *ask)
{
    struct names gives = {0};
    char why[RESIZE_WHY];
    for (int i = 0; i < chosen; i++) {
        const struct offer *o = &offers->all[i];
        if (o->run == first->run && !o->spared) {
            names_add(&gives, o->node, 0);
        }
    }
    snprintf(why, sizeof why, "for job %s %s", ask->job,
             first->due ? "of an owner who uses fewer" : "of higher priority");
    resize_ask(first->run, &gives, why);
}

static void tell(struct attempts *a, const struct offers *offers, int chosen,
                 const struct preempt_ask *ask)
{
    for (int i = 0; i < chosen; i++) { /* a paused job gives all its nodes */
        if (!offers->all[i].spared && !offers->all[i].node) {
            pause(a, &offers->all[i], ask);
        }
    }
    for (int i = 0; i < chosen; i++) {
        if (!offers->all[i].spared && !offers->all[i].run->leaving) {
            shrink(offers, chosen, &offers->all[i], ask);
        }
    }
}

void preempt_for(struct attempts *a, const struct preempt_ask *ask)
{
    json_t *nodes = json_deep_copy(ask->place->nodes);
    struct names useful = {0};
    int most = a->n_runs;
    for (const struct run *r = a->runs; r; r = r->next) {
        most += r->plan->n_workers;
        if (run_is_ending(r)) {
            give_ending(nodes, r);
        }
    }
    struct offers offers = {.all = calloc((size_t)most + 1, sizeof *offers.all)};
    placement_reserve(&useful, ask->place);
    if (nodes && offers.all && !would_fit(ask->place, nodes)) {
        find_offers(a, ask, &useful, &offers);
        tell(a, &offers, choose(&offers, ask->place, nodes), ask);
    }
    free(offers.all);
    names_release(&useful);
    json_decref(nodes);
}
