/* See service.h. */
#include "coordinator/service.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/process/notify.h"
#include "coordinator/files/datasets.h"
#include "coordinator/files/uploads.h"
#include "coordinator/planning/predict.h"
#include "coordinator/planning/scoring.h"
#include "job/node/node.h"

static int start_store(struct service *s, struct err *e)
{
    if (s->config.store) {
        snprintf(s->url, sizeof s->url, "%s", s->config.store);
    } else {
        int rc = redis_private_start(s->config.data_dir, s->url, NULL, e);
        if (rc < 0) {
            return rc;
        }
        s->is_private = true;
        s->was_there = rc == SERVER_WAS_THERE;
    }
    if (!(s->store = store_open(s->url, s->config.password, e))) {
        return -(int)e->code;
    }
    int rc = store_ping(s->store, e);
    return rc < 0 ? rc : store_functions_load(s->store, e);
}

static int start_quotas(struct service *s, struct err *e)
{
    const char *file = opt_string(s->config.options, "quotas");
    s->quotas = file ? quotas_open(file, e) : NULL;
    return file && !s->quotas ? -(int)e->code : 0;
}

static int start_sched(struct service *s, struct err *e)
{
    struct serve_config *c = &s->config;
    bool keeper = c->keeper_store[0];
    struct launcher_config real = {
        c->data_dir, keeper ? c->keeper_store : s->url,   keeper ? c->keeper_password : c->password,
        c->worker,   opt_string(c->options, "interface"), opt_string(c->options, "mpi-ports"),
        &c->as};
    struct launcher_config sim = {.data_dir = c->data_dir,
                                  .store_url = s->url,
                                  .store_password = c->password,
                                  .program = c->simulator};
    s->simulates = access(c->simulator, X_OK) == 0;
    int rc;
    if ((rc = launcher_mpirun_init(&s->mpirun, &real, e)) < 0 ||
        (rc = launcher_sim_init(&s->simulator, &sim, e)) < 0) {
        return rc;
    }
    struct sched_config sc = {s->store,
                              c->data_dir,
                              c->roots,
                              c->host,
                              c->virtual_jobs,
                              &s->mpirun,
                              s->simulates ? &s->simulator : NULL,
                              s->lease,
                              s->quotas,
                              c->growth};
    store_fence(s->store, lease_fence(s->lease));
    s->sweeps = (struct sweeps){.store = s->store, .quotas = s->quotas};
    s->sched = sched_new(&sc, e);
    return s->sched ? 0 : -(int)e->code;
}

/* Do others offer nodes? Our own nodes, left by a killed coordinator, do not count. */
static bool others_offer_nodes(struct service *s, const json_t *own)
{
    json_t *nodes = store_nodes(s->store, NULL), *node;
    size_t i;
    bool found = false;
    json_array_foreach(nodes, i, node) {
        bool ours = strcmp(node_name(node), node_name(own)) == 0;
        found |= !ours && strcmp(node_state(node), "lost") != 0;
    }
    json_decref(nodes);
    return found;
}

static int start_nodes(struct service *s, struct err *e)
{
    struct serve_config *c = &s->config;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (opt_flag(c->options, "no-local-node")) {
        return 0;
    }
    if (json_array_size(c->nodes) == 0) {
        json_t *own = serve_config_own_node(c, e);
        if (!own) {
            return -(int)e->code;
        }
        if (!others_offer_nodes(s, own)) {
            json_array_append(c->nodes, own);
        }
        json_decref(own);
    }
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID",
           0); /* GPUs are numbered as by NVML (common/machine/gpu.c); workers inherit this */
    if (serve_config_probe(c->nodes, c->worker, e) < 0) {
        return -(int)e->code;
    }
    if (opt_flag(c->options, "allow-programs")) {
        if (opt_count(c->options, "python")) { /* ranks inherit it */
            setenv("EVENSTEP_NODE_PYTHON", opt_item(c->options, "python", 0), 1);
        }
        if (!(s->interpreters = interpreters_start(c->options, NULL, e))) {
            return -(int)e->code;
        }
    }
    if (opt_count(c->options, "local-node") > 0) {
        double factor = serve_config_overload(c->nodes, cores > 0 ? (int)cores : 1);
        if (factor > 1) {
            log_warn(
                "serve",
                "the local nodes ask for more than 0.7 of the cores; their speeds will not be what "
                "they say",
                "cores=%ld multiply_every_slowdown_by=%.2f", cores, factor);
        }
    }
    s->nodes = localnodes_start(s->url, c->password, c->nodes, s->interpreters, e);
    return s->nodes ? 0 : -(int)e->code;
}

