/* See elastic.h. Which nodes a job would get is asked of the placement itself, with the nodes that
 * it may not have reserved; whether that is worth a change of its size, of growth.h.
 *
 * Jobs grow in the order in which they would start: priority, then the owner who uses fewer nodes,
 * then age. What one is to get, the next one does not.
 */
#include "coordinator/turn/elastic.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/files/programs.h"
#include "coordinator/planning/placement.h"
#include "coordinator/turn/resize.h"
#include "job/node/node.h"

static const double look_seconds = 1;

int elastic_init(struct elastic *x, const struct growth_rules *rules, struct err *e)
{
    *x = (struct elastic){.rules = *rules, .free_since = json_object(), .looked_at = -1e18};
    return x->free_since ? 0 : err_set(e, ERR_MEMORY, "cannot watch the nodes: memory ran out");
}

void elastic_release(struct elastic *x)
{
    json_decref(x->free_since);
}

/* ---- nodes that could be had ----------------------------------------------------------------- */

/* Is it claimed by an attempt that has lost its worker on it? */
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

/* The others are not free, or not for long enough: an object of their names. */
static json_t *note_free(struct elastic *x, const struct attempts *a, const json_t *nodes,
                         double now)
{
    json_t *fresh = json_object(), *unsettled = json_object(), *node;
    size_t i;
    json_array_foreach((json_t *)nodes, i, node) {
        const char *name = node_name(node);
        bool left = is_left(a, node), is_free = left || strcmp(node_state(node), "ready") == 0;
        json_t *since = json_object_get(x->free_since, name);
        if (is_free && since) {
            json_object_set(fresh, name, since);
        } else if (is_free) {
            json_object_set_new(fresh, name, json_real(now));
        }
        since = json_object_get(fresh, name);
        if ((left || !node_user(node)[0]) &&
            !(since && growth_is_settled(&x->rules, json_number_value(since), now))) {
            json_object_set_new(unsettled, name, json_true());
        }
    }
    json_decref(x->free_since);
    x->free_since = fresh;
    return unsettled;
}

/* ---- one job --------------------------------------------------------------------------------- */

static bool may_grow(const struct run *r)
{
    return r->spec && r->spec->elastic.max > 0 && r->monitor && r->paced_at > 0 && !r->leaving &&
           !r->over && !r->failed && r->cancel_at == 0 && r->drain_at == 0 &&
           !monitor_outcome(r->monitor) && run_workers(r) < r->spec->elastic.max;
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

/* Whoever waits for the nodes that it has does not get them. */
static void keep_own(json_t *reserved, const struct run *r)
{
    for (int i = 0; i < r->plan->n_workers; i++) {
        if (!run_is_lost(r, i)) {
            json_object_del(reserved, r->plan->workers[i].node);
        }
    }
}

/* The speed of the nodes that it has, as the placement guesses it for all of them. */
static double speed_of(const struct run *r, const struct placement_ask *ask)
{
    struct placement_ask own = *ask;
    struct placement p;
    json_t *others = json_object(), *node;
    double sum = 0;
    size_t k;
    json_array_foreach((json_t *)ask->nodes, k, node) {
        json_object_set_new(others, node_name(node), json_true());
    }
    keep_own(others, r);
    own.reserved = others;
    bool found = placement_find(&p, &own);
    for (int i = 0; found && i < p.count; i++) {
        sum += p.nodes[i].speed;
    }
    placement_release(&p);
    json_decref(others);
    return sum;
}

/* One pass over them. */
struct pass {
    struct elastic *elastic;
    struct attempts *attempts;
    const struct queue *queue;
    json_t *nodes;     /* as of now; owned, as the others */
    json_t *unsettled; /* names of those that are not free, or not for long enough */
    json_t *taken;     /* names of those that a job before is to get */
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

/* What jobs of this priority or a higher one wait for in the queue. */
static void add_wanted(json_t *reserved, const struct queue *queue, int priority)
{
    for (size_t i = 0; i < queue->n_wanted; i++) {
        if (queue->wanted[i].priority >= priority) {
            json_object_update(reserved, queue->wanted[i].nodes);
        }
    }
}

/* The names that it must not use; new reference. */
static json_t *reserved_for(const struct pass *pass, const struct run *r, int priority)
{
    json_t *reserved = json_copy(pass->unsettled);
    add_wanted(reserved, pass->queue, priority);
    json_object_update(reserved, pass->taken);
    keep_own(reserved, r);
    return reserved;
}

static void try_grow(struct pass *pass, struct run *r, int priority, int most)
{
    struct attempts *a = pass->attempts;
    json_t *manifest = programs_manifest(r->spec, a->data_dir),
           *reserved = reserved_for(pass, r, priority);
    struct placement_ask ask = {.nodes = pass->nodes,
                                .local_host = a->local_host[0] ? a->local_host : NULL,
                                .spec = r->spec,
                                .manifest = manifest,
                                .attempt = r->attempt.number + 1,
                                .reserved = reserved,
                                .own = r->attempt.job,
                                .most = most};
    struct placement then;
    if (placement_find(&then, &ask) && is_worth(pass, r, &then, speed_of(r, &ask))) {
        for (int i = 0; i < then.count; i++) {
            json_object_set_new(pass->taken, then.nodes[i].name, json_true());
        }
        resize_ask(r, NULL, NULL);
    }
    placement_release(&then);
    json_decref(reserved);
    json_decref(manifest);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Those that may grow, in the order in which they may; returns how many. */
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
        json_object_clear(x->free_since); /* nobody watches who uses them from now on */
    }
    if (!any || now - x->looked_at < look_seconds) {
        return 0;
    }
    x->looked_at = now;
    struct pass pass = {.elastic = x,
                        .attempts = a,
                        .nodes = store_nodes(a->store, e),
                        .taken = json_object(),
                        .queue = queue,
                        .now = now};
    pass.unsettled = pass.nodes ? note_free(x, a, pass.nodes, now) : NULL;
    int rc = pass.nodes ? grow_all(&pass, &queue->shares, e) : -(int)e->code;
    json_decref(pass.nodes);
    json_decref(pass.unsettled);
    json_decref(pass.taken);
    return rc;
}
