/* Launcher of real attempts: one mpirun per attempt, W workers and the servers as its ranks.
 *
 *   evenstep serve ─ mpirun (own session) ─┬─ evenstep-worker on nodes of this host, the keeper
 *                                          └─ evenstep-launch per other host
 *                                               ─ store ─ its agent ─ orted ─ evenstep-worker
 *
 * For this host mpirun is itself the daemon; a host with an agent, this one included, is started
 * through its agent. Hosts are named "es-HOST", which no resolver knows, so that mpirun never takes
 * one for its own machine. Ranks are placed one by one (the `seq` mapper): rank i on the i-th host
 * of the list. The program is given by name only, because every host has it in a folder of its own.
 *
 * The options come from measurements: ranks outnumber cores, so they are not bound and yield;
 * containers refuse the shared-memory single copy. Open MPI's own files go to a short folder per
 * attempt in /tmp and /dev/shm (socket paths have 107 bytes), which is removed afterwards, because
 * a killed mpirun leaves them behind.
 */
#include "coordinator/launchers/launcher.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/buf.h"
#include "common/text/logline.h"
#include "common/machine/host.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "job/hostkey.h"

enum { WORDS = 96, PAIRS = 24, RANKS_BYTES = 100000 };

/* What mpirun is started with; all pointers but `kept` are borrowed. */
struct command {
    const char *argv[WORDS], *env[PAIRS];
    int n, m;
    char *kept[WORDS];
    int n_kept;
};

static const char *keep(struct command *c, char *text)
{
    BUG_ON(c->n_kept == WORDS);
    return text ? c->kept[c->n_kept++] = text : "";
}

__attribute__((format(printf, 2, 3))) static const char *print(struct command *c, const char *fmt,
                                                               ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int rc = vasprintf(&text, fmt, args);
    va_end(args);
    return rc < 0 ? "" : keep(c, text);
}

static void word(struct command *c, const char *text)
{
    BUG_ON(c->n + 1 >= WORDS);
    c->argv[c->n++] = text;
}

static void option(struct command *c, const char *name, const char *value)
{
    word(c, "--mca");
    word(c, name);
    word(c, value);
}

static void pair(struct command *c, const char *text)
{
    BUG_ON(c->m + 1 >= PAIRS);
    c->env[c->m++] = text;
}

/* ---- folders --------------------------------------------------------------------------------- */

static char *session_dir(char out[64], const char *parent, const struct attempt *a)
{
    snprintf(out, 64, "%s/es-%d-%.8s-%d", parent, (int)geteuid(), a->job, a->number);
    return out;
}

/* Makes a new folder. It refuses one that another user put there. */
static bool make_session_dir(const char *path)
{
    proc_remove_tree(path, NULL);
    return mkdir(path, 0700) == 0;
}

static void clean(const struct attempt *a)
{
    char dir[64];
    proc_remove_tree(session_dir(dir, "/tmp", a), NULL);
    proc_remove_tree(session_dir(dir, "/dev/shm", a), NULL);
}

/* ---- where the ranks go ---------------------------------------------------------------------- */

/* Adds the worker's host to the list; worker NULL: this host. */
static void add_host(struct buf *b, const struct plan_worker *worker)
{
    buf_adds(b, b->len ? "," : "");
    if (worker && worker->agent) {
        buf_addf(b, HOSTKEY_PREFIX "%s", worker->host);
    } else {
        buf_adds(b, "localhost");
    }
}

/* The list of hosts, one name per rank: the workers, the keeper on this host, then the other
 * servers over the nodes in turn (docs/semantics.md#ranks). */
static char *host_list(const struct plan *plan)
{
    struct buf b;
    buf_init(&b, RANKS_BYTES);
    for (int r = 0; r < plan->n_workers + plan->servers; r++) {
        add_host(&b, plan_worker_with(plan, r));
    }
    return buf_take(&b, NULL);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void common_options(struct command *c, const struct attempt *a)
{
    /* `ras`: the hosts are ours to name, also inside jobs of Slurm and Grid Engine */
    static const char *const fixed[] = {"mpirun",
                                        "--tag-output",
                                        "--oversubscribe",
                                        "--bind-to",
                                        "none",
                                        "--mca",
                                        "mpi_yield_when_idle",
                                        "1",
                                        "--mca",
                                        "btl_vader_single_copy_mechanism",
                                        "none",
                                        "--mca",
                                        "orte_base_help_aggregate",
                                        "0",
                                        "--mca",
                                        "ras",
                                        "^slurm,gridengine"};
    char tmp[64];
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        word(c, fixed[i]);
    }
    if (make_session_dir(session_dir(tmp, "/tmp", a))) {
        option(c, "orte_tmpdir_base", print(c, "%s", tmp));
    }
}

