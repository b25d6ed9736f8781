/* The command line and the environment of Open MPI's daemon (daemon.h). Both are written here from
 * checked fields and from this agent's configuration. Nothing is taken from mpirun's command, and
 * only named variables from our environment.
 *
 * Settings of this host alone (interface, folder of shared memory) reach the ranks as
 * EVENSTEP_MCA_…, which evenstep-worker turns into Open MPI's variables. OMPI_MCA_… itself would be
 * overwritten by mpirun's, which hold for all hosts.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon_parts.h"
#include "common/machine/host.h"
#include "common/path.h"
#include "store/users.h"

enum { WORDS = 96 };

struct words {
    char **items;
    int n;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void word(struct words *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = NULL;
    if (w->n + 1 >= WORDS || vasprintf(&text, fmt, args) < 0) {
        w->failed = true;
    } else {
        w->items[w->n++] = text;
    }
    va_end(args);
}

__attribute__((format(printf, 3, 4))) static void option(struct words *w, const char *name,
                                                         const char *fmt, ...)
{
    char value[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(value, sizeof value, fmt, args);
    va_end(args);
    word(w, "-mca");
    word(w, "%s", name);
    word(w, "%s", value);
}

char *daemon_tmp(char out[64], const char *parent, const struct request *r)
{
    snprintf(out, 64, "%s/es-%d-%.8s-%d-%d", parent, (int)geteuid(), r->job, r->attempt, r->daemon);
    return out;
}

static int write_argv(struct words *w, const struct daemon_config *c, const struct request *r,
                      struct err *e)
{
    char tmp[64], ports[16];
    word(w, "orted");
    option(w, "ess", "env");
    option(w, "ess_base_jobid", "%lld", (long long)r->family);
    option(w, "ess_base_vpid", "%d", r->daemon);
    option(w, "ess_base_num_procs", "%d", r->daemons);
    option(w, "orte_node_regex", "%s", r->nodes);
    option(w, "orte_hnp_uri", "%s", r->mpirun);
    option(w, "orte_keep_fqdn_hostnames", "1");
    option(w, "plm", "rsh");
    option(w, "plm_rsh_no_tree_spawn", "1");
    option(w, "plm_rsh_agent", "/bin/false");
    option(w, "rmaps_base_mapping_policy", "seq");
    option(w, "rmaps_base_oversubscribe", "1");
    option(w, "hwloc_base_binding_policy", "none");
    option(w, "orte_tag_output", "1");
    option(w, "pmix", "^s1,s2,cray,isolated");
    option(w, "orte_tmpdir_base", "%s", daemon_tmp(tmp, "/tmp", r));
    option(w, "oob_tcp_if_include", "%s", c->network);
    option(w, "oob_tcp_keepalive_time", "2");
    option(w, "oob_tcp_keepalive_intvl", "1");
    option(w, "oob_tcp_keepalive_probes", "3");
    if (c->ports) {
        int rc = host_free_ports(c->ports, r->nonce, ports, e);
        option(w, "oob_tcp_dynamic_ipv4_ports", "%s", ports);
        return rc;
    }
    return 0;
}

static void inherit(struct words *w, const char *name)
{
    const char *value = getenv(name);
    if (value) {
        word(w, "%s=%s", name, value);
    }
}

static void write_openmpi(struct words *w)
{
    size_t next = 0;
    for (const char *setting; (setting = host_openmpi(&next));) {
        word(w, "%s", setting);
    }
}

char *daemon_path(char out[PATH_MAX])
{
    char here[PATH_MAX];
    path_program_dir(here);
    snprintf(out, PATH_MAX, "%.4000s:/usr/local/bin:/usr/bin:/bin", here);
    return out;
}

/* Writes the store's address and user: that of this host's ranks in this attempt, or the one that
 * all workers share. */
static void write_store(struct words *w, const struct daemon_config *c, const struct request *r)
{
    char user[STORE_USER], url[512], password[SIGN_HEX];
    struct sign_key key;
    store_user_of_ranks(user, r->job, r->attempt, c->host);
    if (strcmp(r->user, "own") == 0 && sign_unhex(r->seal, &key, NULL) == 0 &&
        store_url_as(c->store_url, user, url, NULL) == 0) {
        store_user_password(&key, password);
        word(w, "EVENSTEP_STORE=%s", url);
        word(w, "EVENSTEP_STORE_PASSWORD=%s", password);
        return;
    }
    word(w, "EVENSTEP_STORE=%s", c->store_url);
    if (c->store_password) {
        word(w, "EVENSTEP_STORE_PASSWORD=%s", c->store_password);
    }
}

