/* Predictions: the simulator, timing only, on virtual nodes that have the measured profiles of the
 * nodes which the job would get.
 *
 *   nodes of the placement ─► profiles a + k*b ─► cluster file ─┐
 *   the job, its minibatches from these profiles ───────────────┴─► evenstep-simulate
 *                         --timing-only, for each strategy SEEDS times ─► a row each
 *
 * A node's steps vary as they did when it was measured. This costs strategies that wait for the
 * slowest node more than others. A row has the median of its runs, and the least and greatest step.
 *
 * Links are first those of ranks on one host. Where the nodes have trained this network together,
 * the links become so slow that the simulated exchange takes as long as the measured one
 * (predict_links.c). So the prediction includes whatever slows the real exchange, such as ranks
 * that share cores or a network. It stays approximate: a run ends after some hundred steps, and on
 * nodes that were not measured together the links are a guess. A job with a `cluster` of its own is
 * predicted on that cluster. Minibatches are those with which balancing would end. A run is too
 * short to find them, and would have equal ones, which hold up strategies with a barrier more than
 * others. Each call has its own processes, folder and time limit.
 */
#include "coordinator/planning/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/proc.h"
#include "coordinator/planning/predict_run.h"
#include "coordinator/planning/profiles.h"
#include "job/minibatch/assign.h"
#include "job/spec/cluster.h"

static const double most_jitter = 0.33; /* the most jitter that a cluster may have */

/* How much the steps of a node vary, as a share of a usual step. */
static double jitter_of(const struct profile *p)
{
    int batch = p->weight > 0 ? (int)(p->sb / p->weight + 0.5) : 0;
    double likely = profile_seconds(p, batch), jitter = likely > 0 ? p->deviation / likely : 0;
    return jitter < most_jitter ? jitter : most_jitter;
}

static json_t *node_of(const char *name, double fixed, double per_sample, double jitter)
{
    return json_pack("{s:s, s:f, s:f, s:f}", "name", name, "fixed_seconds", fixed,
                     "seconds_per_sample", per_sample, "jitter", jitter);
}

/* The placement's nodes as a virtual cluster. NULL: one has no profile, and its name is given. */
static json_t *cluster_of(const struct placement *p, struct profile *const *profiles,
                          const char **unmeasured)
{
    json_t *nodes = json_array(), *link = predict_link(1);
    for (int i = 0; i < p->count; i++) {
        if (!profiles[i] || profiles[i]->count == 0) {
            *unmeasured = p->nodes[i].name;
            json_decref(nodes);
            json_decref(link);
            return NULL;
        }
        json_array_append_new(nodes, node_of(p->nodes[i].name, profiles[i]->a, profiles[i]->k,
                                             jitter_of(profiles[i])));
    }
    return json_pack("{s:o, s:O, s:o}", "nodes", nodes, "links", link, "server", link);
}

/* Sets p->first to the first minibatches that these profiles give. Where workers step together,
 * balancing shares out the samples that a step really has (balancer_narrow). */
static int size_minibatches(struct prediction *p, int workers,
                            const struct profile *const *profiles, struct err *e)
{
    const struct batching_spec *asked = &p->spec->batching;
    struct batching_spec narrowed = *asked;
    int batch = predict_batch(p), least = asked->min_batch < 1 ? 1 : asked->min_batch;
    if (asked->policy == BATCH_DYNAMIC && batch >= workers * least) {
        narrowed.global_batch = batch;
    }
    if (!(p->first = calloc(PREDICT_FIRST, sizeof *p->first))) {
        return err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
    }
    int rc = assign_first(&p->first[PREDICT_TOGETHER], &narrowed, workers, profiles, 4, e);
    return rc < 0 ? rc : assign_first(&p->first[PREDICT_SERVED], asked, workers, profiles, 4, e);
}

/* The minibatches that balancing finds on a virtual cluster. */
static int size_virtual(struct prediction *p, const struct cluster *c, struct err *e)
{
    int workers = p->workers, rc;
    struct profile *profiles = calloc((size_t)workers, sizeof *profiles);
    const struct profile **each = calloc((size_t)workers, sizeof *each);
    if (profiles && each) {
        for (int i = 0; i < workers; i++) {
            profiles[i] = (struct profile){.a = c->nodes[i].fixed_seconds,
                                           .k = c->nodes[i].seconds_per_sample,
                                           .count = 1,
                                           .known = true};
            each[i] = &profiles[i];
        }
        rc = size_minibatches(p, workers, each, e);
    } else {
        rc = err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
    }
    free(each);
    free(profiles);
    return rc;
}