static void local_options(struct command *c, const struct attempt *a, int ranks)
{
    char shm[64];
    word(c, "--host");
    word(c, print(c, "localhost:%d", ranks));
    option(c, "btl", "vader,self");
    option(c, "pml", "ob1"); /* the others search for networks */
    if (make_session_dir(session_dir(shm, "/dev/shm", a))) {
        option(c, "btl_vader_backing_directory", print(c, "%s", shm));
    }
}

/* The ports of "FIRST-LAST" for Open MPI's connections between ranks. */
static void port_pairs(struct command *c, const char *ports)
{
    char *end = NULL;
    long first = strtol(ports, &end, 10), last = *end == '-' ? strtol(end + 1, NULL, 10) : first;
    pair(c, print(c, "EVENSTEP_MCA_btl_tcp_port_min_v4=%ld", first));
    pair(c, print(c, "EVENSTEP_MCA_btl_tcp_port_range_v4=%ld", last - first + 1));
}

/* Settings that differ between hosts reach the ranks as EVENSTEP_MCA_… in their daemon's
 * environment (agent/daemon_line.c does the same). */
static int remote_options(struct command *c, const struct launcher_config *l,
                          const struct attempt *a, const struct plan *plan, struct err *e)
{
    const char *towards = plan_first_remote(plan)->address;
    char address[64], network[72], shm[64];
    int rc = l->interface ? host_address(l->interface, "", address, network, e)
                          : host_towards(towards, "9", address, network, e);
    if (rc < 0) {
        return err_prefix(e, "cannot tell mpirun which network the hosts are in");
    }
    word(c, "--map-by");
    word(c, "seq");
    word(c, "--host");
    word(c, keep(c, host_list(plan)));
    word(c, "--wdir");
    word(c, "/");
    option(c, "btl", "tcp,vader,self");
    option(c, "plm", "rsh");
    option(c, "plm_rsh_agent", "evenstep-launch");
    option(c, "plm_rsh_no_tree_spawn", "1");
    option(c, "orte_keep_fqdn_hostnames", "1");
    option(c, "oob_tcp_if_include", print(c, "%s", network));
    option(c, "oob_tcp_keepalive_time", "2");
    option(c, "oob_tcp_keepalive_intvl", "1");
    option(c, "oob_tcp_keepalive_probes", "3");
    if (l->ports) {
        char ports[16];
        if ((rc = host_free_ports(l->ports, a->job, ports, e)) < 0) {
            return rc;
        }
        option(c, "oob_tcp_dynamic_ipv4_ports", print(c, "%s", ports));
        port_pairs(c, l->ports);
    }
    pair(c, print(c, "EVENSTEP_HOSTS=%s/hosts", l->data_dir));
    pair(c, print(c, "EVENSTEP_MCA_btl_tcp_if_include=%s", network));
    pair(c, "RES_OPTIONS=timeout:1 attempts:2"); /* short, since Open MPI looks up the hosts' names,
                                                    which no server knows */
    if (make_session_dir(session_dir(shm, "/dev/shm", a))) {
        pair(c, print(c, "EVENSTEP_MCA_btl_vader_backing_directory=%s", shm));
    }
    return 0;
}

