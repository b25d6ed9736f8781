/* Options of `evenstep serve` (docs/configuration.md#the-service) and what follows from
 * them: folders and programs. Nodes are in config_nodes.c. Every mistake is reported in one
 * message, so that the user can correct all of them at once.
 */
#include "coordinator/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine/interpreters.h"
#include "common/path.h"
#include "common/process/proc.h"
#include "common/text/size.h"
#include "coordinator/files/datasets.h"
#include "coordinator/coordinator.h"
#include "store/store.h"

const struct opt serve_options[] = {
    {"data-dir", "DIR", OPT_STRING, "./evenstep-data", 0, 0,
     "where jobs, the admin's token and the private store are kept"},
    {"listen", "HOST:PORT", OPT_STRING, "127.0.0.1:8080", 0, 0,
     "address of the page and the API; port 0 takes a free one"},
    {"store", "URL", OPT_STRING, NULL, 0, 0,
     "redis[s]://HOST:PORT or unix:PATH; without it a private redis-server is started"},
    {"store-password-file", "FILE", OPT_STRING, NULL, 0, 0, "file with the store's password"},
    {"keeper-user", "NAME", OPT_STRING, NULL, 0, 0,
     "user of Redis for ranks on this host, the keeper among them (default: the coordinator's "
     "own)"},
    {"keeper-password-file", "FILE", OPT_STRING, NULL, 0, 0, "file with that user's password"},
    {"token-file", "FILE", OPT_STRING, NULL, 0, 0,
     "file with the admin's token, made if absent (default: DIR/token)"},
    {"tls-cert", "FILE", OPT_STRING, NULL, 0, 0,
     "certificate (PEM, with those that lead to its authority): the page and the API are https; "
     "read again when it changes"},
    {"tls-key", "FILE", OPT_STRING, NULL, 0, 0, "its private key (PEM)"},
    {"standby", NULL, OPT_FLAG, NULL, 0, 0,
     "waits while another coordinator works on the store, and takes over when it ends; needs "
     "--store"},
    {"local-node", "NAME=DEVICE", OPT_LIST, NULL, 0, 0,
     "a node on this host: NAME="
#include "job/node/device_forms.def"
     "or auto, then ,slowdown=F to emulate a slower one"},
    {"no-local-node", NULL, OPT_FLAG, NULL, 0, 0,
     "this host offers no node; all nodes are those of agents"},
    {"label", "K=V", OPT_LIST, NULL, 0, 0,
     "a label of every local node, which a spec's `nodes` can name"},
    {"secret-file", "FILE", OPT_STRING, NULL, 0, 0,
     "file with the secret with which agents join (default: DIR/secret, made if absent)"},
    {"interface", "SUBNET", OPT_STRING, NULL, 0, 0,
     "network for Open MPI between hosts: a subnet or an interface's name (default: where the "
     "hosts are)"},
    {"mpi-ports", "FIRST-LAST", OPT_STRING, NULL, 0, 0,
     "ports that Open MPI may listen on between hosts (default: any)"},
    {"allow-host", "NAME", OPT_LIST, NULL, 0, 0,
     "a name besides the listen address under which browsers may come"},
    {"proxy-user-header", "NAME", OPT_STRING, NULL, 0, 0,
     "header in which a proxy says who asks, such as X-Forwarded-User (docs/security.md)"},
    {"proxy-address", "ADDRESS", OPT_LIST, NULL, 0, 0,
     "address from which that header is believed, such as 127.0.0.1"},
    {"proxy-role", "ROLE", OPT_STRING, "viewer", 0, 0,
     "role of those who come through the proxy: viewer, operator, programs, admin"},
    {"allow-local-webhooks", NULL, OPT_FLAG, NULL, 0, 0,
     "webhooks may lead to this host, its own link and metadata services (docs/webhooks.md)"},
    {"data-uploads", "SIZE", OPT_STRING, "20G", 0, 0,
     "disk that uploaded data sets may take, such as 500M; 0: none is taken"},
    {"allow-programs", NULL, OPT_FLAG, NULL, 0, 0,
     "jobs may run programs of users: code on the nodes, as the agent's user (docs/security.md)"},
    RUN_AS_OPTION,
    INTERPRETERS_OPTION,
    {"virtual-jobs", "N", OPT_INT, "1", 1, 64, "virtual jobs that run at a time"},
    {"keep-jobs", "N", OPT_INT, "0", 0, 1000000,
     "finished jobs that keep their history and checkpoints; of older ones record, logs and "
     "artifacts stay (0: all)"},
    {"max-disk", "SIZE", OPT_STRING, NULL, 0, 0,
     "disk that jobs may take, such as 20G; beyond it the jobs that finished first lose history "
     "and checkpoints, never an artifact"},
    {"quotas", "FILE", OPT_STRING, NULL, 0, 0,
     "how much each owner of jobs may have, and when jobs of lower priority are paused for others "
     "(JSON, docs/shares.md); read again when it changes"},
    {"elastic-settle", "SECONDS", OPT_REAL, "10", 0, 3600,
     "how long a node must have been free before an elastic job grows onto it"},
    {"elastic-every", "SECONDS", OPT_REAL, "60", 0, 86400,
     "how long an elastic job keeps its size before it may grow"},
    {"elastic-worth", "FACTOR", OPT_REAL, "3", 0, 1000,
     "an elastic job grows where that saves so many times the seconds that the change costs"},
    {"static-dir", "DIR", OPT_STRING, NULL, 0, 0,
     "files of the page (default: found beside the program)"},
    {"log-level", "LEVEL", OPT_STRING, "info", 0, 0, "debug, info, warn or error"},
    {"help", NULL, OPT_FLAG, NULL, 0, 0, "prints this text"},
    {0},
};

