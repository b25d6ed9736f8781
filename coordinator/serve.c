/* `evenstep serve`: starts everything, then turns the scheduler every 160 ms, and at once when the
 * HTTP room wakes it.
 *
 *   folder's lock ─► store (private or given) ─► lease ─► local nodes ─► HTTP ─► "ready"
 *     ─► sched_tick … ─► on SIGTERM: drain, stop; when the lease is lost: stop without a change
 *
 * On SIGHUP the files that may change while it runs are looked at at once.
 *
 * On a clean stop running jobs write a checkpoint and go back to the queue; on SIGUSR1 and SIGKILL
 * they go on, and the next coordinator adopts them. The private redis-server ends only in the first
 * case. PR_SET_PDEATHSIG would end mpirun with the *thread* that forked it, so it is not set for
 * mpirun.
 */
#include "coordinator/coordinator.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/interpreters.h"
#include "common/log.h"
#include "common/notify.h"
#include "coordinator/config.h"
#include "coordinator/files/quotas.h"
#include "coordinator/files/retention.h"
#include "coordinator/files/uploads.h"
#include "coordinator/hosts/hosts.h"
#include "coordinator/hosts/localnodes.h"
#include "coordinator/launchers/launcher.h"
#include "coordinator/planning/dryrun.h"
#include "coordinator/planning/scoring.h"
#include "coordinator/planning/predict.h"
#include "coordinator/sweeps/sweeps.h"
#include "coordinator/turn/lease.h"
#include "coordinator/turn/scheduler.h"
#include "coordinator/webhooks/webhooks.h"
#include "http/server.h"
#include "job/node.h"

enum { TURN_MS = 160, AFTER_PULSES_MS = 15 };
static const double drain_seconds = 20, store_retry_least = 1, store_retry_most = 30;

static int wake_fd = -1; /* the signal handler's way into the loop */
static volatile sig_atomic_t told_to_stop, told_to_leave, told_to_read;

static void ring(int fd)
{
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

static void on_signal(int sig)
{
    int saved = errno;
    told_to_leave |= sig == SIGUSR1;
    told_to_read |= sig == SIGHUP;
    told_to_stop |= sig != SIGHUP;
    ring(wake_fd);
    errno = saved;
}

static void on_wake(void *ctx)
{
    (void)ctx;
    ring(wake_fd);
}

struct service {
    struct serve_config config;
    char url[512];
    struct store *store;
    struct launcher mpirun, simulator;
    bool simulates, is_private;
    bool was_there;                     /* the private store ran already when we started: jobs may
                                           be using it */
    bool ready;                         /* everything is started */
    double store_retry, store_retry_at; /* seconds between attempts to bring the private store back;
                                           when the next is due */
    struct lease *lease;
    struct quotas *quotas; /* NULL: there are none */
    struct sched *sched;
    struct sweeps sweeps;
    struct localnodes *nodes;
    struct interpreters *interpreters; /* of the local nodes; NULL: programs are not allowed */
    struct hosts *hosts;
    struct retention *retention;
    struct webhooks *webhooks;
    struct dryrun dryrun;
    struct http_server *http;
};

/* ---- start ----------------------------------------------------------------------------------- */

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
        c->worker,   opt_string(c->options, "interface"), opt_string(c->options, "mpi-ports")};
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

