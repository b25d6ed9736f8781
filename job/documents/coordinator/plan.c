/* See plan.h. */
#include "job/documents/coordinator/plan.h"

#include <stdlib.h>
#include <string.h>

#include "job/spec/catalog.h"
#include "job/node/device_kind.h"

static const double slowest = 1e6; /* the largest emulated slowdown or relative speed that is
                                      valid */

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *worker_json(const struct plan_worker *w, int rank)
{
    json_t *j =
        json_pack("{s:i, s:s, s:s, s:s, s:f, s:i}", "rank", rank, "node", w->node, "host", w->host,
                  "device", w->device, "slowdown", w->slowdown, "threads", w->threads);
    if (w->agent) {
        json_object_set_new(j, "agent", json_true());
    }
    if (w->address[0]) {
        json_object_set_new(j, "address", json_string(w->address));
    }
    if (w->tuning) {
        json_object_set(j, "tuning", w->tuning);
    }
    return j;
}

static json_t *roots_json(const char *roots)
{
    json_t *out = json_array();
    while (*roots) {
        size_t n = strcspn(roots, ":");
        if (n) {
            json_array_append_new(out, json_stringn(roots, n));
        }
        roots += n + (roots[n] == ':');
    }
    return out;
}

json_t *plan_json(const struct plan *p)
{
    json_t *j = document_new(PLAN_FORMAT, &p->from), *workers = json_array(), *sizes = json_array(),
           *speeds = json_array();
    for (int i = 0; i < p->n_workers; i++) {
        json_array_append_new(workers, worker_json(&p->workers[i], i));
        json_array_append_new(sizes, json_integer(p->first_sizes[i]));
        json_array_append_new(speeds, json_real(p->speeds[i]));
    }
    json_object_set(j, "spec", p->spec);
    json_object_set_new(j, "workers", workers);
    json_object_set_new(j, "servers", json_integer(p->servers));
    json_object_set_new(j, "job_dir", json_string(p->job_dir));
    json_object_set_new(j, "data_roots", roots_json(p->roots));
    json_object_set_new(j, "init_path", p->init_path[0] ? json_string(p->init_path) : json_null());
    json_object_set_new(j, "program_folder",
                        p->program_folder[0] ? json_string(p->program_folder) : json_null());
    json_object_set_new(j, "program_archive",
                        p->program_archive[0] ? json_string(p->program_archive) : json_null());
    json_object_set_new(j, "first",
                        json_pack("{s:i, s:o}", "version", p->first_version, "sizes", sizes));
    json_object_set_new(j, "speeds", speeds);
    return j;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void read_worker(const struct document *d, struct plan_worker *w)
{
    document_text(d, "node", w->node, sizeof w->node);
    document_text(d, "host", w->host, sizeof w->host);
    document_text(d, "device", w->device, sizeof w->device);
    w->slowdown = document_number(d, "slowdown", 1, slowest);
    w->threads = (int)document_integer(d, "threads", 0, INT32_MAX);
    w->agent = document_has(d, "agent") && document_flag(d, "agent");
    if (document_has(d, "address")) {
        document_text(d, "address", w->address, sizeof w->address);
    }
    w->tuning = document_object(d, "tuning", false);
}

/* Reads the workers; false: there are none. */
static bool read_workers(const struct document *d, struct plan *p)
{
    const json_t *list = document_list(d, "workers", 0, SPEC_WORKERS);
    int n = (int)json_array_size(list);
    p->workers = calloc((size_t)n + 1, sizeof *p->workers);
    BUG_ON(!p->workers);
    p->n_workers = n;
    for (int i = 0; i < n; i++) {
        struct document worker = document_element(d, "workers", (size_t)i);
        read_worker(&worker, &p->workers[i]);
    }
    return list != NULL;
}

/* Reads the first minibatches and the speeds, one for each worker. */
static void read_first(const struct document *d, struct plan *p)
{
    struct document first = document_within(d, "first");
    p->first_version = (int)document_integer(&first, "version", 0, INT32_MAX);
    int n = document_integers(&first, "sizes", p->first_sizes, 0, SPEC_WORKERS);
    if (first.j && n != p->n_workers) {
        document_problem(&first, "sizes", "are %d minibatches for %d workers", n, p->n_workers);
    }
    const json_t *speeds = document_list(d, "speeds", 0, SPEC_WORKERS);
    if (speeds && (int)json_array_size(speeds) != p->n_workers) {
        document_problem(d, "speeds", "are %zu for %d workers", json_array_size(speeds),
                         p->n_workers);
    }
    for (int i = 0; i < p->n_workers; i++) {
        double speed = json_number_value(json_array_get(speeds, (size_t)i));
        p->speeds[i] = speed > 0 && speed < slowest ? speed : 1;
    }
}

static void read_roots(const struct document *d, struct plan *p)
{
    const json_t *list = document_list(d, "data_roots", 0, PLAN_PATH);
    size_t i, used = 0;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) {
        size_t n = json_string_length(item);
        if (n == 0 || used + n + 2 > sizeof p->roots) {
            document_problem(d, "data_roots", "must be folders of %d bytes in all", PLAN_PATH - 1);
            return;
        }
        p->roots[used] = ':';
        used += used > 0;
        memcpy(p->roots + used, json_string_value(item), n);
        used += n;
        p->roots[used] = 0;
    }
}