static int start_http(struct service *s, struct err *e)
{
    struct serve_config *c = &s->config;
    s->dryrun = (struct dryrun){s->url,
                                c->password,
                                c->data_dir,
                                c->roots,
                                c->host,
                                c->worker,
                                s->simulates ? c->simulator : NULL,
                                opt_flag(c->options, "allow-programs"),
                                s->is_private,
                                s->quotas,
                                s->retention,
                                {c->data_dir, c->roots, c->data_uploads}};
    struct http_config hc = {.listen = c->listen,
                             .data_dir = c->data_dir,
                             .static_dir = c->static_dir,
                             .store_url = s->url,
                             .store_password = c->password,
                             .token_file = c->token_file,
                             .allow_hosts = c->allow_hosts,
                             .proxy = {opt_string(c->options, "proxy-user-header"),
                                       opt_string(c->options, "proxy-role"), c->proxies},
                             .tls_cert = opt_string(c->options, "tls-cert"),
                             .tls_key = opt_string(c->options, "tls-key"),
                             .local_webhooks = opt_flag(c->options, "allow-local-webhooks")};
    hc.hooks.ctx = &s->dryrun;
    hc.hooks.plan = dryrun_plan;
    hc.hooks.datasets = dryrun_datasets;
    hc.hooks.dataset = dryrun_dataset;
    hc.hooks.dataset_add = c->data_uploads > 0 ? dryrun_dataset_add : NULL;
    hc.hooks.dataset_delete = dryrun_dataset_delete;
    hc.hooks.scored = scoring_of_job;
    hc.hooks.predict = s->simulates ? predict_job : NULL;
    hc.hooks.quota = dryrun_quota;
    hc.hooks.disk = dryrun_disk;
    hc.hooks.wake = s->wake;
    hc.hooks.programs = dryrun_programs;
    hc.hooks.program_add = dryrun_program_add;
    hc.hooks.program_delete = dryrun_program_delete;
    hc.hooks.uploads = opt_flag(c->options, "allow-programs");
    uploads_init(c->data_dir);
    datasets_init(c->data_dir);
    s->http = http_start(&hc, e);
    return s->http ? 0 : -(int)e->code;
}

/* Takes the lease. From here on no other coordinator works on this store or in this folder
 * (lease.h). */
static int start_lease(struct service *s, struct err *e)
{
    if (opt_flag(s->config.options, "standby")) {
        notify_manager("READY=1\nSTATUS=stands by until another coordinator has ended");
    }
    return lease_take(s->lease, s->url, s->config.password, s->told_to_stop, e);
}

static int start_hosts(struct service *s, struct err *e)
{
    struct hosts_config hc = {s->url, s->config.password, s->config.data_dir,
                              opt_string(s->config.options, "secret-file"), lease_fence(s->lease)};
    s->hosts = hosts_start(&hc, e);
    return s->hosts ? 0 : -(int)e->code;
}

static int start_retention(struct service *s, struct err *e)
{
    struct retention_config kept = {s->url,
                                    s->config.password,
                                    s->config.data_dir,
                                    s->config.keep_jobs,
                                    s->config.max_disk,
                                    lease_fence(s->lease)};
    s->retention = retention_start(&kept, e);
    return s->retention ? 0 : -(int)e->code;
}

static int start_webhooks(struct service *s, struct err *e)
{
    struct webhooks_config wc = {s->url, s->config.password, lease_fence(s->lease),
                                 opt_flag(s->config.options, "allow-local-webhooks")};
    s->webhooks = webhooks_start(&wc, e);
    return s->webhooks ? 0 : -(int)e->code;
}

static int open_lease(struct service *s, struct err *e)
{
    struct lease_config lc = {.data_dir = s->config.data_dir,
                              .host = s->config.host,
                              .address = s->config.listen,
                              .standby = opt_flag(s->config.options, "standby"),
                              .lost = s->lost};
    s->lease = lease_open(&lc, e);
    return s->lease ? 0 : -(int)e->code;
}

int service_start(struct service *s, struct err *e)
{
    static int (*const steps[])(struct service *, struct err *) = {
        start_quotas, open_lease,  start_store,     start_lease,    start_sched,
        start_nodes,  start_hosts, start_retention, start_webhooks, start_http};
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < sizeof steps / sizeof *steps; i++) {
        rc = steps[i](s, e);
    }
    return rc;
}

void service_stop(struct service *s, bool left, bool lost)
{
    /* each thread may sleep or wait for the store for half a second, so all are told first */
    hosts_tell(s->hosts);
    retention_tell(s->retention);
    webhooks_tell(s->webhooks);
    if (s->http) {
        http_stop(s->http);
    }
    if (!lost) {
        sched_free(s->sched);
    }
    hosts_stop(s->hosts);
    retention_stop(s->retention);
    webhooks_stop(s->webhooks);
    localnodes_stop(s->nodes, !left);
    interpreters_stop(s->interpreters);
    store_close(s->store);
    lease_close(s->lease);
    quotas_close(s->quotas);
    if (s->is_private && !left && (s->ready || !s->was_there)) {
        redis_private_stop(s->config.data_dir);
    }
    launcher_release(&s->mpirun);
    launcher_release(&s->simulator);
}