/* Takes the job's own cluster, with each node under its own name. */
static int take_cluster(struct prediction *p, struct err *e)
{
    struct jsonx_problems problems = {0};
    struct cluster *c = calloc(1, sizeof *c);
    int rc = 0;
    if (!c) {
        return err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
    }
    p->cluster = json_copy(p->spec->cluster);
    if (cluster_parse(c, p->cluster, "/cluster", &problems) >= 0) {
        json_t *nodes = json_array();
        for (int i = 0; i < c->n_nodes; i++) {
            const struct virtual_node *n = &c->nodes[i];
            json_array_append_new(
                nodes, node_of(n->name, n->fixed_seconds, n->seconds_per_sample, n->jitter));
        }
        json_object_set_new(p->cluster, "nodes", nodes);
        bool as_asked = p->spec->batching.policy != BATCH_DYNAMIC &&
                        predict_batch(p) == p->spec->batching.global_batch;
        rc = as_asked ? 0 : size_virtual(p, c, e);
    }
    free(c);
    jsonx_problems_release(&problems);
    return rc;
}

/* Finds the nodes that the job would get if all were free, and its minibatches on them. Returns 0,
 * or 1 with `reason` if nothing is known of these nodes. */
static int place_job(struct prediction *p, struct store *store, char reason[200], struct err *e)
{
    json_t *nodes = store_nodes(store, e);
    struct placement_ask ask = {.nodes = nodes,
                                .local_host = p->d->local_host,
                                .spec = p->spec,
                                .attempt = 1,
                                .ignore_claims = true};
    struct placement found = {0};
    const char *unmeasured = NULL;
    int rc = nodes ? 0 : -(int)e->code;
    if (nodes && !placement_find(&found, &ask)) {
        snprintf(reason, 200, "there are not enough nodes: %s", found.waiting);
        rc = 1;
    } else if (nodes) {
        struct profile **profiles = profiles_all(store, p->spec, &found);
        p->workers = found.count;
        p->cluster = profiles ? cluster_of(&found, profiles, &unmeasured) : NULL;
        if (p->cluster) {
            rc = size_minibatches(p, found.count, (const struct profile *const *)profiles, e);
            if (!profiles_exchange(store, p->spec, &found, &p->exchange)) {
                p->exchange.workers = 0;
            }
        } else if (unmeasured) {
            snprintf(reason, 200, "node '%.60s' was not measured on this network yet", unmeasured);
            rc = 1;
        } else {
            rc = err_set(e, ERR_MEMORY, "cannot predict: memory ran out");
        }
        profiles_free(profiles, found.count);
    }
    placement_release(&found);
    json_decref(nodes);
    return rc;
}

static bool is_compared(const char *strategy)
{
    return strategy_traits(catalog_find(CATALOG_STRATEGY, strategy)->id)->shown == SHOWN_COMPARED;
}

static json_t *simulate_all(struct prediction *p, struct err *e)
{
    int n;
    const char *const *all = catalog_names(CATALOG_STRATEGY, &n);
    json_t *rows = json_array();
    const char *chosen = catalog_get(p->spec->strategy.type)->name;
    snprintf(p->dir, sizeof p->dir, "/tmp/evenstep-predict-XXXXXX");
    if (!mkdtemp(p->dir)) {
        err_errno(e, ERR_IO, "cannot make a folder in /tmp");
        json_decref(rows);
        return NULL;
    }
    int rc = p->exchange.workers > 0 ? predict_settle_links(p, e)
                                     : predict_write(p->dir, "cluster.json", p->cluster, e);
    for (int i = -1; i < n && rc >= 0; i++) {
        if (i >= 0 && (strcmp(all[i], chosen) == 0 || !is_compared(all[i]))) {
            continue;
        }
        struct err why = {0};
        struct predicted run;
        int ran = predict_run(p, i < 0 ? chosen : all[i], i < 0, &run, i < 0 ? e : &why);
        if (ran >= 0 && i >= 0) {
            json_object_del(run.row, "workers");
        }
        if (ran >= 0) {
            json_array_append_new(rows, run.row);
        } else if (i < 0) {
            rc = ran;
        }
    }
    proc_remove_tree(p->dir, NULL);
    if (rc < 0) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

json_t *predict_job(void *ctx, const json_t *json, int64_t samples, struct err *e)
{
    struct prediction p = {.d = ctx};
    struct jsonx_problems problems = {0};
    struct jobspec *spec = calloc(1, sizeof *spec);
    struct store *store = store_open(p.d->store_url, p.d->store_password, e);
    char reason[200] = "";
    json_t *rows = NULL;
    int rc = spec && store ? jobspec_parse(spec, json, &problems) : -ERR_MEMORY;
    p.spec = spec;
    p.workers = spec ? spec->workers : 0;
    p.epoch_samples = samples > 0 || rc < 0 ? samples : spec->data.samples; /* of glyphs */
    if (rc >= 0 && spec->cluster) {
        rc = take_cluster(&p, e);
    } else if (rc >= 0) {
        rc = place_job(&p, store, reason, e);
    }
    if (rc == 0) {
        rows = simulate_all(&p, e);
    }
    free(p.first);
    jsonx_problems_release(&problems);
    if (spec) {
        jobspec_release(spec);
    }
    free(spec);
    store_close(store);
    if (rc < 0 || (rc == 0 && !rows)) {
        json_decref(p.cluster);
        return NULL;
    }
    return json_pack("{s:b, s:s?, s:o?, s:o}", "approximate", 1, "reason",
                     reason[0] ? reason : NULL, "cluster", p.cluster, "strategies",
                     rows ? rows : json_array());
}
