/* Options of evenstep-agent (docs/configuration.md#an-agent) and what follows from them. Mistakes
 * that can be found without the coordinator are reported here: a device that does not exist, a
 * secret that cannot be read, two nodes of one name.
 */
#include "agent/config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon.h"
#include "common/machine/host.h"
#include "common/machine/interpreters.h"
#include "common/machine/memory.h"
#include "common/manual.h"
#include "common/path.h"
#include "common/machine/probe.h"
#include "common/process/proc.h"
#include "common/version.h"
#include "job/node/node.h"
#include "store/store.h"

static const struct opt table[] = {
    {"store", "URL", OPT_STRING, NULL, 0, 0,
     "the coordinator's store: redis[s]://[USER@]HOST:PORT, or unix:PATH on the same machine"},
    {"store-password-file", "FILE", OPT_STRING, NULL, 0, 0, "file with the store's password"},
    {"worker-user", "NAME", OPT_STRING, NULL, 0, 0,
     "the store's user for workers (default: this agent's)"},
    {"worker-password-file", "FILE", OPT_STRING, NULL, 0, 0, "file with that user's password"},
    {"secret-file", "FILE", OPT_STRING, NULL, 0, 0,
     "file with the cluster's secret; the coordinator's is DIR/secret"},
    {"node", "NAME=DEVICE", OPT_LIST, NULL, 0, 0,
     "a node on this host: NAME="
#include "job/node/device_forms.def"
     "or auto, then ,slowdown=F to emulate a slower one (default: one per GPU, else HOST=auto)"},
    {"label", "K=V", OPT_LIST, NULL, 0, 0,
     "a label of every node of this host, which a spec's `nodes` can name"},
    {"host", "NAME", OPT_STRING, NULL, 0, 0,
     "name of this host in the cluster (default: the host's name)"},
    {"data-dir", "DIR", OPT_STRING, "./evenstep-agent-data", 0, 0,
     "where received data sets and programs are kept"},
    {"data-limit", "MB", OPT_INT, "20000", 0, 1e9,
     "received data sets and programs use at most this much, the oldest go first"},
    {"interface", "SUBNET", OPT_STRING, NULL, 0, 0,
     "network for Open MPI: a subnet or an interface's name (default: where the store is)"},
    RUN_AS_OPTION,
    INTERPRETERS_OPTION,
    {"mpi-ports", "FIRST-LAST", OPT_STRING, NULL, 0, 0,
     "ports that Open MPI may listen on (default: any)"},
    {"log-level", "LEVEL", OPT_STRING, "info", 0, 0, "debug, info, warn or error"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    {"version", NULL, OPT_FLAG, NULL, 0, 0, "prints the version"},
    MANUAL_OPTION,
    {0},
};

static const struct manual manual = {
    .name = "evenstep-agent",
    .brief = "offers a host's nodes to an Evenstep cluster",
    .usage = "evenstep-agent --store URL --secret-file FILE [OPTIONS]",
    .about =
        "One agent runs on each host of a cluster. It joins through the coordinator's store with "
        "the cluster's secret, tells of this host's nodes every second, and starts Open MPI's "
        "daemon when the coordinator asks for it; no ssh is needed. When the coordinator is "
        "another one, it joins again. SIGTERM and SIGINT tell the coordinator that the host "
        "leaves: its jobs write a checkpoint and give the nodes back, for which the agent waits "
        "15 seconds. A second signal ends them at once.",
    .options = table,
    .statuses =
        (const struct manual_term[]){
            {"0", "it was told to stop"},
            {"1", "it cannot start, or cannot go on; the last line on stderr says why"},
            {0}},
    .examples =
        (const struct manual_term[]){
            {"evenstep-agent --store redis://host@10.0.0.1:6379 --store-password-file "
             "store-password --secret-file secret",
             "offers this host: a node for each GPU, or else one of all cores"},
            {"evenstep-agent --config /etc/evenstep/agent.conf --node big=cpu:12 --node "
             "small=cpu:4",
             "offers two nodes; all else is in the file"},
            {0}},
};

static int read_host(struct agent_config *c, struct err *e)
{
    const char *given = opt_string(c->options, "host");
    if (!given) {
        host_name(c->host);
        return 0;
    }
    if (!node_valid_name(given, strlen(given), 40, false)) {
        return err_set(e, ERR_INVALID,
                       "--host '%s': expected a name of at most 40 letters, digits and '-'", given);
    }
    snprintf(c->host, sizeof c->host, "%s", given);
    return 0;
}

static int read_password(const char *path, char **out, struct err *e)
{
    if (path) {
        *out = path_read_line(path, 512, e);
        if (!*out) {
            return err_prefix(e, "cannot read the store's password");
        }
    }
    return 0;
}

/* Reads the workers' user of Redis, which may have fewer rights. */
static int read_worker(struct agent_config *c, struct err *e)
{
    const char *user = opt_string(c->options, "worker-user");
    if (!user) {
        snprintf(c->worker_store, sizeof c->worker_store, "%s", c->store);
        c->worker_password = c->password ? strdup(c->password) : NULL;
        return 0;
    }
    if (store_url_as(c->store, user, c->worker_store, e) < 0) {
        return err_prefix(e, "--worker-user");
    }
    return read_password(opt_string(c->options, "worker-password-file"), &c->worker_password, e);
}

static int read_places(struct agent_config *c, struct err *e)
{
    const char *dir = opt_string(c->options, "data-dir"),
               *password = opt_string(c->options, "store-password-file");
    const char *secret = opt_string(c->options, "secret-file");
    char data[PATH_MAX + 8];
    int rc = proc_mkdirs(dir, 0700, e);
    if (rc == 0 && !realpath(dir, c->data_dir)) {
        rc = err_errno(e, ERR_IO, "cannot find the data directory '%s'", dir);
    }
    if (rc == 0 && access(c->data_dir, W_OK | X_OK) != 0) {
        rc = err_errno(e, ERR_IO, "cannot write into the data directory '%s'", dir);
    }
    if (rc == 0) {
        rc = read_password(password, &c->password, e);
    }
    if (rc == 0) {
        rc = read_worker(c, e);
    }
    if (rc == 0 && !secret) {
        rc = err_set(e, ERR_INVALID,
                     "--secret-file is missing: the agent joins with the cluster's secret");
        err_hint(e, "copy the coordinator's DIR/secret to this host");
    }
    snprintf(data, sizeof data, "%s/data", c->data_dir);
    path_data_roots(data, c->roots, sizeof c->roots);
    return rc == 0 ? sign_read_secret(secret, false, &c->secret, e) : rc;
}

/* Reads which user ranks run as. The user must be able to read the programs and write the kept
 * files, but not read our secrets. */
static int read_run_as(struct agent_config *c, struct err *e)
{
    char here[PATH_MAX], worker[PATH_MAX + 32];
    int rc = run_as_find(&c->as, opt_string(c->options, "run-as"), e);
    path_program_dir(here);
    snprintf(worker, sizeof worker, "%s/evenstep-worker", here);
    return rc < 0 ? rc : run_as_ready(&c->as, worker, c->data_dir, e);
}

static int read_ports(struct agent_config *c, struct err *e)
{
    c->ports = opt_string(c->options, "mpi-ports");
    if (!c->ports) {
        return 0;
    }
    char *end = NULL;
    long first = strtol(c->ports, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : 0;
    return first >= 1024 && last <= 65535 && last - first >= 7 && !*end
               ? 0
               : err_set(e, ERR_INVALID,
                         "--mpi-ports '%s': expected FIRST-LAST, at least 8 ports between 1024 "
                         "and 65535",
                         c->ports);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int check_device(json_t *node, const struct gpus *gpus, struct err *e)
{
    const char *device = node_device(node);
    if (strncmp(device, "cuda:", 5) != 0) {
        return 0;
    }
    int index = (int)strtol(device + 5, NULL, 10), count = gpus_count(gpus);
    if (index >= count) {
        err_set(e, ERR_DEVICE, "--node '%s=%s': this host has %d GPU%s by its driver",
                node_name(node), device, count, count == 1 ? "" : "s");
        return err_hint(e,
                        "GPUs are counted from 0; a container must be started with access to them");
    }
    int64_t bytes = gpus_memory(gpus, index);
    if (bytes > 0) {
        node_set_memory_bytes(node, bytes);
    }
    return 0;
}

static int add_node(struct agent_config *c, const struct gpus *gpus, const char *text,
                    struct err *e)
{
    struct node_host host = {c->host, host_cores(), memory_read().limit};
    json_t *node = node_parse("--node", text, &host, e);
    int rc = node ? check_device(node, gpus, e) : -(int)e->code;
    if (rc >= 0 && node_same_name(c->nodes, node)) {
        rc = err_set(e, ERR_INVALID, "--node '%s': there are two nodes of this name", text);
    }
    if (rc >= 0) {
        node_set_agent(node, c->versions);
        json_array_append(c->nodes, node);
    }
    json_decref(node);
    return rc < 0 ? rc : 0;
}

static int read_nodes(struct agent_config *c, const struct gpus *gpus, struct err *e)
{
    char text[80], here[PATH_MAX], worker[PATH_MAX + 32];
    struct probe probed;
    struct err ignored = {0};
    int rc = 0, given = opt_count(c->options, "node");
    c->nodes = json_array();
    for (int i = 0; rc == 0 && i < given; i++) {
        rc = add_node(c, gpus, opt_item(c->options, "node", i), e);
    }
    for (int i = 0; rc == 0 && !given && i < gpus_count(gpus); i++) {
        snprintf(text, sizeof text, "%s-gpu%d=cuda:%d", c->host, i, i);
        rc = add_node(c, gpus, text, e);
    }
    if (rc == 0 && json_array_size(c->nodes) == 0) {
        snprintf(text, sizeof text, "%s=auto", c->host);
        rc = add_node(c, gpus, text, e);
    }
    for (int i = 0; rc == 0 && i < opt_count(c->options, "label"); i++) {
        rc = node_label(c->nodes, opt_item(c->options, "label", i), e);
    }
    path_program_dir(here);
    snprintf(worker, sizeof worker, "%s/evenstep-worker", here); /* it is in the agent's folder */
    if (rc == 0 && node_any_cpu(c->nodes) &&
        probe_device(&probed, worker, "cpu:1", &ignored) == 0) {
        node_take_precisions(c->nodes, probed.precisions);
        probe_release(&probed);
    }
    return rc;
}

int agent_config_find_address(struct agent_config *c, struct err *e)
{
    size_t i;
    json_t *node;
    int rc = host_address(opt_string(c->options, "interface"), c->store, c->address, c->network, e);
    json_array_foreach(c->nodes, i, node) {
        node_set_address(node, c->address);
    }
    return rc;
}

int agent_config_read(struct agent_config *c, const struct gpus *gpus, int argc, char **argv,
                      struct err *e)
{
    memset(c, 0, sizeof *c);
    int rc = manual_begin(&manual, argc, argv, &c->options, e);
    if (rc != 0) {
        return rc;
    }
    if (opt_flag(c->options, "version")) {
        printf("evenstep-agent %s\n", EVENSTEP_VERSION);
        return OPT_HELPED;
    }
    c->store = opt_string(c->options, "store");
    c->cache_bytes = (int64_t)opt_int(c->options, "data-limit") * 1000000;
    if (opt_positionals(c->options) || !c->store) {
        return err_set(e, ERR_INVALID,
                       c->store ? "evenstep-agent takes options only, not '%s'"
                                : "--store is missing: the coordinator's store",
                       opt_positional(c->options, 0));
    }
    rc = log_level_of(opt_string(c->options, "log-level"), &c->log_level, e);
    if (rc == 0) {
        rc = read_host(c, e);
    }
    if (rc == 0) {
        rc = read_places(c, e);
    }
    if (rc == 0) {
        rc = read_run_as(c, e);
    }
    if (rc == 0) {
        rc = read_ports(c, e);
    }
    if (rc == 0) {
        rc = interpreters_check(c->options, e);
    }
    if (rc == 0) {
        c->versions = host_versions(e);
        rc = c->versions ? 0 : -(int)e->code;
    }
    return rc == 0 ? read_nodes(c, gpus, e) : rc;
}

void agent_config_release(struct agent_config *c)
{
    json_decref(c->versions);
    json_decref(c->nodes);
    free(c->password);
    free(c->worker_password);
    opt_free(c->options);
    memset(c, 0, sizeof *c);
}

struct store *agent_config_open_store(const struct agent_config *c, struct err *e)
{
    return c->own_store[0] ? store_open(c->own_store, c->own_password, e)
                           : store_open(c->store, c->password, e);
}