/* Our own nodes, left by a coordinator that was killed, do not count. */
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
           0); /* as NVML counts (common/gpu.c); workers inherit it */
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
                                s->quotas};
    struct http_config hc = {.listen = c->listen,
                             .data_dir = c->data_dir,
                             .static_dir = c->static_dir,
                             .store_url = s->url,
                             .store_password = c->password,
                             .token_file = c->token_file,
                             .allow_hosts = c->allow_hosts,
                             .tls_cert = opt_string(c->options, "tls-cert"),
                             .tls_key = opt_string(c->options, "tls-key"),
                             .local_webhooks = opt_flag(c->options, "allow-local-webhooks")};
    hc.hooks.ctx = &s->dryrun;
    hc.hooks.plan = dryrun_plan;
    hc.hooks.datasets = dryrun_datasets;
    hc.hooks.scored = scoring_of_job;
    hc.hooks.predict = s->simulates ? predict_job : NULL;
    hc.hooks.quota = dryrun_quota;
    hc.hooks.wake = on_wake;
    hc.hooks.programs = dryrun_programs;
    hc.hooks.program_add = dryrun_program_add;
    hc.hooks.program_delete = dryrun_program_delete;
    hc.hooks.uploads = opt_flag(c->options, "allow-programs");
    uploads_init(c->data_dir);
    s->http = http_start(&hc, e);
    return s->http ? 0 : -(int)e->code;
}

static void announce(struct service *s)
{
    notify_manager("READY=1\nSTATUS=works");
    struct err e = {0};
    char link[512], host[256], pin[64];
    const char *colon = strrchr(s->config.listen, ':');
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - s->config.listen) : 0,
             s->config.listen);
    if (!host[0] || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0) {
        snprintf(host, sizeof host, "127.0.0.1");
    }
    bool tls = http_pin(s->http, pin);
    log_info("serve", "ready", "url=%s://%s:%d nodes=%zu data_dir=%s%s%s", http_scheme(s->http),
             host, http_port(s->http), json_array_size(s->config.nodes), s->config.data_dir,
             tls ? " pin=" : "", tls ? pin : "");
    if (http_link(s->http, link, &e) >= 0) {
        printf("%s\n", link);
        fflush(stdout);
    } else {
        log_warn("serve", "cannot make a link for the browser", "why=\"%s\"", e.message);
    }
}

static void on_lost(void)
{
    ring(wake_fd);
}

/* From here on no other coordinator works on this store or in this folder (lease.h). */
static int start_lease(struct service *s, struct err *e)
{
    if (opt_flag(s->config.options, "standby")) {
        notify_manager("READY=1\nSTATUS=stands by until another coordinator has ended");
    }
    return lease_take(s->lease, s->url, s->config.password, &told_to_stop, e);
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
                              .lost = on_lost};
    s->lease = lease_open(&lc, e);
    return s->lease ? 0 : -(int)e->code;
}

static int start(struct service *s, struct err *e)
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

/* ---- run and stop ---------------------------------------------------------------------------- */

/* Turns follow those of the ranks' pulses (worker/pulse/pulse.c) by 15 ms of wall-clock time, so
 * that what they report reaches browsers soon. If a host's clock is wrong, that takes up to a turn
 * longer. */
static void wait_turn(struct service *s)
{
    struct pollfd p = {.fd = wake_fd, .events = POLLIN};
    int64_t past = (clock_wall_ms() - AFTER_PULSES_MS) % TURN_MS;
    if (poll(&p, 1, (int)(TURN_MS - past)) > 0) {
        uint64_t count;
        ssize_t ignored = read(wake_fd, &count, sizeof count);
        (void)ignored;
        sched_woken(s->sched);
        s->sweeps.due = 0;
    }
}

/* Before the turn, so that what a sweep submits starts in the same one. Without the store or the
 * lease nothing is decided. */
static void advance_sweeps(struct service *s)
{
    if (!sched_store_away(s->sched) && lease_held(s->lease) &&
        sweeps_tick(&s->sweeps, clock_now())) {
        sched_woken(s->sched);
    }
}

/* A private store that has died (killed, or its disk was full) is started again. Its append-only
 * file has what it accepted. */