static void program(struct command *c, const struct launcher_config *l, const struct attempt *a,
                    int ranks, bool remote)
{
    const char *slash = strrchr(l->program, '/'), *path = getenv("PATH");
    word(c, "-np");
    word(c, print(c, "%d", ranks));
    word(c, remote && slash ? slash + 1 : l->program);
    word(c, "--job");
    word(c, a->job);
    word(c, "--attempt");
    word(c, print(c, "%d", a->number));
    if (!remote) {
        word(c, "--store");
        word(c, l->store_url);
    }
    pair(c, print(c, "EVENSTEP_STORE=%s", l->store_url));
    pair(c, print(c, "EVENSTEP_NODE_UNPACKED=%s/unpacked", l->data_dir));
    if (run_as_given(l->as)) {
        pair(c, print(c, RUN_AS_VARIABLE "=%s", l->as->name));
        pair(c, print(c, RUN_AS_CACHE "=%s/received", l->data_dir));
    }
    pair(c, print(c, "PATH=%.*s:%s", slash ? (int)(slash - l->program) : 1,
                  slash ? l->program : ".", path ? path : "/usr/bin:/bin"));
    pair(c, print(c, "EVENSTEP_JOB=%s", a->job));
    pair(c, print(c, "EVENSTEP_ATTEMPT=%d", a->number));
    char seal[SIGN_HEX];
    sign_hex(&a->seal, seal);
    pair(c, print(c, SEAL_VARIABLE "=%s", seal));
    if (a->own_users) {
        pair(c, "EVENSTEP_OWN_USERS=1");
    }
    if (l->store_password) {
        pair(c, print(c, "EVENSTEP_STORE_PASSWORD=%s", l->store_password));
    }
    if (geteuid() == 0) {
        pair(c, "OMPI_ALLOW_RUN_AS_ROOT=1");
        pair(c, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    pair(c, "OMP_WAIT_POLICY=passive");
    size_t next = 0;
    for (const char *setting; (setting = host_openmpi(&next));) {
        pair(c, setting);
    }
}

static int mpirun_start(void *ctx, struct attempt *a, const struct plan *plan, struct err *e)
{
    const struct launcher_config *l = ctx;
    int ranks = plan->n_workers + plan->servers, rc = 0;
    bool remote = plan_first_remote(plan) != NULL;
    struct command *c = calloc(1, sizeof *c);
    if (!c) {
        return err_set(e, ERR_MEMORY, "cannot start mpirun: memory ran out");
    }
    common_options(c, a);
    if (remote) {
        rc = remote_options(c, l, a, plan, e);
    } else {
        local_options(c, a, ranks);
    }
    if (rc == 0) {
        program(c, l, a, ranks, remote);
        rc = attempt_start(l->data_dir, a, c->argv, c->env, e);
        if (rc < 0) {
            err_hint(e, "install Open MPI (package openmpi-bin)");
        }
    }
    if (rc < 0) {
        clean(a);
    }
    for (int i = 0; i < c->n_kept; i++) {
        free(c->kept[i]);
    }
    free(c);
    return rc;
}

/* ---- how it ended ---------------------------------------------------------------------------- */

/* Reads a line of evenstep-launch: ts=… mod=launch msg="…" host=alpha why="…". */
static bool read_no_daemon(struct attempt_end *end)
{
    char what[sizeof HOSTKEY_NO_DAEMON + 1], why[sizeof end->why];
    if (!logline_value(end->why, "msg", what, sizeof what) || strcmp(what, HOSTKEY_NO_DAEMON) ||
        !logline_value(end->why, "why", why, sizeof why) ||
        !logline_value(end->why, "host", end->host, sizeof end->host)) {
        return false;
    }
    memcpy(end->why, why, sizeof why);
    return true;
}

/* Of Open MPI 4.1:
 *   mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).
 *   Process name: [[30915,1],0]  Exit code:  1       behind "… returned a non-zero exit code"
 *   *** Unknown error                                of a rank in MPI_Init, when another one died
 */
static const char of_rank[] = "process rank ", of_signal[] = "exited on signal ";

void mpirun_read_end(struct attempt_end *end)
{
    if (read_no_daemon(end)) {
        return;
    }
    const char *rank = strstr(end->why, of_rank), *how = strstr(end->why, of_signal);
    end->named = rank != NULL;
    end->rank = rank ? (int)strtol(rank + strlen(of_rank), NULL, 10) : 0;
    end->killed = rank && how && strtol(how + strlen(of_signal), NULL, 10) == SIGKILL;
    end->unnamed =
        !rank && (strstr(end->why, "non-zero exit code") || strstr(end->why, "*** Unknown error"));
    if (rank && how) {
        memmove(end->why, how, strlen(how) + 1);
    }
}

static bool mpirun_poll(void *ctx, const struct attempt *a, struct attempt_end *end)
{
    static const char *const telling[] = {"noticed that process rank",
                                          HOSTKEY_NO_DAEMON,
                                          "Process name:",
                                          "Exit code:",
                                          "not enough slots",
                                          "error",
                                          NULL};
    const struct launcher_config *c = ctx;
    bool over = attempt_poll(c->data_dir, a, telling, end);
    if (over) {
        mpirun_read_end(end);
    }
    return over;
}

static void mpirun_stop(void *ctx, const struct attempt *a, double grace)
{
    (void)ctx;
    attempt_stop(a, grace);
    clean(a);
}

static int launcher_init(struct launcher *out, const struct launcher_config *config, struct err *e)
{
    struct launcher_config *copy = malloc(sizeof *copy);
    if (!copy) {
        return err_set(e, ERR_MEMORY, "cannot open a launcher: memory ran out");
    }
    *copy = *config;
    out->ctx = copy;
    return 0;
}

int launcher_mpirun_init(struct launcher *out, const struct launcher_config *config, struct err *e)
{
    *out = (struct launcher){NULL, "mpirun", mpirun_start, attempt_find, mpirun_poll, mpirun_stop};
    return launcher_init(out, config, e);
}

void launcher_release(struct launcher *l)
{
    free(l->ctx);
    l->ctx = NULL;
}