static void write_env(struct words *w, const struct daemon_config *c, const struct request *r)
{
    static const char *const kept[] = {"HOME",
                                       "USER",
                                       "LOGNAME",
                                       "TZ",
                                       "LD_LIBRARY_PATH",
                                       "OPAL_PREFIX",
                                       "PMIX_PKGLIBDIR", /* these three come from a bundle */
                                       "CUDA_VISIBLE_DEVICES",
                                       "NVIDIA_VISIBLE_DEVICES",
                                       "OMP_PROC_BIND",
                                       "OMP_PLACES",
                                       "HWLOC_COMPONENTS",
                                       "PMIX_MCA_gds"};
    char path[PATH_MAX], shm[64];
    enum { WHO = 3 }; /* the first ones name the user */
    const size_t who = run_as_given(c->as) ? WHO : 0;
    for (size_t i = who; i < sizeof kept / sizeof *kept; i++) {
        inherit(w, kept[i]);
    }
    if (who) {
        word(w, "HOME=%s", c->as->home);
        word(w, "USER=%s", c->as->name);
        word(w, "LOGNAME=%s", c->as->name);
    }
    word(w, "PATH=%s", daemon_path(path));
    word(w, "LANG=C.UTF-8");
    word(w, "CUDA_DEVICE_ORDER=PCI_BUS_ID"); /* GPUs are numbered as by NVML (gpu.c) */
    word(w, "OMP_WAIT_POLICY=passive");
    write_openmpi(w);
    word(w, "RES_OPTIONS=timeout:1 attempts:2"); /* short, since Open MPI looks up its node names,
                                                    which no server knows */
    if (geteuid() == 0 && !who) {
        word(w, "OMPI_ALLOW_RUN_AS_ROOT=1");
        word(w, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    word(w, "EVENSTEP_JOB=%s", r->job);
    word(w, "EVENSTEP_ATTEMPT=%d", r->attempt);
    word(w, "EVENSTEP_LAUNCH=%s", r->nonce);
    word(w, SEAL_VARIABLE "=%s", r->seal);
    write_store(w, c, r);
    word(w, "EVENSTEP_NODE_DATA=%s", c->data_roots);
    word(w, "EVENSTEP_NODE_CACHE=%s/received", c->data_dir);
    word(w, "EVENSTEP_NODE_CACHE_BYTES=%lld", (long long)c->cache_bytes);
    if (c->python) {
        word(w, "EVENSTEP_NODE_PYTHON=%s", c->python);
    }
    word(w, "EVENSTEP_MCA_btl_tcp_if_include=%s", c->network);
    word(w, "EVENSTEP_MCA_btl_vader_backing_directory=%s", daemon_tmp(shm, "/dev/shm", r));
    if (c->ports) {
        char *end = NULL;
        long first = strtol(c->ports, &end, 10),
             last = *end == '-' ? strtol(end + 1, NULL, 10) : first;
        word(w, "EVENSTEP_MCA_btl_tcp_port_min_v4=%ld", first);
        word(w, "EVENSTEP_MCA_btl_tcp_port_range_v4=%ld", last - first + 1);
    }
}

int daemon_line_make(struct daemon_line *out, const struct daemon_config *c,
                     const struct request *r, struct err *e)
{
    struct words argv = {.items = calloc(WORDS, sizeof(char *))},
                 env = {.items = calloc(WORDS, sizeof(char *))};
    out->argv = argv.items;
    out->env = env.items;
    if (argv.items && env.items) {
        write_env(&env, c, r);
        int rc = write_argv(&argv, c, r, e);
        if (rc < 0) {
            daemon_line_free(out);
            return rc;
        }
    }
    if (!argv.items || !env.items || argv.failed || env.failed) {
        daemon_line_free(out);
        return err_set(e, ERR_MEMORY, "cannot write the daemon's command: memory ran out");
    }
    return 0;
}

static void free_words(char **items)
{
    for (int i = 0; items && items[i]; i++) {
        free(items[i]);
    }
    free(items);
}

void daemon_line_free(struct daemon_line *l)
{
    free_words(l->argv);
    free_words(l->env);
    *l = (struct daemon_line){0};
}
