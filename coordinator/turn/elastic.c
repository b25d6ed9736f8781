/* See elastic.h. The placement says which nodes a job would get; the nodes that it may not have are
 * reserved for this. growth.h says whether a change of size is worth it.
 *
 * Jobs grow in the order in which they would start: priority, then the owner who uses fewer nodes,
 * then age. Nodes that one job is to get are not offered to the next.
 */
#include "coordinator/turn/elastic.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/files/programs.h"
#include "coordinator/planning/placement.h"
#include "coordinator/turn/resize.h"
#include "job/node/node.h"

static const double look_seconds = 1;

void elastic_init(struct elastic *x, const struct growth_rules *rules)
{
    *x = (struct elastic){.rules = *rules, .looked_at = -1e18};
}

void elastic_release(struct elastic *x)
{
    names_release(&x->free_since);
}

/* ---- nodes that could be had ----------------------------------------------------------------- */

/* Is the node claimed by an attempt that has lost its worker there? */
static bool is_left(const struct attempts *a, const json_t *node)
{
    const struct run *r =
        strcmp(node_state(node), "busy") == 0 ? attempts_find(a, node_user(node)) : NULL;
    for (int i = 0; r && i < r->plan->n_workers; i++) {
        if (strcmp(r->plan->workers[i].node, node_name(node)) == 0) {
            return run_is_lost(r, i);
        }
    }
    return false;
}

/* Notes since when each node is free. Adds to `unsettled` the nodes that nobody uses, but that have
 * not been free for long enough. */
static void note_free(struct elastic *x, const struct attempts *a, const json_t *nodes, double now,
                      struct names *unsettled)
{
    struct names fresh = {0};
    size_t i;
    json_t *node;
    json_array_foreach((json_t *)nodes, i, node) {
        const char *name = node_name(node);
        bool left = is_left(a, node), is_free = left || strcmp(node_state(node), "ready") == 0;
        const struct named *before = names_find(&x->free_since, name);
        double since = before ? before->number : now;
        if (is_free) {
            names_add(&fresh, name, since);
        }
        if ((left || !node_user(node)[0]) &&
            !(is_free && growth_is_settled(&x->rules, since, now))) {
            names_add(unsettled, name, 0);
        }
    }
    names_release(&x->free_since);
    x->free_since = fresh;
}

/* ---- one job --------------------------------------------------------------------------------- */

static bool may_grow(const struct run *r)
{
    bool is_elastic = r->spec && r->spec->elastic.max > 0,
         steps = r->monitor && r->paced_at > 0 && !monitor_outcome(r->monitor);
    return is_elastic && steps && !run_is_ending(r) && run_workers(r) < r->spec->elastic.max;
}

/* Seconds that the job still takes at the pace of this attempt; negative: not known. */
static double seconds_left(const struct run *r, double now)
{
    int64_t counted, planned;
    monitor_samples(r->monitor, &counted, &planned);
    double done = (double)(counted - r->paced_samples), spent = now - r->paced_at;
    if (planned <= 0 || done <= 0 || spent <= 0) {
        return -1;
    }
    return (double)(planned - counted) * spent / done;
}

/* Takes the run's own nodes out of `reserved`: a job that waits for them does not get them. */
static void keep_own(struct names *reserved, const struct run *r)
{
    for (int i = 0; i < r->plan->n_workers; i++) {
        if (!run_is_lost(r, i)) {
            names_remove(reserved, r->plan->workers[i].node);
        }
    }
}

/* The speed of the run's nodes together, as the placement guesses it. */
static double speed_of(const struct run *r, const struct placement_ask *ask)
{
    struct placement_ask own = *ask;
    struct placement p;
    struct names others = {0};
    json_t *node;
    double sum = 0;
    size_t k;
    json_array_foreach((json_t *)ask->nodes, k, node) {
        names_add(&others, node_name(node), 0);
    }
    keep_own(&others, r);
    own.reserved = &others;
    bool found = placement_find(&p, &own);
    for (int i = 0; found && i < p.count; i++) {
        sum += p.nodes[i].speed;
    }
    placement_release(&p);
    names_release(&others);
    return sum;
}

/* One pass over the elastic jobs. */
struct pass {
    struct elastic *elastic;
    struct attempts *attempts;
    const struct queue *queue;
    json_t *nodes;          /* the nodes as of now; owned, like the others */
    struct names unsettled; /* nodes that are not free, or not for long enough */
    struct names taken;     /* nodes that an earlier job is to get */
    double now;
};