/* ---- folders and programs -------------------------------------------------------------------- */

/* The first of these folders that has an index.html. */
static void find_static(struct serve_config *c, const char *dir)
{
    static const char *const places[] = {"/../share/evenstep/static", "/../static", "/static"};
    const char *given = opt_string(c->options, "static-dir");
    char path[PATH_MAX + 32], index[PATH_MAX + 64];
    snprintf(c->static_dir, sizeof c->static_dir, "%s", given ? given : "static");
    for (size_t i = 0; !given && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s", dir, places[i]);
        snprintf(index, sizeof index, "%s/index.html", path);
        if (access(index, R_OK) == 0) {
            snprintf(c->static_dir, sizeof c->static_dir, "%.*s", PATH_MAX - 1, path);
            return;
        }
    }
}

static void find_places(struct serve_config *c, struct buf *bad)
{
    const char *dir = opt_string(c->options, "data-dir"),
               *token = opt_string(c->options, "token-file");
    char here[PATH_MAX], data[PATH_MAX + 8];
    struct err e = {0};
    if (proc_mkdirs(dir, 0700, &e) < 0) {
        serve_config_complain(bad, "--data-dir: %s", e.message);
    } else if (!realpath(dir, c->data_dir)) {
        serve_config_complain(bad, "--data-dir: cannot find '%s': %s", dir, strerror(errno));
    } else if (access(c->data_dir, W_OK | X_OK) != 0) {
        serve_config_complain(bad, "--data-dir: cannot write into '%s': %s", c->data_dir,
                              strerror(errno));
    }
    path_program_dir(here);
    snprintf(c->worker, sizeof c->worker, "%.4000s/evenstep-worker", here);
    snprintf(c->simulator, sizeof c->simulator, "%.4000s/evenstep-simulate", here);
    if (token) {
        snprintf(c->token_file, sizeof c->token_file, "%s", token);
    } else {
        snprintf(c->token_file, sizeof c->token_file, "%.4000s/token", c->data_dir);
    }
    find_static(c, here);
    snprintf(data, sizeof data, "%s/data", c->data_dir);
    path_data_roots(data, c->roots, sizeof c->roots);
    size_t n = strlen(c->roots);
    snprintf(c->roots + n, sizeof c->roots - n, ":%.3800s/" DATASETS_FOLDER, c->data_dir);
    if (gethostname(c->host, sizeof c->host - 1) != 0 || !c->host[0]) {
        snprintf(c->host, sizeof c->host, "localhost");
    }
}

static char *read_password(struct serve_config *c, const char *option, struct buf *bad)
{
    const char *file = opt_string(c->options, option);
    struct err e = {0};
    char *password = file ? path_read_line(file, 512, &e) : NULL;
    if (file && !password) {
        serve_config_complain(bad, "--%s: %s", option, e.message);
    }
    return password;
}

/* Reads the user of Redis for ranks on this host, which may have fewer rights than ours. */
static void read_keeper(struct serve_config *c, struct buf *bad)
{
    const char *user = opt_string(c->options, "keeper-user"),
               *store = opt_string(c->options, "store");
    struct err e = {0};
    if (user && store_url_as(store ? store : "", user, c->keeper_store, &e) < 0) {
        serve_config_complain(bad, "--keeper-user: %s", e.message);
    }
    c->keeper_password = read_password(c, "keeper-password-file", bad);
}