int plan_read(struct plan *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, PLAN_FORMAT, &out->from, &problems);
    out->spec = document_object(&d, "spec", true);
    bool workers = read_workers(&d, out);
    out->servers = (int)document_integer(&d, "servers", out->n_workers > 0, PLAN_SERVERS);
    document_text(&d, "job_dir", out->job_dir, sizeof out->job_dir);
    read_roots(&d, out);
    if (document_has(&d, "init_path")) {
        document_text(&d, "init_path", out->init_path, sizeof out->init_path);
    }
    if (document_has(&d, "program_archive")) {
        document_text(&d, "program_archive", out->program_archive, sizeof out->program_archive);
    }
    if (document_has(&d, "program_folder")) {
        document_text(&d, "program_folder", out->program_folder, sizeof out->program_folder);
    }
    if (workers) {
        read_first(&d, out);
    }
    return document_close(&d, "the plan", e);
}

void plan_release(struct plan *p)
{
    for (int i = 0; i < p->n_workers; i++) {
        json_decref(p->workers[i].tuning);
    }
    free(p->workers);
    json_decref(p->spec);
    memset(p, 0, sizeof *p);
}

bool plan_uses(const struct plan *plan, const char *node)
{
    for (int i = 0; i < plan->n_workers; i++) {
        if (strcmp(plan->workers[i].node, node) == 0) {
            return true;
        }
    }
    return false;
}

const struct plan_worker *plan_first_remote(const struct plan *plan)
{
    for (int i = 0; i < plan->n_workers; i++) {
        if (plan->workers[i].agent) {
            return &plan->workers[i];
        }
    }
    return NULL;
}

const struct plan_worker *plan_worker_with(const struct plan *plan, int rank)
{
    int server = rank - plan->n_workers;
    return server < 0    ? &plan->workers[rank]
           : server == 0 ? NULL
                         : &plan->workers[(server - 1) % plan->n_workers];
}

bool plan_outlives_worker(const struct plan *plan, const struct jobspec *spec)
{
    bool possible = jobspec_outlives_worker(spec) && plan->n_workers > 1;
    bool by_device = !jobspec_uses_server(spec) && !spec->program.given; /* a user's program is not
                                                                            such a block */
    for (int i = 0; i < plan->n_workers && possible && by_device; i++) {
        const struct device_kind *kind = device_kind_of(plan->workers[i].device);
        possible = kind && kind->id == CAT_DEVICE_CPU;
    }
    return possible;
}

bool plan_takes_back(const struct plan *plan, const struct jobspec *spec)
{
    enum strategy_replicas replicas = strategy_traits(spec->strategy.type)->replicas;
    bool one_server = !jobspec_uses_server(spec) || plan->servers == 1,
         alike = replicas == REPLICAS_ALIKE,
         averages_all = replicas == REPLICAS_AVERAGED && !jobspec_has_groups(spec),
         joins = jobspec_uses_server(spec) || alike || !spec->program.given || averages_all;
    return plan_outlives_worker(plan, spec) && one_server && joins;
}