static bool is_worth(const struct pass *pass, const struct run *r, const struct placement *then,
                     double speed)
{
    struct growth g = {.workers = run_workers(r),
                       .then = then->count,
                       .speed = speed,
                       .age = pass->now - r->launched_at,
                       .left = seconds_left(r, pass->now),
                       .cost = r->change_seconds};
    for (int i = 0; i < then->count; i++) {
        g.speed_then += then->nodes[i].speed;
    }
    return growth_is_worth(&pass->elastic->rules, &g);
}

/* Adds the nodes for which queued jobs of this priority or a higher one wait. */
static void add_wanted(struct names *reserved, const struct queue *queue, int priority)
{
    for (size_t i = 0; i < queue->n_wanted; i++) {
        if (queue->wanted[i].priority >= priority) {
            names_add_all(reserved, &queue->wanted[i].nodes);
        }
    }
}

/* Adds the nodes that the job must not use. */
static void reserve_for(struct names *reserved, const struct pass *pass, const struct run *r,
                        int priority)
{
    names_add_all(reserved, &pass->unsettled);
    add_wanted(reserved, pass->queue, priority);
    names_add_all(reserved, &pass->taken);
    keep_own(reserved, r);
}

static void try_grow(struct pass *pass, struct run *r, int priority, int most)
{
    struct attempts *a = pass->attempts;
    json_t *manifest = programs_manifest(r->spec, a->data_dir);
    struct names reserved = {0};
    struct placement_ask ask = {.nodes = pass->nodes,
                                .local_host = a->local_host[0] ? a->local_host : NULL,
                                .spec = r->spec,
                                .manifest = manifest,
                                .attempt = r->attempt.number + 1,
                                .reserved = &reserved,
                                .own = r->attempt.job,
                                .most = most};
    struct placement then;
    reserve_for(&reserved, pass, r, priority);
    if (placement_find(&then, &ask) && is_worth(pass, r, &then, speed_of(r, &ask))) {
        for (int i = 0; i < then.count; i++) {
            names_add(&pass->taken, then.nodes[i].name, 0);
        }
        resize_ask(r, NULL, NULL);
    }
    placement_release(&then);
    names_release(&reserved);
    json_decref(manifest);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Lists the jobs that may grow, in their order. Returns how many. */
static size_t line_up(struct attempts *a, const struct shares *shares, double now,
                      struct share_place *line)
{
    size_t n = 0;
    for (struct run *r = a->runs; r; r = r->next) {
        if (may_grow(r)) {
            line[n] = (struct share_place){.id = r->attempt.job,
                                           .owner = shares_owner(shares, r->attempt.job),
                                           .priority = attempts_priority(a, r, now),
                                           .age = (size_t)a->n_runs - n};
            n++;
        }
    }
    shares_sort(shares, line, n);
    return n;
}

static int grow_all(struct pass *pass, struct shares *shares, struct err *e)
{
    struct attempts *a = pass->attempts;
    struct share_place *line = calloc((size_t)a->n_runs + 1, sizeof *line);
    int rc = line ? shares_learn(shares, a, NULL, 0, e)
                  : err_set(e, ERR_MEMORY, "cannot let jobs grow: memory ran out");
    size_t n = 0;
    if (rc >= 0 && (rc = shares_count(shares, a, pass->nodes, e)) >= 0) {
        n = line_up(a, shares, pass->now, line);
    }
    for (size_t i = 0; i < n; i++) {
        struct run *r = attempts_find(a, line[i].id);
        try_grow(pass, r, line[i].priority, shares_most(shares, line[i].owner, run_workers(r)));
    }
    free(line);
    return rc;
}

int elastic_tick(struct elastic *x, struct attempts *a, struct queue *queue, double now,
                 struct err *e)
{
    bool any = false;
    for (const struct run *r = a->runs; r; r = r->next) {
        any = any || may_grow(r);
    }
    if (!any) {
        names_release(&x->free_since); /* from now on nobody watches which nodes are used */
    }
    if (!any || now - x->looked_at < look_seconds) {
        return 0;
    }
    x->looked_at = now;
    struct pass pass = {
        .elastic = x, .attempts = a, .nodes = store_nodes(a->store, e), .queue = queue, .now = now};
    if (pass.nodes) {
        note_free(x, a, pass.nodes, now, &pass.unsettled);
    }
    int rc = pass.nodes ? grow_all(&pass, &queue->shares, e) : -(int)e->code;
    json_decref(pass.nodes);
    names_release(&pass.unsettled);
    names_release(&pass.taken);
    return rc;
}