/* Reads which user workers run as. They need to pass through our folder, and keep what they receive
 * in a folder of their own. */
static void read_run_as(struct serve_config *c, struct buf *bad)
{
    const char *given = opt_string(c->options, "run-as");
    struct err e = {0};
    if (!c->store && !given) {
        return;
    }
    int rc = run_as_find(&c->as, given, &e);
    if (rc == 0 && run_as_given(&c->as) && !c->store) {
        rc = err_set(&e, ERR_INVALID,
                     "--run-as needs --store: whoever reaches a private store may "
                     "change it");
    }
    if (rc == 0) {
        rc = run_as_ready(&c->as, c->worker, c->data_dir, &e);
    }
    if (rc < 0) {
        serve_config_complain(bad, "%s", e.message);
    }
}

static void read_sizes(struct serve_config *c, struct buf *bad)
{
    const char *given = opt_string(c->options, "max-disk");
    if (given && !size_parse(given, &c->max_disk)) {
        serve_config_complain(
            bad,
            "--max-disk '%s': expected a number of bytes, with K, M, G or T for more, such as 20G",
            given);
    }
    given = opt_string(c->options, "data-uploads");
    if (strcmp(given, "0") != 0 && !size_parse(given, &c->data_uploads)) {
        serve_config_complain(bad,
                              "--data-uploads '%s': expected a number of bytes, with K, M, G or T "
                              "for more, such as 20G, or 0",
                              given);
    }
}

/* An option's items, NULL-terminated. The caller frees the list, not the items. NULL: memory ran
 * out. */
static const char **list_of(const struct serve_config *c, const char *option)
{
    int n = opt_count(c->options, option);
    const char **list = calloc((size_t)n + 1, sizeof *list);
    for (int i = 0; list && i < n; i++) {
        list[i] = opt_item(c->options, option, i);
    }
    return list;
}

static void read_rest(struct serve_config *c)
{
    c->store = opt_string(c->options, "store");
    c->listen = opt_string(c->options, "listen");
    c->virtual_jobs = (int)opt_int(c->options, "virtual-jobs");
    c->keep_jobs = (int)opt_int(c->options, "keep-jobs");
    c->growth = (struct growth_rules){.settle = opt_real(c->options, "elastic-settle"),
                                      .every = opt_real(c->options, "elastic-every"),
                                      .worth = opt_real(c->options, "elastic-worth")};
    c->allow_hosts = list_of(c, "allow-host");
    c->proxies = list_of(c, "proxy-address");
}

int serve_config_read(struct serve_config *c, int argc, char **argv, struct err *e)
{
    memset(c, 0, sizeof *c);
    int rc = opt_begin(serve_options, "evenstep serve [OPTIONS]", argc, argv, &c->options, e);
    if (rc != 0) {
        return rc;
    }
    struct buf bad;
    struct err why;
    buf_init(&bad, 4096);
    for (int i = 0; i < opt_positionals(c->options); i++) {
        serve_config_complain(&bad, "serve takes options only, not '%s'",
                              opt_positional(c->options, i));
    }
    if (log_level_of(opt_string(c->options, "log-level"), &c->log_level, &why) < 0) {
        serve_config_complain(&bad, "%s", why.message);
    }
    c->password = read_password(c, "store-password-file", &bad);
    read_keeper(c, &bad);
    find_places(c, &bad);
    serve_config_nodes(c, &bad);
    read_sizes(c, &bad);
    read_rest(c);
    read_run_as(c, &bad);
    if (interpreters_check(c->options, &why) < 0) {
        serve_config_complain(&bad, "%s", why.message);
    }
    if (!opt_given(c->options, "tls-cert") != !opt_given(c->options, "tls-key")) {
        serve_config_complain(&bad, "--tls-cert and --tls-key need each other");
    }
    if (c->proxies && c->proxies[0] && !opt_given(c->options, "proxy-user-header")) {
        serve_config_complain(&bad, "--proxy-address needs --proxy-user-header");
    }
    if (opt_flag(c->options, "standby") && !c->store) {
        serve_config_complain(&bad,
                              "--standby needs --store: a private store ends with its "
                              "coordinator");
    }
    rc = bad.len ? err_set(e, ERR_INVALID, "%.*s", (int)bad.len, bad.data) : 0;
    buf_release(&bad);
    return rc;
}

void serve_config_release(struct serve_config *c)
{
    json_decref(c->nodes);
    free(c->allow_hosts);
    free(c->proxies);
    free(c->password);
    free(c->keeper_password);
    opt_free(c->options);
    memset(c, 0, sizeof *c);
}