static void watch_store(struct service *s)
{
    struct err e = {0};
    char url[512], quoted[600];
    double now = clock_now();
    if (!s->is_private || !sched_store_away(s->sched)) {
        s->store_retry = 0;
        return;
    }
    if (now < s->store_retry_at) {
        return;
    }
    int rc = redis_private_start(s->config.data_dir, url, NULL, &e);
    if (rc == SERVER_STARTED) {
        log_info("serve", "the private redis-server had ended and was started again", "data_dir=%s",
                 s->config.data_dir);
    } else if (rc < 0) {
        log_error("serve", "cannot start the private redis-server again; it is tried again",
                  "why=%s", log_quote(quoted, sizeof quoted, e.message));
    }
    s->store_retry = s->store_retry < store_retry_least ? store_retry_least : 2 * s->store_retry;
    s->store_retry = s->store_retry < store_retry_most ? s->store_retry : store_retry_most;
    s->store_retry_at = clock_now() + s->store_retry;
}

static void turn(struct service *s)
{
    sched_tick(s->sched, clock_now());
    watch_store(s);
}

/* Files that are looked at once a second, or when they are needed, are read now: whoever has
 * changed one finds in the log what came of it. */
static void read_again(struct service *s)
{
    log_info("serve", "told to read its files again: tokens, certificate, quotas", "signal=HUP");
    quotas_read_again(s->quotas);
    http_read_again(s->http);
}

static void run(struct service *s)
{
    while (!told_to_stop && !lease_lost(s->lease)) {
        if (told_to_read) {
            told_to_read = 0;
            read_again(s);
        }
        advance_sweeps(s);
        turn(s);
        wait_turn(s);
    }
}

/* Running jobs write a checkpoint and go back to the queue. */
static void drain(struct service *s)
{
    if (s->sched && s->ready) {
        log_info("serve", "stopping", "running=%d", sched_running(s->sched));
        sched_drain(s->sched);
        double until = clock_now() + drain_seconds;
        turn(s); /* takes over jobs that have no run yet */
        while (sched_running(s->sched) && clock_now() < until) {
            turn(s);
            clock_sleep(0.05);
        }
        sched_abandon(s->sched);
        turn(s);
    }
}

/* SIGUSR1 leaves jobs, nodes and the store as they are for the coordinator that follows, which
 * adopts them.
 *
 * Without the lease jobs, nodes, the store and the histories in a shared folder are the other
 * coordinator's: all of them are left alone. So is the scheduler, whose monitors would write the
 * rows that they have not yet written. */
static void stop(struct service *s)
{
    bool lost = lease_lost(s->lease), left = lost || told_to_leave;
    notify_manager("STOPPING=1");
    if (!left) {
        drain(s);
    } else if (!lost && s->ready) {
        log_info("serve", "stopping; jobs go on", "running=%d", sched_running(s->sched));
    }
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

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static void tell_failure(const struct err *e)
{
    char quoted[700];
    if (e->code != ERR_CANCELLED) {
        log_error("serve", "cannot start", "why=%s hint=\"%s\"",
                  log_quote(quoted, sizeof quoted, e->message), e->hint);
    }
}

/* Exit status: what systemd and scripts go by (coordinator.h). */
static int status_of(const struct service *s, int rc, bool lost)
{
    if (rc == -ERR_CANCELLED) {
        return 0;
    }
    bool elsewhere = lost || (rc == -ERR_CONFLICT && s->store && !s->sched);
    return elsewhere ? SERVE_ELSEWHERE : rc < 0 ? 1 : 0;
}

int serve_main(int argc, char **argv)
{
    static struct service s; /* too large for a stack */
    struct err e = {0};
    int rc = serve_config_read(&s.config, argc, argv, &e);
    if (rc == OPT_HELPED) {
        serve_config_release(&s.config);
        return 0;
    }
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rc == 0) {
        log_set_level(s.config.log_level);
        catch_signals();
        rc = start(&s, &e);
    }
    if (rc >= 0) {
        s.ready = true;
        announce(&s);
        run(&s);
    } else {
        tell_failure(&e);
    }
    int status = status_of(&s, rc, lease_lost(s.lease));
    stop(&s);
    serve_config_release(&s.config);
    close(wake_fd);
    return status;
}
